"""The tuner: tiles that estimates put first, measured where they will run."""
