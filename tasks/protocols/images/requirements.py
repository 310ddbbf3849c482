"""Rule that decides whether an image matches its prompt, from the objects that the judge sees. Pure functions."""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from tasks.records import Requirement, Sample, Seen, SeenObject

_COLORS = {"grey": "gray", "violet": "purple"}
_PLURALS = {"person": "people", "mouse": "mice", "knife": "knives"}
"""Irregular plurals among GenEval's objects."""


class _Span(NamedTuple):
    """Least and greatest number of objects that a reply allows."""

    least: int
    most: float


_UNTOLD = _Span(0, math.inf)


def satisfied(sample: Sample, seen: Seen | None) -> bool | None:
    """Return whether the objects that the judge sees match the prompt, by GenEval's `include` and `exclude`.

    True: every required object is seen at least as often as asked and in its color, the stated relation holds, and no
    excluded object is seen as often as forbidden. False: any of these conditions is contradicted. None: there is no
    reply or requirement, or no condition is contradicted but one is open. A condition is open if its object is not
    mentioned, or if its color or relation is left open. It is also open if an entry contradicts itself (present without
    a count, or absent with one).

    Several requirements of one object mean different objects: a red car and a blue car need two cars. The judge names
    one color for an object, that of most instances. If the prompt asks for one color of the object, the named color
    applies to all instances. If it asks for several, the color applies to one instance and leaves the others open.
    """
    if seen is None or not sample.required:
        return None
    answers = set(_answers(sample, seen.objects))
    if any(requirement.relation for requirement in sample.required):
        answers.add(seen.relation_holds)
    if False in answers:
        return False
    return None if None in answers else True


def objects_text(sample: Sample) -> str:
    """Return the names of the objects to look for, each once, one a line, without numbers and colors."""
    return "\n".join(dict.fromkeys(each.name for each in (*sample.required, *sample.excluded)))


def relation_text(sample: Sample) -> str:
    """Return the stated relation, such as "the dog is right of the teddy bear"; empty if none is stated."""
    return " and ".join(
        f"the {each.name} is {each.relation} the {sample.required[each.target].name}"
        for each in sample.required
        if each.relation and each.target is not None
    )


def _answers(sample: Sample, objects: Iterable[SeenObject]) -> Iterator[bool | None]:
    """Yield whether each condition on number and color holds; None: it is open."""
    entries = tuple(objects)
    for name, group in groupby(sorted(sample.required, key=_name), key=_name):
        asked, found = tuple(group), _entries(name, entries)
        yield _at_least(sum(each.count for each in asked), map(_number, found))
        several = len({_color_words(each.color) for each in asked}) > 1
        for each in asked:
            if each.color:
                yield _at_least(each.count, (_colored(entry, each.color, several) for entry in found))
    for each in sample.excluded:
        too_many = _at_least(each.count, map(_number, _entries(each.name, entries)))
        yield None if too_many is None else not too_many


def _name(requirement: Requirement) -> str:
    return requirement.name


def _entries(name: str, objects: Iterable[SeenObject]) -> tuple[SeenObject, ...]:
    return tuple(entry for entry in objects if _forms(entry.name) & _forms(name))


def _at_least(count: int, spans: Iterable[_Span]) -> bool | None:
    told = tuple(spans)
    if sum(span.least for span in told) >= count:
        return True
    return False if told and sum(span.most for span in told) < count else None


def _number(entry: SeenObject) -> _Span:
    return _Span(entry.count, entry.count) if entry.present == (entry.count > 0) else _UNTOLD


def _colored(entry: SeenObject, color: str, several: bool) -> _Span:
    """Return how many objects of an entry have this color; `several`: the prompt also asks for other colors."""
    number, words = _number(entry), _color_words(entry.color)
    if number == _UNTOLD or not words:
        return _Span(0, number.most)
    if _color_words(color) <= words:
        return _Span(min(number.least, 1), number.most) if several else number
    return _Span(0, max(number.most - 1, 0)) if several else _Span(0, 0)


def _color_words(color: str) -> frozenset[str]:
    return frozenset(_COLORS.get(word, word) for word in _words(color))


def _forms(name: str) -> frozenset[str]:
    """Return a name in singular and plural; two names match if they share a form."""
    *before, last = _words(name) or [""]
    plurals = (last, f"{last}s", f"{last}es", _PLURALS.get(last, last))
    return frozenset(" ".join([*before, word]) for word in plurals)


def _words(text: str) -> list[str]:
    return re.sub(r"[\W_]+", " ", text.casefold()).split()
