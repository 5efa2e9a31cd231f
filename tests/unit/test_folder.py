"""The output folder: replaced whole or not at all, and nobody else's files are touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import MANIFEST, check_cores, check_writable, read_plan, replaced_folder

OURS = {"plan.json": json.dumps({"tool": {"name": "trainlib-deploy"}}), "net.c": "int x;\n", "kernels/mm.c": "int y;\n"}


def snapshot(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def write(out: Path, files: dict[str, str] = OURS) -> None:
    with replaced_folder(out) as folder:
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_text(text)


def refuses(out: Path, phrase: str) -> None:
    before = snapshot(out.parent)
    names = sorted(p.name for p in out.parent.iterdir())
    with pytest.raises(UsageError, match=phrase):
        check_writable(out)
    with pytest.raises(UsageError, match=phrase):
        write(out)
    assert snapshot(out.parent) == before
    assert sorted(p.name for p in out.parent.iterdir()) == names


def test_new_folder_with_parents(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "out")
    files = snapshot(tmp_path / "a" / "b" / "out")
    listed = [line.split("\t")[0] for line in files.pop(MANIFEST).splitlines()]
    assert files == OURS and listed == ["kernels/mm.c", "net.c", "plan.json"]
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["out"]


def test_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert (tmp_path / "out" / "net.c").exists()


def test_folder_is_readable_by_others(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write(tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_ours_is_replaced_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, {**OURS, "old.c": ""})
    for made in ("build/host/net.o", "golden.npz", "__pycache__/x.pyc", "model/__pycache__/net.pyc", "BUILD/x"):
        (out / made).parent.mkdir(exist_ok=True, parents=True)
        (out / made).write_text("made by a run")
    write(out)
    assert set(snapshot(out)) == {*OURS, MANIFEST}
    assert (out / "net.c").read_text() == "int x;\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_somebody_changed_is_not_overwritten(tmp_path: Path) -> None:
    """A main program that was edited in place; put back, or taken away, it is in nobody's way."""
    out = tmp_path / "out"
    write(out)
    (out / "net.c").write_text("int y;\n")
    refuses(out, "net.c changed since trainlib-deploy wrote it")
    (out / "net.c").write_text(OURS["net.c"])
    write(out)
    (out / "net.c").unlink()
    write(out)
    (out / MANIFEST).write_text("".join(f"{n}\n" for n in OURS))  # as older versions wrote it
    (out / "net.c").write_text("int y;\n")
    write(out)
    assert (out / "net.c").read_text() == OURS["net.c"]


@pytest.mark.parametrize("foreign", ["notes.txt", "kernels/mine.c", ".hidden", "build.txt", "mine/deep/file"])
def test_one_foreign_file_protects_the_folder(tmp_path: Path, foreign: str) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / foreign).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / "out" / foreign).write_text("mine")
    refuses(tmp_path / "out", f"did not write: {foreign}")


def test_a_foreign_empty_directory_or_link_protects_it(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "mine").mkdir()
    refuses(tmp_path / "out", "did not write: mine")
    (tmp_path / "out" / "mine").rmdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    refuses(tmp_path / "out", "did not write: link")


@pytest.mark.parametrize(
    "files",
    [
        {"a.txt": "x"},
        {"plan.json": "{}"},
        {"plan.json": "not json"},
        {"plan.json": "[]", MANIFEST: ""},
        {"plan.json": json.dumps({"tool": {"name": "another"}}), MANIFEST: "plan.json\n"},
        {"plan.json": json.dumps({"tool": {"name": "trainlib-deploy"}})},
        {MANIFEST: "plan.json\n"},
    ],
)
def test_somebody_elses_folder_is_left_alone(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / "out").mkdir()
    for name, text in files.items():
        (tmp_path / "out" / name).write_text(text)
    refuses(tmp_path / "out", "was not written by trainlib-deploy")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    refuses(tmp_path / "out", "is a file")
    with pytest.raises(UsageError, match="is a file"):
        check_writable(tmp_path / "out" / "deeper" / "out")


def test_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="link to nowhere"):
        check_writable(tmp_path / "out")


def test_a_link_to_our_folder_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", {**OURS, "old.c": ""})
    (tmp_path / "out").symlink_to(tmp_path / "real")
    write(tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert not (tmp_path / "real" / "old.c").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a directory that nobody can write to")
def test_unwritable_parent() -> None:
    for out in (Path("/proc/out"), Path("/proc/a/b")):
        with pytest.raises(UsageError, match="cannot write"):
            check_writable(out)
        with pytest.raises(UsageError, match="cannot write"), replaced_folder(out):
            raise AssertionError("the block must not run")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupt_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    write(tmp_path / "out")
    before = snapshot(tmp_path)
    for out in (tmp_path / "out", tmp_path / "new" / "deep" / "out"):
        with pytest.raises(error), replaced_folder(out) as folder:
            (folder / "half.c").write_text("x")
            raise error
    assert snapshot(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupt_between_the_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    write(tmp_path / "out", {**OURS, "old.c": "old"})
    before = snapshot(tmp_path)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises((KeyboardInterrupt, UsageError)):
        write(tmp_path / "out")
    assert snapshot(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_files_that_appear_during_the_work_are_safe(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="was not written"), replaced_folder(out):
        out.mkdir()
        (out / "mine").write_text("x")
    assert (out / "mine").read_text() == "x"


def test_read_plan(tmp_path: Path) -> None:
    write(tmp_path / "out")
    assert read_plan(tmp_path / "out")["tool"]["name"] == "trainlib-deploy"
    for path, phrase in (
        (tmp_path / "no", "no folder"),
        (tmp_path / "out/net.c", "is a file"),
        (tmp_path, "no plan.json"),
    ):
        with pytest.raises(UsageError, match=phrase):
            read_plan(path)
    (tmp_path / "out" / "plan.json").write_text('{"tool": ')
    with pytest.raises(UsageError, match="damaged"):
        read_plan(tmp_path / "out")


@pytest.mark.parametrize(("cores", "words"), [(8, "deploy with more --l1"), (9, "deploy with more --cores")])
def test_more_cores_than_there_are_stacks_for(cores: int, words: str) -> None:
    with pytest.raises(UsageError, match=f"cores is {cores}; the project has stacks for 1 to 3; {words}"):
        check_cores(cores, {"target": {"cores": 8, "working": 3}})
