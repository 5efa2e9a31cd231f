"""What goes wrong around a project ends in one message and an exit code."""

from __future__ import annotations

import contextlib
import errno
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from tests.fuzz.damage import deployed
from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import MANIFEST, foreign_files, replaced_folder
from trainlib_deployer.report.folder import note_verdict
from trainlib_deployer.run.make import make, run_program
from trainlib_deployer.run.session import Session
from trainlib_deployer.user.examples import written

HEAVISIDE = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        y = self.fc(x)
        return torch.heaviside(y, torch.ones(1)) * y
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deployed(tmp_path_factory.mktemp("endings") / "p")


def ended(code: int, words: str, *command: object, lines: int = 1) -> None:
    """In one line; with the user's own line, in three."""
    done = CliRunner().invoke(cli, [str(c) for c in command])
    messages = [line for line in done.stderr.splitlines() if not line.startswith(("note: ", "["))]
    assert done.exit_code == code and messages[0].startswith("error: ") and words in "\n".join(messages), done.output
    assert len(messages) == lines and isinstance(done.exception, SystemExit)


def test_too_many_cores(project: Path) -> None:
    ended(2, "stacks for 1 to 8", "verify", project, "--cores", 99)


def test_no_compiler(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "nocc -O3")
    ended(6, "no C compiler: 'nocc' is not installed", "verify", project)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "make").symlink_to("/usr/bin/make")  # nm is missing, too, and no news
    ended(6, "no C compiler: 'nocc' is not installed; install one", "verify", project)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "nowhere")
    for where in ("host", "qemu", "spike", "gvsoc"):
        ended(6, "", "verify", project, "--on", where)


@pytest.mark.parametrize("words", ["No space left on device", "Read-only file system"])
def test_a_build_without_room(words: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho 'cannot open x.o: {words}' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    ended(2, f"cannot write {project}: {words}", "verify", project)


def test_a_program_that_is_no_text(project: Path) -> None:
    """What the compiler quotes of it is none either."""
    whole = (project / "state.c").read_bytes()
    (project / "state.c").write_bytes(whole.replace(b"sizeof ", b"sizeof \x9a\xff", 1))
    done = CliRunner().invoke(cli, ["verify", str(project)])
    (project / "state.c").write_bytes(whole)
    assert done.exit_code == 5 and "error: the generated project does not build" in done.stderr, done.output


def test_a_program_that_was_edited(project: Path) -> None:
    """Few of the compiler's lines, and whose file they are about."""
    whole = (project / "net.c").read_bytes()
    (project / "net.c").write_bytes(whole[: len(whole) // 2])
    done = CliRunner().invoke(cli, ["verify", str(project)])
    (project / "net.c").write_bytes(whole)
    lines = done.stderr.splitlines()
    assert (
        done.exit_code == 5
        and len(lines) < 20
        and lines[-2:]
        == [
            "...",
            "  changed since trainlib-deploy wrote it: net.c",
        ]
    )


def test_a_project_that_cannot_be_written_to(project: Path) -> None:
    (project / "build").rename(project.parent / "aside") if (project / "build").exists() else None
    (project / "build").touch()
    ended(2, f"cannot write {project / 'build'}: File exists", "verify", project)
    (project / "build").unlink()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), "PytorchStreamWriter failed"])
def test_a_disk_that_gets_full(error: Any, tmp_path: Path) -> None:
    """PyTorch has no OSError for it."""
    error = RuntimeError(error) if isinstance(error, str) else error
    with (
        pytest.raises(UsageError, match=r"cannot write .*: [Nn]o space left"),
        replaced_folder(tmp_path / "p"),
    ):
        raise error
    assert not list(tmp_path.iterdir())


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk that is full in the middle of a file, for this process and those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 700, 1280, 9000, 20011])
def test_pytorch_on_a_disk_that_gets_full(size: int, tmp_path: Path) -> None:
    """It has other words for each moment."""
    with files_of_at_most(size), pytest.raises(UsageError, match=r"cannot write .*: "), replaced_folder(tmp_path / "p"):
        torch.save([torch.ones(2999), torch.ones(2003)], tmp_path / "samples.pt")


def test_a_record_and_a_report_on_a_full_disk(project: Path) -> None:
    """No failed verification, and the project stays what it was."""
    make(project, "build/host/train", {"TRACE": 1})
    with pytest.raises(UsageError, match=r"cannot write .*: No space left on device"):
        run_program([str(project / "build/host/train")], {"TL_RECORD": "/dev/full"}, 60)
    kept = [project / "report.html", project / MANIFEST]
    before = [path.read_bytes() for path in kept]
    with files_of_at_most(4099):
        note_verdict(project, {"passed": False, "on": "host"})
    assert [path.read_bytes() for path in kept] == before and not foreign_files(project)


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There nothing can be removed, not even what is not there; what a command writes at its end is tried first."""

    def refused(*given: Any, **more: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "open", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(UsageError, match=r"cannot write .*: Read-only file system"), written(tmp_path / "train.bin"):
        raise AssertionError("nothing is there to write to")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    ended(2, f"--csv: {tmp_path / 'x.csv'} cannot be written", "sweep", "--model", "no.py", "--csv", tmp_path / "x.csv")


@pytest.mark.parametrize("ending", [".pt", ".npz", ".safetensors"])
def test_weights_on_a_full_disk(ending: str, project: Path, tmp_path: Path) -> None:
    Session(project).save(tmp_path / "saved")
    (tmp_path / f"x{ending}").symlink_to("/dev/full")
    ended(2, "cannot write", "weights", project, tmp_path / "saved", "--out", tmp_path / f"x{ending}")


@pytest.mark.parametrize("name", ["model/samples.pt", "model/weights.pt", "model/spec.json"])
def test_new_weights_for_a_damaged_project(name: str, project: Path, tmp_path: Path) -> None:
    """They went into it, with a note that quoted PyTorch's inside on several lines."""
    folder, path = tmp_path / "p", project / "model/weights.pt"
    shutil.copytree(project, folder)
    (folder / name).write_bytes((folder / name).read_bytes()[:80])
    ended(2, f"{name} is damaged: it is not what trainlib-deploy wrote; ", "weights", folder, "--in", path)
    (folder / name).unlink()
    ended(2, f"{folder} lacks {name}; deploy the model again", "weights", folder, "--in", path)


def test_a_function_without_a_gradient(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(HEAVISIDE)
    words = ["no gradient for 'heaviside'", "net.py:11:  return torch.heaviside(y, torch.ones(1)) * y", "x.detach()"]
    for w in words:
        ended(2, w, "--model", f"{tmp_path / 'net.py'}:Net", "--input", "2x3", "--out", tmp_path / "p", lines=3)
    assert not (tmp_path / "p").exists() and torch.is_grad_enabled()
