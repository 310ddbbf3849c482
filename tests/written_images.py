"""Text-to-image datasets written to disk for tests: GenEval's folders, and manifests of images."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from written_datasets import png, write_rows

_png = cache(png)
LIST = "evaluation_metadata.jsonl"
Rows = Sequence[dict[str, object]]


def prompt_row(name: str = "bench", tag: str = "single_object", **changes: object) -> dict[str, object]:
    """Return one prompt as GenEval writes it."""
    return {"tag": tag, "include": [{"class": name, "count": 1}], "prompt": f"a photo of a {name}"} | changes


def write_geneval(
    root: Path, rows: Rows, images_per_prompt: int = 2, candidates: Sequence[str] = ("a",), *, with_list: bool = True
) -> Path:
    """Write the list of prompts, and every candidate's folders with tiny images; without candidates, `root` is the only
    one.

    The shade of an image is its number in the prompt's folder.
    """
    root.mkdir(parents=True, exist_ok=True)
    if with_list:
        write_rows(root / LIST, rows)
    names = [f"{image:04}.png" for image in range(images_per_prompt)]
    for candidate in candidates or [""]:
        for number, row in enumerate(rows):
            write_prompt(root / candidate / f"{number:05}", row, names)
    return root


def write_prompt(folder: Path, row: dict[str, object], images: Sequence[str]) -> Path:
    """Write one prompt's folder, with its row and images of these names."""
    samples = folder / "samples"
    samples.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.jsonl").write_text(json.dumps(row), encoding="utf-8")
    for shade, name in enumerate(images):
        (samples / name).write_bytes(_png(shade))
    return folder


def image_row(number: int, **changes: object) -> dict[str, object]:
    """Return a row of a manifest for an image that exists for the numbers 0 to 3."""
    row: dict[str, object] = {"id": f"i{number}", "tag": "colors", "prompt": "a photo of a red car"}
    return row | {"image": f"out/{number}.png"} | changes


def write_manifest(path: Path, rows: Rows) -> Path:
    """Write the rows in the format of the suffix, beside images 0 to 3."""
    (path.parent / "out").mkdir(parents=True, exist_ok=True)
    for number in range(4):
        (path.parent / "out" / f"{number}.png").write_bytes(_png(number))
    return write_rows(path, rows)
