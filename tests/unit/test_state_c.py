"""States in two slots: power lost at every byte, damaged bytes, under the address sanitizer; and planted mistakes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler
ROOT = Path(__file__).resolve().parents[2]
SOURCE, MEMORY = (ROOT / "c_lib" / "kernels" / name for name in ("state.c", "state_memory.c"))
FLAGS = ["-std=gnu99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'c_lib' / 'include'}"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
OVERWRITTEN, ERASED, ERASED_BACKWARDS = 0, 1, 2


def built(folder: Path, source: Path = SOURCE, *more: str) -> Path:
    program = folder / "driver"
    driver = str(ROOT / "tests" / "c" / "state_driver.c")
    subprocess.run(["gcc", *FLAGS, *more, driver, str(source), str(MEMORY), "-o", str(program)], check=True)
    return program


def run(program: Path, page: int, erases: int) -> str:
    done = subprocess.run(
        [str(program), str(page), str(erases)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() + done.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("state"), SOURCE, *SANITIZED)


@pytest.mark.parametrize("erases", [OVERWRITTEN, ERASED, ERASED_BACKWARDS])
@pytest.mark.parametrize("page", [32, 37, 256])
def test_power_lost_at_every_byte(program: Path, page: int, erases: int) -> None:
    assert run(program, page, erases) == "fine"


@pytest.mark.parametrize(
    ("correct", "mistake"),
    [
        ("last == 0 ? 1 : 0", "0"),  # always the same slot
        ("(int32_t)(number - *sequence) > 0", "number > *sequence"),  # numbers that begin again
        ("|| last.checksum != sum", ""),
        ("last.end != END ||", "last.end == 0 &&"),
        ("others ? TL_STATE_NETWORK :", ""),
        ("state->contents[i] : 0", "state->contents[0] : 0"),
        ("w->store->erase(w->store, w->slot) || ", ""),
        ("sequence + 1)", "sequence)"),
        ("if (fault)\n        return fault;", ""),  # another network's
        ("found->check != tl_checksum(0, found, offsetof(header, check))", "0 && found"),
        ("same && found->bytes >= state->shared ?", "same ?"),
        ("at < ours;", "at < end;"),
        ("fault ? fault : take(state, store, slot)", "take(state, store, slot)"),
    ],
)
def test_a_planted_mistake_is_found(tmp_path: Path, correct: str, mistake: str) -> None:
    text = SOURCE.read_text()
    assert text.count(correct) == 1
    broken = tmp_path / "state.c"
    broken.write_text(text.replace(correct, mistake))
    program = built(tmp_path, broken, "-Wno-unused")
    assert any(run(program, 32, erases) != "fine" for erases in (OVERWRITTEN, ERASED))
