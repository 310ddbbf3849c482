"""Cards of a report: the samples of an evaluation with the judge's replies.

The page holds them as JSON, and `report.js` uses these names.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

from markupsafe import Markup
from pydantic import Field

from tasks.history.queries import Table, as_json_rows
from tasks.pages.page import as_json, fair_share
from tasks.presentation.wording import reasoning_parts
from tasks.protocols.display import Display, labels_of
from tasks.protocols.protocol import NOT_ASKED
from tasks.records import JudgmentStatus, Record
from tasks.text import natural, number_words

LONGEST_TEXT = 2_000
"""Longest caption, prompt or note, in bytes."""
CONCLUSION_ALONE = 300
"""Bytes a reply may have below which only its conclusion is shown, if it has more."""
DIFFER = "replies differ"

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
    reasons: tuple[Reason, ...] = ()

    @property
    def contested(self) -> bool:
        """True if the replies, in other orders or votes, have different verdicts; a refused reply has none."""
        return bool(self.orders) or len({reason.verdict for reason in self.reasons} - {*get_args(JudgmentStatus)}) > 1

    @property
    def conclusion(self) -> str:
        """Conclusion of the first reply with this verdict, else of the first reply; empty: there is none."""
        agreeing = [reason for reason in self.reasons if reason.verdict == self.verdict]
        return next((reason.parts[-1][1] for reason in agreeing or self.reasons), "")


class Aspect(Record):
    """One aspect of a generated image."""

    name: str
    score: str
    explanation: str
    points: float | None = Field(default=None, exclude=True)


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
    mean: float | None
    """Mean of the dimensions or aspects, by which the samples are ordered; None: there is no outcome."""
    marks: dict[str, str]
    """Dimension or tag, `overall` among them -> value by which a reader filters the samples."""
    pictures: dict[str, str]
    """Side -> SHA-256; empty: there is none."""
    path: str = ""
    fragile: str = ""
    """Reason why the outcome may be another one next time; empty: there is none."""
    notes: tuple[str, ...] = ()
    """Further facts, a few words each."""
    questions: tuple[Question, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    tier: str = Field(default="", exclude=True)

    def as_json(self) -> Markup:
        """Return the card as JSON for the page, without the fields that have their defaults."""
        return as_json(self.model_dump(exclude_defaults=True))

    def fragility(self) -> tuple[bool, list[tuple[int, str]]]:
        """Return the key by which fragile samples are ordered: replies that differ first, then the id."""
        return not self.fragile.startswith(DIFFER), natural(self.id)

    def conclusion(self) -> str:
        """Return the judge's sentence on the lowest aspect or the deciding dimension; empty: there is none."""
        known = [each for each in self.aspects if each.explanation and each.points is not None]
        if known:
            lowest = min(known, key=lambda each: (each.explanation.startswith(NOT_ASKED), each.points or 0.0))
            return f"{lowest.name} {lowest.score}: {lowest.explanation}"
        asked = [each for each in self.questions if each.reasons]
        if not asked:
            return "; ".join(filter(None, [self.path, *self.notes]))
        winner = self.overall.partition(" ")[0]
        rule = self.path.partition(f"{self.tier}: ")[2].partition(";")[0] if self.tier else ""
        found = max(asked, key=lambda each: (each.name in rule, each.verdict == winner))
        return f"{found.name}: {found.conclusion}"


class Context(NamedTuple):
    """Data of the evaluation that a card needs besides its own row."""

    reasons: Mapping[tuple[str, str, str], tuple[Reason, ...]]
    """(candidate, sample, dimension) -> replies of the judge."""
    good_from: float
    """Score from which a sample counts as good; 0 where there is no threshold."""
    display: Display[Any]
    """Display of this kind of judging."""
    limit: int
    """Bytes that a caption or an explanation may have."""


def cards(samples: Table, context: Context) -> Iterator[Card]:
    """Yield one card a row of `samples`: the lowest mean first, those without one last.

    Equal ones are in the natural order of their ids: `test_2` comes before `test_10`. The rows are taken out of the
    table: those of a large run take much memory.
    """
    sample_id, candidate, mean = (samples.columns.index(name) for name in ("sample_id", "candidate", "mean"))

    def place(row: Sequence[Any]) -> tuple[object, ...]:
        return row[mean] is None, row[mean] or 0.0, natural(row[sample_id]), row[candidate]

    rows = sorted(samples.rows, key=place, reverse=True)
    samples.rows.clear()
    while rows:
        [row] = as_json_rows(Table(samples.columns, [rows.pop()]))
        yield _card(row, context)


def _card(row: Mapping[str, Any], context: Context) -> Card:
    place = row["candidate"], row["sample_id"]
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
        text=cut(row["prompt"] or row["caption"], context.limit),
        status=row["status"],
        overall=labels.overall,
        mean=row["mean"],
        marks=labels.marks,
        tier=row["tier"],
        path=cut(labels.path, LONGEST_TEXT),
        fragile="" if row["mean"] is None else _fragile(row["pivotal"] or (), questions),
        notes=tuple(_notes(row, context)),
        questions=tuple(questions),
        aspects=tuple(_aspect(each, context) for each in sorted(row["aspects"] or (), key=_place)),
        pictures={side: row[side.lower()] or "" for side in context.display.sides},
    )


def _fragile(pivotal: Sequence[str], questions: Sequence[Question]) -> str:
    contested = [each.name for each in questions if each.contested]
    differ = f"{DIFFER} on {', '.join(contested)}" if contested else ""
    names = "every verdict" if 1 < len(pivotal) == len(questions) else " or ".join(pivotal)
    alone = f"depends on {names} alone" if pivotal else ""
    return "; ".join(filter(None, [differ, alone]))


def _question(row: Mapping[str, Any], status: str, reasons: tuple[Reason, ...]) -> Question:
    # A tag has a score and no verdict, a forfeit scores without one.
    other = "missing" if row["score"] is None else status if status == "forfeit" else number_words(row["score"])
    return Question(
        name=row["dimension"],
        verdict=row["verdict"] or other,
        orders=f"Human first: {row['human_first']}; Model first: {row['model_first']}" if row["order_flip"] else "",
        reasons=reasons,
    )


def _place(aspect: Mapping[str, Any]) -> float:
    """Return the place of an aspect: a rubric's keep their order; of checks the wrong ones come first."""
    return aspect["score"] if aspect["question"] and aspect["score"] is not None else math.inf


def _aspect(row: Mapping[str, Any], context: Context) -> Aspect:
    name, words = cut(row["question"], context.limit) or row["aspect"], context.display.aspect_words(row["score"])
    return Aspect(name=name, score=words, explanation=cut(row["explanation"], context.limit), points=row["score"])


def _notes(row: Mapping[str, Any], context: Context) -> Iterable[str]:
    """Yield further facts about a sample, a few words each."""
    if row["satisfied"] is not None:
        yield context.display.satisfied[row["satisfied"]]
    if row["injected"]:
        found = {True: ", judged rightly", False: ", judged wrongly", None: ""}[row["caught"]]
        yield f"drawn as: {row['injected'].replace('_', ' ')}{found}"
    problem = row["problem"] if row["problem"] not in row["tier_path"] else ""
    yield from (cut(text, LONGEST_TEXT) for text in (problem, *row["notes"]) if text)


# Replies of the judge


def text_limit(reasons: Rows, samples: Table, budget: int) -> int:
    """Return the bytes that each reply, caption and explanation may have: all of them stay within the budget."""
    texts = [_words(row) for row in reasons]
    captions = [samples.columns.index(name) for name in ("prompt", "caption")]
    aspects = samples.columns.index("aspects")
    for row in samples.rows:
        texts += [row[place] or "" for place in captions]
        texts += [each[text] for each in row[aspects] or () for text in ("explanation", "question")]
    return fair_share([len(text.encode("utf-8", "replace")) for text in texts], budget)


def reasons_by_question(rows: Rows, limit: int) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
    """Return (candidate, sample, dimension) -> replies of the judge, from the rows of the query `reasons`."""
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
        verdict=_verdict(row),
        parts=_parts(_words(row), limit),
        seen=_seen(row["seen"]),
    )


def _verdict(row: Mapping[str, Any]) -> str:
    if row["status"] != "ok":
        return row["status"]
    return row["verdict"] or ("" if row["score"] is None else number_words(row["score"]))


def _parts(words: str, limit: int) -> tuple[tuple[str, str], ...]:
    """Return the parts of a reasoning, together within the limit: a long part must not cost the conclusion."""
    is_short = limit < CONCLUSION_ALONE and len(words.encode("utf-8", "replace")) > limit
    parts = reasoning_parts(words)[-1 if is_short else 0 :]
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


def cut(text: str, limit: int) -> str:
    """Return the text if it has at most `limit` bytes of UTF-8, else its beginning; the page names the rest."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode('utf-8', 'ignore')}… (cut)"
