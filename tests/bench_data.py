"""Datasets of the benchmarks: files like those of plotting libraries and image generators, drawn from a seed."""

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

PROMPTS = 553
DRAWN = 32
"""Pictures that differ in more than a comment; few, as drawing takes longer than judging."""
WORDS = 3000


def figure(rng: np.random.Generator, file_format: str) -> bytes:
    """Draw a figure: boxes on a textured background; about 125 KB as JPEG, about 275 KB as PNG.

    Args:
        file_format: JPEG, PNG, or RGBA for a PNG with an opaque alpha channel.
    """
    size = (1400, 500) if file_format == "JPEG" else (1200, 800)
    if file_format == "JPEG":
        ground = rng.normal(238, 10, (size[1], size[0], 3))
    else:
        ground = np.repeat(rng.normal(238, 6, (size[1], size[0] // 10, 3)), 10, axis=1)
    image = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for _ in range(24):
        x, y = int(rng.integers(0, size[0] - 160)), int(rng.integers(0, size[1] - 70))
        color = tuple(int(value) for value in rng.integers(90, 230, 3))
        pen.rectangle((x, y, x + 150, y + 60), fill=color, outline="black", width=2)
        pen.text((x + 10, y + 20), "Encoder block", fill="black")
    return _encode(image, file_format)


def photograph(rng: np.random.Generator) -> bytes:
    """Draw a PNG of 1024 x 1024 pixels and about 1.5 MB: soft shapes and fine grain."""
    side, pixels = 1024, np.full((1024, 1024, 3), 128.0)
    for cells, spread in ((16, 60), (64, 30), (256, 8)):
        grid = np.clip(rng.normal(128, spread, (cells, cells, 3)), 0, 255).astype(np.uint8)
        pixels += np.asarray(Image.fromarray(grid).resize((side, side), Image.Resampling.BICUBIC), float) - 128
    return _encode(Image.fromarray(np.clip(pixels + rng.normal(0, 0.62, pixels.shape), 0, 255).astype(np.uint8)), "PNG")


def _encode(image: Image.Image, file_format: str) -> bytes:
    buffer = BytesIO()
    if file_format == "RGBA":
        image.convert("RGBA").save(buffer, "PNG")
    else:
        image.save(buffer, file_format, quality=82)
    return buffer.getvalue()


def _vary(pictures: list[bytes]) -> Iterator[bytes]:
    """Yield these pictures in turn for ever, each with another comment in its file."""
    number = 0
    while True:
        yield _add_comment(pictures[number % len(pictures)], f"{number:06d}".encode())
        number += 1


def _add_comment(data: bytes, words: bytes) -> bytes:
    if data.startswith(b"\xff\xd8"):
        return data[:2] + b"\xff\xfe" + (len(words) + 2).to_bytes(2, "big") + words + data[2:]
    body = b"tEXt" + b"Comment\0" + words
    return data[:33] + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)) + data[33:]


def draw_pairs(
    root: Path,
    pairs: int,
    file_format: str,
    words: int = WORDS,
    draw: Callable[[np.random.Generator, str], bytes] = figure,
) -> None:
    """Write a PaperBananaBench folder of figures and a folder of Model figures; no two files are equal."""
    human, model = root / "diagram" / "images", root / "model"
    human.mkdir(parents=True)
    model.mkdir()
    rng = np.random.default_rng(1)
    pictures = _vary([draw(rng, file_format) for _ in range(min(DRAWN, 2 * pairs))])
    suffix = ".jpg" if file_format == "JPEG" else ".png"
    for n in range(pairs):
        for folder in (human, model):
            (folder / f"s{n}{suffix}").write_bytes(next(pictures))
    (root / "diagram" / "test.json").write_text(json.dumps([_record(n, suffix, words) for n in range(pairs)]))


def draw_images(root: Path, images: int, file_format: str) -> None:
    """Write a GenEval folder of one candidate, with equally many images for each of 553 prompts."""
    rng = np.random.default_rng(2)
    png = file_format == "PNG"
    pictures = _vary([photograph(rng) if png else figure(rng, file_format) for _ in range(DRAWN)])
    suffix = ".png" if png else ".jpg"
    row = {"tag": "counting", "include": [{"class": "clock", "count": 2}]}
    lines = [json.dumps(row | {"prompt": f"a photo of two clocks, number {n}"}) + "\n" for n in range(PROMPTS)]
    (root / "images").mkdir(parents=True)
    (root / "evaluation_metadata.jsonl").write_text("".join(lines))
    for number in range(images):
        prompt, image = divmod(number, images // PROMPTS)
        folder = root / "images" / f"{prompt:05d}"
        (folder / "samples").mkdir(parents=True, exist_ok=True)
        (folder / "metadata.jsonl").write_text(lines[prompt])
        (folder / "samples" / f"{image:04d}{suffix}").write_bytes(next(pictures))


def draw_checklists(root: Path, prompts: int, images: int, checks: int) -> None:
    """Write a manifest: `prompts` with `images` JPEG files each, and `checks` questions in all, each expecting yes."""
    rng = np.random.default_rng(3)
    pictures = _vary([figure(rng, "JPEG") for _ in range(DRAWN)])
    root.mkdir(parents=True)
    lines: list[str] = []
    for prompt in range(prompts):
        numbers = range(prompt, checks, prompts)
        asked = [{"id": f"c{n}", "question": f"Is thing {n} in the picture?", "expected": "yes"} for n in numbers]
        for image in range(images):
            name = f"p{prompt}_{image}"
            (root / f"{name}.jpg").write_bytes(next(pictures))
            words = {"id": name, "prompt_id": f"p{prompt}", "prompt": f"things, number {prompt}", "candidate": "kiln"}
            lines.append(json.dumps({**words, "image": f"{name}.jpg", "checks": asked}))
    (root / "checks.jsonl").write_text("\n".join(lines))


def _record(n: int, suffix: str, words: int) -> dict[str, Any]:
    known = ("module", "attends", "to", "the", "encoded", "state", "of", "each", "token")
    return {
        "id": f"s{n}", "content": " ".join(random.Random(n).choices(known, k=words)),
        "visual_intent": f"Overview {n} of the method: an encoder feeds a decoder through attention.",
        "path_to_gt_image": f"images/s{n}{suffix}", "category": ("agent", "vision", "science")[n % 3],
    }  # fmt: skip
