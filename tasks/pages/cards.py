"""Cards of a report: the samples of an evaluation with the judge's replies.

The page holds them as JSON, and `report.js` uses these names.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from markupsafe import Markup

from tasks.history.queries import Table, as_json_rows
from tasks.pages.page import REASONS, as_json, fair_share
from tasks.protocols.display import Display, labels_of
from tasks.records import Record
from tasks.text import natural, number_words

LONGEST_TEXT = 2_000
"""Longest caption, prompt or note, in bytes."""
MISSING = "missing"

Rows = Sequence[Mapping[str, Any]]
"""Rows of the history."""


class Reason(Record):
    """Reply of the judge to one call."""

    call: str
    """Order and vote in words; empty where a dimension has only one call."""
    verdict: str
    """The verdict, or the status of a call that is not ok."""
    parts: tuple[tuple[str, str], ...]
    """(heading, text) of each part; one part without a heading where the text lacks the structure."""
    seen: str = ""
    """Contents that the judge reports of a generated image with a check."""


class Question(Record):
    """One dimension, or one tag of a generated image, and its result."""

    name: str
    verdict: str
    """Verdict on the dimension, or score of the tag."""
    orders: str = ""
    """Verdicts of both orders where they differ."""
    flip: bool = False
    reversal: bool = False
    reasons: tuple[Reason, ...] = ()


class Aspect(Record):
    """One aspect of a generated image."""

    name: str
    score: str
    explanation: str


class Card(Record):
    """One sample."""

    id: str
    candidate: str
    category: str = ""
    difficulty: str = ""
    tag: str = ""
    text: str
    """Caption, brief description or prompt."""
    status: str
    overall: str
    """Outcome, or score of a generated image."""
    score: float | None
    marks: dict[str, str]
    """Dimension or tag, `overall` among them -> value by which a reader filters the samples."""
    pictures: dict[str, str]
    """Side -> SHA-256; empty: there is none."""
    tier: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
    """Further facts, a few words each."""
    columns: tuple[str, str]
    """Heads of the columns with the questions' names and verdicts."""
    questions: tuple[Question, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    change: float | None = None
    """Change since the evaluation before, in points of the overall score; None: no such evaluation, or no change."""
    changed: tuple[str, ...] = ()

    def as_json(self) -> Markup:
        """Return the card as JSON for the page, without the fields that have their defaults."""
        return as_json(self.model_dump(exclude_defaults=True))


class Context(NamedTuple):
    """Data of the evaluation that a card needs besides its own row."""

    reasons: Mapping[tuple[str, str, str], tuple[Reason, ...]]
    """(candidate, sample, dimension) -> replies of the judge."""
    changes: Mapping[tuple[str, str], Mapping[str, Any]]
    """(candidate, sample) -> its row of `changes`."""
    good_from: float
    """Score from which a sample counts as good; 0 where there is no threshold."""
    display: Display[Any]
    """Display of this kind of judging."""


def cards(samples: Table, context: Context) -> Iterator[Card]:
    """Yield one card a row of `samples`, in the natural order of their ids: `test_2` comes before `test_10`.

    The rows are taken out of the table: those of a large run take much memory.
    """
    sample_id, candidate = samples.columns.index("sample_id"), samples.columns.index("candidate")
    rows = sorted(samples.rows, key=lambda row: (natural(row[sample_id]), row[candidate]), reverse=True)
    samples.rows.clear()
    while rows:
        [row] = as_json_rows(Table(samples.columns, [rows.pop()]))
        yield _card(row, context)


def _card(row: Mapping[str, Any], context: Context) -> Card:
    place = row["candidate"], row["sample_id"]
    changed = context.changes.get(place, {})
    questions = [
        _question(each, row["status"], context.reasons.get((*place, each["dimension"]), ()))
        for each in row["dimensions"]
    ]
    answers = {each.name: each.verdict for each in questions}
    labels = labels_of(row, answers, context.good_from)
    return Card(
        id=row["sample_id"],
        candidate=row["candidate"],
        category=row["category"],
        difficulty=row["difficulty"],
        tag=row["tag"] or "",
        text=cut(row["prompt"] or row["caption"], LONGEST_TEXT),
        status=row["status"],
        overall=labels.overall,
        score=row["score"],
        marks=labels.marks,
        tier=row["tier"],
        path=cut(labels.path, LONGEST_TEXT),
        notes=tuple(_notes(row)),
        columns=context.display.columns,
        questions=tuple(questions),
        aspects=tuple(map(_aspect, row["aspects"] or ())),
        pictures={side: row[side.lower()] or "" for side in context.display.sides},
        change=changed.get("change"),
        changed=tuple(changed.get("what", ())),
    )


def _question(row: Mapping[str, Any], status: str, reasons: tuple[Reason, ...]) -> Question:
    flip = bool(row["order_flip"])
    # A tag has a score and no verdict, a forfeit scores without one.
    other = MISSING if row["score"] is None else status if status == "forfeit" else number_words(row["score"])
    return Question(
        name=row["dimension"],
        verdict=row["verdict"] or other,
        orders=f"Human first: {row['human_first']}; Model first: {row['model_first']}" if flip else "",
        flip=flip,
        reversal=bool(row["reversal"]),
        reasons=reasons,
    )


def _aspect(row: Mapping[str, Any]) -> Aspect:
    score = "does not apply" if row["score"] is None else number_words(row["score"])
    return Aspect(name=row["aspect"], score=score, explanation=cut(row["explanation"], LONGEST_TEXT))


def _notes(row: Mapping[str, Any]) -> Iterable[str]:
    """Yield further facts about a sample, a few words each."""
    if row["p_model"] is not None and max(row["p_model"], row["p_tie"], row["p_human"]) < 1:
        yield f"Model {row['p_model']:.0%}, Tie {row['p_tie']:.0%}, Human {row['p_human']:.0%} by its votes"
    if row["pivotal"]:
        yield f"another verdict on {' or '.join(row['pivotal'])} alone would have changed the outcome"
    if row["published"] and row["published"] != row["overall"]:
        yield f"by the published protocol (Human first, first vote): {row['published']}"
    if row["satisfied"] is not None:
        yield "what was asked for is there" if row["satisfied"] else "what was asked for is not there"
    if row["aspect_mean"] is not None:
        yield f"mean of the aspects {number_words(row['aspect_mean'])}"
    if row["injected"]:
        found = {True: ", judged rightly", False: ", judged wrongly", None: ""}[row["caught"]]
        yield f"drawn as: {row['injected'].replace('_', ' ')}{found}"
    problem = row["problem"] if row["problem"] not in row["tier_path"] else ""
    yield from (cut(text, LONGEST_TEXT) for text in (problem, *row["notes"]) if text)


# Replies of the judge

_HEADS = re.compile(
    r"[\s;*_]{0,8}(?:\b[A-Za-z]+ of (?:the )?(Human|Model)|\b(Conclusion))\b[\s*_]*:[\s*_]*", re.IGNORECASE
)
_WANTED = ["Human", "Model", "Conclusion"]


def reasons_by_question(rows: Rows, budget: int = REASONS) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
    """Return (candidate, sample, dimension) -> replies of the judge, from the rows of the query `reasons`."""
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
    """Return the parts of a reasoning, together within the limit: a long part must not cost the conclusion."""
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
    """Return (heading, text) of the three parts, or the whole text under no heading if it has other parts."""
    heads = list(_HEADS.finditer(text))
    found = [(head[1] or head[2]).capitalize() for head in heads]
    # A conclusion may name either side again, so all text after the first three heads belongs to it.
    if found[:3] != _WANTED or text[: heads[0].start()].strip():
        return [("", text)]
    begins = [head.end() for head in heads[:3]]
    ends = [heads[1].start(), heads[2].start(), len(text)]
    return [(name, text[begin:end].strip()) for name, begin, end in zip(_WANTED, begins, ends, strict=True)]


def cut(text: str, limit: int) -> str:
    """Return the text if it has at most `limit` bytes of UTF-8, else its beginning and a note on the rest."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode('utf-8', 'ignore')}… (cut; the history holds all {len(text):,} characters)"
