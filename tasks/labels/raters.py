"""Whose answers are compared: an evaluation, or the labels of people, as one answer a sample and question.

Owns how a rater is found by name, and how the answers of several annotators become one. How far two raters agree is
worked out by `agreement`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from tasks.errors import InputError
from tasks.history import asking as history
from tasks.history.evaluations import find
from tasks.kinds.tier_rule import merge_votes, overall
from tasks.ledger.label_sets import labels_words
from tasks.parameters import PAIRWISE
from tasks.records import MIXED, OVERALL, TIE, Record
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

    given: str | float | None
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
    """One answer a sample and question. Verdicts of several annotators are merged as votes are, scores averaged.

    Overall, people without a majority count as a Tie, which is what an evaluation would say.

    Where people say something of a figure's dimensions and nothing of it overall, the tier rule says it for them, as it
    does for a judge.
    """
    found: dict[Key, list[tuple[Any, ...]]] = {}
    for candidate, sample_id, question, *rest in history.query(store, _RATINGS, values=[rater.name]).rows:
        found.setdefault(Key(candidate, sample_id, question), []).append(tuple(rest))
    merged = {key: _merged(key.question, rows) for key, rows in found.items()}
    return {**_overalls(merged, rater.flow), **merged} if rater.flow in PAIRWISE else merged


def _merged(question: str, rows: list[tuple[Any, ...]]) -> Answer:
    tag, prompt_id, picture, *_ = rows[0]
    verdicts, scores = [row[3] for row in rows], [row[4] for row in rows]
    given = sum(scores) / len(scores) if None not in scores else merge_votes(verdicts)
    if question == OVERALL and given == MIXED:  # An outcome is never mixed: without a winner it is a tie.
        given = TIE
    return Answer(given, tag, prompt_id, picture)


def _overalls(merged: Mapping[Key, Answer], flow: str) -> dict[Key, Answer]:
    """Overall of each figure, by the tier rule, from what was answered of its dimensions."""
    rubric = load_rubric(flow)
    samples: dict[tuple[str, str], dict[str, str]] = {}
    for key, answer in merged.items():
        if answer.given is not None and key.question != OVERALL:
            samples.setdefault(key[:2], {})[key.question] = cast(str, answer.given)
    return {
        Key(*sample, OVERALL): Answer(outcome)
        for sample, verdicts in samples.items()
        if (outcome := overall(verdicts, rubric).outcome)
    }


def candidates(keys: Iterable[Key]) -> list[str]:
    """Names of the candidates, where they are given, in alphabetical order."""
    return sorted({key.candidate for key in keys} - {""})
