"""Placing intervals in one arena: knows nothing of training."""
