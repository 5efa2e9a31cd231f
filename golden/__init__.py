"""The golden model: what PyTorch computes, and whether C computed the same. The only place that knows a tolerance."""
