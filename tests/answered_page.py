"""Stores with figures to be shown to people, and saved files as a page's script makes them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from factories import RUN
from written_history import images, keep, pair

from flows.cli import main
from tasks.labels.labeling import FORMAT
from tasks.ledger.labels import LABEL_PAGES, LabelItem, LabelPage, read_page

COUNTING = "20261118T120000-counting-0000cc"


def figures_store(store: Path, number: int = 40, run_id: str = RUN, **changes: Any) -> Path:
    """One evaluation of so many pairs, judged Model and Human in turns."""
    rows = [
        row
        for at in range(number)
        for row in pair(
            f"secret-{at:03}",
            "MMMM" if at % 2 else "HHHH",
            "Model" if at % 2 else "Human",
            caption=f"Overview no. {at}.",
        )
    ]
    keep(store, run_id, rows, samples=number, **changes)
    return store


def images_store(store: Path) -> Path:
    """One evaluation of two images of one prompt."""
    counting = {"flow": "counting", "parameters": {"threshold": 7.0}, "dimensions": ("counting",)}
    keep(store, COUNTING, images(), started_at="2026-11-18T12:00:00+00:00", **counting)
    return store


def made_page(store: Path, target: Path, *options: str, run: str = RUN) -> LabelPage:
    """The page that the command writes, as the store keeps it."""
    before = {*(store / LABEL_PAGES).glob("*.json")}
    assert main(["labels", "page", run, *options, "-o", str(target), "--store", str(store)]) == 0
    [new] = {*(store / LABEL_PAGES).glob("*.json")} - before
    return read_page(store, new.stem)


def blind_text(page: Path) -> str:
    """All of a page that can be read, without the pictures."""
    return re.sub(r'(<script type="text/plain"[^>]*>)[^<]*', r"\1", page.read_text(encoding="utf-8"))


def saved(
    page: LabelPage,
    target: Path,
    say: Callable[[LabelItem, str], str],
    name: str = "reader-1",
    number: int | None = None,
) -> Path:
    """A file that the page would save after these answers to its first items; empty answers are left out."""
    rows = []
    for item in page.items[:number]:
        for question in page.questions[item.tag]:
            if answer := say(item, question):
                rows.append({"item": item.token, "question": question, "answer": answer, "comment": ""})
    target.write_text(json.dumps({"format": FORMAT, "page": page.page_id, "name": name, "answers": rows}))
    return target


def prefer(role: str) -> Callable[[LabelItem, str], str]:
    """A person to whom the pictures of one role are the better ones."""
    return lambda item, _: "left" if item.left == role else "right"
