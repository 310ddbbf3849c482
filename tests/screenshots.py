"""Make the documentation's pictures: the pages of a store, and the artifact in the Prefect UI (`make screenshots`).

Draw samples, judge them several times with the embedded judge under a separate `jury up`, each time with other Model
figures mended, and take screenshots with Chromium. Takes about two minutes; needs Debian's `chromium`.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from served import JURY, Up, environment, free_port, jury_up, wait_for

from tasks.demo.samples import CHECKS, GENERATED

PICTURES = Path(__file__).with_name("pictures")
SAMPLES = 60
MENDED = (30, 36, 33, 24, 0)
"""Number of Model figures that equal the Human ones in each evaluation, the oldest first."""
SHOWN = "test_4"
"""A sample whose Model figure has too many words."""
CHECKED = "sample=00005_0000&candidate=careless"
"""An image whose two objects have swapped colors."""
COLOURS = 128
"""Palette size: a third of the file size without visible loss."""


def command(*arguments: object) -> None:
    """Run `jury`; exit code 3 only reports a missing figure, which one of the drawn samples has."""
    done = subprocess.run([JURY, *map(str, arguments)], env=environment(), capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)


def draw(dataset: Path, mended: int) -> None:
    """Draw the samples with all their defects, except the first ones: their Model figures are the Human ones."""
    shutil.rmtree(dataset, ignore_errors=True)  # from the previous evaluation
    command("demo", "--samples", dataset, "--count", SAMPLES)
    results = dataset / "results" / "diagram.json"
    records: list[dict[str, Any]] = json.loads(results.read_bytes())
    for record in records[:mended]:
        human = (dataset / "diagram" / record["path_to_gt_image"]).read_bytes()
        record[record["eval_image_field"]] = base64.b64encode(human).decode("ascii")
    results.write_text(json.dumps(records))


def prepare(store: Path, place: Path) -> None:
    """Make all evaluations and pages: `report.html` and `label.html` in the folder, the others in the store."""
    judged = ("--controls", "0.4", "--reuse-hours", "0", "--store", store)
    for mended in MENDED:
        draw(place / "drawn", mended)
        named = ("--orders", "both", "--candidate-name", "painter")
        command("run", "diagram", "--dataset", place / "drawn", *named, *judged)
    command("run", "counting", "--dataset", place / "drawn" / GENERATED, *judged)
    command("run", "facts", "--dataset", place / "drawn" / GENERATED / CHECKS, *judged)
    command("report", "--flow", "facts", "-o", place / "facts.html", "--store", store)
    command("store", "pages", "--store", store)
    command("report", "--flow", "diagram", "-o", place / "report.html", "--store", store)
    newest = max((store / "ledger").glob("*-diagram-*")).name
    command("labels", "page", newest, "-n", 30, "-o", place / "label.html", "--store", store)


def open_tab(browser: Any, address: str, scheme: str = "light", height: int = 1240) -> Any:
    """Return a page in its own tab."""
    tab = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme=scheme)
    tab.goto(address)
    return tab


def save_screenshot(name: str, tab: Any) -> None:
    """Write a screenshot of the tab as a small PNG."""
    PICTURES.mkdir(exist_ok=True)
    with Image.open(BytesIO(tab.screenshot())) as picture:
        picture.convert("RGB").quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)
    print(PICTURES / f"{name}.png", f"{(PICTURES / f'{name}.png').stat().st_size / 1000:.0f} KB")


def take(browser: Any, up: Up, place: Path) -> None:
    """Take the pages, a sample in dark mode, and the newest run's summary in the Prefect UI."""
    save_screenshot("report", open_tab(browser, (place / "report.html").as_uri(), height=850))
    save_screenshot("index", open_tab(browser, (up.store / "pages" / "index.html").as_uri(), height=1000))
    save_screenshot("checklist", open_tab(browser, f"{(place / 'facts.html').as_uri()}#{CHECKED}", height=640))
    save_screenshot("label", open_tab(browser, (place / "label.html").as_uri(), height=900))
    tab = open_tab(browser, (place / "report.html").as_uri(), "dark")
    tab.fill("[name=search]", SHOWN)
    tab.press("[name=search]", "Enter")
    wait_for(lambda: tab.evaluate("document.activeElement.querySelectorAll('img')[1]?.naturalWidth > 0"))
    save_screenshot("report-sample", tab)
    newest = {"artifacts": {"key": {"any_": ["diagram-command"]}}, "sort": "CREATED_DESC", "limit": 1}
    [artifact] = up.api("/artifacts/filter", newest)
    tab = open_tab(browser, f"{up.ui}/artifacts/artifact/{artifact['id']}", height=1200)
    tab.get_by_role("heading", name="Scores").wait_for()
    wait_for(lambda: tab.evaluate("[...document.images].every(one => one.complete)"))
    save_screenshot("artifact", tab)


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as folder, jury_up(Path(folder) / "store", free_port()) as up:
        prepare(up.store, Path(folder))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            take(browser, up, Path(folder))
            browser.close()


if __name__ == "__main__":
    main()
