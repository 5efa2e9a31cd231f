"""docs/operations.md says what the registry holds, and every remedy is worth reading."""

from __future__ import annotations

from pathlib import Path

import torch

from trainlib_deployer.capture import remedies
from trainlib_deployer.cli import operations
from trainlib_deployer.ops.optim import OPTIMIZERS
from trainlib_deployer.ops.registry import RULES

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "operations.md"


def test_page_is_current() -> None:
    command = "python -m trainlib_deployer.cli.operations > docs/operations.md"
    assert PAGE.read_text() == operations.document(), f"write it anew: {command}"


def test_page_names_every_rule_and_optimizer() -> None:
    text = operations.document()
    assert len(RULES) > 100
    for name in {operations.split_name(target)[0] for target in RULES} | set(OPTIMIZERS):
        assert f"`{name}`" in text


def test_remedies_are_sentences_about_operations_that_exist() -> None:
    for name, text in remedies.REMEDIES.items():
        assert 8 < len(text) < 300, name
        assert exists(name), f"PyTorch has no '{name}'"


def exists(name: str) -> bool:
    places = (torch, torch.Tensor, torch.nn.functional, torch.ops.aten)
    return any(hasattr(p, name) for p in places) or name in ("sparse_mm", "inverse")


def test_users_words_come_before_pytorchs() -> None:
    assert remedies.remedy_for("bincount", "arange") == remedies.REMEDIES["bincount"]
    assert remedies.remedy_for("special_zeta", "arange") == remedies.CONSTANT
    assert remedies.remedy_for("something", "linalg_eigh") == remedies.EIGEN
    assert remedies.remedy_for("something", "else") == remedies.GENERAL
