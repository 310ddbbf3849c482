"""Datasets written to disk for tests: a PaperBananaBench folder, and a generator's results for it."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image


def png(shade: int) -> bytes:
    """Return a small grey picture; different shades give different bytes."""
    return encoded(Image.new("L", (4, 4), shade))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def inline(shade: int) -> str:
    """Return the same picture in base64, as in result files."""
    return base64.b64encode(png(shade)).decode()


def record(number: int, **changes: object) -> dict[str, object]:
    """Return a sample of the benchmark; its Human picture has the shade of its number."""
    return {
        "id": f"test_{number}",
        "content": f"method {number}",
        "visual_intent": f"caption {number}",
        "path_to_gt_image": f"images/{number}.png",
        "category": ("agent", "vision")[number % 2],
        "difficulty": ("easy", "hard")[number // 2 % 2],
    } | changes


def result(number: int, **changes: object) -> dict[str, object]:
    """Return the same sample with a generator's picture, which it names."""
    key = "target_diagram_critic_desc0_base64_jpg"
    return record(number) | {"eval_image_field": key, key: inline(100 + number)} | changes


def figure_row(number: int, **changes: object) -> dict[str, object]:
    """Return a row of a manifest of figures."""
    texts = {"context": f"context {number}", "caption": f"caption {number}"}
    pictures = {"human_image": "human.png", "model_image": f"out/{number}.png"}
    return {"id": f"s{number}", "task": "diagram", **texts, **pictures} | changes


def write_json(path: Path, value: object) -> Path:
    """Write a JSON file; create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def write_rows(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    """Write the rows of a file in the format of the suffix; create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pl.DataFrame(rows).write_csv(path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def write_checklist(folder: Path, checks: Sequence[object], pictures: int, **row: object) -> Path:
    """Write a manifest of so many pictures, each with these checks."""
    folder.mkdir(exist_ok=True)
    for number in range(pictures):
        (folder / f"{number}.png").write_bytes(png(number))
    named = ({"id": f"s{n}", "prompt": f"cups {n}", "image": f"{n}.png", "checks": checks} for n in range(pictures))
    return write_rows(folder / "cups.jsonl", [each | row for each in named])


def write_benchmark(root: Path, records: Sequence[object], flow: str = "diagram", split: str = "test") -> Path:
    """Write a PaperBananaBench folder with these records, and Human pictures 0 to 9."""
    write_json(root / flow / f"{split}.json", records)
    images = root / flow / "images"
    images.mkdir(exist_ok=True)
    for number in range(10):
        (images / f"{number}.png").write_bytes(png(number))
    return root


def write_figures(root: Path, samples: int = 4) -> list[str]:
    """Write this number of records and their results; return the options for `jury run diagram`."""
    write_benchmark(root, [record(number) for number in range(samples)])
    results = write_json(root / "results.json", [result(number) for number in range(samples)])
    return ["--dataset", str(root), "--results", str(results)]


def write_two_stages(root: Path) -> Path:
    """Write a folder of four samples, and results of two stages in another order."""
    write_benchmark(root, [record(n) for n in range(4)])
    records = [result(n, vanilla_diagram_base64_jpg=inline(n)) for n in (3, 1, 0, 2)]
    write_json(root / "results" / "diagram.json", records)
    return root
