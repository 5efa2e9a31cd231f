"""The version of the package, for those that it imports."""

__version__ = "0.2.0"
