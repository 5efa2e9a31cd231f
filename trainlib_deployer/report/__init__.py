"""The plan for people: report.html, one file that needs no network. All figures come from plan.json and from runs."""
