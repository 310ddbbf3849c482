"""Drawn samples: figures and images with known defects, and datasets of them, made from a seed."""

import base64
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from PIL import Image, ImageOps

from tasks.demo.canvas import (
    INK,
    LINE,
    NEON,
    PAINTS,
    PALETTES,
    SHAPES,
    Area,
    Canvas,
    Palette,
    Point,
    encode,
    paste_shape,
)
from tasks.demo.defects import CHECKED, CLEAN, CLEAN_SCENE, FORFEIT, IN_HUMAN, LABELS, SCENE_DEFECTS
from tasks.errors import InputError
from tasks.files import write_whole
from tasks.records import Requirement, entries
from tasks.records.parameters import CHECKLIST, T2I

DIAGRAM_SIZE, PLOT_SIZE = (720, 400), (700, 420)
MARGIN = 16  # of a diagram
GRIDS = ((3, 2), (4, 2), (2, 3), (2, 4))
"""Columns and rows of the boxes of a diagram."""
FRAME = Area(60, 62, PLOT_SIZE[0] - 24, PLOT_SIZE[1] - 52)  # of the data in a plot
FADED = 0.8
"""Share of white in a picture of low contrast."""
SQUARE = 6
"""Side of the squares of a pixelated picture, in pixels."""

TOPICS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("topics.toml").read_text(encoding="utf-8"))
"""Words of all figures."""

BOXES, ARROWS = "How many boxes does the diagram have?", "How many arrows does the diagram have?"
DIAGRAM_QUESTIONS = {
    BOXES: "boxes",
    "How many boxes are in the top row?": "boxes",
    ARROWS: "arrows",
    "Does an arrow in the bottom row point to the right?": "arrows",
    "Is the paper black?": "paper",
}
"""Question about a diagram -> group of its check. Images have shapes named box and arrow; no question is about both."""


def diagram_answers(boxes: int, top_row: int, arrows: int, *holds: bool) -> dict[str, str]:
    """Return each question in `DIAGRAM_QUESTIONS` with its answer; `holds` answers those for yes or no."""
    answers = (boxes, top_row, arrows, *("yes" if each else "no" for each in holds))
    return dict(zip(DIAGRAM_QUESTIONS, map(str, answers), strict=True))


@dataclass(frozen=True)
class Diagram:
    """Rows of boxes that a chain of arrows links."""

    category: str
    name: str
    task: str
    labels: tuple[str, ...]
    columns: int
    palette: Palette
    font_size: int

    def content(self) -> str:
        """Return a method section that describes the drawing, in Markdown."""
        return (
            f"## 3 Method\n\n{self.name} {self.task}. It consists of {', '.join(self.labels[:-1])} and "
            f"{self.labels[-1]}.\n\nEach module hands its result to the next, in the order given here."
        )

    def intent(self) -> str:
        """Return the caption."""
        return f"Overview of {self.name}, which {self.task}: from {self.labels[0]} to {self.labels[-1]}."

    def relabel(self, change: Callable[[str], str]) -> "Diagram":
        """Return the diagram with the label of every box changed."""
        return replace(self, labels=tuple(map(change, self.labels)))

    def misstate(self) -> "Diagram":
        """Return the diagram of the method that runs backwards."""
        return replace(self, labels=self.labels[::-1])

    def answers(self) -> dict[str, str]:
        """Return each question about a diagram with its answer."""
        boxes = len(self.labels)
        return diagram_answers(boxes, self.columns, boxes - 1, boxes // self.columns % 2 == 1, False)

    def draw(self) -> Image.Image:
        """Return the picture."""
        canvas = Canvas(*DIAGRAM_SIZE, "#ffffff")
        boxes: list[Area] = []
        for row in Area(0, 0, *DIAGRAM_SIZE).shrink(MARGIN, MARGIN).rows(len(self.labels) // self.columns, gap=34):
            cells = row.columns(self.columns, gap=48)
            # Every second row runs backwards, so that the step to the next row is short.
            boxes += reversed(cells) if len(boxes) // self.columns % 2 else cells
        for one, other in pairwise(boxes):
            canvas.arrow(*_between(one, other), LINE)
        for number, (box, label) in enumerate(zip(boxes, self.labels, strict=True)):
            tone = self.palette[number // self.columns]
            canvas.box(box, tone.fill, tone.edge, radius=8)
            canvas.block(box.shrink(8, 4), label, self.font_size)
        return canvas.finish()


def _between(start: Area, end: Area) -> tuple[Point, Point]:
    """Return the two ends of an arrow from box to box."""
    (x1, y1), (x2, y2) = start.center, end.center
    if abs(x1 - x2) > 1:
        return ((start.right, y1), (end.left, y2)) if x1 < x2 else ((start.left, y1), (end.right, y2))
    return ((x1, start.bottom), (x2, end.top)) if y1 < y2 else ((x1, start.top), (x2, end.bottom))


@dataclass(frozen=True)
class Plot:
    """Grouped bars of values from 0 to 100."""

    category: str
    """Label of the horizontal axis."""
    y_label: str
    categories: tuple[str, ...]
    series: dict[str, tuple[float, ...]]
    """Legend entry -> value for each category."""
    palette: Palette
    font_size: int

    def content(self) -> dict[str, object]:
        """Return the data drawn."""
        data = {name: dict(zip(self.categories, values, strict=True)) for name, values in self.series.items()}
        return {"x_axis": self.category, "y_axis": self.y_label, "data": data}

    def intent(self) -> str:
        """Return the brief description."""
        return f"A grouped bar chart of {self.y_label} by {self.category} for {', '.join(self.series)}."

    def relabel(self, change: Callable[[str], str]) -> "Plot":
        """Return the plot with legend, categories and axis labels changed."""
        series = {change(name): values for name, values in self.series.items()}
        categories = tuple(map(change, self.categories))
        labels = {"category": change(self.category), "y_label": change(self.y_label)}
        return replace(self, series=series, categories=categories, **labels)

    def misstate(self) -> "Plot":
        """Return the plot with the legend's names moved on by one: every series has the name of another."""
        first, *others = self.series
        return replace(self, series=dict(zip((*others, first), self.series.values(), strict=True)))

    def draw(self) -> Image.Image:
        """Return the picture."""
        canvas, rooms = Canvas(*PLOT_SIZE, "#ffffff"), FRAME.columns(len(self.categories))
        self._draw_axes(canvas, rooms)
        for number, values in enumerate(self.series.values()):
            color = self.palette[number].edge
            for room, value in zip(rooms, values, strict=True):
                bar = room.shrink((room.right - room.left) / 8, 0).columns(len(self.series), gap=3)[number]
                canvas.box(bar._replace(top=_y(value)), color, None)
        return canvas.finish()

    def _draw_axes(self, canvas: Canvas, rooms: list[Area]) -> None:
        size = self.font_size
        for value in (0, 25, 50, 75, 100):
            canvas.line(((FRAME.left, _y(value)), (FRAME.right, _y(value))), "#dce0e2", 1)
            canvas.text((FRAME.left - 8, _y(value)), str(value), size - 1, INK, "rm")
        for room, words in zip(rooms, self.categories, strict=True):
            canvas.block(Area(room.left, FRAME.bottom + 5, room.right, FRAME.bottom + 27), words, size - 1)
        canvas.line(((FRAME.left, FRAME.top), (FRAME.left, FRAME.bottom), (FRAME.right, FRAME.bottom)), LINE)
        canvas.text((FRAME.center[0], FRAME.bottom + 40), self.category, size, INK)
        canvas.text((8, FRAME.top - 20), self.y_label, size, INK, "lm")
        legend = Area(FRAME.left, 11, FRAME.right, 21).columns(len(self.series))
        for number, (entry, name) in enumerate(zip(legend, self.series, strict=True)):
            canvas.box(entry._replace(right=entry.left + 14), self.palette[number].edge, None)
            canvas.text((entry.left + 20, entry.center[1]), name, size, INK, "lm")


def _y(value: float) -> float:
    return FRAME.bottom - value / 100 * (FRAME.bottom - FRAME.top)


Figure: TypeAlias = Diagram | Plot


def random_diagram(random: Random) -> Diagram:
    """Return a diagram of one of the invented methods, in a layout and look chosen by `random`."""
    method, (columns, rows) = random.choice(TOPICS["methods"]), random.choice(GRIDS)
    words = method["category"], method["name"], method["task"], tuple(method["modules"][: columns * rows])
    return Diagram(*words, columns, random.choice(PALETTES), random.choice((14, 15, 16)))


def random_plot(random: Random) -> Plot:
    """Return a plot of one of the invented experiments, with numbers and look chosen by `random`."""
    experiment = random.choice(TOPICS["experiments"])
    words = experiment["x_label"], experiment["y_label"], tuple(experiment["categories"])
    names = random.sample(TOPICS["series"], random.choice((2, 3, 4)))
    series = {
        name: tuple(round(35 + 14 * rank + random.uniform(-9, 9), 1) for _ in experiment["categories"])
        for rank, name in enumerate(names)
    }
    return Plot(*words, series, random.choice(PALETTES), random.choice((13, 14, 15)))


NEW_FIGURE: dict[str, Callable[[Random], Figure]] = {"diagram": random_diagram, "plot": random_plot}


def spoil(kind: str, figure: Figure, random: Random) -> Image.Image:
    """Draw the figure as one of the kinds in `defects`, named without its `human_`."""
    if kind in _RETOUCHED:
        return _RETOUCHED[kind](figure.draw())
    return _REDRAWN[kind](figure, random).draw()


def _other(figure: Figure, random: Random) -> Figure:
    maker = random_diagram if isinstance(figure, Diagram) else random_plot
    while (other := maker(random)).category == figure.category or _parts(other) == _parts(figure):
        pass
    return other


def _parts(figure: Figure) -> tuple[int, int]:
    """Return two numbers that distinguish figures of one kind at first sight."""
    return (figure.columns, len(figure.labels)) if isinstance(figure, Diagram) else (len(figure.categories), 0)


def _pixelate(picture: Image.Image) -> Image.Image:
    coarse = picture.resize((picture.width // SQUARE, picture.height // SQUARE), Image.Resampling.BOX)
    return coarse.resize(picture.size, Image.Resampling.NEAREST)


def _add_margin(picture: Image.Image) -> Image.Image:
    sheet = Image.new("RGB", picture.size, "white")
    sheet.paste(picture.resize((picture.width * 5 // 8, picture.height * 5 // 8), Image.Resampling.LANCZOS))
    return sheet


_REDRAWN: dict[str, Callable[[Figure, Random], Figure]] = {
    "copy": lambda figure, _: figure,
    "restyled": lambda figure, random: replace(
        figure, palette=random.choice([palette for palette in PALETTES if palette != figure.palette])
    ),
    "other": _other,
    "garbled": lambda figure, random: figure.relabel(
        lambda label: " ".join("".join(random.sample(word, len(word))) for word in label.split())
    ),
    "reversed": lambda figure, _: figure.misstate(),
    "mislabeled": lambda figure, _: figure.misstate(),
    "overload": lambda figure, random: figure.relabel(lambda label: random.choice(TOPICS["sentences"]).format(label)),
    "tiny_text": lambda figure, _: replace(figure, font_size=5),
    "neon": lambda figure, _: replace(figure, palette=NEON),
}
_RETOUCHED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "black": ImageOps.invert,
    "low_contrast": lambda picture: Image.blend(picture, Image.new("RGB", picture.size, "white"), FADED),
    "pixelated": _pixelate,
    "margin": _add_margin,
}


COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
RELATIONS = ("left of", "right of", "above", "below")
"""Colors and relations of GenEval's prompts."""
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_OPENING = "a photo of "
_RELATION = re.compile(f" ({'|'.join(RELATIONS)}) ")

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
    row: dict[str, Any] = {"tag": tag, "include": entries(required)}
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
        return f"{_OPENING}{' and '.join(map(_phrase, required))}"
    return f"{_OPENING}{_phrase(placed)} {placed.relation} {_phrase(required[placed.target])}"


def read_prompt(text: str) -> tuple[Requirement, ...]:
    """Return the objects that a drawn image's prompt asks for, in GenEval's order: one that others relate to is first.

    Another prompt gives names of objects, too, though perhaps not all that it asks for.
    """
    plain = text.removeprefix(_OPENING)
    placed, relation, target = (*_RELATION.split(plain, maxsplit=1), "", "")[:3]
    if not target:
        return tuple(map(_requirement, plain.split(" and ")))
    return _requirement(target), _requirement(placed).model_copy(update={"relation": relation, "target": 0})


def _phrase(one: Requirement) -> str:
    words = f"{one.color} {one.name}".strip()
    return _with_article(words) if one.count == 1 else f"{NUMBERS[one.count - 1]} {plural(words)}"


def plural(name: str) -> str:
    """Return the plural of a drawn object's name."""
    return f"{name}{'es' if name.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def _requirement(phrase: str) -> Requirement:
    number, *words = phrase.split() or [""]
    count = NUMBERS.index(number) + 1 if number in NUMBERS else 1
    color = words.pop(0) if len(words) > 1 and words[0] in COLORS else ""
    name = " ".join(words)
    return Requirement(name=next((each for each in SHAPES if plural(each) == name), name), count=count, color=color)


GENERATED = "generated"
CHECKS = "checks.jsonl"
"""Manifest of drawn images or diagrams with their checks."""
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
        random = _random_of(flow, seed, number)
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


def _random_of(flow: str, seed: int, number: int) -> Random:
    return Random(f"{flow} {seed} {number}")


def draw_diagram_checks(root: Path, seed: int) -> Path:
    """Write `diagram/checks.jsonl`, with the checks of each figure of the drawn diagrams; return this manifest.

    Its candidates are `human` and `drawn`, whose pictures become files. `diagram/facts/labels.json` has the kind of a
    figure without a defect, or with one that some check is about. Samples without a Model figure are left out.
    """
    folder, rows, labels = root / "diagram", list[dict[str, Any]](), dict[str, str]()
    (folder / "drawn").mkdir(exist_ok=True)
    kinds = json.loads((folder / LABELS).read_text())
    for number, result in enumerate(json.loads((root / RESULTS / "diagram.json").read_text(encoding="utf-8"))):
        name, kind = result["id"], kinds[result["id"]]
        if kind in FORFEIT:
            continue
        asked = {"prompt": result["visual_intent"], "checks": _diagram_checks(_random_of("diagram", seed, number))}
        images = {"human": result["path_to_gt_image"], "drawn": f"drawn/{name}.jpg"}
        write_whole(folder / images["drawn"], base64.b64decode(result[result["eval_image_field"]]))
        spoilt = "" if kind in CLEAN else "human" if kind.startswith(IN_HUMAN) else "drawn"
        for candidate, image in images.items():
            rows.append({"id": name, "candidate": candidate, "category": result["category"], "image": image, **asked})
            labels[f"{candidate}/{name}"] = kind.removeprefix(IN_HUMAN) if candidate == spoilt else CLEAN_SCENE
    return _write_checks(folder, rows, labels)


def _diagram_checks(random: Random) -> list[dict[str, Any]]:
    return [
        {"id": f"{group} {number}", "question": question, "form": form, "expected": answer, "group": group}
        for number, (question, answer) in enumerate(random_diagram(random).answers().items(), 1)
        for group, form in [(DIAGRAM_QUESTIONS[question], "number" if answer.isdigit() else "yes_no")]
    ]


def draw_checks(root: Path, prompts_per_tag: int, seed: int = 7) -> Path:
    """Draw images, and write `checks.jsonl`: a row an image with the checks of its prompt; return this manifest.

    `facts/labels.json` has the kind of an image under its id in the manifest, if any check is about it.
    """
    draw_images(root, prompts_per_tag, seed)
    lines = (root / "evaluation_metadata.jsonl").read_text().splitlines()
    kinds = json.loads((root / LABELS).read_text())
    rows, labels = list[dict[str, Any]](), dict[str, str]()
    for candidate in CANDIDATES:
        for number, line in enumerate(lines):
            asked = json.loads(line)
            for picture in sorted((root / candidate / f"{number:05d}" / "samples").glob("*.png")):
                name = f"{number:05d}_{picture.stem}"
                labels[f"{candidate}/{name}"] = kinds[f"{candidate}/{number:05d}/{picture.stem}"]
                row = {"id": name, "prompt_id": f"{number:05d}", "candidate": candidate}
                place = {"category": asked["tag"], "image": picture.relative_to(root).as_posix()}
                rows.append({**row, **place, "prompt": asked["prompt"], "checks": [*_checks(asked)]})
    return _write_checks(root, rows, labels)


def _write_checks(root: Path, rows: list[dict[str, Any]], labels: dict[str, str]) -> Path:
    (root / "facts").mkdir(exist_ok=True)
    checked = {name: kind for name, kind in labels.items() if kind in CHECKED}
    write_whole(root / "facts" / LABELS, json.dumps(checked, indent=1).encode())
    write_whole(root / CHECKS, "".join(f"{json.dumps(row)}\n" for row in rows).encode())
    return root / CHECKS


def _checks(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the checks of a prompt, from its objects as GenEval lists them."""
    names = [each["class"] for each in asked["include"]]
    for number, each in enumerate(asked["include"], 1):
        name, parent = each["class"], f"object {number}"
        yield {"id": parent, "question": f"Is there {_with_article(name)}?", "expected": "yes", "group": "object"}
        counted = {"id": f"count {number}", "question": f"How many {plural(name)} are there?", "form": "number"}
        yield {**counted, "expected": each["count"], "group": "count", "parents": [parent]}
        if color := each.get("color"):
            others = (COLORS[(COLORS.index(color) + step) % len(COLORS)] for step in (1, 2, 3))
            options = dict(zip("ABCD", sorted({color, *others}), strict=True))
            [letter] = (letter for letter, words in options.items() if words == color)
            worded = {"id": f"color {number}", "question": f"What color is the {name}?", "form": "choice"}
            yield {**worded, "options": options, "expected": letter, "group": "color", "parents": [parent]}
        if position := each.get("position"):
            question = f"Is the {name} {position[0]} the {names[position[1]]}?"
            parents = [parent, f"object {position[1] + 1}"]
            yield {"id": "position", "question": question, "expected": "yes", "group": "position", "parents": parents}
    other = next(shape for shape in SHAPES if shape not in names)
    yield {"id": "nothing else", "question": f"Is there {_with_article(other)}?", "expected": "no", "group": "object"}


def checked_scene(tag: str, group: str, kind: str, random: Random) -> tuple[Scene, str]:
    """Return a scene of this kind for a random prompt of a tag, and the question of its first check in a group."""
    required = _required(tag, random.randrange(MOST_PROMPTS), random.getrandbits(32))
    scene = spoil_scene(random_scene(required, random), kind, random)
    return scene, next(check["question"] for check in _checks(_row(tag, required)) if check["group"] == group)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def draw_all(root: Path, count: int, prompts_per_tag: int, seed: int) -> None:
    """Draw `count` figures of either kind and, in `generated`, images of so many prompts a tag, with their checks.

    Raises InputError where the folder is not empty, or cannot be written to.
    """
    try:
        if root.is_dir() and any(root.iterdir()):
            raise InputError(f"{root} is not empty; samples are drawn into a new or empty folder")
        for flow in NEW_FIGURE:
            draw_samples(root, flow, count, seed)
        draw_diagram_checks(root, seed)
        draw_checks(root / GENERATED, prompts_per_tag, seed)
    except OSError as error:
        raise InputError(f"samples cannot be drawn into {root}: {error.strerror or error}") from error


def drawn_samples(root: Path, flow: str, figures: int = DRAWN_FIGURES, prompts: int = DRAWN_PROMPTS) -> Path:
    """Draw a flow's standard samples under `root` and return their folder. Smaller numbers give the first of them."""
    if flow in T2I:
        draw_images(root / GENERATED, prompts)
        return root / GENERATED
    if flow in CHECKLIST:
        return draw_checks(root / GENERATED, prompts)
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
