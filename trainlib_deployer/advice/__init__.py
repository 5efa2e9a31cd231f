"""What to do where a step does not fit, and what training parts of a network would take."""
