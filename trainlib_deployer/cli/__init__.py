"""The terminal: options in, tables and exit codes out."""
