"""The samples of a report, made of rows of the history: what a reader sees of each.

The records go into the page as JSON, and `page.js` knows them by these names; how a card looks is for that script.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tasks.kinds.display import Display
from tasks.pages.earlier_verdicts import Earlier
from tasks.pages.reasoning import Reason, Rows, cut
from tasks.records import Record
from tasks.text import natural, number_words

LONGEST_TEXT = 2_000
"""Bytes of a caption, prompt or note."""
MISSING = "missing"


class Question(Record):
    """One dimension, or one tag of a generated image, and what came of it."""

    name: str
    verdict: str
    """Of a tag its score."""
    orders: str = ""
    """Both orders' verdicts where they differ."""
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

    run: int
    """Which of the page's evaluations, from 0."""
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
    """Dimension or tag, `overall` among them -> what the reader may choose it by."""
    pictures: dict[str, str]
    """Side -> SHA-256; empty: there is none."""
    tier: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
    """What else is known, a few words each."""
    columns: tuple[str, str]
    """Heads of the questions' names and verdicts."""
    questions: tuple[Question, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    change: float | None = None
    """Against the evaluation before, in points of the overall score; None: nothing to compare with, or no change."""
    changed: tuple[str, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    """In the evaluations before, the newest first."""


class Context(NamedTuple):
    """What a card needs of the evaluation besides its own row."""

    run: int
    """Which of the page's evaluations, from 0."""
    reasons: Mapping[tuple[str, str, str], tuple[Reason, ...]]
    """(candidate, sample, dimension) -> what the judge said."""
    changes: Mapping[tuple[str, str], Mapping[str, Any]]
    """(candidate, sample) -> its row of `changes`."""
    good_from: float
    """Score from which a sample counts as good; 0 where there is no threshold."""
    display: Display[Any]
    """How what was judged is shown."""
    earlier: Mapping[tuple[str, str], tuple[Earlier, ...]] = MappingProxyType({})
    """(candidate, sample) -> what came of it in the evaluations before."""


def cards(samples: Rows, context: Context) -> list[Card]:
    """One card a row of `samples`, in the natural order of their ids: `test_2` comes before `test_10`."""
    ordered = sorted(samples, key=lambda row: (natural(row["sample_id"]), row["candidate"]))
    return [_card(row, context) for row in ordered]


def _card(row: Mapping[str, Any], context: Context) -> Card:
    place = row["candidate"], row["sample_id"]
    changed = context.changes.get(place, {})
    questions = [
        _question(each, row["status"], context.reasons.get((*place, each["dimension"]), ()))
        for each in row["dimensions"]
    ]
    answers = {each.name: each.verdict for each in questions}
    labels = context.display.labels(row, answers, context.good_from)
    return Card(
        run=context.run,
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
        earlier=context.earlier.get(place, ()),
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
    """What else a reader should know of a sample, a few words each."""
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
    problem = row["problem"] if row["problem"] not in row["path"] else ""
    yield from (cut(text, LONGEST_TEXT) for text in (problem, *row["notes"]) if text)
