"""The training step out of PyTorch, or a refusal with the user's line."""
