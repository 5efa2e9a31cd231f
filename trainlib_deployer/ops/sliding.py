"""Windows that slide along a dimension: the inputs that some outputs read, and the outputs that some inputs reach."""

from __future__ import annotations

from dataclasses import dataclass

from trainlib_deployer.program.cuts import Range


@dataclass(frozen=True)
class Sliding:
    """Output o reads inputs o*stride - pad + k*dilation for k < taps, as far as they exist."""

    inputs: int
    outputs: int
    taps: int
    stride: int
    pad: int
    dilation: int

    def read(self, outputs: Range) -> tuple[Range, int]:
        """The inputs behind these outputs, and the padding of a tile of both."""
        first = outputs[0] * self.stride - self.pad
        last = (outputs[1] - 1) * self.stride - self.pad + (self.taps - 1) * self.dilation
        lo = min(max(first, 0), self.inputs - 1)
        hi = max(min(last + 1, self.inputs), lo + 1)
        return (lo, hi), lo - first

    def reached(self, inputs: Range) -> tuple[Range, int]:
        """The outputs that read any of these inputs, and the padding of a tile of both."""
        first = -(-(inputs[0] + self.pad - (self.taps - 1) * self.dilation) // self.stride)
        last = (inputs[1] - 1 + self.pad) // self.stride
        lo = min(max(first, 0), self.outputs - 1)
        hi = max(min(last + 1, self.outputs), lo + 1)
        return (lo, hi), self.pad + inputs[0] - lo * self.stride
