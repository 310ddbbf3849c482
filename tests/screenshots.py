"""The README's pictures, made anew: the report and the artifact in the Prefect UI (`make screenshots`).

Draws samples, judges them twice with the embedded judge under a `jury up` of its own, the first time with some of the
Model figures mended, and takes its pictures with Chromium. Takes half a minute; needs Debian's `chromium`.
"""

import base64
import json
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from served import JURY, Up, environment, free_port, jury_up, wait_for

PICTURES = Path(__file__).with_name("pictures")
SAMPLES, MENDED = 60, 24
SHOWN = "test_4"
"""A sample whose Model figure is overloaded with words."""
WIDTH = 1280
COLOURS = 128
"""Of a palette: a third of the size, and nothing is lost that an eye would miss."""


def command(*arguments: object) -> None:
    """Run `jury`; 3 only says that a figure is missing, as one of the drawn samples has it."""
    done = subprocess.run([JURY, *map(str, arguments)], env=environment(), capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)


def judge(up: Up, dataset: Path) -> None:
    """One evaluation of the drawn diagrams, in both orders and with control samples among them."""
    options = ("--orders", "both", "--controls", "0.4", "--reuse-hours", "0", "--candidate-name", "painter")
    command("run", "diagram", "--dataset", dataset, *options, "--store", up.store)


def draw(dataset: Path) -> None:
    """The drawn samples, with all their defects."""
    command("samples", dataset, "--count", SAMPLES)


def mend(dataset: Path) -> None:
    """Give the first samples Model figures that are as good as the Human ones."""
    results = dataset / "results" / "diagram.json"
    records: list[dict[str, Any]] = json.loads(results.read_bytes())
    for record in records[:MENDED]:
        human = (dataset / "diagram" / record["path_to_gt_image"]).read_bytes()
        record[record["eval_image_field"]] = base64.b64encode(human).decode("ascii")
    results.write_text(json.dumps(records))


def keep(name: str, shot: bytes) -> None:
    """Write a screenshot as a small PNG."""
    PICTURES.mkdir(exist_ok=True)
    with Image.open(BytesIO(shot)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)
    print(PICTURES / f"{name}.png", f"{(PICTURES / f'{name}.png').stat().st_size / 1000:.0f} KB")


def take_report(browser: Any, page: Path) -> None:
    """The figures in light and a sample in dark."""
    keep("report", opened(browser, page, "light").screenshot())
    tab = opened(browser, page, "dark")
    tab.fill("[name=search]", SHOWN)
    tab.press("[name=search]", "Enter")
    wait_for(lambda: tab.evaluate("document.activeElement.querySelectorAll('img')[1]?.naturalWidth > 0"), 10)
    keep("report-sample", tab.screenshot())


def opened(browser: Any, page: Path, scheme: str) -> Any:
    """The report in a tab of its own."""
    tab = browser.new_page(viewport={"width": WIDTH, "height": 1240}, color_scheme=scheme)
    tab.goto(page.as_uri())
    return tab


def take_artifact(browser: Any, up: Up) -> None:
    """The summary of the newest run as the Prefect UI shows it."""
    newest = {"artifacts": {"key": {"any_": ["diagram-command"]}}, "sort": "CREATED_DESC", "limit": 1}
    [artifact] = up.api("/artifacts/filter", newest)
    tab = browser.new_page(viewport={"width": WIDTH, "height": 1200})
    tab.goto(f"{up.ui}/artifacts/artifact/{artifact['id']}")
    tab.get_by_role("heading", name="Scores").wait_for()
    wait_for(lambda: tab.evaluate("[...document.images].every(one => one.complete)"), 10)
    keep("artifact", tab.screenshot())


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as place, jury_up(Path(place) / "store", free_port()) as up:
        dataset, page = Path(place) / "drawn", Path(place) / "report.html"
        for prepare in (mend, draw):
            draw(dataset)
            prepare(dataset)
            judge(up, dataset)
        command("report", "-o", page, "--store", up.store)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            take_report(browser, page)
            take_artifact(browser, up)
            browser.close()


if __name__ == "__main__":
    main()
