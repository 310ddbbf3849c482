"""The samples of a report, made of rows of the history. What stands on a card is `card`'s, how it looks `page.js`'s."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from tasks.pages.budget import fair_share
from tasks.pages.card import Aspect, Card, Question, Reason
from tasks.pages.reasons import cut, split
from tasks.records import OVERALL
from tasks.text import number_words

LONGEST_TEXT = 2_000
"""Bytes of a caption, prompt or note."""
MISSING = "missing"

Rows = Sequence[Mapping[str, Any]]


class Context(NamedTuple):
    """What a card needs of the evaluation besides its own row."""

    run: int
    """Which of the page's evaluations, from 0."""
    said: Mapping[tuple[str, str, str], tuple[Reason, ...]]
    """(candidate, sample, dimension) -> what the judge said."""
    changes: Mapping[tuple[str, str], Mapping[str, Any]]
    """(candidate, sample) -> its row of `changes`."""
    good_from: float
    """Score from which a generated image counts as good."""


def cards(samples: Rows, context: Context) -> list[Card]:
    """One card a row of `samples`, in the natural order of their ids: `test_2` comes before `test_10`."""
    ordered = sorted(samples, key=lambda row: (_natural(row["sample_id"]), row["candidate"]))
    return [_card(row, context) for row in ordered]


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.split("([0-9]+)", name)
    return [(int(part[:18]), part) if at % 2 else (0, part) for at, part in enumerate(parts)]


def spoken(rows: Rows, budget: int) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
    """(candidate, sample, dimension) -> what the judge said of it, by rows of `reasons`; so many bytes in all."""
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
        said=(row["verdict"] or "") if row["status"] == "ok" else row["status"],
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


def _card(row: Mapping[str, Any], context: Context) -> Card:
    place = row["candidate"], row["sample_id"]
    changed = context.changes.get(place, {})
    questions = [
        _question(each, row["status"], context.said.get((*place, each["dimension"]), ())) for each in row["dimensions"]
    ]
    return Card(
        run=context.run,
        id=row["sample_id"],
        candidate=row["candidate"],
        category=row["category"],
        difficulty=row["difficulty"],
        tag=row["tag"] or "",
        text=cut(row["prompt"] or row["caption"], LONGEST_TEXT),
        status=row["status"],
        overall=_overall(row),
        score=row["score"],
        marks=_marks(row, questions, context.good_from),
        tier=row["tier"],
        path="" if row["tag"] and row["score"] is not None else cut(row["path"], LONGEST_TEXT),
        notes=tuple(_notes(row)),
        questions=tuple(questions),
        aspects=tuple(map(_aspect, row["aspects"] or ())),
        pictures=_pictures(row),
        change=changed.get("change"),
        changed=tuple(changed.get("what", ())),
    )


def _overall(row: Mapping[str, Any]) -> str:
    known = number_words(row["score"]) if row["tag"] and row["score"] is not None else row["overall"]
    return known or row["status"].replace("_", " ")


def _marks(row: Mapping[str, Any], questions: Sequence[Question], good_from: float) -> dict[str, str]:
    if not row["tag"]:
        return {OVERALL: _overall(row), **{each.name: each.verdict for each in questions}}
    if row["score"] is None:
        return {row["tag"]: MISSING}
    return {row["tag"]: f"{good_from:g} or more" if row["score"] >= good_from else f"below {good_from:g}"}


def _pictures(row: Mapping[str, Any]) -> dict[str, str]:
    sides = {"Image": row["image"]} if row["tag"] else {"Human": row["human"], "Model": row["model"]}
    return {side: sha256 or "" for side, sha256 in sides.items()}


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
    yield from (cut(text, LONGEST_TEXT) for text in (row["problem"], *row["notes"]) if text)
