"""Dimensions of a loop that step as one."""

from __future__ import annotations

from trainlib_deployer.program.expr import Instr
from trainlib_deployer.program.ir import DType, Shape, View
from trainlib_deployer.program.loop import Loop
from trainlib_deployer.program.merge import in_few_rows, merged

F32 = DType.F32
BY_CHANNEL: Shape = (5, 3, 7)  # channels, images, pixels
IMAGES: Shape = (7, 35, 1)  # strides where channels of an image follow each other
APART: Shape = (7, 77, 1)  # ... and images do not


def rows_of(*reads: Shape) -> tuple[Loop, tuple[View, ...], tuple[View, ...]]:
    kind = Loop(BY_CHANNEL, 0, (F32,) * len(reads), (Instr("neg", (0,), F32),), (), (), (len(reads),), (F32,))
    views = tuple(View(f"x{i}", BY_CHANNEL, s, 4) for i, s in enumerate(reads))
    return merged(*in_few_rows(kind, views, (View("y", BY_CHANNEL, APART, 0),)))


def test_channels_of_an_image_are_one_row() -> None:
    kind, (x,), (y,) = rows_of(IMAGES)
    assert kind.extents == x.shape == y.shape == (3, 35)
    assert (x.strides, x.offset, y.strides) == ((35, 1), 4, (77, 1))


def test_a_number_for_each_channel_keeps_them_apart() -> None:
    kind, (_, number), _ = rows_of(IMAGES, (1, 0, 0))
    assert kind.extents == BY_CHANNEL and number.strides == (1, 0, 0)
