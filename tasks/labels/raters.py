"""Whose answers are compared: an evaluation, or the labels of people, as one answer a sample and question.

Owns how a rater is found by name, and which answers of several annotators become one. How they do is for `kinds`, how
far two raters agree is worked out by `agreement`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.errors import InputError
from tasks.history import asking as history
from tasks.history.evaluations import find
from tasks.kinds import kind_of
from tasks.kinds.kind import Kind
from tasks.kinds.values import Answered
from tasks.ledger.label_sets import labels_words
from tasks.records import OVERALL, Record
from tasks.rubrics.rubric import load_rubric
from tasks.text import listed

_LABELS = """
    SELECT any_value(flow), count(*), count(DISTINCT nullif(annotator, '')), any_value(source)
    FROM labels WHERE name = $1 HAVING count(*) > 0"""
_RATINGS = """
    SELECT candidate, sample_id, question, tag, prompt_id, coalesce(picture, ''), verdict, score
    FROM ratings WHERE source = $1 ORDER BY ALL"""


class Key(NamedTuple):
    """One question about one sample."""

    candidate: str
    """Empty: labels that do not name it."""
    sample_id: str
    question: str
    """Dimension, or overall; of a generated image an aspect, or overall_score."""


class Answer(NamedTuple):
    """What a rater says to one question."""

    given: Answered | None
    """A verdict, or a score of 0-10; None where it is missing."""
    tag: str = ""
    prompt_id: str = ""
    """Empty: figures, and labels."""
    picture: str = ""
    """SHA-256 of the picture that was judged; empty: labels."""


class Rater(Record):
    """Who answers."""

    name: str
    """Id of the evaluation, or name of the labels."""
    kind: Literal["evaluation", "labels"]
    flow: str
    about: str
    """Judge and prompt set, or number of people, in words."""


def find_rater(store: Path, named: str) -> Rater:
    """The labels of this name, or else the evaluation whose id begins so.

    Raises:
        HistoryLocked: a writer held the history.
        InputError: there is neither, there are several evaluations, or there is no history.
    """
    if found := history.query(store, _LABELS, values=[named]).rows:
        flow, rows, people, source = found[0]
        about = f"{labels_words(rows, people)}, {source}"
        return Rater(name=named, kind="labels", flow=flow, about=about)
    try:
        run = find(store, named)
    except InputError as error:
        names = history.query(store, "SELECT DISTINCT name FROM labels ORDER BY name").rows
        raise InputError(f"{error}; labels are {listed(name for (name,) in names)}") from error
    about = f"{run.model}, prompt set {run.prompt_set}, {run.started_at:%Y-%m-%d %H:%M}"
    return Rater(name=run.run_id, kind="evaluation", flow=run.flow, about=about)


def answers(store: Path, rater: Rater) -> dict[Key, Answer]:
    """One answer a sample and question, those of several annotators merged as the kind of judging does it.

    Where people say something of a figure's dimensions and nothing of it overall, the tier rule says it for them, as it
    does for a judge.
    """
    kind = kind_of(rater.flow)
    found: dict[Key, list[tuple[Any, ...]]] = {}
    for candidate, sample_id, question, *rest in history.query(store, _RATINGS, values=[rater.name]).rows:
        found.setdefault(Key(candidate, sample_id, question), []).append(tuple(rest))
    merged = {key: _merged(kind, key.question, rows) for key, rows in found.items()}
    return {**_overalls(kind, merged, rater.flow), **merged}


def _merged(kind: Kind, question: str, rows: list[tuple[Any, ...]]) -> Answer:
    tag, prompt_id, picture, *_ = rows[0]
    given = [score if verdict is None else verdict for *_, verdict, score in rows]
    return Answer(kind.merged_answer(question, given), tag, prompt_id, picture)


def _overalls(kind: Kind, merged: Mapping[Key, Answer], flow: str) -> dict[Key, Answer]:
    """Overall of each sample of which it follows from what was answered to the other questions."""
    rubric = load_rubric(flow)
    samples: dict[tuple[str, str], dict[str, Answered]] = {}
    for key, answer in merged.items():
        if answer.given is not None and key.question != OVERALL:
            samples.setdefault(key[:2], {})[key.question] = answer.given
    derived = {sample: kind.overall_of(given, rubric) for sample, given in samples.items()}
    return {Key(*sample, OVERALL): Answer(outcome) for sample, outcome in derived.items() if outcome is not None}


def candidates(keys: Iterable[Key]) -> list[str]:
    """Names of the candidates, where they are given, in alphabetical order."""
    return sorted({key.candidate for key in keys} - {""})
