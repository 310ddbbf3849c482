"""The drawn text-to-image samples: a dataset in GenEval's layout with known defects, to try a judge on.

Owns the files of such a dataset, its labels, and whether a judge noticed what was put in. The scenes stand in `scenes`,
what is put wrong in them in `scene_defects`, the prompts in `image_prompts`.
"""

import io
import json
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any, cast

from PIL import Image

from tasks.errors import InputError
from tasks.files import read_regular, write_whole
from tasks.synthetic.image_prompts import MOST_PROMPTS, TAGS, ImagePrompt, image_prompt
from tasks.synthetic.scene_defects import CLEAN_SCENE, KINDS, SCENE_DEFECTS, spoilt_scene
from tasks.synthetic.scenes import random_scene

IMAGE_LABELS = "labels.json"
METADATA = "evaluation_metadata.jsonl"
CANDIDATES = ("steady", "careless")
IMAGES_PER_PROMPT = 2
_STEADY_FAULT = 5, 8
"""Of so many images in a row, the one of the steady candidate that has a defect, counted from 0."""


def draw_images(
    root: Path, prompts_per_tag: int = 4, images_per_prompt: int = IMAGES_PER_PROMPT, seed: int = 7
) -> None:
    """Draw the images of two candidates, one of which makes few mistakes and one many, for all six tags.

    Writes `evaluation_metadata.jsonl`, `<candidate>/<prompt>/metadata.jsonl`, `<candidate>/<prompt>/samples/` and
    `labels.json` (`<candidate>/<prompt>/<image>` -> kind) under `root`, over what is there. The same seed gives the
    same bytes, and larger numbers only add prompts and images.

    Raises:
        InputError: a number of prompts or images that cannot be drawn.
    """
    check_prompts(prompts_per_tag, images_per_prompt)
    # Tags take turns, so that more prompts add lines and folders at the end.
    prompts = [image_prompt(tag, number, seed) for number in range(prompts_per_tag) for tag in TAGS]
    labels: dict[str, str] = {}
    for candidate in CANDIDATES:
        for line, prompt in enumerate(prompts):
            folder = root / candidate / f"{line:05d}"
            kinds = [_kind(candidate, prompt.tag, 2 * (line // len(TAGS)) + n) for n in range(images_per_prompt)]
            _draw_prompt(folder, prompt, kinds, seed)
            labels |= {f"{candidate}/{folder.name}/{number:04d}": kind for number, kind in enumerate(kinds)}
    write_whole(root / IMAGE_LABELS, json.dumps(labels, indent=1).encode())
    write_whole(root / METADATA, b"".join(map(_json_line, prompts)))


def check_prompts(prompts_per_tag: int, images_per_prompt: int = IMAGES_PER_PROMPT) -> None:
    """Raise InputError where so many cannot be drawn."""
    if not (1 <= prompts_per_tag <= MOST_PROMPTS and images_per_prompt >= 1):
        raise InputError(
            f"{prompts_per_tag} prompts a tag with {images_per_prompt} images each cannot be drawn; "
            f"allowed are 1 to {MOST_PROMPTS} prompts and at least 1 image"
        )


def read_image_labels(root: Path) -> dict[str, str]:
    """`<candidate>/<prompt>/<image>` -> kind, from `labels.json` in the dataset; empty where there is none.

    Other datasets may hold a file of that name with another meaning: kinds that are not ours are left out.
    """
    return read_kinds(root / IMAGE_LABELS, SCENE_DEFECTS | {CLEAN_SCENE})


LARGEST = 100_000_000
"""Bytes of a file of labels."""


def read_kinds(path: Path, known: Collection[str]) -> dict[str, str]:
    """Name -> kind from a file of labels; empty where there is no such file, or it is none of ours."""
    try:
        labels: Any = json.loads(read_regular(path, LARGEST, follow_link=True)) if path.is_file() else {}
    except (ValueError, RecursionError):  # whatever the bytes are: JSON, UTF-8 or neither
        return {}
    found = cast(dict[str, Any], labels if isinstance(labels, dict) else {})
    return {name: kind for name, kind in found.items() if isinstance(kind, str) and kind in known}


def noticed(kind: str, score: float | None, threshold: float) -> bool | None:
    """Whether a judge's overall score shows that it saw what was put into an image.

    A defect is noticed by a score below the threshold, a clean image by one that is not. None when that cannot be
    said: the kind is none of ours, or there is no score.
    """
    if score is None or kind not in SCENE_DEFECTS | {CLEAN_SCENE}:
        return None
    return (score >= threshold) == (kind == CLEAN_SCENE)


def _draw_prompt(folder: Path, prompt: ImagePrompt, kinds: list[str], seed: int) -> None:
    """Write the images of one prompt by one candidate, each with what is put into it."""
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    write_whole(folder / "metadata.jsonl", _json_line(prompt))
    for number, kind in enumerate(kinds):
        random = Random(f"{seed} {folder.parent.name} {folder.name} {number}")
        scene = spoilt_scene(random_scene(prompt.required, random), kind, random)
        write_whole(folder / "samples" / f"{number:04d}.png", _png(scene.draw()))


def _kind(candidate: str, tag: str, number: int) -> str:
    """What is put into an image of a tag; `number` counts so that two images a prompt go through all kinds."""
    kinds = KINDS[tag]
    if candidate == "careless":
        return (*kinds, CLEAN_SCENE)[number % (len(kinds) + 1)]
    turn, place = divmod(number, _STEADY_FAULT[1])
    return kinds[turn % len(kinds)] if place == _STEADY_FAULT[0] else CLEAN_SCENE


def _json_line(prompt: ImagePrompt) -> bytes:
    return json.dumps(prompt.row()).encode() + b"\n"


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=4)
    return buffer.getvalue()
