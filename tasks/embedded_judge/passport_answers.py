"""What the embedded judge answers to the questions of a passport: outlines, colors and places, and nothing read.

Owns how a survey of areas becomes an answer. It has no letters and looks for no faults: then it says so, and gives the
answer that claims nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tasks.embedded_judge.blobs import survey
from tasks.embedded_judge.chat import BadRequest, ChatRequest
from tasks.embedded_judge.image_view import Blob, Survey
from tasks.embedded_judge.measures import decode_rgb

PASSPORT = "passport_"
"""How the names of these reply schemas begin."""


class _Question(NamedTuple):
    words: str
    allowed: Sequence[str]
    seen: Sequence[Survey]
    """Of each picture."""

    def named(self) -> list[str]:
        """Words of the question that are shapes which are seen in any of its pictures, in the order of the question."""
        shapes = {blob.shape for one in self.seen for blob in one.blobs if blob.shape}
        return [word for word in re.findall(r"\w+", self.words) if word in shapes]

    def shown(self, shape: str) -> Blob | None:
        """The area of the first picture that has this outline."""
        return next((blob for blob in self.seen[0].blobs if blob.shape == shape), None)

    def chosen(self, word: str) -> str:
        """The word where it is allowed, else the last of those that are."""
        return word if word in self.allowed else self.allowed[-1]


def passport_answer(request: ChatRequest) -> dict[str, Any]:
    """The reply to a question of a passport. Raises BadRequest where it is none that is known here."""
    schema = request.response_format.json_schema
    name = schema.name.removeprefix(PASSPORT)
    if name not in _ANSWERS:
        raise BadRequest(f"The pixel judge knows no {schema.name!r} among the questions of a passport")
    form = schema.properties().get("answer", {})
    allowed = form.get("enum") or form.get("items", {}).get("enum") or [""]
    seen = [survey(decode_rgb(data)) for data in request.files()]
    found = _ANSWERS[name](_Question(request.first_words(), allowed, seen))
    words = "; ".join(_words(one) for one in seen)
    return {"seen": f"{words}. (Pixels were measured; nothing was read.)", "answer": found}


def _words(found: Survey) -> str:
    areas = ", ".join(f"{blob.color} {blob.shape or 'area'}" for blob in found.blobs)
    return areas or "one color all over"


def _color(asked: _Question) -> str:
    named = asked.named()
    blob = asked.shown(named[0]) if named else None
    return asked.chosen(blob.color if blob else "")


def _place(asked: _Question) -> str:
    blobs = [blob for name in asked.named() if (blob := asked.shown(name))]
    if len(blobs) != 2:
        return asked.chosen("")
    across, down = (one - other for one, other in zip(blobs[0].center, blobs[1].center, strict=True))
    if abs(across) > abs(down):
        return asked.chosen("right" if across > 0 else "left")
    return asked.chosen("below" if down > 0 else "above")


def _which(asked: _Question) -> str:
    named = asked.named()
    holds = [bool(named) and any(blob.shape == named[0] for blob in one.blobs) for one in asked.seen]
    names = {(True, False): "first", (False, True): "second", (True, True): "both"}
    return asked.chosen(names.get((holds[0], holds[-1]), "neither"))


def _largest(asked: _Question) -> str:
    blobs = asked.seen[0].blobs
    return asked.chosen(blobs[0].shape if blobs else "nothing")


def _each(asked: _Question) -> list[str]:
    return [asked.chosen(one.blobs[0].shape if one.blobs else "") for one in asked.seen]


def _row(asked: _Question) -> list[str]:
    return [asked.chosen(blob.shape) for blob in sorted(asked.seen[0].blobs, key=lambda blob: blob.left)]


_ANSWERS: Mapping[str, Callable[[_Question], Any]] = {
    "text": lambda asked: "",
    "counting": lambda asked: asked.seen[0].found,
    "colors": _color,
    "positions": _place,
    "two_pictures": _each,
    "which_is_first": _which,
    "blank": _largest,
    "order": _row,
    "faint": lambda asked: asked.chosen("neither"),
}
"""Line of the passport -> its answer."""
