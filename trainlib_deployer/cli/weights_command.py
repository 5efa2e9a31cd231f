"""trainlib-deploy weights: what was learned on the chip, back in PyTorch."""

from __future__ import annotations

from pathlib import Path

import click

from trainlib_deployer.cli.output_files import check_output_file, write_file
from trainlib_deployer.cli.spoken import Progress, examples, note, spoken
from trainlib_deployer.errors import UsageError
from trainlib_deployer.folder import read_plan

FILE = click.Path(path_type=Path)
ENDINGS = (".pt", ".pth", ".safetensors", ".npz")


@click.command(
    "weights",
    short_help="What was learned, as a state dict; or new weights.",
    epilog=examples(
        "trainlib-deploy weights generated/net saved.bin --out trained.pt",
        "trainlib-deploy weights generated/net --in trained.pt",
    ),
)
@click.argument("directory", metavar="DIR", type=FILE)
@click.argument("dump", metavar="[DUMP]", type=FILE, required=False)
@click.option("--memory", metavar="NAME=FILE", multiple=True, help="In place of DUMP: the bytes of net_l1 or net_l2.")
@click.option("--out", metavar="FILE", type=FILE, help="Write the state dict: .pt, .safetensors, .npz.")
@click.option("--optimizer", metavar="FILE.pt", type=FILE, help="Write the optimizer's state dict.")
@click.option("--in", "given", metavar="FILE", type=FILE, help="Put a file's weights into the project instead.")
@click.option(
    "--weights-allow-missing",
    "may_miss",
    metavar="LAYER",
    multiple=True,
    help="With --in: a layer that keeps what it has where the file has none that fit; may be given again.",
)
@spoken
def weights_command(
    *,
    directory: Path,
    dump: Path | None,
    memory: tuple[str, ...],
    out: Path | None,
    optimizer: Path | None,
    given: Path | None,
    may_miss: tuple[str, ...],
) -> None:
    """What a project's program has learned, as PyTorch loads it; or new weights for it to begin with."""
    read_plan(directory)
    say = Progress()
    say("reading the weights")
    if given is not None:
        if dump or memory or out or optimizer:
            raise UsageError("--in goes without DUMP, --memory, --out and --optimizer")
        from trainlib_deployer.state.replace import put_weights  # seconds

        for line in put_weights(directory, given, may_miss):
            note(line)
        print(f"{directory} begins with the weights of {given}")
        return
    if may_miss:
        raise UsageError("--weights-allow-missing goes with --in FILE")
    check_output_file(out, "--out")
    check_output_file(optimizer, "--optimizer")
    if out is None and optimizer is None:
        raise UsageError("nothing to write", remedy="give --out FILE, --optimizer FILE.pt, or both; or --in FILE")
    if out is not None and out.suffix not in ENDINGS:
        raise UsageError(f"--out {out}: what ends like this is not known", remedy=f"endings: {', '.join(ENDINGS)}")
    if (dump is None) == (not memory):
        raise UsageError("give one of DUMP and --memory", remedy="a DUMP comes from make host SAVE=FILE")
    images = dict(named_file(m) for m in memory)
    import torch  # seconds

    from trainlib_deployer.state import dumps, trained

    known = trained.Known(directory)
    values = dumps.read_memory(known.plan, images) if dump is None else dumps.read_dump(known.layout, dump)
    state = trained.module_state(known, values)
    if out is not None:
        write_file(out, lambda p: trained.write_state(p, state))
    if optimizer is not None:
        write_file(optimizer, lambda p: torch.save(trained.optimizer_state(known, values), p))
    done = trained.updates(known, values)
    after = f" after {done} update{'' if done == 1 else 's'}" if known.trains else ""
    print(f"{len(state)} tensors{after}")


def named_file(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if name not in ("net_l1", "net_l2") or not equals or not file:
        raise UsageError(f"--memory {text}: it must be net_l1=FILE or net_l2=FILE")
    return name, Path(file)
