"""What benchmarks/bench.py measures: single kernels, and single layers in tiles, with the multiply-adds a cycle that
eight cores with four float units are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.row_cases import Case, convolution, depthwise, of_halves, product, winograd


@dataclass(frozen=True)
class Asked:
    """A case, and at least so many multiply-adds a cycle; None where none are asked for."""

    case: Case
    least: float | None = None


@dataclass(frozen=True)
class Layer:
    """A convolution between two others, deployed for 64 kB of L1: its operands come from L2 and go there."""

    channels: int
    size: tuple[int, int]
    kernel: int
    stride: int
    groups: int
    least: float | None

    @property
    def title(self) -> str:
        many = f"depthwise {self.channels}" if self.groups > 1 else f"{self.channels}->{self.channels}"
        return f"{self.kernel}x{self.kernel} {many} on {self.size[0]}x{self.size[1]}, stride {self.stride}"


LAYOUTS = (("mk", "kn"), ("mk", "nk"), ("km", "kn"), ("km", "nk"))


def asked(cases: list[Case], *least: float | None) -> list[Asked]:
    """The same of all, or a figure for each direction."""
    return [Asked(c, least[at % len(least)]) for at, c in enumerate(cases)]


def only(cases: list[Case], direction: str) -> list[Case]:
    return [c for c in cases if f", {direction}" in c.title]


FLOATS = [
    *asked([product(64, 64, 64, *layout) for layout in LAYOUTS], 3.6),
    *asked([product(32, 32, 32, *layout) for layout in LAYOUTS], 3.3),
    *asked(winograd((16, 16), (16, 16)), 4.8),
    *asked(winograd((16, 16), (16, 16), twos=True)[:2], 4.8),
    *asked(winograd((32, 32), (16, 16)), 5.5),
    *asked(winograd((32, 32), (16, 16), twos=True)[:2], 5.5),
    *asked(convolution((16, 16), (16, 16), 3, 1, 1), None),
    *asked(convolution((8, 8), (8, 8), 3, 1, 0), 2.4),
    *asked(convolution((16, 16), (10, 10), 1, 1, 0), 3.0),
    *asked(convolution((64, 64), (25, 5), 1, 1, 0), 3.3),
    *asked(only(convolution((16, 32), (16, 16), 3, 2, 1), "bw_x"), 3.0),
    *asked(only(convolution((32, 64), (8, 8), 3, 2, 1), "bw_x"), 3.0),
    *asked(depthwise(64, (25, 5), 3, 1, 1), 3.2),
    *asked(depthwise(64, (25, 5), 3, 2, 1), 2.0),
    *asked(depthwise(16, (12, 12), 3, 1, 0), 0.57, 0.04, 0.09),
    *asked([product(1, 32, 256, "mk", "nk")], 1.08),
    *asked([product(1, 256, 32)], 0.32),
    *asked([product(32, 256, 1)], 0.83),
]
HALVES = [
    *asked([of_halves(product(64, 64, 64, *layout)) for layout in LAYOUTS[:3]], 7.0),
    *asked([of_halves(c) for c in winograd((16, 16), (16, 16))], 6.5),
    *asked([of_halves(c) for c in convolution((16, 16), (16, 16), 3, 1, 1)], 6.5),
]
CASES = [*FLOATS, *HALVES]
LAYERS = (
    Layer(64, (25, 5), 1, 1, 1, 3.3),
    Layer(256, (3, 3), 1, 1, 1, 2.4),
    Layer(64, (25, 5), 3, 1, 64, 2.2),
    Layer(64, (25, 5), 3, 2, 64, 2.0),
)
