"""The prompts of the drawn text-to-image samples, worded as GenEval words its own and asking for drawn shapes."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tasks.records import Requirement
from tasks.synthetic.prompt_words import COLORS, RELATIONS, prompt_text
from tasks.synthetic.shapes import SHAPES

TAGS = ("single_object", "two_object", "counting", "colors", "position", "color_attr")
"""GenEval's categories."""
MOST_PROMPTS = len(SHAPES)
"""Prompts that a category has at most: the first object of each is another one."""


class ImagePrompt(NamedTuple):
    """A prompt and what an image of it must and must not have."""

    tag: str
    required: tuple[Requirement, ...]

    @property
    def relation(self) -> str:
        """How the second object lies to the first; empty: anyhow."""
        return self.required[-1].relation

    def row(self) -> dict[str, object]:
        """The prompt's line in GenEval's `evaluation_metadata.jsonl`."""
        exclude = [{"class": one.name, "count": one.count + 1} for one in self.required if self.tag == "counting"]
        return {
            "tag": self.tag,
            "include": [_entry(one) for one in self.required],
            **({"exclude": exclude} if exclude else {}),
            "prompt": prompt_text(self.required),
        }


def image_prompt(tag: str, number: int, seed: int) -> ImagePrompt:
    """The prompt with this number, below `MOST_PROMPTS`, of a category; no two of one seed are the same."""
    first = Random(f"{seed} {tag}").sample(SHAPES, MOST_PROMPTS)[number]
    random = Random(f"{seed} {tag} {number}")
    other = random.choice([shape for shape in SHAPES if shape != first])
    return ImagePrompt(tag, _REQUIRED[tag](random, first, other))


def _entry(one: Requirement) -> dict[str, object]:
    entry: dict[str, object] = {"class": one.name, "count": one.count}
    if one.color:
        entry["color"] = one.color
    if one.relation:
        entry["position"] = [one.relation, one.target]
    return entry


def _counted(random: Random, first: str, _: str) -> tuple[Requirement, ...]:
    return (Requirement(name=first, count=random.choice((2, 3, 4))),)


def _colored(random: Random, *names: str) -> tuple[Requirement, ...]:
    colors = random.sample(COLORS, len(names))
    return tuple(Requirement(name=name, color=color) for name, color in zip(names, colors, strict=True))


def _placed(random: Random, first: str, other: str) -> tuple[Requirement, ...]:
    return Requirement(name=other), Requirement(name=first, relation=random.choice(RELATIONS), target=0)


_REQUIRED: dict[str, Callable[[Random, str, str], tuple[Requirement, ...]]] = {
    "single_object": lambda _, first, __: (Requirement(name=first),),
    "two_object": lambda _, first, other: (Requirement(name=first), Requirement(name=other)),
    "counting": _counted,
    "colors": lambda random, first, _: _colored(random, first),
    "position": _placed,
    "color_attr": _colored,
}
