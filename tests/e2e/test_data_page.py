"""Every block of docs/data.md: handwritten digits learned from scratch, here and on the emulated cluster, and back."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.simulators import needs
from tests.e2e.test_docs import typed
from tests.pages import ROOT, blocks

BLOCKS = blocks("docs/data.md")
SHELL, PYTHON, [C] = ([b.text for b in BLOCKS if b.language == language] for language in ("sh", "python", "c"))
SHOWN = [b.shown for b in BLOCKS if b.shown]
NUMBER = re.compile(r"\d+\.\d+")
AROUND = """\
#include "net.h"
#include "tl_binary.h"
#include "tl_hal.h"
#include <string.h>

enum {{ TRAIN_AT = 1000 }};
TL_TABLE(flash, TL_ZERO(1000) TL_PART("train.bin", {size}));
extern const uint8_t flash[1000 + {size}];

static int flash_read(uint32_t at, void *data, uint32_t bytes)
{{
    memcpy(data, flash + at, bytes);
    return 0;
}}

{block}
int main(void)
{{
    net_init();
    tl_exit(learn());
    return 0;
}}
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a person types the first block."""
    place = tmp_path_factory.mktemp("digits") / "here"
    shutil.copytree(ROOT / "examples" / "digits", place)
    printed = typed(SHELL[0], place)
    assert printed.endswith(SHOWN[0]), printed
    assert float(printed.split()[-1]) >= 0.97
    return place


def test_data_in_python() -> None:
    names: dict[str, Any] = {}
    exec(PYTHON[0], names)
    assert len(names["data"]) == 5


def test_back_in_pytorch(digits: Path) -> None:
    typed(SHELL[2], digits)
    assert typed(SHELL[3], digits).endswith(SHOWN[2])
    for block, shown in ((PYTHON[1], SHOWN[1]), (PYTHON[3], SHOWN[3])):
        (digits / "typed.py").write_text(block)
        assert like(typed(f"{sys.executable} typed.py", digits), shown)


def like(printed: str, shown: str) -> bool:
    """But for what PyTorch's libraries round otherwise on other processors: 0.1208 where the page has 0.1212."""
    words, numbers = zip(*((NUMBER.sub("", text), NUMBER.findall(text)) for text in (printed, shown)), strict=True)
    return words[0] == words[1] and [*map(float, numbers[0])] == pytest.approx([*map(float, numbers[1])], rel=0.01)


def test_the_emulated_cluster_learns_the_same(digits: Path) -> None:
    needs("qemu")
    assert typed(SHELL[1], digits).count("epoch 1: loss 2.09508\n") == 2


def test_what_is_measured(digits: Path) -> None:
    (digits / "measured.py").write_text((digits / "net.py").read_text() + PYTHON[2])
    commands = SHELL[0].splitlines()[2:]
    printed = typed("\n".join(commands).replace("net.py", "measured.py").replace(" digits", " own"), digits)
    assert [line.split(", mean error")[0] for line in printed.splitlines()[-10:]] == SHOWN[0].splitlines()
    assert "mean error 0." in printed.splitlines()[-1]


def test_the_project_alone(digits: Path, tmp_path: Path) -> None:
    """net.py reads a file that is not in the project: what the model does not need is left out."""
    shutil.copytree(digits / "digits", tmp_path / "moved")
    assert not (tmp_path / "moved" / "model" / "digits.csv.gz").exists()
    assert "PASS on host" in typed("trainlib-deploy verify moved --steps 1", tmp_path)


def test_from_a_flash(digits: Path) -> None:
    """The page's C, with a file's bytes in the middle of a memory: the same epoch."""
    file = digits / "train.bin"
    (digits / "flash.c").write_text(AROUND.format(size=file.stat().st_size, block=C))
    shutil.copyfile(file, digits / "digits" / "train.bin")
    command = ["make", "-s", "-C", str(digits / "digits"), "host", "MAIN=../flash.c", "CORES=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (digits / "digits" / "train.bin").unlink()
    assert done.stdout.endswith("epoch 1: loss 0.90751\n")
