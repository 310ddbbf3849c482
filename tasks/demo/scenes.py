"""Drawn images: a few plain shapes on a light ground, as prompts ask for them, and datasets of them with defects.

Prompts are written and read in GenEval's wording; others are read as far as they are worded alike.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from tasks.demo.canvas import PAINTS, SHAPES, Point, encode, paste_shape
from tasks.demo.labels import CLEAN_SCENE, LABELS, SCENE_DEFECTS
from tasks.files import write_whole
from tasks.records import Requirement

COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
RELATIONS = ("left of", "right of", "above", "below")
"""Colors and relations of GenEval's prompts."""
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_OPENING = re.compile(r"^(an?|the) (photo|picture|image|drawing|painting) of ")
_RELATION = re.compile(r"(?: (?:is|to the|on the))* (left of|right of|above|below) ")
_AND = re.compile(r" and |, ")
_COUNTS = {"a": 1, "an": 1, "the": 1, **{word: number for number, word in enumerate(NUMBERS, 1)}}
_DIGITS = re.compile(r"[0-9]{1,3}")
_PLURAL = re.compile(r"(?<=ss|.x|ch|sh)es$|(?<=\bbus)es$|s$")

SIDE = 384
"""Width and height of a scene, in pixels."""
LIGHT = ("#e8ecf0", "#efe9df", "#e4ede6", "#ebe6ef", "#e2e9f1", "#f0e8e6")
MIDDLE = ("#aeb7bf", "#b8b0a2", "#a6b3ab")
"""Darker grounds, on which white is distinct."""
_PLACES: dict[int, tuple[tuple[Point, ...], ...]] = {
    1: (((0.5, 0.5),),),
    2: (((0.27, 0.5), (0.73, 0.5)), ((0.5, 0.27), (0.5, 0.73)), ((0.28, 0.3), (0.72, 0.7))),
    3: (((0.5, 0.26), (0.25, 0.72), (0.75, 0.72)), ((0.2, 0.2), (0.5, 0.5), (0.8, 0.8))),
    4: (((0.27, 0.27), (0.73, 0.27), (0.27, 0.73), (0.73, 0.73)),),
    5: (((0.22, 0.22), (0.78, 0.22), (0.5, 0.5), (0.22, 0.78), (0.78, 0.78)),),
}
"""Number of shapes -> arrangements of their centers, as shares of the picture. None touch."""
_SIZES = {1: 0.46, 2: 0.35, 3: 0.28, 4: 0.27, 5: 0.23}
"""Number of shapes -> longer side of the largest, as a share of the picture."""
_SIDES: dict[str, tuple[Point, Point]] = {
    "left of": ((0.73, 0.5), (0.27, 0.5)),
    "right of": ((0.27, 0.5), (0.73, 0.5)),
    "above": ((0.5, 0.73), (0.5, 0.27)),
    "below": ((0.5, 0.27), (0.5, 0.73)),
}
"""Relation -> place of the reference object, and of the object placed relative to it."""
_JITTER = 7
_OVERLAP = 0.45
"""Distance of the nearest two overlapping shapes, as a share of their size."""


@dataclass(frozen=True)
class Thing:
    """One shape in a scene."""

    shape: str
    color: str
    """Name of one of the paints."""
    center: Point = (0, 0)
    size: float = 0


@dataclass(frozen=True)
class Scene:
    """The contents of one image, from the back to the front."""

    ground: str
    things: tuple[Thing, ...]

    def draw(self) -> Image.Image:
        """Return the picture, RGB."""
        sheet = Image.new("RGB", (SIDE, SIDE), self.ground)
        for thing in self.things:
            paste_shape(sheet, thing.shape, thing.center, thing.size, PAINTS[thing.color])
        return sheet


def random_scene(required: Sequence[Requirement], random: Random) -> Scene:
    """Return a scene with the objects required, their places, sizes and other colors chosen by `random`."""
    free = [color for color in PAINTS if color not in {one.color for one in required}]
    random.shuffle(free)
    things: list[Thing] = []
    for one in required:
        things += [Thing(one.name, one.color or free.pop())] * one.count
    ground = random.choice(MIDDLE if any(thing.color == "white" for thing in things) else LIGHT)
    relation = next((one.relation for one in required if one.relation), "")
    return _arrange(Scene(ground, tuple(things)), relation, random)


def spoil_scene(scene: Scene, kind: str, random: Random) -> Scene:
    """Return the scene with the defect of this kind; as it is where the kind is `clean`."""
    return scene if kind == CLEAN_SCENE else _CHANGES[kind](scene, random)


def _arrange(scene: Scene, relation: str, random: Random) -> Scene:
    """Return the scene with its shapes in their places, none of which touch."""
    count = len(scene.things)
    centers = _SIDES[relation] if relation and count == 2 else random.choice(_PLACES[count])
    size = _SIZES[count] * SIDE * random.uniform(0.9, 1)
    places = [tuple(value * SIDE + random.uniform(-_JITTER, _JITTER) for value in center) for center in centers]
    return _set(replace(scene, things=tuple(replace(thing, size=size) for thing in scene.things)), "center", places)


def _set(scene: Scene, field: str, values: Sequence[object]) -> Scene:
    """Return the scene with a field of each shape set."""
    things = zip(scene.things, values, strict=True)
    return replace(scene, things=tuple(replace(thing, **{field: value}) for thing, value in things))  # pyright: ignore


def _swap(scene: Scene, field: str) -> Scene:
    return _set(scene, field, [getattr(thing, field) for thing in reversed(scene.things)])


def _change_count(scene: Scene, random: Random) -> Scene:
    fewer, more = scene.things[1:], (*scene.things, scene.things[0])
    return _arrange(replace(scene, things=random.choice((fewer, more))), "", random)


def _change_color(scene: Scene, random: Random) -> Scene:
    # White hardly shows on the ground of colored shapes.
    colors = [thing.color for thing in scene.things]
    other = random.choice([color for color in PAINTS if color not in ("white", *colors)])
    return _set(scene, "color", [other, *colors[1:]])


def _overlap(scene: Scene, _: Random) -> Scene:
    centers = [thing.center for thing in scene.things]
    middle = [sum(axis) / len(centers) for axis in zip(*centers, strict=True)]
    pull = _OVERLAP * scene.things[0].size / min(math.dist(*two) for two in combinations(centers, 2))
    pulled = [tuple(m + pull * (value - m) for value, m in zip(center, middle, strict=True)) for center in centers]
    return _set(scene, "center", pulled)


_CHANGES: dict[str, Callable[[Scene, Random], Scene]] = {
    "absent": lambda scene, _: replace(scene, things=scene.things[1:]),
    "wrong_count": _change_count,
    "wrong_color": _change_color,
    "swapped_colors": lambda scene, _: _swap(scene, "color"),
    "mirrored": lambda scene, _: _swap(scene, "center"),
    "overlapping": _overlap,
}

TAGS = tuple(SCENE_DEFECTS)
MOST_PROMPTS = len(SHAPES)
"""Most prompts of a tag: each has another first object."""
CANDIDATES = ("steady", "careless")
"""A candidate with few mistakes, and one with many."""
IMAGES_PER_PROMPT = 2
_STEADY_FAULT = 5, 8
"""Index, counted from 0, of the steady candidate's image with a defect, and number of images in a row."""


def draw_images(root: Path, prompts_per_tag: int = 4, seed: int = 7) -> None:
    """Draw a dataset in GenEval's layout: the images of both candidates for all six tags.

    Writes `evaluation_metadata.jsonl`, `<candidate>/<prompt>/metadata.jsonl`, `<candidate>/<prompt>/samples/` and
    `labels.json` (`<candidate>/<prompt>/<image>` -> kind) under `root`, over earlier files. The same seed gives the
    same bytes, and a larger number only adds prompts. There are at most `MOST_PROMPTS`.
    """
    # Tags take turns, so that more prompts add lines and folders at the end.
    prompts = [(tag, _required(tag, number, seed)) for number in range(prompts_per_tag) for tag in TAGS]
    rows = [json.dumps(_row(*prompt)).encode() + b"\n" for prompt in prompts]
    labels: dict[str, str] = {}
    for candidate in CANDIDATES:
        for line, (tag, required) in enumerate(prompts):
            folder = root / candidate / f"{line:05d}"
            (folder / "samples").mkdir(parents=True, exist_ok=True)
            write_whole(folder / "metadata.jsonl", rows[line])
            for image in range(IMAGES_PER_PROMPT):
                kind = _kind(candidate, tag, IMAGES_PER_PROMPT * (line // len(TAGS)) + image)
                random = Random(f"{seed} {candidate} {folder.name} {image}")
                scene = spoil_scene(random_scene(required, random), kind, random)
                write_whole(folder / "samples" / f"{image:04d}.png", encode(scene.draw(), "PNG"))
                labels[f"{candidate}/{folder.name}/{image:04d}"] = kind
    write_whole(root / LABELS, json.dumps(labels, indent=1).encode())
    write_whole(root / "evaluation_metadata.jsonl", b"".join(rows))


def _required(tag: str, number: int, seed: int) -> tuple[Requirement, ...]:
    """Return the objects of a numbered prompt; no two of one seed are the same."""
    first = Random(f"{seed} {tag}").sample(SHAPES, MOST_PROMPTS)[number]
    random = Random(f"{seed} {tag} {number}")
    other = random.choice([shape for shape in SHAPES if shape != first])
    one, two = random.sample(COLORS, 2)
    required: dict[str, tuple[Requirement, ...]] = {
        "single_object": (Requirement(name=first),),
        "two_object": (Requirement(name=first), Requirement(name=other)),
        "counting": (Requirement(name=first, count=random.choice((2, 3, 4))),),
        "colors": (Requirement(name=first, color=one),),
        "position": (Requirement(name=other), Requirement(name=first, relation=random.choice(RELATIONS), target=0)),
        "color_attr": (Requirement(name=first, color=one), Requirement(name=other, color=two)),
    }
    return required[tag]


def _row(tag: str, required: Sequence[Requirement]) -> dict[str, Any]:
    """Return the prompt's line in GenEval's `evaluation_metadata.jsonl`."""
    row: dict[str, Any] = {"tag": tag, "include": [{"class": one.name, "count": one.count} for one in required]}
    for entry, one in zip(row["include"], required, strict=True):
        if one.color:
            entry["color"] = one.color
        if one.relation:
            entry["position"] = [one.relation, one.target]
    if tag == "counting":
        row["exclude"] = [{"class": one.name, "count": one.count + 1} for one in required]
    return row | {"prompt": prompt_text(required)}


def _kind(candidate: str, tag: str, number: int) -> str:
    """Return the kind of a numbered image of a tag; two images a prompt go through all kinds."""
    kinds = SCENE_DEFECTS[tag]
    if candidate == "careless":
        return (*kinds, CLEAN_SCENE)[number % (len(kinds) + 1)]
    turn, place = divmod(number, _STEADY_FAULT[1])
    return kinds[turn % len(kinds)] if place == _STEADY_FAULT[0] else CLEAN_SCENE


def prompt_text(required: Sequence[Requirement]) -> str:
    """Return the prompt for these objects. An object with a relation is named before the one it relates to."""
    placed = next((one for one in required if one.relation and one.target is not None), None)
    if placed is None or placed.target is None:
        return f"a photo of {' and '.join(map(_phrase, required))}"
    return f"a photo of {_phrase(placed)} {placed.relation} {_phrase(required[placed.target])}"


def read_prompt(text: str) -> tuple[Requirement, ...]:
    """Return the objects a prompt asks for, in GenEval's order: an object that others relate to comes first."""
    plain = _OPENING.sub("", " ".join(text.lower().split()).rstrip("."))
    placed, relation, target = (*_RELATION.split(f" {plain}", maxsplit=1), "", "")[:3]
    if not (placed.strip() and target):
        return tuple(one for phrase in _AND.split(plain) if (one := _requirement(phrase)).name)
    return _requirement(target), _requirement(placed).model_copy(update={"relation": relation, "target": 0})


def _phrase(one: Requirement) -> str:
    words = f"{one.color} {one.name}".strip()
    if one.count == 1:
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
    return f"{NUMBERS[one.count - 1]} {words}{'es' if words.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def _requirement(phrase: str) -> Requirement:
    words = phrase.split()
    number = words.pop(0) if words and (words[0] in _COUNTS or _DIGITS.fullmatch(words[0])) else "a"
    # The last word names the object, even a color's name: an orange is a fruit.
    color = words.pop(0) if len(words) > 1 and words[0] in COLORS else ""
    count = _COUNTS[number] if number in _COUNTS else int(number)
    name = " ".join(words)
    return Requirement(name=_PLURAL.sub("", name) if count > 1 else name, count=count, color=color)
