"""What describes a training step: tensors, operations, loops, tiles. No PyTorch."""
