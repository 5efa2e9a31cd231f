"""The output folder: replaced as a whole and atomically, and never if anything in it is not ours."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from trainlib_deployer.arguments import natural
from trainlib_deployer.errors import UsageError
from trainlib_deployer.version import __version__

MANIFEST = ".trainlib-deploy"  # the sorted list of files written, with hashes; what is not on it is the user's
MADE_LATER = ("build", "BUILD", "golden.npz", "__pycache__")  # what running the project leaves at its top
FOR_PEOPLE = ("README.md", "report.html", "golden")  # no run needs them
TOOL = "trainlib-deploy"
AGAIN = "deploy the model again"
PLAN = "plan.json"
WRITER = ("PytorchStreamWriter", "iostream error", "inline_container.cc")  # in what PyTorch says of a full disk


def default_folder(name: str, inference: bool) -> Path:
    """A network's training and its inference are two projects."""
    return Path("generated", f"{name}_inference" if inference else name)


def check_writable(out: Path) -> None:
    """Refuse early, before any work, what `replaced_folder` would refuse at the end."""
    check_replaceable(out)
    parent = out.resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise UsageError(f"cannot write {out}: {parent} is a file", remedy="choose another folder with --out")
    try:
        with tempfile.TemporaryDirectory(prefix=".trainlib-deploy-", dir=parent):
            pass
    except OSError as err:
        raise cannot_write(out, err) from err


def check_replaceable(out: Path) -> None:
    """`out` must be absent, empty, or a folder that this tool wrote with nothing else in it."""
    if not os.path.lexists(out):
        return
    if out.is_symlink() and not out.exists():
        raise UsageError(f"{out} is a link to nowhere", remedy="remove it or choose another folder with --out")
    if not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder", remedy="choose another folder with --out")
    try:
        there = sorted(p.name for p in out.iterdir())
    except OSError as err:
        raise cannot_write(out, err) from err
    if not there:
        return
    if not written_by_us(out):
        raise UsageError(
            f"{out} exists and was not written by trainlib-deploy: nothing was changed",
            remedy="choose another folder with --out, or empty this one",
        )
    changed = edited_files(out)
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise UsageError(
            f"{out}: {', '.join(changed[:3])}{more} changed since trainlib-deploy wrote it; nothing was overwritten",
            remedy="move it elsewhere (make host MAIN=FILE takes a main program from anywhere) and delete it there, "
            "or choose another folder with --out",
        )
    foreign = foreign_files(out)
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise UsageError(
            f"{out} also holds files that trainlib-deploy did not write: {', '.join(foreign[:3])}{more}; "
            "nothing was changed",
            remedy="move them away, or choose another folder with --out",
        )


def written_by_us(folder: Path) -> bool:
    return is_plan(stored_plan(folder)) and (folder / MANIFEST).is_file()


def stored_plan(folder: Path) -> Any:
    """plan.json as it is; None where it cannot be read."""
    try:
        return json.loads((folder / PLAN).read_text())
    except (OSError, ValueError, RecursionError):
        return None


def is_plan(plan: Any) -> bool:
    return isinstance(plan, dict) and isinstance(plan.get("tool"), dict) and plan["tool"].get("name") == TOOL


def read_plan(folder: Path) -> dict[str, Any]:
    """plan.json of a folder that this tool wrote."""
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder")
    if not (folder / PLAN).is_file():
        raise UsageError(f"{folder} is not a folder written by trainlib-deploy: it has no {PLAN}")
    plan = stored_plan(folder)
    if not is_plan(plan):
        raise UsageError(f"{folder} is not a folder written by trainlib-deploy: its {PLAN} is damaged or not ours")
    as_written(folder, [PLAN])
    return dict(plan)


@contextmanager
def perhaps_another_version(folder: Path) -> Iterator[None]:
    """Reading numbers out of a plan: that another version wrote it otherwise is no fault of this one."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as err:
        writer = stored_plan(folder)["tool"].get("version")
        if writer == __version__:
            raise
        words = f"{folder} was written by {TOOL} {writer}, which version {__version__} does not read"
        raise UsageError(words, remedy=AGAIN) from err


def as_written(folder: Path, names: Iterable[str]) -> None:
    """Files that nobody edits: there, and with the contents that they were written with."""
    known = manifest(folder)
    for name in names:
        path = folder / name
        if not path.is_file():
            raise UsageError(f"{folder} lacks {name}", remedy=AGAIN)
        if digest_of(path) != known.get(name):
            raise UsageError(f"{path} is damaged: it is not what trainlib-deploy wrote", remedy=AGAIN)


def check_whole(folder: Path) -> None:
    """Everything that a run needs is there; what is read as data is as it was written. Programs may be edited."""
    known = manifest(folder)
    missing = sorted(n for n in known if not (folder / n).exists() and not n.startswith(FOR_PEOPLE))
    if missing:
        raise UsageError(f"{folder} lacks {missing[0]}", remedy=AGAIN)
    as_written(folder, [n for n in known if n.startswith("model/") or n.endswith(".bin")])


def check_cores(cores: int | None, plan: Mapping[str, Any]) -> None:
    most = int(plan["target"]["working"])
    if cores is not None and natural(cores, "cores") > most:
        more = "--cores" if cores > int(plan["target"]["cores"]) else "--l1, which has no room for those of more cores"
        raise UsageError(f"cores is {cores}; the project has stacks for 1 to {most}", remedy=f"deploy with more {more}")


def foreign_files(folder: Path) -> list[str]:
    """Files in the folder that neither the manifest lists nor a run leaves behind."""
    ours = {*manifest(folder), MANIFEST}
    return [name for name in files_of(folder) if name not in ours and not made_later(name)]


def edited_files(folder: Path) -> list[str]:
    """Files that are ours by name, and somebody else's by contents."""
    known = manifest(folder).items()
    return [n for n, digest in known if digest and (folder / n).is_file() and digest_of(folder / n) != digest]


def manifest(folder: Path) -> dict[str, str]:
    """File to hash."""
    try:
        lines = (folder / MANIFEST).read_text().splitlines()
    except (OSError, ValueError) as err:
        remedy = f"copy a project with its hidden files, or {AGAIN}"
        raise UsageError(
            f"{folder} is not whole: its list of files, {MANIFEST}, cannot be read", remedy=remedy
        ) from err
    return {name: digest for name, _, digest in (line.partition("\t") for line in lines)}


def note_written(folder: Path, names: Iterable[str]) -> None:
    """These files of a folder are as we wrote them, from now on."""
    known = manifest(folder) if (folder / MANIFEST).is_file() else {}
    known |= {name: digest_of(folder / name) if (folder / name).is_file() else "" for name in names}
    write_whole(folder / MANIFEST, "".join(f"{n}\t{digest}\n" for n, digest in sorted(known.items())))


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all of it is written; if there is no room for that, what is there stays."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("wb") as file:
            yield file
        fresh.replace(path)
    finally:
        with suppress(OSError):  # of a folder that nobody can write to
            fresh.unlink()


def write_whole(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as err:
        raise UsageError(f"cannot read {path}: {err.strerror or err}") from err


def made_later(name: str) -> bool:
    parts = name.split("/")
    return parts[0] in MADE_LATER or "__pycache__" in parts


def files_of(folder: Path) -> list[str]:
    """Relative paths, sorted, links not followed; an empty directory counts under its own name."""
    found = []
    for path, directories, files in os.walk(folder):
        here = Path(path).relative_to(folder)
        links = [d for d in directories if (Path(path) / d).is_symlink()]
        found += [(here / name).as_posix() for name in (*files, *links)]
        if not files and not directories and here != Path():
            found.append(here.as_posix())
    return sorted(found)


@contextmanager
def replaced_folder(out: Path, force: bool = False) -> Iterator[Path]:
    """A new folder beside `out` that takes its place when the block succeeds; otherwise nothing has happened.

    `force` is about the model, not about files: it changes nothing here.
    """
    check_writable(out)
    place = out.resolve()  # a link stays a link: what it points to is replaced
    created = make_parents(place.parent)
    work: Path | None = None
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{place.name}-", suffix=".new", dir=place.parent))
        fresh = work / "new"
        fresh.mkdir()
        try:
            yield fresh
            note_written(fresh, files_of(fresh))
        except (OSError, RuntimeError) as err:  # as a full disk is noticed
            if write_fault(err):
                raise cannot_write(out, err) from err
            raise
        check_replaceable(out)
        swap(fresh, place, work / "old")
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        for directory in created:
            remove_if_empty(directory)


def swap(fresh: Path, place: Path, old: Path) -> None:
    """Two renames in one file system; an interrupt between them puts the old folder back."""
    replaces = place.exists()
    try:
        if replaces:
            place.rename(old)
        fresh.rename(place)
    except BaseException as err:
        if old.exists() and not place.exists():
            old.rename(place)
        if isinstance(err, OSError):
            raise cannot_write(place, err) from err
        raise


def make_parents(parent: Path) -> list[Path]:
    """The directories that had to be made, innermost first."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise cannot_write(parent, err) from err
    return missing


def remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return


def cannot_write(out: Path, err: Exception) -> UsageError:
    return UsageError(f"cannot write {out}: {write_fault(err)}", remedy="choose another folder with --out")


def write_fault(err: Exception) -> str:
    """Why a file could not be written, in the system's words; "" if it is something else. PyTorch does not tell."""
    if isinstance(err, OSError):
        return err.strerror or str(err)
    streams = isinstance(err, RuntimeError) and any(w in str(err) for w in WRITER)
    return "no space left, or no permission" if streams else ""
