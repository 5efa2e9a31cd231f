"""The certificate finds loops that reach over an end of what they point into."""

from __future__ import annotations

import pytest

from trainlib_deployer.check.bounds import beyond
from trainlib_deployer.emit.listing import Call, Home, Listing, Operation, Pointer
from trainlib_deployer.program.ir import DType, Part, View
from trainlib_deployer.program.loop import Loop


def listing(shape: tuple[int, ...], strides: tuple[int, ...], past: int = 0) -> Listing:
    """A copy of 15 dense elements, read like this from so many behind the first one."""
    kind = Loop(shape, 0, (DType.F32,), (), (), (), (0,), (DType.F32,))
    part = Part(kind, (View("x", shape, strides),), (View("y", shape, (5, 1)),))
    given = Pointer(Home("y", "L1", "y")), Pointer(Home("x", "L2", "x"), past)
    call = Call("loop", "", tuple(("", pointer) for pointer in given), part)
    return Listing({}, (Operation("copy", None, (), ((call,),)),), (range(1),), ())


@pytest.mark.parametrize(
    ("strides", "past", "nbytes"),
    [((5, 1), 0, 60), ((5, 1), 3, 72), ((7, 2), 0, 92), ((0, 1), 4, 36), ((5, -1), 4, 60), ((-5, 1), 10, 60)],
)
def test_a_loop_reaches_to_its_last_element(strides: tuple[int, int], past: int, nbytes: int) -> None:
    found = listing((3, 5), strides, past)
    assert not [*beyond(found, {"x": nbytes, "y": 60})]
    for sizes in ({"x": nbytes - 4, "y": 60}, {"x": nbytes, "y": 56}):
        (fault,) = beyond(found, sizes)
        assert fault.startswith("operation 0: bytes 0 to ") or strides[0] < 0 or past


def test_a_loop_begins_at_the_first_byte() -> None:
    (fault,) = beyond(listing((3, 5), (-5, 1), 9), {"x": 100, "y": 60})
    assert fault == "operation 0: bytes -4 to 56 of x, which has 100"


def test_of_no_elements_none_is_outside() -> None:
    assert not [*beyond(listing((0, 5), (5, 1), 9), {"x": 4, "y": 4})]
