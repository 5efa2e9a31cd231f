"""Forward 3 x 3 convolutions all of whose terms are one block, over copied rows of inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainlib_deployer.kernels.conv import dense_weights, forward, gathered, three_by_three
from trainlib_deployer.kernels.panels import BLOCK, FLOAT
from trainlib_deployer.machine.costs import Costs
from trainlib_deployer.program.cuts import working

if TYPE_CHECKING:
    from trainlib_deployer.ops.conv import Conv
    from trainlib_deployer.ops.conv_shape import ConvShape

MOST_OUTPUTS = 32  # of a row, whose inputs a core copies


def fours(s: ConvShape) -> int:
    """Of neighbouring outputs."""
    return s.n * s.groups * s.ho * s.wo // 4


def three_by_three_in_a_block(kind: Conv, cores: int) -> bool:
    """All terms of an output, in whole tiles, of which each core has some."""
    s = kind.shape
    whole = s.wo % 4 == 0 and s.co % 4 == 0 and 9 * s.ci <= BLOCK and (s.stride[0], s.dilation[0]) == (1, 1)
    return three_by_three(kind, 0) and whole and fours(s) >= 4 * cores


def copied_or_gathered(kind: Conv, cores: int) -> int:
    """What some outputs of a row meet, and two elements beyond."""
    s = kind.shape
    copied = FLOAT * (3 * s.ci * (min(s.wo, MOST_OUTPUTS) + 2) + 2)
    return max(working(kind.team, cores) * copied, gathered(kind, cores))


def block_cycles(kind: Conv, cores: int, costs: Costs) -> float:
    """A core copies rows of inputs for each row of outputs, or its part of one."""
    s, c = kind.shape, costs.conv
    share = -(-fours(s) // working(kind.team, cores))
    lines = -(-4 * share // min(s.wo, MOST_OUTPUTS)) + 1
    tiles = s.co // 4 * (c.block_tile + c.block_term * 9 * s.ci)
    return share * (tiles + c.block_four * 3 * s.ci) + lines * c.block_row * 3 * s.ci


IN_A_BLOCK = (
    forward(
        "fw_3x3_block",
        takes=three_by_three_in_a_block,
        fits=dense_weights,
        scratch=copied_or_gathered,
        cycles=block_cycles,
        split="fours of pixels",
    ),
)
