"""A constraint solver for what the search gives up on, where one is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from trainlib_deployer.arena.search import Ints, Sections


def available() -> bool:
    return importlib.util.find_spec("ortools") is not None


def solve(net: Sections, capacity: int, seconds: float) -> Ints | None:
    """Rectangles, sections wide and bytes high, that do not overlap; None if none were found in time."""
    cp: Any = importlib.import_module("ortools.sat.python.cp_model")
    model = cp.CpModel()
    unit = int(np.gcd.reduce(net.size))
    wide, high, lowest = [], [], []
    for i in range(net.n):
        height = int(net.size[i]) // unit
        start, width = int(net.birth[i]), int(net.death[i] - net.birth[i])
        lowest.append(model.new_int_var(0, capacity // unit - height, f"offset{i}"))
        wide.append(model.new_fixed_size_interval_var(start, width, f"life{i}"))
        high.append(model.new_fixed_size_interval_var(lowest[i], height, f"bytes{i}"))
    model.add_no_overlap_2d(wide, high)
    model.add_cumulative(wide, (net.size // unit).tolist(), capacity // unit)
    solver = cp.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = seconds
    solver.parameters.max_time_in_seconds = 5 * seconds
    if solver.solve(model) not in (cp.OPTIMAL, cp.FEASIBLE):
        return None
    return np.array([unit * solver.value(v) for v in lowest], dtype=np.int64)
