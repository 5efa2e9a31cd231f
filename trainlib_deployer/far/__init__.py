"""Tensors that live behind the outer memory: which, and the copies that bring what an operation needs of them."""
