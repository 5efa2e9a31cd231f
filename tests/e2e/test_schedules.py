"""Schedulers that change the momentum, or watch the loss: in C as in PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from trainlib_deployer.api import Deployment, deploy

torch.set_num_threads(1)
SCALES = (1, 1, 2, 0.1, 0.5, 1, 2, 3)  # of the targets: the loss falls and rises with them


def deployed(out: Path, optimizer: Any, scheduler: Any, **options: Any) -> tuple[Deployment, list[Any]]:
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    made = optimizer(net.parameters())
    data = [((torch.randn(3, 5),), torch.randn(3, 3) * scale) for scale in SCALES]
    options = {"loss": nn.MSELoss(), "optimizer": made, "data": data, "scheduler": scheduler(made), **options}
    return deploy(net, out=out, l1="128M", **options), data


def two_groups(parameters: Any) -> torch.optim.Optimizer:
    first, *others = parameters
    return torch.optim.SGD([{"params": [first], "lr": 0.2}, {"params": others}], lr=0.1)


def test_reduce_on_plateau(tmp_path: Path) -> None:
    """Two reductions of the first group, of which the second stops at its least rate; resumed in between."""

    def plateau(optimizer: Any) -> Any:
        return lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=1, cooldown=1, min_lr=[0.03, 1e-6])

    made, data = deployed(tmp_path / "p", two_groups, plateau, steps=8)
    result = made.verify()
    result.raise_if_failed()
    scales = [float(result.computed[s, "state", "plateau.scale0"]) for s in range(8)]
    assert [round(s, 4) for s in scales] == [1, 1, 0.3, 0.3, 0.3, 0.15, 0.15, 0.15]
    assert round(float(result.computed[7, "state", "plateau.scale1"]), 4) == 0.09
    session = made.session
    assert [session.step(*sample) for sample in data[:4]] == result.losses[:4]
    session.save(tmp_path / "saved")
    session.reset()
    session.load(tmp_path / "saved")
    assert [session.step(*sample) for sample in data[4:]] == result.losses[4:]
    loops = (tmp_path / "p" / "loops.c").read_text()
    assert "0.3f" in loops
    (tmp_path / "p" / "loops.c").write_text(loops.replace("0.3f", "0.31f"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and (failed.kind, failed.step) == ("parameter", 3)


def test_one_cycle_changes_the_momentum(tmp_path: Path) -> None:
    """An update of two samples; of Nesterov's momentum."""
    made, _ = deployed(
        tmp_path / "p",
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda o: lr_scheduler.OneCycleLR(o, 0.3, total_steps=9),
        steps=4,
        accumulate=2,
    )
    made.verify().raise_if_failed()
    main = (tmp_path / "p" / "main.c").read_text()
    assert main.count("[step / NET_ACCUMULATE]") == 2 and "    0.95f, 0.88" in main
    (tmp_path / "p" / "main.c").write_text(main.replace("    0.95f, 0.88", "    0.95f, 0.87"))
    failed = made.verify().verdict.first_failure
    assert failed is not None and (failed.kind, failed.step) == ("parameter", 3)
