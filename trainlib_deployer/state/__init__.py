"""What a network has learned, between chip and PyTorch."""
