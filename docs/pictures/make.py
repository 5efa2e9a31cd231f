"""Takes the pictures of these pages: deploys three networks, and photographs their reports and the site.

python docs/pictures/make.py     writes docs/pictures/*.png, those of the site last, which shows the others

Needs Chromium and pngquant. The pictures of notebooks are those that `jupyter nbconvert --execute` shows.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BROWSER = shutil.which("chromium") or "chromium"
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
    page: Path
    section: str = ""  # or several, as CSS selects them
    width: int = 1000
    height: int = 700

    def take(self, dark: bool) -> None:
        only = f"section:not({self.section}), header > *, nav, footer {{ display: none !important }}"
        only += " section { margin: 0 !important } .scroll { max-height: none !important }"
        text = self.page.read_text(encoding="utf-8")
        if self.section:
            text = text.replace("</head>", f"<style>{only}</style></head>", 1)
        copy = self.page.with_name(f"picture-{self.page.name}")
        copy.write_text(text, encoding="utf-8")
        target = HERE / f"{self.name}-{'dark' if dark else 'light'}.png"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        size = f"--window-size={self.width},{self.height}"
        command = [BROWSER, *flags, *scheme, size, f"--screenshot={target}", copy.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["pngquant", "--force", "--ext", ".png", "--speed", "1", "64", str(target)], check=True)
        copy.unlink()


def deployed(model: Path, folder: Path, *options: str) -> Path:
    """Its report."""
    command = [sys.executable, "-m", "trainlib_deployer", "--model", str(model), "--cores", "8", "--l1", "64k"]
    subprocess.run([*command, "--out", str(folder), *options], check=True, cwd=ROOT)
    return folder / "report.html"


def main() -> None:
    work = Path(tempfile.mkdtemp())
    (work / "transformer.py").write_text(TRANSFORMER)
    resnet = deployed(ROOT / "examples/resnet8.py", work / "resnet8", "--l2", "2M", "--steps", "20", "--run", "host")
    mobilenet = deployed(ROOT / "examples/mobilenet_v1.py", work / "mobilenet_v1", "--l2", "4M")
    transformer = deployed(work / "transformer.py", work / "transformer", "--l2", "8M")
    take(reports(resnet, mobilenet, transformer))
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q"], check=True, cwd=ROOT)
    take(SITE)


def take(pictures: list[Picture]) -> None:
    for picture in pictures:
        for dark in (False, True):
            picture.take(dark)


def reports(resnet: Path, mobilenet: Path, transformer: Path) -> list[Picture]:
    return [
        Picture("resnet8-graph", resnet, "#graph", height=840),
        Picture("resnet8-map", resnet, "#maps", height=1130),
        Picture("resnet8-verification", resnet, "#loss, #verification", height=620),
        Picture("transformer-graph", transformer, "#graph", height=760),
        Picture("mobilenet_v1-narrow", mobilenet, width=500, height=1000),
        Picture("transformer-narrow", transformer, "#maps", width=500, height=1000),
    ]


SITE = [
    Picture("site", ROOT / "build/site/how.html", width=1250, height=800),
    Picture("site-narrow", ROOT / "build/site/how.html", width=500, height=800),
]

if __name__ == "__main__":
    main()
