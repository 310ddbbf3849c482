"""The drawn samples: datasets with known defects, made from a seed, to try a judge on."""

import base64
import json
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from tasks.demo.canvas import encode
from tasks.demo.figures import NEW_FIGURE, Figure, spoil
from tasks.demo.labels import FORFEIT, IN_HUMAN, LABELS
from tasks.demo.scenes import draw_images
from tasks.errors import InputError
from tasks.files import write_whole
from tasks.parameters import T2I

GENERATED = "generated"
DRAWN_FIGURES = 24
DRAWN_PROMPTS = 8
"""Prompts of each tag: the fewest for which means have intervals."""
EASY_INTENT = 100
"""Figures whose caption has fewer characters count as easy."""
RESULTS = "results"
HUMAN_FORMAT = {"diagram": ("jpg", "JPEG"), "plot": ("png", "PNG")}
"""Flow -> ending and format of the Human figures, one of each kind that datasets have."""

_OWN_KIND = {"diagram": "reversed", "plot": "mislabeled"}
_MIX = (
    *("copy", "black", "other", "pixelated", "overload", "restyled", "margin", "neon", "low_contrast", "tiny_text"),
    *("garbled", "human_pixelated", "null", "missing", "copy", "human_overload", "human_black", "other"),
    *("human_low_contrast", "restyled", "human_neon", "human_margin", "human_tiny_text"),
)
"""Kinds of the samples in order, after which they are repeated; each flow adds one kind that only it has."""


def draw_samples(root: Path, flow: str, count: int = DRAWN_FIGURES, seed: int = 7) -> None:
    """Draw a dataset in the layout of PaperBananaBench, with the results of a candidate and the labels of its defects.

    Writes `<flow>/test.json`, `<flow>/images/`, `<flow>/labels.json` (id -> kind) and `results/<flow>.json` under
    `root`, over earlier files. The same flow and seed give the same bytes, and a larger count only adds samples.
    """
    for folder in (root / flow / "images", root / RESULTS):
        folder.mkdir(parents=True, exist_ok=True)
    mix = (*_MIX, _OWN_KIND[flow])
    labels: dict[str, str] = {}
    records: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number in range(count):
        random = Random(f"{flow} {seed} {number}")
        figure, kind = NEW_FIGURE[flow](random), mix[number % len(mix)]
        good = figure.draw()
        bad = good if kind in FORFEIT else spoil(kind.removeprefix(IN_HUMAN), figure, random)
        human, model = (bad, good) if kind.startswith(IN_HUMAN) else (good, bad)
        record = _record(flow, f"test_{number}", figure, human)
        write_whole(root / flow / record["path_to_gt_image"], encode(human, HUMAN_FORMAT[flow][1]))
        records.append(record)
        results.append(record | _result(flow, kind, model))
        labels[record["id"]] = kind
    _write_json(root / flow / LABELS, labels)
    _write_json(root / RESULTS / f"{flow}.json", results)
    _write_json(root / flow / "test.json", records)


def draw_all(root: Path, count: int, prompts_per_tag: int, seed: int) -> None:
    """Draw `count` figures of either kind and, in `generated`, images of so many prompts for each tag.

    Raises InputError where the folder is not empty, or cannot be written to.
    """
    try:
        if root.is_dir() and any(root.iterdir()):
            raise InputError(f"{root} is not empty; samples are drawn into a new or empty folder")
        for flow in NEW_FIGURE:
            draw_samples(root, flow, count, seed)
        draw_images(root / GENERATED, prompts_per_tag, seed=seed)
    except OSError as error:
        raise InputError(f"samples cannot be drawn into {root}: {error.strerror or error}") from error


def drawn_samples(root: Path, flow: str, figures: int = DRAWN_FIGURES, prompts: int = DRAWN_PROMPTS) -> Path:
    """Draw a flow's standard samples under `root` and return their folder. Smaller numbers give the first of them."""
    if flow in T2I:
        draw_images(root / GENERATED, prompts)
        return root / GENERATED
    draw_samples(root, flow, figures)
    return root


def _record(flow: str, name: str, figure: Figure, human: Image.Image) -> dict[str, Any]:
    return {
        "id": name,
        "content": figure.content(),
        "visual_intent": figure.intent(),
        "path_to_gt_image": f"images/{name}.{HUMAN_FORMAT[flow][0]}",
        "category": figure.category,
        "difficulty": "easy" if len(figure.intent()) < EASY_INTENT else "hard",
        "split": "test",
        "additional_info": {"rounded_ratio": "16:9", "width": human.width, "height": human.height},
    }


def _result(flow: str, kind: str, model: Image.Image) -> dict[str, Any]:
    # As the generator names it: the third round of the critic, which encodes its pictures as JPEG.
    key = f"target_{flow}_critic_desc2_base64_jpg"
    if kind in FORFEIT:
        return {"eval_image_field": key} | ({key: None} if kind == "null" else {})
    return {"eval_image_field": key, key: base64.b64encode(encode(model, "JPEG")).decode("ascii")}


def _write_json(path: Path, value: object) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False).encode())
