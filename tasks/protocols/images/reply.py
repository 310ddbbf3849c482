"""Reply to a text-to-image rubric: its form and its scores.

A bare score or "8/10" is accepted and noted. An unreadable check never costs the scores: the check is then unknown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, Field, StrictBool, ValidationError

from tasks.endpoint.replies import Repeated, mended_objects, plain, recovery, reply_words, shown, unwrapped
from tasks.endpoint.requests import object_schema
from tasks.protocols.protocol import Reading
from tasks.records import MOST_COUNTED, OVERALL_SCORE, SEEN, AspectScore, Seen, SeenObject
from tasks.rubrics.rubric import RubricPrompt
from tasks.statistics.scores import HIGHEST_GRADE

_NUMBER = re.compile(r"\s*+(-?\d++(?:\.\d++)?)\s*+(?:(?:/|out of)\s*+10\s*+)?")
_GAP = re.compile(r"[\s-]++")


class _ObjectGiven(BaseModel):
    object: str
    present: StrictBool
    count: int | None = Field(ge=0, le=MOST_COUNTED)
    color: str | None = None


class _SeenGiven(BaseModel):
    objects: list[_ObjectGiven]
    relation_holds: StrictBool | None = None


def schema(prompt: RubricPrompt) -> dict[str, Any]:
    """Return the JSON schema of the reply, explanations before scores. It has no bounds: some servers refuse them."""
    properties = {key: _explained(bool(aspect.not_applicable)) for key, aspect in prompt.aspects.items()}
    properties[OVERALL_SCORE] = _explained(False)
    if "objects" in prompt.inputs:
        properties[SEEN] = _seen_schema("relation" in prompt.inputs)
    return object_schema(properties)


def _explained(nullable: bool) -> dict[str, Any]:
    return object_schema(
        {"explanation": {"type": "string"}, "score": {"type": ["number", "null"] if nullable else "number"}}
    )


def _seen_schema(with_relation: bool) -> dict[str, Any]:
    kinds = {"object": "string", "present": "boolean", "count": "integer", "color": "string"}
    each = object_schema({name: {"type": kind} for name, kind in kinds.items()})
    relation = {"relation_holds": {"type": ["boolean", "null"]}} if with_relation else {}
    return object_schema({"objects": {"type": "array", "items": each}, **relation})


def format_words(prompt: RubricPrompt) -> str:
    """Return the request for the reply format, sent on every rung of the ladder."""
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
    """Return the scores in a reply, and the objects that the judge sees if the prompt asks for them."""
    body, taken_off = unwrapped(text)
    given, how = mended_objects(body)
    found, keys = given.pairs, (*prompt.aspects, OVERALL_SCORE)
    named = _named(found, keys)
    notes, problems = list[str](), list[str]()
    may_be_none = {key for key, aspect in prompt.aspects.items() if aspect.not_applicable}
    read = (_score(key, values, key in may_be_none, notes, problems) for key, values in named.items())
    scores = tuple(filter(None, read))
    problems += _said_otherwise(given.after(lambda key: _plain(key) in keys), scores)
    seen = _seen(found) if "objects" in prompt.inputs else None
    if "objects" in prompt.inputs and seen is None:
        notes.append(f"no readable `{SEEN}`")
    reading = Reading(recovery=recovery(*taken_off, how, *dict.fromkeys(notes)))
    if problems:
        whole = "" if any(named.values()) else f": {reply_words(text, taken_off)}"
        return reading._replace(error="; ".join(problems) + whole)
    return reading._replace(scores=scores, seen=seen, reasoning=scores[-1].explanation)


def _named(found: Iterable[tuple[str, Any]], keys: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values under each of the keys."""
    told = [(_plain(name), value) for name, value in found]
    return {key: [value for name, value in told if name == key] for key in keys}


def _plain(key: str) -> str:
    return _GAP.sub("_", key.strip(" *_`").lower())


def _score(key: str, values: list[Any], may_be_none: bool, notes: list[str], problems: list[str]) -> AspectScore | None:
    """Return one aspect, or None after adding a problem."""
    told = [each for value in values for each in _told(value, notes)]
    # Values other than scores are compared by their text, because two different texts may differ in meaning.
    read = {number if (number := _number(score, notes)) is not None else shown(score): score for _, score in told}
    if len(read) != 1:
        problems.append(f"`{key}` has {len(read)} different scores" if read else f"`{key}` is missing")
        return None
    (number, score), explanation = read.popitem(), told[0][0]
    if score is None and may_be_none:
        return AspectScore(aspect=key, score=None, explanation=explanation)
    if isinstance(number, str):
        problems.append(f"`{key}` has score {number}, allowed is a number from 0 to {HIGHEST_GRADE:g}")
        return None
    return AspectScore(aspect=key, score=number, explanation=explanation)


def _told(value: Any, notes: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield explanation and score as in the reply, one pair for each score if there are several."""
    if isinstance(value, dict):
        parts = [(_plain(str(key)), each) for key, each in cast(Mapping[str, Any], value).items()]
        explanation = next((each for part in parts if part[0] == "explanation" for each in _each(part[1])), None)
        scores = [each for part in parts if part[0] == "score" for each in _each(part[1])]
        yield from ((plain(explanation), score) for score in scores or ["nothing"])
        return
    notes.append("bare score")
    yield "", value


def _each(value: Any) -> tuple[Any, ...]:
    return value.values if isinstance(value, Repeated) else (value,)


def _said_otherwise(text: str, scores: Sequence[AspectScore]) -> Iterator[str]:
    """Yield a problem for each score in the words after an answer that differs from the answer."""
    told = {each.aspect: each.score for each in scores}
    for found in _said(tuple(told)).finditer(text) if told and text.strip() else ():
        name, number = found[1], float(found[2] or found[3] or found[4])
        key = _plain(name or "")
        key = key if key in told else OVERALL_SCORE
        if number not in ([told.get(key, number)] if name else told.values()):
            problem = f"`{key}`" if name else "a score"
            yield f"{problem} is repeated as {number:g} after the JSON"


@cache
def _said(keys: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of scores in words: after an aspect's name, after "score" at the start of a line, or of 10.

    Before a word, as in `3 out of 10 clocks`, a number of 10 counts objects.
    """
    names = "|".join(re.escape(key).replace("_", r"[\s_-]") for key in keys)
    number = r"(\d{1,4}+(?:\.\d{1,4}+)?)"
    marks = r"[\"'*_`]{0,4}+\s{0,4}+(?:is\b|of\b|:|=)[\s\"'*_`]{0,8}+"
    return re.compile(
        rf"\b({names}|overall)(?: score)?{marks}{number}"
        rf"|^[^\w\n]{{0,8}}+(?:final |total )?score{marks}{number}"
        rf"|\b{number}\s?(?:/|out of)\s?10\b(?!\s\w)",
        re.IGNORECASE | re.MULTILINE,
    )


def _number(value: Any, notes: list[str]) -> float | None:
    """Return the value as a score; None if it is no number on the scale."""
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if not match:
            return None
        notes.append("score read from text")
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= HIGHEST_GRADE else None


def _seen(found: list[tuple[str, Any]]) -> Seen | None:
    """Return the objects that the judge sees; None if the reply does not have the required form."""
    told = next((value for key, value in found if _plain(key) == SEEN), None)
    try:
        given = _SeenGiven.model_validate(told)
    except ValidationError:
        return None
    # Without a strict schema, judges write null for an absent object; were that unread, misses would be left out.
    objects = tuple(
        SeenObject(name=each.object, present=each.present, count=each.count or 0, color=each.color or "")
        for each in given.objects
    )
    return Seen(objects=objects, relation_holds=given.relation_holds)
