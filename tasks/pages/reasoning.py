"""What the judge said, taken apart into what it says of Human, of Model, and its conclusion, and kept within a budget.

The prompts ask for one string of three parts: `Faithfulness of Human: …; Faithfulness of Model: …; Conclusion: …`. A
judge that writes otherwise is shown whole.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tasks.pages.size_limits import fair_share
from tasks.records import Record

Rows = Sequence[Mapping[str, Any]]
"""Rows of the history."""

_HEADS = re.compile(
    r"[\s;*_]{0,8}(?:\b[A-Za-z]+ of (?:the )?(Human|Model)|\b(Conclusion))\b[\s*_]*:[\s*_]*", re.IGNORECASE
)
_WANTED = ["Human", "Model", "Conclusion"]


class Reason(Record):
    """What the judge said in one call."""

    call: str
    """Order and vote in words; empty where there is only one call to a dimension."""
    verdict: str
    """The verdict, or the status of a call that is not ok."""
    parts: tuple[tuple[str, str], ...]
    """(heading, text); one part without a heading where the text does not keep to the structure."""
    seen: str = ""
    """Of a generated image with a check: what the judge says is in it."""


def reasons_by_question(rows: Rows, budget: int) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
    """(candidate, sample, dimension) -> what the judge said of it.

    Args:
        rows: those of the question `reasons`.
        budget: bytes that all of it together may have.
    """
    limit = fair_share([len(_words(row).encode("utf-8", "replace")) for row in rows], budget)
    found: defaultdict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["candidate"], row["sample_id"], row["dimension"]].append(row)
    return {place: tuple(_reason(row, limit, len(calls) > 1) for row in calls) for place, calls in found.items()}


def _words(row: Mapping[str, Any]) -> str:
    return row["reasoning"] or row["error"]


def _reason(row: Mapping[str, Any], limit: int, several: bool) -> Reason:
    order = {"human_first": "Human first, ", "model_first": "Model first, "}.get(row["order"], "")
    return Reason(
        call=f"{order}vote {row['vote']}" if several else "",
        verdict=(row["verdict"] or "") if row["status"] == "ok" else row["status"],
        parts=_parts(_words(row), limit),
        seen=_seen(row["seen"]),
    )


def _parts(words: str, limit: int) -> tuple[tuple[str, str], ...]:
    """The parts of a reasoning, together within the limit: a long one must not cost the reader the conclusion."""
    parts = split(words)
    share = fair_share([len(text.encode("utf-8", "replace")) for _, text in parts], limit)
    return tuple((heading, cut(text, share)) for heading, text in parts)


def _seen(seen: Mapping[str, Any] | None) -> str:
    if seen is None:
        return ""
    objects = [
        f"{each['count']} × {each['name']}{each['color'] and ' (' + each['color'] + ')'}"
        if each["present"]
        else f"no {each['name']}"
        for each in cast(Rows, seen["objects"] or ())
    ]
    relation = {True: ["the relation holds"], False: ["the relation does not hold"]}.get(seen["relation_holds"], [])
    return ", ".join([*objects, *relation])


def split(text: str) -> list[tuple[str, str]]:
    """(heading, text) of the three parts, or the whole text under no heading where it has other parts."""
    heads = list(_HEADS.finditer(text))
    found = [(head[1] or head[2]).capitalize() for head in heads]
    # A conclusion may speak of either side once more; what follows the first three heads belongs to it.
    if found[:3] != _WANTED or text[: heads[0].start()].strip():
        return [("", text)]
    begins = [head.end() for head in heads[:3]]
    ends = [heads[1].start(), heads[2].start(), len(text)]
    return [(name, text[begin:end].strip()) for name, begin, end in zip(_WANTED, begins, ends, strict=True)]


def cut(text: str, limit: int) -> str:
    """The text itself where it has at most so many bytes of UTF-8, else its beginning and a word on the rest."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode('utf-8', 'ignore')}… (cut; the history holds all {len(text):,} characters)"
