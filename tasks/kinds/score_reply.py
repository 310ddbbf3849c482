"""The reply to a text-to-image rubric: its form, and the scores in it.

A score may come bare or as "8/10", which is noted; one that is missing, off the scale or told twice makes the reply
invalid. What the judge sees (the check beside the scores) is never a reason to lose them: unreadable, it is unknown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, Field, StrictBool, ValidationError

from tasks.endpoint.reply_text import pairs, plain, recovery, reply_words, shown, unwrapped
from tasks.kinds.values import Reading
from tasks.records import MOST_COUNTED, OVERALL_SCORE, SEEN, AspectScore, Seen, SeenObject
from tasks.rubrics.rubric_prompt import RubricPrompt
from tasks.statistics.image_scores import HIGHEST
from tasks.text import bounded

_COMMA = re.compile(r",(?=\s*+[}\]])")
_NUMBER = re.compile(r"\s*+(-?\d++(?:\.\d++)?)\s*+(?:(?:/|out of)\s*+10\s*+)?")
_GAP = re.compile(r"[\s-]++")
_MOST_NOTES = 20
_EXPLAINED = {"explanation", "score"}
_SEEN_KEYS = {"objects", "relation_holds", "object", "present", "count", "color"}


class _ObjectGiven(BaseModel):
    object: str
    present: StrictBool
    count: int = Field(ge=0, le=MOST_COUNTED)
    color: str = ""


class _SeenGiven(BaseModel):
    objects: list[_ObjectGiven]
    relation_holds: StrictBool | None = None


def schema(prompt: RubricPrompt) -> dict[str, Any]:
    """JSON schema of the reply, each explanation before its score. Bounds stay out: some servers refuse them."""
    properties = {key: _explained(bool(aspect.not_applicable)) for key, aspect in prompt.aspects.items()}
    properties[OVERALL_SCORE] = _explained(False)
    if "objects" in prompt.inputs:
        properties[SEEN] = _seen_schema("relation" in prompt.inputs)
    return _object(properties)


def _explained(nullable: bool) -> dict[str, Any]:
    return _object({"explanation": {"type": "string"}, "score": {"type": ["number", "null"] if nullable else "number"}})


def _seen_schema(with_relation: bool) -> dict[str, Any]:
    kinds = {"object": "string", "present": "boolean", "count": "integer", "color": "string"}
    each = _object({name: {"type": kind} for name, kind in kinds.items()})
    relation = {"relation_holds": {"type": ["boolean", "null"]}} if with_relation else {}
    return _object({"objects": {"type": "array", "items": each}, **relation})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def format_words(prompt: RubricPrompt) -> str:
    """The request for the reply format, sent on every rung of the ladder."""
    keys = ", ".join(f'"{key}"' for key in (*prompt.aspects, OVERALL_SCORE))
    words = [
        f"Reply with a single JSON object and nothing around it. It has these keys, in this order: {keys}. "
        'Each holds an object with "explanation", a string, and then "score", a number from 0 to 10.'
    ]
    for key, aspect in prompt.aspects.items():
        if aspect.not_applicable:
            words.append(f'The score of "{key}" is null in this case: {aspect.not_applicable}.')
    if "objects" in prompt.inputs:
        words.append(
            f'A last key "{SEEN}" holds an object with "objects", an array with an object for each of the objects to '
            'look for: "object", its name as given, "present", true or false, "count", a whole number, and "color", a '
            "string."
        )
    if "relation" in prompt.inputs:
        words.append(f'"{SEEN}" also holds "relation_holds": true, false, or null if it cannot be told.')
    return " ".join(words)


def read(text: str, prompt: RubricPrompt) -> Reading:
    """The scores in a reply, and what the judge sees where that was asked."""
    body, taken_off = unwrapped(text)
    found, how = _pairs(body)
    named = _named(found, (*prompt.aspects, OVERALL_SCORE))
    notes, problems = list[str](), list[str]()
    may_be_none = {key for key, aspect in prompt.aspects.items() if aspect.not_applicable}
    read = (_score(key, values, key in may_be_none, notes, problems) for key, values in named.items())
    scores = tuple(filter(None, read))
    seen = _seen(found) if "objects" in prompt.inputs else None
    notes += _strangers(found, prompt)
    if "objects" in prompt.inputs and seen is None:
        notes.append(f"no readable `{SEEN}`")
    noted = list(dict.fromkeys(notes))
    reading = Reading(recovery=recovery(*taken_off, how, *bounded(noted[:_MOST_NOTES], len(noted))))
    if problems:
        whole = "" if any(named.values()) else f": {reply_words(text, taken_off)}"
        return reading._replace(error="; ".join(problems) + whole)
    return reading._replace(scores=scores, seen=seen, reasoning=scores[-1].explanation)


def holds(text: str, scores: Sequence[AspectScore]) -> bool:
    """Whether a reply gives these aspects these scores, whatever it was asked for."""
    told = _named(_pairs(unwrapped(text)[0])[0], [score.aspect for score in scores])
    read = (_score(key, values, True, [], []) for key, values in told.items())
    return [(each.aspect, each.score) for each in read if each] == [(each.aspect, each.score) for each in scores]


def _named(found: Iterable[tuple[str, Any]], keys: Iterable[str]) -> dict[str, list[Any]]:
    """What is told under each of the keys."""
    told = [(_plain(name), value) for name, value in found]
    return {key: [value for name, value in told if name == key] for key in keys}


def _pairs(body: str) -> tuple[list[tuple[str, Any]], str]:
    found, whole = pairs(body)
    if whole:
        return found, ""
    mended, commas = _COMMA.subn("", body)
    again, whole = pairs(mended)
    if commas and len(again) > len(found):
        return again, "broken JSON mended"
    return found, "taken out of prose"


def _plain(key: str) -> str:
    return _GAP.sub("_", key.strip(" *_`").lower())


def _score(key: str, values: list[Any], may_be_none: bool, notes: list[str], problems: list[str]) -> AspectScore | None:
    """One aspect, or None and a problem."""
    told = list(dict.fromkeys(_told(value, notes) for value in values))
    if len(told) != 1:
        problems.append(f"`{key}` is told with {len(told)} different scores" if told else f"`{key}` is missing")
        return None
    explanation, score = told[0]
    if score is None and may_be_none:
        return AspectScore(aspect=key, score=None, explanation=explanation)
    number = _number(score, notes)
    if number is None:
        problems.append(f"`{key}` has score {shown(score)}, allowed is a number from 0 to {HIGHEST:g}")
        return None
    return AspectScore(aspect=key, score=number, explanation=explanation)


def _told(value: Any, notes: list[str]) -> tuple[str, Any]:
    """Explanation and score as they stand in the reply; hashable, so that equal repetitions fall together."""
    if isinstance(value, dict):
        given = {_plain(str(key)): each for key, each in cast(Mapping[str, Any], value).items()}
        explanation, score = given.get("explanation"), given.get("score", "nothing")
        return plain(explanation), score if isinstance(score, str | int | float | None) else shown(score)
    notes.append("bare score")
    return "", value if isinstance(value, str | int | float | None) else shown(value)


def _number(value: Any, notes: list[str]) -> float | None:
    """The score if it is one, on the scale."""
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if not match:
            return None
        notes.append("score read from text")
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= HIGHEST else None


def _strangers(found: list[tuple[str, Any]], prompt: RubricPrompt) -> Iterator[str]:
    known = {*prompt.aspects, OVERALL_SCORE, SEEN, *_EXPLAINED, *_SEEN_KEYS}
    for key, value in found:
        if _plain(key) not in known and not _wraps(value, known):
            yield f"extra key `{key[:40]}` ignored"


def _wraps(value: Any, known: set[str]) -> bool:
    """Whether an object holds the aspects, rather than being one more of them."""
    return isinstance(value, dict) and bool({_plain(key) for key in cast(dict[str, Any], value)} & (known - _EXPLAINED))


def _seen(found: list[tuple[str, Any]]) -> Seen | None:
    """What the judge says it sees; None where it does not say so in the form asked for."""
    told = next((value for key, value in found if _plain(key) == SEEN), None)
    try:
        given = _SeenGiven.model_validate(told)
    except ValidationError:
        return None
    objects = tuple(
        SeenObject(name=each.object, present=each.present, count=each.count, color=each.color) for each in given.objects
    )
    return Seen(objects=objects, relation_holds=given.relation_holds)
