"""Takes the pictures of these pages: deploys three networks, runs two notebooks, and photographs reports and site.

python docs/pictures/make.py     writes docs/pictures/*.png, those of the site last, which shows the others

Needs Chromium, pngquant, and for the notebooks `pip install nbconvert ipykernel`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BROWSER = shutil.which("chromium") or "chromium"
THEMES = ("light", "dark")
PHONE = 390
LEAST = 500  # pixels that a window of Chromium is wide; a phone stands within
NOTEBOOKS = ROOT / "examples" / "notebooks"
TRANSFORMER = """import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(1))


model = Net()
example_input, example_target = torch.randint(64, (1, 16)), torch.tensor([3])
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
"""


@dataclass(frozen=True)
class Picture:
    """A part of a page, or all of its beginning."""

    name: str
    page: Path  # with a `{}` where it has another file for each theme
    section: str = ""  # or several, as CSS selects them
    width: int = 1000
    height: int = 700

    def take(self, theme: str) -> None:
        page = Path(str(self.page).format(theme))
        only = f"section:not({self.section}), header > *, nav, footer {{ display: none !important }}"
        only += " section { margin: 0 !important } .scroll { max-height: none !important }"
        text = page.read_text(encoding="utf-8")
        if self.section:
            text = text.replace("</head>", f"<style>{only}</style></head>", 1)
        copy, frame = page.with_name(f"picture-{page.name}"), page.with_name(f"frame-{page.name}")
        copy.write_text(text, encoding="utf-8")
        frame.write_text(self.framed(copy), encoding="utf-8")
        target = HERE / f"{self.name}-{theme}.png"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
        scheme = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
        size = f"--window-size={max(self.width, LEAST)},{self.height}"
        shown = copy if self.width >= LEAST else frame
        command = [BROWSER, *flags, *scheme, size, f"--screenshot={target}", shown.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["pngquant", "--force", "--ext", ".png", "--speed", "1", "64", str(target)], check=True)
        copy.unlink()
        frame.unlink()

    def framed(self, page: Path) -> str:
        """As wide as a phone."""
        size = f"width: {self.width}px; height: {self.height}px"
        return (
            '<!doctype html><meta name="color-scheme" content="light dark"><body style="margin: 0; background: gray">'
            f'<iframe src="{page.as_uri()}" style="display: block; margin: auto; border: 0; {size}"></iframe>'
        )


def run(*module: str | Path, where: Path = ROOT) -> None:
    subprocess.run([sys.executable, "-m", *map(str, module)], check=True, cwd=where)


def deployed(model: Path, folder: Path, *options: str) -> Path:
    """Its report."""
    run("trainlib_deployer", "--model", model, "--cores", "8", "--l1", "64k", "--out", folder, *options)
    return folder / "report.html"


def executed(notebook: str, work: Path) -> Path:
    """Its pages, with what its cells show."""
    shutil.copyfile(NOTEBOOKS / f"{notebook}.ipynb", work / f"{notebook}.ipynb")
    run("nbconvert", "--execute", "--to", "notebook", "--inplace", f"{notebook}.ipynb", where=work)
    for theme in THEMES:
        pages = ("--to", "html", f"--HTMLExporter.theme={theme}", "--output", f"{notebook}-{theme}.html")
        run("nbconvert", *pages, f"{notebook}.ipynb", where=work)
    return work / f"{notebook}-{{}}.html"


def main() -> None:
    work = Path(tempfile.mkdtemp())
    (work / "transformer.py").write_text(TRANSFORMER)
    resnet = deployed(ROOT / "examples/resnet8.py", work / "resnet8", "--l2", "2M", "--steps", "20", "--run", "host")
    mobilenet = deployed(ROOT / "examples/mobilenet_v1.py", work / "mobilenet_v1", "--l2", "4M", "--run", "host")
    transformer = deployed(work / "transformer.py", work / "transformer", "--l2", "8M")
    take(reports(resnet, mobilenet, transformer))
    take(notebooks(executed("deploy_a_cell", work), executed("adapt_and_bring_back", work)))
    run("mkdocs", "build", "--strict", "-q")
    take(SITE)


def take(pictures: Sequence[Picture]) -> None:
    for picture in pictures:
        for theme in THEMES:
            picture.take(theme)


def reports(resnet: Path, mobilenet: Path, transformer: Path) -> list[Picture]:
    return [
        Picture("resnet8-graph", resnet, "#graph", height=840),
        Picture("resnet8-map", resnet, "#maps", height=1130),
        Picture("resnet8-verification", resnet, "#loss, #verification", height=620),
        Picture("resnet8-schedule", resnet, "#schedule", height=560),
        Picture("resnet8-schedule-narrow", resnet, "#schedule", PHONE, 700),
        Picture("mobilenet_v1", mobilenet, height=860),
        Picture("mobilenet_v1-narrow", mobilenet, width=PHONE, height=1000),
        Picture("transformer-graph", transformer, "#graph", height=760),
        Picture("transformer-narrow", transformer, "#maps", PHONE, 1000),
    ]


def notebooks(cell: Path, adapted: Path) -> list[Picture]:
    return [
        Picture("notebook", cell, width=960, height=1320),
        Picture("notebook-narrow", cell, width=PHONE, height=1320),
        Picture("notebook-adapt", adapted, height=930),
    ]


HOW = ROOT / "build/site/how.html"
SITE = [Picture("site", HOW, width=1250, height=800), Picture("site-narrow", HOW, width=PHONE, height=800)]

if __name__ == "__main__":
    main()
