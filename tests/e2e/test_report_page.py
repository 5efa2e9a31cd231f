"""The report in a browser: what its scripts draw, find, sort and tell, by pointer and by keyboard, wide and narrow."""

from __future__ import annotations

import json
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.report_plan import evaluated, plan
from trainlib_deployer.report.page import report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCENARIO = Path(__file__).with_name("report_scenario.js").read_text()
# Frames and resizes come when asked for, so that a page is done when its last script is.
PRELUDE = """<script>
const errors = [], frames = [];
addEventListener("error", (e) => errors.push(e.message));
window.requestAnimationFrame = (draw) => frames.push(draw);
window.flush = () => { while (frames.length) frames.shift()(); };
window.ResizeObserver = class { constructor(f) { this.f = f; } observe() { this.f(); } };
</script>
"""
FAILED = "document.documentElement.dataset.saw = JSON.stringify({ errors: [...errors, e.stack] })"
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")


def seen(page: str, folder: Path, width: int = 1200, dark: bool = False) -> dict[str, Any]:
    """After the scenario; where that comes to nothing, why."""
    script = f"<script type=module>try {{ {SCENARIO} }} catch (e) {{ {FAILED} }}</script>"
    acted = page.replace("<title>", PRELUDE + "<title>", 1).replace("</body>", f"{script}</body>")
    (folder / "page.html").write_text(acted)
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", *scheme]
    command = [str(BROWSER), *flags, f"--user-data-dir={folder}/profile", "--dump-dom", f"file://{folder}/page.html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    _, found, rest = done.stdout.partition('data-saw="')
    assert found, done.stderr[-2000:] + done.stdout[:500]
    return dict(json.loads(unescape(rest.partition('"')[0])))


def busy() -> dict[str, Any]:
    """Of 130 operations, 9 of an evaluation and 3,000 buffers, with all that a page can say."""
    p = evaluated(plan(ops=130, buffers=3000), 9)
    for name, level in p["levels"].items():
        level["peak_at"] = 60 + len(name)
    p["what_if"] = [{"what": "an optimizer without state", "how": "SGD", "bytes": 77, "bytes_less": 11, "macs": 5}]
    return p


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (500, True)], ids=["wide", "narrow and dark"])
def test_a_person_finds_their_way(tmp_path: Path, width: int, dark: bool) -> None:
    p = busy()
    saw = seen(report(p), tmp_path, width, dark)
    assert saw["errors"] == [] and saw["drawn"] == "2"
    assert saw["wider"] <= 0, "the page scrolls sideways"
    macs = [op["macs"] or 0 for op in p["ops"]]
    assert (saw["firstRows"], saw["allRows"]) == (100, 139)
    assert saw["found"] == sum("block3" in op["layer"] for op in p["ops"])
    assert (saw["sorted"], saw["most"]) == ("descending", f"{max(macs):,}")
    assert (saw["ordered"], saw["unsorted"], saw["mostByList"]) == (
        "Sort: Multiply-adds",
        ["0", "1", "2"],
        saw["most"],
    )
    phone = width < 640
    assert (saw["orders"], saw["card"]) == (phone, "flex" if phone else "table-row")
    assert not phone or saw["widerThanAPhone"] <= 0
    assert set(saw["names"]) == {"loss", *(op["layer"] for op in p["ops"])} - {"loss"}
    evaluation = {op["layer"] for op in p["ops"] if op["phase"] == "evaluation"}
    assert (set(saw["evaluation"]), saw["again"]) == (evaluation, saw["names"])
    assert f"130 operations in order of execution: {sum(macs[:130]):,} multiply-adds" in saw["sums"]
    assert f"Then 9 of an evaluation, which is no part of the step: {sum(macs[130:]):,}" in saw["sums"]
    assert saw["boxes"] >= 7 and saw["looked"] == "block0"
    assert " bytes at " in saw["hovered"] and saw["left"]
    alive = [b for b in p["buffers"] if b["level"] == "L1" and b["birth"] <= 62 < b["death"]]
    largest = max(alive, key=lambda b: b["size"])
    assert saw["picked"].startswith(largest["name"]) and f"{largest['size']:,} bytes" in saw["picked"]
    assert saw["above"] != saw["picked"] and saw["said"] and saw["escaped"]
    assert saw["zoomed"] and saw["back"] and saw["wheel"] and not saw["wheelUnasked"]
    boxes = sum(b["level"] == "L1" for b in p["buffers"])
    assert 2 * boxes > saw["frames"][0] > 2 * saw["frames"][-1], "calls: each box once, and none that is out of sight"
