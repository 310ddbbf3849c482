"""Stores with figures for people to label, and answer files as the label page's script saves them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from factories import RUN, picture
from PIL import Image
from written_datasets import encoded, figure_row, png, write_rows
from written_history import images, keep, pair
from written_images import write_geneval

from flows.cli import main
from tasks.labels.labeling import FORMAT
from tasks.ledger.labels import LABEL_PAGES, LabelItem, LabelPage, read_page
from tasks.records import Judgment, Outcome
from tasks.rubrics.rubric import load_rubric

COUNTING = "20261118T120000-counting-0000cc"

rubric = cache(load_rubric)


def figures_store(store: Path, number: int = 40, run_id: str = RUN, **changes: Any) -> Path:
    """Store one evaluation of `number` pairs, won by Model and Human in turn; dataset `data` is beside the store."""
    data = store.parent / "data"
    for folder in (data, data / "out"):
        folder.mkdir(exist_ok=True)
    manifest, rows = list[dict[str, object]](), list[Judgment | Outcome]()
    for at in range(number):
        files = {"human": f"{at}.png", "model": f"out/{at}.png"}
        for side, name in enumerate(files.values()):
            (data / name).write_bytes(encoded(Image.new("RGB", (48, 30), (at, 100 * side, 200))))
        texts = {"context": f"Method no. {at}.", "caption": f"Overview no. {at}."}
        manifest.append(
            figure_row(0, **texts, id=f"secret-{at:03}", human_image=files["human"], model_image=files["model"])
        )
        verdicts = ("MMMM", "Model") if at % 2 else ("HHHH", "Human")
        shown = {role: (data / name).read_bytes() for role, name in files.items()}
        rows += as_read(pair(f"secret-{at:03}", *verdicts, caption=texts["caption"]), "diagram", texts, shown)
    parameters = {"dataset": str(write_rows(data / "alpha.jsonl", manifest))}
    keep(store, run_id, rows, samples=number, parameters=parameters, **changes)
    return store


def images_store(store: Path) -> Path:
    """Store one evaluation of two images of one prompt."""
    prompt = {"tag": "counting", "include": [{"class": "clock", "count": 2}], "prompt": "a photo of two clocks"}
    parameters = {"threshold": 7.0, "dataset": str(write_geneval(store.parent / "images", [prompt], 2, ["alpha"]))}
    rows = [
        row
        for at, sample_id in enumerate(("00000/0000", "00000/0001"))
        for row in as_read(
            [each for each in images() if each.sample_id == sample_id],
            "counting",
            {"prompt": str(prompt["prompt"])},
            {"image": png(at)},
        )
    ]
    counting = {"flow": "counting", "parameters": parameters, "dimensions": ("counting",)}
    keep(store, COUNTING, rows, started_at="2026-11-18T12:00:00+00:00", **counting)
    return store


def as_read(
    rows: Iterable[Judgment | Outcome], flow: str, texts: Mapping[str, str], shown: Mapping[str, bytes]
) -> Iterator[Judgment | Outcome]:
    """Yield rows about one sample with the hashes of the texts and pictures that the run read."""
    pictures = {
        role: picture(role).model_copy(update={"source_sha256": sha256(data).hexdigest()})
        for role, data in shown.items()
    }
    for row in rows:
        new: dict[str, Any] = {"pictures": pictures}
        if isinstance(row, Judgment):
            inputs = rubric(flow).prompt(row.dimension).inputs
            each = (sha256(texts[name].encode()).hexdigest() for name in inputs if name in texts)
            new["text_sha256"] = sha256("".join(each).encode()).hexdigest()
        yield row.model_copy(update=new)


def make_page(store: Path, target: Path, *options: str, run: str = RUN) -> LabelPage:
    """Write a label page with the command and return it as the store keeps it."""
    before = {*(store / LABEL_PAGES).glob("*.json")}
    assert main(["labels", "page", run, *options, "-o", str(target), "--store", str(store)]) == 0
    [new] = {*(store / LABEL_PAGES).glob("*.json")} - before
    return read_page(store, new.stem)


def save_answers(
    page: LabelPage,
    target: Path,
    say: Callable[[LabelItem, str], str],
    name: str = "reader-1",
    number: int | None = None,
) -> Path:
    """Write the file that the page saves after these answers to its first items; empty answers are left out."""
    rows = []
    for item in page.items[:number]:
        for question in page.questions[item.tag]:
            if answer := say(item, question):
                rows.append({"item": item.token, "question": question, "answer": answer, "comment": ""})
    target.write_text(json.dumps({"format": FORMAT, "page": page.page_id, "name": name, "answers": rows}))
    return target


def prefer(role: str) -> Callable[[LabelItem, str], str]:
    """Return the answers of a person who always prefers the picture of one role."""
    return lambda item, _: "left" if item.left == role else "right"
