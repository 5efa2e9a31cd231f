"""The user's file, and everything that a person can get wrong in it."""
