"""Judges of the passport's questions with known faults, on loopback: they answer by the pictures that are in a request.

Each looks its pictures up by their bytes in a key of what they show, as far as its fault lets it see them: colors are
measured in the pixels that it sees, and letters and faults only seen where the detail of the picture outlives its eye.
What they are asked stands in `tasks.passport`; nothing of that is told to them but the question in the request.
"""

import asyncio
import hashlib
import json
import random
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, text
from PIL import Image

from tasks.endpoint.api_keys import no_secret
from tasks.ledger.passports import Card
from tasks.passport.exam import Exam
from tasks.passport.items import Item, items_of, marks
from tasks.passport.lines import BLANK, COLOR, COLORS, COUNTING, FAINT, FIRST, ORDER, POSITION, SHAPES, TEXT, TWO
from tasks.records.judge import Judge as Settings

SMALL = 192
"""Longest side of the pictures that a judge sees which makes them small."""
LOST = 0.48
"""Share of the contrast from whose loss on small details cannot be made out: letters of 28 pixels, not of 60."""


class Key:
    """What pictures show, by their bytes: the item, and which of its pictures it is."""

    def __init__(self, seed: int = 1) -> None:
        drawn = [(item, place, draw()) for item in items_of(seed) for place, draw in enumerate(item.draws)]
        self._shown = {hashlib.sha256(data).hexdigest(): (item, place) for item, place, data in drawn}

    def shown(self, data: bytes) -> tuple[Item, int]:
        return self._shown[hashlib.sha256(data).hexdigest()]


@dataclass
class Judge:
    """A judge without a fault; one with a fault says otherwise in one place."""

    key: Key = field(default_factory=cache(Key))
    errs: float = 0.0
    """Share of answers that are wrong; which ones goes by question and seed, in whatever order they arrive."""
    seed: int = 0

    def __call__(self, request: Request) -> Reply:
        if not request.schema_name.startswith("passport_"):
            return allowed_reply()(request)
        line = request.schema_name.removeprefix("passport_")
        answer = self.answer(line, request)
        if self.errs and random.Random(f"{self.seed} {line} {request.images}").random() < self.errs:
            answer = wrong(answer, request)
        return self.reply({"seen": f"what I see, {random.random()}", "answer": answer}, request)

    def answer(self, line: str, request: Request) -> Any:
        seen = self.looks_at(request.images)
        if line == TWO:
            return [self.key.shown(data)[0].answer[self.key.shown(data)[1]] for data in seen]
        if line in (FIRST, FAINT):
            return self.names([self.holds(line, data) for data in seen])
        if line == TEXT:
            return self.reads(seen[0])
        if line == COLOR:
            return self.color(seen[0])
        return self.key.shown(seen[0])[0].answer

    # What faults change

    def looks_at(self, pictures: list[bytes]) -> list[bytes]:
        return pictures

    def reads(self, data: bytes) -> str:
        return str(self.key.shown(data)[0].answer) if self.makes_out(data) else "unreadable"

    def holds(self, line: str, data: bytes) -> bool:
        """Whether what is asked for is in the picture."""
        item, place = self.key.shown(data)
        return marks(str(item.answer))[place] and (line != FAINT or self.makes_out(data))

    def names(self, holding: list[bool]) -> str:
        first, second = (*holding, False)[:2]
        return {(True, False): "first", (False, True): "second", (True, True): "both"}.get((first, second), "neither")

    def color(self, data: bytes) -> str:
        """The color of the shape that is asked for, measured where it is, as this judge sees it."""
        picture = Image.open(BytesIO(data)).convert("RGB")
        true = np.array(list(bytes.fromhex(COLORS[str(self.key.shown(data)[0].answer)][1:])))
        there = np.abs(np.asarray(picture).astype(int) - true).sum(axis=-1) < 3
        seen = np.median(np.asarray(self.sees(picture))[there], axis=0)
        as_seen = {name: self.as_seen(color) for name, color in COLORS.items()}
        return min(as_seen, key=lambda name: float(np.abs(as_seen[name] - seen).sum()))

    def as_seen(self, color: str) -> Any:
        """A color as this judge knows it."""
        return np.array(list(bytes.fromhex(color[1:])))

    def sees(self, picture: Image.Image) -> Image.Image:
        return picture

    def makes_out(self, data: bytes) -> bool:
        """Whether the details of a picture outlive what this judge does to it."""
        whole = Image.open(BytesIO(data)).convert("L")
        seen = self.sees(Image.open(BytesIO(data)).convert("RGB")).convert("L").resize(whole.size)
        before, after = (np.asarray(each, float) for each in (whole, seen))
        return float(np.std(before - after) / np.std(before)) < LOST

    def reply(self, content: Any, request: Request) -> Reply:
        return text(json.dumps(content))


def wrong(answer: Any, request: Request) -> Any:
    """Another answer of the same form."""
    if isinstance(answer, int):
        return answer + 1
    form = request.schema["properties"]["answer"]
    if isinstance(answer, list | tuple):
        return [answer[-1]] * len(answer)
    return next((word for word in form.get("enum", ()) if word != answer), f"{answer}s")


class NoPictures(Judge):
    def answer(self, line: str, request: Request) -> Any:
        form = request.schema["properties"]["answer"]
        choice = (form.get("enum") or form.get("items", {}).get("enum") or ["none"])[-1]
        return 5 if form["type"] == "integer" else [choice] if form["type"] == "array" else choice


class OnePicture(Judge):
    def looks_at(self, pictures: list[bytes]) -> list[bytes]:
        return pictures[:1]


class Shrinks(Judge):
    def sees(self, picture: Image.Image) -> Image.Image:
        small = picture.copy()
        small.thumbnail((SMALL, SMALL))
        return small.resize(picture.size)


class ReadsNothing(Judge):
    def reads(self, data: bytes) -> str:
        return ""


class NamesTheFirst(Judge):
    def names(self, holding: list[bool]) -> str:
        return "first"


class Swaps(Judge):
    def looks_at(self, pictures: list[bytes]) -> list[bytes]:
        return pictures[::-1]


class ColorBlind(Judge):
    def sees(self, picture: Image.Image) -> Image.Image:
        return picture.convert("L").convert("RGB")


class RedGreenBlind(Judge):
    def sees(self, picture: Image.Image) -> Image.Image:
        pixels = np.asarray(picture).astype(float)
        mixed = pixels[..., :2] @ (0.337, 0.663)  # by how bright each is
        return Image.fromarray(np.stack([mixed, mixed, pixels[..., 2]], axis=-1).astype(np.uint8) // 16 * 16)

    def as_seen(self, color: str) -> Any:
        one = Image.new("RGB", (1, 1), color)
        return np.asarray(self.sees(one)).reshape(3).astype(int)


class CannotCount(Judge):
    def answer(self, line: str, request: Request) -> Any:
        return 4 if line == COUNTING else super().answer(line, request)


class Mirrors(Judge):
    def answer(self, line: str, request: Request) -> Any:
        said = super().answer(line, request)
        if line == ORDER:
            return said[::-1]
        return {"left": "right", "right": "left"}.get(said, said) if line == POSITION else said


class Invents(Judge):
    def answer(self, line: str, request: Request) -> Any:
        said = super().answer(line, request)
        return SHAPES[0] if line == BLANK and said not in SHAPES else said


class Prose(Judge):
    def reply(self, content: Any, request: Request) -> Reply:
        return text(f"I would say {content['answer']}.")


FAULTY: dict[str, type[Judge]] = {
    "no_pictures": NoPictures,
    "one_picture": OnePicture,
    "shrinks_pictures": Shrinks,
    "reads_nothing": ReadsNothing,
    "names_the_first": NamesTheFirst,
    "swaps_pictures": Swaps,
    "color_blind": ColorBlind,
    "red_green_blind": RedGreenBlind,
    "cannot_count": CannotCount,
    "mirrors": Mirrors,
    "invents": Invents,
    "answers_in_prose": Prose,
}
"""Cause -> a judge that has it."""


def card_of(judge: Judge, seed: int, store: Path, **settings: Any) -> Card:
    """The card that this judge gets, by real requests."""
    with LoopbackJudge(judge, keep_requests=False) as loopback:
        asked = Settings(model="gpt-test", base_url=loopback.base_url, **settings)
        return asyncio.run(Exam(store, asked, seed, no_secret).card())


def failed(card: Card) -> set[str]:
    return {line.line for line in card.failed()}
