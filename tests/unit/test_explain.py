"""The picture of the memory and the life of a tensor, on a plan by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report_plan import evaluated, plan
from trainlib_deployer.cli.explain import explain_layer
from trainlib_deployer.cli.memory_map import biography, draw
from trainlib_deployer.errors import UsageError


def buffer(name: str, offset: int, size: int, birth: int, death: int, role: str, *aliases: str) -> dict[str, Any]:
    return {
        "name": name,
        "level": "L2",
        "offset": offset,
        "size": size,
        "birth": birth,
        "death": death,
        "role": role,
        "layer": "",
        "aliases": list(aliases),
    }


def op(index: int, name: str, phase: str, reads: list[str], writes: list[str]) -> dict[str, Any]:
    source = f"net.py:{10 + index}: line {index}"
    return {
        "index": index,
        "name": name,
        "kind": "map",
        "phase": phase,
        "layer": name.partition(".")[0],
        "source": source,
        "reads": reads,
        "writes": writes,
    }


PLAN: dict[str, Any] = {
    "levels": {"L2": {"used": 1000, "peak_at": 2}, "L1": {"used": 0, "peak_at": 0}},
    "buffers": [
        buffer("w", 0, 400, 0, 5, "parameter"),
        buffer("act", 400, 300, 0, 4, "activation"),
        buffer("y", 700, 200, 1, 2, "activation"),
        buffer("g", 700, 300, 2, 5, "gradient", "g2"),
    ],
    "tensors": {
        "w": {"shape": [10, 10], "persistent": True},
        "act": {"shape": [75], "persistent": False},
        "y": {"shape": [50], "persistent": False},
        "g": {"shape": [75], "persistent": False},
        "g2": {"shape": [75], "persistent": False},
    },
    "ops": [
        op(0, "a.fw", "forward", ["w"], ["act"]),
        op(1, "b.fw", "forward", ["act"], ["y"]),
        op(2, "b.bw", "backward", ["w"], ["g"]),
        op(3, "a.bw", "backward", ["g", "act"], ["g2"]),
        op(4, "a.update", "update", ["g2"], ["w"]),
    ],
}


def test_picture() -> None:
    lines = draw("L2", PLAN)
    assert lines[1].index("v") == lines[2].index("▓")
    pictures = {line.split()[-1]: line[22:27] for line in lines[2:]}
    assert pictures == {"w": "██▓██", "act": "██▓█ ", "y": " █·  ", "g": "  ▓██"}
    assert [line.split()[0] for line in lines[2:]] == ["0", "400", "700", "700"]
    assert draw("L1", PLAN) == []


def test_life_of_an_activation() -> None:
    text = "\n".join(biography("act", PLAN))
    assert "act: activation, 75, 300 bytes at 400 in L2" in text
    assert "made by    operation 0, a.fw (map, forward); net.py:10: line 0" in text
    assert "read first operation 1, b.fw" in text and "read last  operation 3, a.bw" in text
    assert (
        "alive at the peak of L2 (operation 2, 1,000 bytes): 30.0 % of it, because a.bw (operation 3, backward)" in text
    )
    assert "shorter: the gradients of 'a' read it" in text


def test_other_lives() -> None:
    assert "dead at the peak" in biography("y", PLAN)[-1]
    text = "\n".join(biography("w", PLAN))
    assert "updated by operation 4" in text and "because it lives from step to step" in text
    text = "\n".join(biography("g2", PLAN))
    assert "shares its bytes with g:" in text and "shorter: freeze the layer" in text


def test_a_layer_has_a_share_of_the_step_and_one_of_an_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    p = evaluated(plan(), 7)
    p["ops"][0]["cycles"] = 300  # of block0, as 7, 14 and 21 are, and 28 of the evaluation
    p["ops"][1]["cycles"] = 100
    explain_layer("block0", p)
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == "block0: 4 operations, 21,000 multiply-adds, 300 cycles (estimated), 75.0 % of the training step"
    assert second == "in an evaluation: 1 operation, 28,000 multiply-adds, 50 cycles (estimated)"


def test_an_unknown_tensor() -> None:
    with pytest.raises(UsageError) as failure:
        biography("actt", PLAN)
    assert "there is no tensor 'actt'" in failure.value.render() and "did you mean: act" in failure.value.render()
