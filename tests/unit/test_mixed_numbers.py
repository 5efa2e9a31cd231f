"""What is infinite or no number in mixed precision: of the program alone it fails, of a reference it hides nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from golden import reference
from tests.unit.test_mixed_judged import cornered, family, verdict


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_fails_where_pytorch_has_one(value: float) -> None:
    """One element of one tensor, or one of each gradient."""
    task = cornered()
    runs = [reference.run(task, 1, torch.float64), *(reference.run(task, 1, torch.float32, noise=n) for n in range(2))]
    program = reference.run(task, 1, torch.float32, noise=2)
    assert verdict(program, runs).passed
    spoiled = {key: values.copy() for key, values in program.items()}
    for values in spoiled.values():
        values.reshape(-1)[-1:] = value
    gradients = {key: v for key, v in spoiled.items() if key[1] == "gradient"}
    for wrong in (*({key: v} for key, v in spoiled.items()), gradients):
        found = verdict({**program, **wrong}, runs)
        assert {(t.step, t.kind, t.name) for t in found.tensors if not t.passed} == wrong.keys()


def test_a_run_that_has_overflown_hides_nothing() -> None:
    """Fault: where one gradient of the run next to the program was no number, that of the program might be anything."""
    *runs, program = family(7)
    key = (0, "gradient", "c")
    lost = {**program, key: np.full_like(program[key], np.nan)}
    for value in (program[key] * 1.05, np.zeros_like(program[key])):
        found = verdict({**program, key: value}, [*runs, lost])
        assert [t.name for t in found.tensors if not t.passed] == ["c"]
    assert verdict(program, [*runs, lost]).passed and verdict({**lost}, [*runs, lost]).passed
    assert not verdict(lost, runs).passed
