"""Deploying from a notebook: cell magic and line magic, what shows itself, errors that end with the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output

from trainlib_deployer.cli.main import cli
from trainlib_deployer.errors import DeployError, Unsupported, UsageError
from trainlib_deployer.notebook.magics import names_of

torch.set_num_threads(1)
CELL = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU())
        self.head = nn.Linear(7, 3)

    def forward(self, x):
        return self.head(self.body(x))

model = Net()
data = [(torch.randn(6, 5), torch.randint(3, (6,))) for _ in range(2)]
"""
OPTIONS = "--cores 2 --l1 64k --steps 2"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / ".ipython"))
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "trainlib_deployer")
    yield made
    InteractiveShell.clear_instance()


def run(shell: Any, cell: str) -> tuple[Any, str, list[RichOutput]]:
    """What a cell gives, prints and shows."""
    with capture_output() as captured:
        result = shell.run_cell(cell)
    error = result.error_before_exec or result.error_in_exec
    return error or result.result, captured.stdout + captured.stderr, captured.outputs


def test_a_cell_becomes_a_verified_project(shell: Any) -> None:
    """Shown in place: stages, table, map, link; verified later from the command line; its names are there."""
    made, printed, shown = run(shell, f"%%trainlib_deploy {OPTIONS} --run host\n{CELL}")
    assert repr(made).startswith("Deployment(generated/Net: Plan(Net on custom: "), printed
    assert shell.user_ns["deployment"] is made and shell.user_ns["model"] is not None and "Net" in shell.user_ns
    html = "\n".join(o.data.get("text/html", "") for o in shown)
    assert "<progress" in html and "PASS on host" in html and "worst rel. error" in html
    page = made._repr_html_()
    assert page.count("<svg") == 1, "nothing lies in L2"
    assert 'href="generated/Net/report.html"' in page and "Net on custom" in page
    for colour, role in re.findall(r"color:(#\w+)\">.*?</span> (\w+)", page):
        assert f'fill="{colour}"' in page, role
    assert CliRunner().invoke(cli, ["verify", "generated/Net"]).exit_code == 0
    assert made.step(*shell.user_ns["data"][0]) > 0


def test_a_module_that_lives_there(shell: Any) -> None:
    run(shell, CELL + "y = torch.randint(3, (4,))\nbest = torch.optim.Adam(model.parameters())")
    line = f"%trainlib_deploy model --input 4x5 --example-target y --optimizer best {OPTIONS} --out somewhere"
    made, printed, _ = run(shell, line)
    assert made.folder == Path("somewhere"), printed
    assert any(s.endswith("exp_avg") for s in made.plan.program.tensors)


def test_a_cell_that_uses_other_cells(shell: Any) -> None:
    run(shell, CELL)
    cell = f"%%trainlib_deploy {OPTIONS} --out p\nmodel = nn.Sequential(Net(), nn.Softplus())\ndata = data[:1]\n"
    made, printed, shown = run(shell, cell)
    assert made.plan.program.name == "Sequential", printed
    assert any("names of other cells" in o.data["text/plain"] for o in shown)
    assert made.verify().passed


ERRORS = {
    "what depends on values": ("        return self.head(self.body(x)) * (1 if x.sum() > 0 else 2)", Unsupported, 12),
    "Python": ("        return self.haed(self.body(x))", UsageError, 12),
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("alone", [True, False])
def test_errors_show_the_line_of_the_cell(kind: str, alone: bool, shell: Any) -> None:
    """Line 1 is the magic's own. What is printed ends with the line and what to do, without a traceback."""
    line, error, number = ERRORS[kind]
    cell = CELL.replace("        return self.head(self.body(x))", line)
    if not alone:
        run(shell, "import torch\nfrom torch import nn")
        cell = cell.replace("import torch\nfrom torch import nn\n", "\n\n")
    found, printed, _ = run(shell, f"%%trainlib_deploy {OPTIONS}\n{cell}")
    assert isinstance(found, error) and f"  at cell:{number}:  {line.strip()}" in str(found), found
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert plain.strip() == f"{error.__name__}: {found}" and "Traceback" not in plain
    assert found.remedy in plain.splitlines()[-1]


MISTAKES = {
    "%trainlib_deploy": ("which module?", "--input"),
    "%trainlib_deploy net": ("there is nothing called 'net'", "run the cell"),
    "%trainlib_deploy --help": ("--help", "trainlib-deploy --help"),
    "%trainlib_deploy net --corse 3": ("--corse", "trainlib-deploy --help"),
    "%trainlib_deploy net --cores 'two": ("No closing quotation", "trainlib-deploy --help"),
    "%trainlib_deploy net --target cortex-m4f --l3 8M": ("third memory", "--l3 goes with"),
    f"%%trainlib_deploy {OPTIONS}\nmodel = (": ("cell", ""),
}


@pytest.mark.parametrize("cell", MISTAKES)
def test_mistakes(cell: str, shell: Any) -> None:
    found, _, _ = run(shell, cell)
    words, remedy = MISTAKES[cell]
    assert isinstance(found, DeployError) and words in str(found) and remedy in found.remedy, found


def test_names_of_a_text() -> None:
    text = (
        "import a\nfrom b import c as d\ndef f(x):\n    global h\n    h = x + g\n    return [y for y in a]\nk = f(m)\n"
    )
    used, defined = names_of(text)
    assert {"g", "m"} <= used and not used & {"a", "d", "x", "y", "f"} and {"a", "d", "f", "k"} <= defined


def test_what_shows_itself(shell: Any) -> None:
    """Short in a terminal, tables in a notebook and as data frames."""
    import trainlib_deployer

    made, _, _ = run(shell, f"%%trainlib_deploy {OPTIONS}\n{CELL}")
    result = made.verify()
    points = trainlib_deployer.sweep(shell.user_ns["model"], *shell.user_ns["data"][0], cores=2, l1="64k", l2="1M")
    profile = made.profile()
    for value in (made, made.plan, result, points, profile):
        assert len(repr(value)) < 250 and "\n" not in repr(value)
        assert "<table>" in value._repr_html_()
    assert list(result.to_dataframe()["kind"]) == [t.kind for t in result.verdict.tensors]
    assert made.to_dataframe()["macs"].sum() == sum(op.kind.macs() for op in made.plan.program.ops)
    assert len(made.plan.to_dataframe()) == len(made.plan.buffers) and len(points.to_dataframe()) == len(points)
    measured = profile.to_dataframe()
    assert list(measured["name"]) == list(made.to_dataframe()["name"]) and measured["nanoseconds"].sum() > 0
    assert dir(trainlib_deployer) == sorted(trainlib_deployer.__all__)


NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"


@pytest.mark.parametrize("name", ["deploy_a_cell", "adapt_and_bring_back"])
def test_the_notebooks_of_the_examples(name: str, shell: Any) -> None:
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "they are kept without outputs"
        if cell["cell_type"] == "code":
            found, printed, _ = run(shell, "".join(cell["source"]))
            assert not isinstance(found, BaseException), printed
    if name == "adapt_and_bring_back":
        before, after = shell.user_ns["before"], shell.user_ns["after"]
        assert before[0] > 0.9 and before[1] < 0.5 and after > 0.9, (before, after)


def test_notebooks_are_all_run() -> None:
    assert {p.stem for p in NOTEBOOKS.iterdir()} == {"deploy_a_cell", "adapt_and_bring_back"}


def test_inference_of_a_cell_and_of_a_module_that_lives_there(shell: Any) -> None:
    made, printed, _ = run(shell, f"%%trainlib_deploy --inference --batch 1 --run host\n{CELL}")
    assert made.folder == Path("generated/Net_inference"), printed
    model, [(x, _), _] = shell.user_ns["model"], shell.user_ns["data"]
    assert model.training and "<svg" in made._repr_html_()
    assert len(made.to_dataframe()) == len(made.plan.program.ops)
    made, printed, _ = run(shell, "%trainlib_deploy model --input 6x5 --inference --out there")
    assert model.training and model.body.training
    assert torch.allclose(model.eval()(x), made.predict(x), atol=1e-5)
