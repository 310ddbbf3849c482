"""Pages for readers who see only one screenshot, with the expected answers.

`make page-readings OUT=DIR` draws figures and images, judges them at a loopback judge that measures pixels and bills
tokens, and writes six pictures of 1,400 x 900 and `key.md`: the questions of each page, and the answers from the
history, independently of the pages. Needs Debian's `chromium`; takes about two minutes.
"""

import base64
import json
import sys
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, completion
from opened_page import chromium
from PIL import Image
from playwright.sync_api import sync_playwright
from served import command

from tasks.demo.pixel_judge import answer
from tasks.demo.samples import GENERATED
from tasks.history.queries import query

SAMPLES = 40
PRICES = ("--judge.price-in", "2", "--judge.price-out", "8")
QUESTIONS = {
    "run": "Which is better? Can I trust it? What did it cost? What should I look at?",
    "index": "For each flow: which is better? Can I trust it? What did it cost? What should I look at?",
    "comparison": "Which is better? What changed? Where?",
}
"""Questions by kind of page, each to be answered with the supporting words."""
TOPICS = {"figures": ("diagram", "plot"), "images": ("counting", "colors")}
"""Flows by topic; the run and the comparison shown are of the first one."""
PAIRS = {
    "diagram": ("diagram/critic0", "diagram/critic2"),
    "plot": ("plot/critic0", "plot/critic2"),
    "counting": ("careless", "steady"),
    "colors": ("careless", "steady"),
}
LOWEST = """
    SELECT sample_id, candidate, coalesce(aspect_mean, list_avg([each.score FOR each IN dimensions])) AS mean
    FROM outcomes WHERE run_id = $1 AND status = 'complete' ORDER BY mean, sample_id LIMIT 6"""


def jury(*arguments: object) -> str:
    """Run `jury` and return its output; exit code 3 only reports a missing figure."""
    done = command(*arguments)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return done.stdout + done.stderr


def measured(request: Request) -> Reply:
    """Return the reply of the embedded judge, billed as 1,200 tokens in and 80 out."""
    return completion(json.dumps(answer(request.raw)))


def draw(folder: Path) -> None:
    """Draw samples in two stages: for diagrams the early one is spoiled; for plots the mended stage alternates."""
    jury("demo", "--samples", folder, "--count", SAMPLES)
    for flow in TOPICS["figures"]:
        results = folder / "results" / f"{flow}.json"
        records: list[dict[str, Any]] = json.loads(results.read_bytes())
        for number, record in enumerate(records):
            key = record["eval_image_field"]
            human = (folder / flow / record["path_to_gt_image"]).read_bytes()
            drawn, mended = record.get(key), base64.b64encode(human).decode()
            early, late = (drawn, mended) if number % 2 else (mended, drawn)
            if flow == "diagram":
                early, late = (drawn if number % 3 else blackened(human)), mended
            record[key], record[key.replace("desc2", "desc0")] = late, early
        results.write_text(json.dumps(records))


def blackened(picture: bytes) -> str:
    """Return a black picture of the same size, in base64."""
    black = BytesIO()
    with Image.open(BytesIO(picture)) as opened:
        Image.new("RGB", opened.size).save(black, "JPEG")
    return base64.b64encode(black.getvalue()).decode()


def judge(out: Path, drawn: Path, loopback: LoopbackJudge) -> None:
    """Judge all flows once, a store a topic; counting gets controls, which the pixel judge fails."""
    asked = (*judged_by(loopback), *PRICES, "--reuse-hours", 0)
    stages = ("--stage", "critic0", "--stage", "critic2")
    figures = ("--dataset", drawn, *stages, "--store", out / "figures")
    jury("run", "diagram", *figures, "--orders", "both", "--controls", 0.4, *asked)
    jury("run", "plot", *figures, *asked)
    images = ("--dataset", drawn / GENERATED, "--store", out / "images")
    jury("run", "counting", *images, "--controls", 0.4, *asked)
    jury("run", "colors", *images, *asked)


def newest(store: Path, flow: str) -> str:
    """Return the id of the newest evaluation of a flow."""
    [[run]] = query(store, "SELECT max(run_id) FROM evaluations WHERE flow = $1", values=(flow,)).rows
    return run


@cache
def compared(store: Path, flow: str) -> list[str]:
    """Return the output of `jury compare` for the two candidates of a flow's newest evaluation."""
    named = (part for name in PAIRS[flow] for part in ("--candidate", name))
    return jury("compare", newest(store, flow), *named, "--store", store).splitlines()


def facts(store: Path, flow: str) -> str:
    """Return the answers for a flow's newest evaluation from the history."""
    run = newest(store, flow)
    controls = query(store, "SELECT measure, failed, n FROM control_rates WHERE run_id = $1", values=(run,)).rows
    [[price]] = query(store, "SELECT price FROM cost WHERE run_id = $1", values=(run,)).rows
    lowest = query(store, LOWEST, values=(run,)).rows
    better = next(line for line in compared(store, flow) if "at n = " in line)
    trust = ", ".join(f"{name}: {failed} of {n} failed" for name, failed, n in controls) or "no controls were asked"
    look = ", ".join(f"{sample} of {name} ({mean:.1f})" for sample, name, mean in lowest)
    return f"- {flow}: {better}\n- trust: {trust}\n- cost: {price:.4f} USD\n- lowest: {look}"


def key(out: Path) -> str:
    """Return questions and answers as Markdown."""
    lines = ["# Questions of the pages, with the answers by the history"]
    for topic, flows in TOPICS.items():
        answers = [facts(out / topic, flow) for flow in flows]
        changes = "\n".join(compared(out / topic, flows[0]))
        answers_by_kind = {"run": answers[0], "index": "\n\n".join(answers), "comparison": f"```\n{changes}\n```"}
        for kind, questions in QUESTIONS.items():
            lines += [f"## {kind}-{topic}.png", questions, answers_by_kind[kind]]
    return "\n\n".join(lines) + "\n"


def photograph(out: Path) -> None:
    """Write the first screen of each page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        for topic, (flow, _) in TOPICS.items():
            pages = out / topic / "pages"
            named = "\n".join(compared(out / topic, flow))
            [comparison] = [page for page in pages.glob("compare-*.html") if page.name in named]
            files = {"run": pages / f"{newest(out / topic, flow)}.html", "index": pages / "index.html"}
            for kind, file in {**files, "comparison": comparison}.items():
                tab.goto(file.as_uri())
                tab.wait_for_function("[...document.images].every(one => one.complete)")
                tab.screenshot(path=out / f"{kind}-{topic}.png")
        browser.close()


def main(out: Path) -> None:
    """Write pictures and key into a new folder."""
    out.mkdir(parents=True)
    with LoopbackJudge(measured, model="pixels-1") as loopback:
        draw(out / "drawn")
        judge(out, out / "drawn", loopback)
    (out / "key.md").write_text(key(out))
    photograph(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
