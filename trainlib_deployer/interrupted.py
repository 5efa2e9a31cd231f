"""Ctrl-C in one line. Imports nothing of the package, since reading that may be what was interrupted."""

CODE = 130
WORDS = "interrupted; nothing was changed"
