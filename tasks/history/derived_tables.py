"""Tables that landing computes from the history's rows: nights, corrected scores, comparisons with the best."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations, groupby
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from duckdb import DuckDBPyConnection as Connection

from tasks.history.database import BEST_DUE, CORRECTIONS_DUE, LABEL_STAMPS, MEMBERS, NIGHTS_DUE, Master
from tasks.history.rows import insert_rows
from tasks.ledger.evaluations import digest
from tasks.ledger.labels import UNIFORM
from tasks.ledger.side_records import Restart
from tasks.protocols import label_rules_of, protocol_of
from tasks.protocols.labels import LabelRules
from tasks.protocols.protocol import Answered
from tasks.records import OVERALL, OVERALL_SCORE, HistoryRecord
from tasks.statistics.cusum import LEAST_SCORED, AnchorSeries, Attribution, Shift, anchor_series, watch
from tasks.statistics.intervals import (
    ENOUGH,
    FEWEST_LABELS,
    FEWEST_SHARED,
    MOST_SKIPPED,
    Corrected,
    Floats,
    bounded_by_skipped,
    corrected,
    proportion,
)
from tasks.statistics.series import ALL_PROMPTS, LEAST_SHARED, BesideBest, Compared, Part, Series, beside_best, series

OUTCOMES = """SELECT sample_id, coalesce(prompt_id, ''), coalesce(tag, ''), status, score, aspect_mean, satisfied,
        map_from_entries([{k: each.dimension, v: each.score} FOR each IN dimensions]),
        coalesce([{asked_key: part.asked_key, score: part.score, weight: part.weight}
            FOR part IN aspects IF part.asked_key <> ''], []) AS parts
    FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id = $1 AND candidate = $2"""
"""Query for the rows of one evaluation and candidate, the arguments of `compared`."""


def compared(*row: Any) -> Compared:
    """Return a row of `OUTCOMES` as a value."""
    return Compared(*row[:-1], parts=[Part(**part) for part in row[-1]])


_SCORED = """
    WITH asked AS (
        SELECT run_id, unnest(candidates) AS candidate, dataset_key, series_key, protocol_key, anchors_key, started_at
        FROM evaluations WHERE flow = $1 AND scheduled AND measured{}
    ), wanted AS (
        FROM asked SEMI JOIN (FROM due WHERE flow = $1) USING (candidate, series_key, protocol_key)
    ), units AS (
        SELECT s.evaluation_id AS run_id, o.candidate, coalesce(nullif(o.prompt_id, ''), o.sample_id) AS unit,
               avg({}) AS score,
               sum(coalesce(list_sum([part.weight FOR part IN o.aspects
                                      IF part.asked_key <> '' AND part.score IS NOT NULL]), 1))
                   FILTER (o.score IS NOT NULL) AS amount
        FROM outcomes o JOIN shard_runs s USING (run_id)
        WHERE s.evaluation_id IN (SELECT run_id FROM wanted) GROUP BY ALL
    ), scored AS (
        SELECT run_id, candidate, list(unit ORDER BY unit) AS units, list(score ORDER BY unit) AS scores,
               list(amount ORDER BY unit) AS amounts
        FROM units WHERE score IS NOT NULL GROUP BY ALL
    )"""
"""Due nights of a flow, and the scores of their units; `{}`: filter of the nights, and the scored expression."""
_NIGHTS = f"""{_SCORED.format("", "o.score")}
    SELECT w.run_id, w.candidate, w.dataset_key, w.series_key, w.protocol_key, w.started_at, coalesce(units, []),
           coalesce(scores, []), coalesce(amounts, [])
    FROM wanted w LEFT JOIN scored s USING (run_id, candidate) ORDER BY w.started_at, w.run_id"""
_RESTART = """
    INSERT INTO due SELECT DISTINCT flow, candidate, series_key, protocol_key FROM nights
    WHERE flow = $1 AND $2 IN ('', candidate)"""
_OUTDATED = """
    DELETE FROM anchor_nights WHERE (run_id, candidate) IN (
        SELECT (run_id, candidate) FROM nights SEMI JOIN due USING (flow, candidate, series_key, protocol_key));
    DELETE FROM nights WHERE (flow, candidate, series_key, protocol_key) IN (
        SELECT (flow, candidate, series_key, protocol_key) FROM due)"""
_RESTARTED = "SELECT candidate, restarted_at FROM baselines WHERE flow = ?"

_ANCHORED = f"""{_SCORED.format(" AND anchors_key <> ''", "dimension_mean(o.dimensions)")}, anchored AS (
        SELECT s.evaluation_id AS run_id, list(a.candidate || '/' || a.sample_id ORDER BY ALL) AS anchors,
               list(a.score ORDER BY a.candidate || '/' || a.sample_id) AS anchor_scores
        FROM anchor_outcomes a JOIN shard_runs s USING (run_id) WHERE a.score IS NOT NULL GROUP BY ALL
    )
    SELECT w.run_id, w.candidate, w.dataset_key, w.series_key, w.protocol_key, w.started_at, coalesce(m.units, []),
           coalesce(m.scores, []), coalesce(m.amounts, []), w.anchors_key, coalesce(a.anchors, []),
           coalesce(a.anchor_scores, []), d.started_at
    FROM wanted w LEFT JOIN scored m USING (run_id, candidate) LEFT JOIN anchored a USING (run_id)
        LEFT JOIN nights n USING (run_id, candidate)
        LEFT JOIN nights d ON (d.baseline, d.candidate, d.night) = (n.baseline, n.candidate, n.since)
    ORDER BY w.started_at, w.run_id"""


class _Scored(NamedTuple):
    """Row of `_NIGHTS`; of `_ANCHORED` with the fields that have a default."""

    run_id: str
    candidate: str
    dataset_key: str
    series_key: str
    protocol_key: str
    started_at: datetime
    """UTC."""
    units: Sequence[str]
    scores: Sequence[float]
    amounts: Sequence[float]
    """Number of scored samples of each unit; of questions, their scored weight."""
    anchors_key: str = ""
    anchors: Sequence[str] = ()
    anchor_scores: Sequence[float] = ()
    dropped_at: datetime | None = None
    """First night of the open drop of the score; None: there is none."""
    left_out: int = 0
    """Number of its questions that other nights of its series lack."""


def bring_up_to_date(master: Master, restarts: Sequence[Restart]) -> None:
    """Load restarts that the history lacks, and compute the nights of all due series."""
    db = master.db
    rows = [restart.model_dump(mode="json") for restart in restarts]
    insert_rows(master, "baselines", rows, Path("baselines"))
    db.execute(f"CREATE OR REPLACE TEMP TABLE due AS {NIGHTS_DUE}")
    for restart in restarts:
        db.execute(_RESTART, [restart.flow, restart.candidate])
    db.execute(_OUTDATED)
    for (flow,) in db.execute("SELECT DISTINCT flow FROM due").fetchall():
        for table, sql, rows in (("nights", _NIGHTS, _night_rows), ("anchor_nights", _ANCHORED, _anchor_rows)):
            found = (row for nights in _series_of(db, sql, flow) for row in rows(flow, nights))
            insert_rows(master, table, found, Path(table))


def _night_rows(flow: str, nights: Sequence[_Scored]) -> Iterator[dict[str, Any]]:
    scores, shares = _scores(nights)
    watched = watch(scores, protocol_of(flow).highest)
    for number, (night, share, found) in enumerate(zip(nights, shares, watched, strict=True), 1):
        yield {
            **{name: getattr(night, name) for name in ("run_id", "candidate", "series_key", "protocol_key")},
            "flow": flow,
            "started_at": _utc(night.started_at),
            "baseline": nights[0].run_id,
            "night": number,
            "left_out": night.left_out,
            "scored": share,
            **found._asdict(),
            "alarm": None if found.alarm is None else found.alarm + 1,
            "since": None if found.since is None else found.since + 1,
        }


def _anchor_rows(flow: str, nights: Sequence[_Scored]) -> Iterator[dict[str, Any]]:
    anchors = _table([(night.anchors, night.anchor_scores) for night in nights])
    candidate, _ = _scores(nights)
    watched = anchor_series(anchors, candidate, protocol_of(flow).highest)
    for at, night in enumerate(nights):
        judge_since = watched.open_since(at)
        since = judge_since if night.dropped_at is None else _first_since(nights, night.dropped_at, at)
        yield {
            **{name: getattr(night, name) for name in ("run_id", "candidate", "anchors_key")},
            "flow": flow,
            "started_at": _utc(night.started_at),
            "night": at + 1,
            "anchor_change": watched.drops[at].change,
            "candidate_change": watched.candidate[at].change,
            "judge_since": None if judge_since is None else _utc(nights[judge_since].started_at),
            **({} if since is None else _attributed(watched, nights, since, at)),
        }


def _first_since(nights: Sequence[_Scored], moment: datetime, at: int) -> int:
    return next((index for index, night in enumerate(nights) if night.started_at >= moment), at)


def _attributed(watched: AnchorSeries, nights: Sequence[_Scored], since: int, at: int) -> Mapping[str, Any]:
    found: Attribution = watched.attribution(since, at)
    told = {"moved": found.moved, "moved_since": _utc(nights[found.since].started_at), "moved_nights": found.nights}
    return {**told, **_shift("judge", found.judge), **_shift("candidate", found.candidate)}


def _shift(whose: str, shift: Shift | None) -> Mapping[str, Any]:
    if shift is None:
        return {}
    ends = {f"{whose}_low": shift.change - shift.reach, f"{whose}_high": shift.change + shift.reach}
    return {f"{whose}_shift": shift.change, **ends}


def _utc(moment: datetime) -> str:
    return moment.replace(tzinfo=UTC).isoformat()


def _series_of(db: Connection, sql: str, flow: str) -> Iterator[list[_Scored]]:
    """Yield each due series in order: nights of one candidate and equal keys, between two restarts of its baseline."""
    restarted = db.execute(_RESTARTED, [flow]).fetchall()
    found: defaultdict[tuple[str | int, ...], list[_Scored]] = defaultdict(list)
    for night in (_Scored(*row) for row in db.execute(sql, [flow]).fetchall()):
        restarts = sum(whose in ("", night.candidate) and moment <= night.started_at for whose, moment in restarted)
        found[night.candidate, night.series_key, night.protocol_key, night.anchors_key, restarts].append(night)
    for nights in found.values():
        if len({night.dataset_key for night in nights}) == 1:
            yield nights
        else:
            yield from _of_same_questions(db, nights)


_ASKED = """
    SELECT DISTINCT coalesce(nullif(prompt_id, ''), sample_id) || ' ' || unnest(aspects).asked_key
    FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id = ? AND candidate = ?"""
_RESCORED = """
    WITH parts AS (
        SELECT evaluation_id, sample_id, coalesce(nullif(prompt_id, ''), sample_id) AS unit, unnest(aspects) AS part
        FROM outcomes JOIN shard_runs USING (run_id) WHERE candidate = $1 AND list_contains($2, evaluation_id)
    ), samples AS (
        SELECT evaluation_id, unit, sum(part.weight) FILTER (part.score IS NOT NULL) AS amount,
               sum(part.score * part.weight) / amount AS score
        FROM parts SEMI JOIN shared ON place = unit || ' ' || part.asked_key GROUP BY evaluation_id, unit, sample_id
    ), units AS (
        SELECT evaluation_id, unit, avg(score) AS score, sum(amount) AS amount
        FROM samples WHERE score IS NOT NULL GROUP BY ALL
    )
    SELECT evaluation_id, list(unit ORDER BY unit), list(score ORDER BY unit), list(amount ORDER BY unit)
    FROM units GROUP BY evaluation_id"""


def _of_same_questions(db: Connection, nights: Sequence[_Scored]) -> Iterator[list[_Scored]]:
    """Yield the nights of a series with edited questions, scored by the questions that all of them ask.

    A night that shares less than 80% of its questions with all nights before it begins a series of its own.
    """
    asked: dict[str, set[str]] = {}
    part, shared = list[_Scored](), set[str]()
    for night in nights:
        if night.dataset_key not in asked:
            asked[night.dataset_key] = {place for (place,) in db.execute(_ASKED, night[:2]).fetchall()}
        own = asked[night.dataset_key]
        if part and len(shared & own) < LEAST_SHARED * len(own):
            yield _rescored(db, part, asked, shared)
            part = []
        shared = shared & own if part else own
        part.append(night)
    yield _rescored(db, part, asked, shared)


def _rescored(
    db: Connection, nights: Sequence[_Scored], asked: Mapping[str, set[str]], shared: set[str]
) -> list[_Scored]:
    db.execute("CREATE OR REPLACE TEMP TABLE shared AS SELECT unnest(?) AS place", [[*shared]])
    values = [nights[0].candidate, [night.run_id for night in nights]]
    none: Sequence[Any] = ([], [], [])
    found = {run_id: of_units for run_id, *of_units in db.execute(_RESCORED, values).fetchall()}
    return [
        night._replace(units=units, scores=scores, amounts=amounts, left_out=len(asked[night.dataset_key] - shared))
        for night in nights
        for units, scores, amounts in [found.get(night.run_id, none)]
    ]


def _scores(nights: Sequence[_Scored]) -> tuple[Floats, Floats]:
    """Return the units' scores, none of a night with too few scored, and each night's scored share."""
    scores = _table([(night.units, night.scores) for night in nights])
    amounts = _table([(night.units, night.amounts) for night in nights])
    shares = np.nansum(amounts / np.nanmax(amounts, axis=0), axis=1) / max(1, scores.shape[1])
    scores[shares < LEAST_SCORED] = np.nan
    return scores, shares


def _table(nights: Sequence[tuple[Sequence[str], Sequence[float]]]) -> Floats:
    """Return an array of nights x units, for units with a score in at least one night; NaN: the night has none.

    Args:
        nights: units with a score, and their scores, of each.
    """
    units = sorted({unit for named, _ in nights for unit in named})
    places = {unit: place for place, unit in enumerate(units)}
    found = np.full((len(nights), len(units)), np.nan)
    for row, (named, scores) in zip(found, nights, strict=True):
        row[[places[unit] for unit in named]] = scores
    return found


_EVALUATION = f"""
    SELECT run_id, flow, dataset_key, prompts, stamp
    FROM evaluations JOIN ({LABEL_STAMPS}) t USING (flow) WHERE run_id = ?"""
_DIMENSIONS = """
    SELECT DISTINCT candidate, dimension, coverage FROM scores
    WHERE run_id = ? AND "grouping" = 'all' AND measure = 'score'"""
_LABELS = """
    SELECT name, candidate, sample_id, tag, dimension || aspect, verdict, score, annotator, pictures, dataset_key,
           prompts_key, drawn
    FROM labels WHERE flow = ? AND page <> '' ORDER BY ALL"""
_JUDGED = """
    SELECT r.candidate, r.sample_id, r.tag, r.prompt_id, r.question, r.verdict, r.score, o.status,
           map_from_entries(list_transform(map_entries(o.pictures),
               lambda each: {'k': each.key, 'v': each.value.source_sha256}))
    FROM ratings r JOIN outcomes o ON o.candidate = r.candidate AND o.sample_id = r.sample_id
    JOIN shard_runs s ON s.run_id = o.run_id AND s.evaluation_id = r.source
    WHERE r.source = ? ORDER BY r.candidate, r.sample_id, r.question"""


class Correction(HistoryRecord):
    """Score of an evaluation corrected by people, and the agreement of judge and people: a row of the table."""

    run_id: str
    """Evaluation (evaluations.run_id)."""
    candidate: str
    """System whose figures or images were judged."""
    dimension: str
    """Dimension, or overall; for images the tag."""
    corrected: float | None = None
    """Score corrected by people (PPI++); None: there is none, and the column why has the reason."""
    corrected_low: float | None = None
    """Lower end of its 95% interval."""
    corrected_high: float | None = None
    """Upper end of its 95% interval."""
    bounds_low: float | None = None
    """Lower bound of the corrected score whatever people would have said of what they could not tell, and of what the
    judge did not score where that is more than 3%; None: neither is there, or there are too few labels."""
    bounds_high: float | None = None
    """Upper bound likewise."""
    weight: float | None = None
    """Weight of the judge's score in it, 0-1."""
    labels: int
    """Samples (for images and checklists: prompts) that people judged and that count."""
    people: int
    """Persons who judged them."""
    cannot_tell: int
    """Samples (for checklists: checks) drawn for people that got no answer, or could not be shown. Above 20% there are
    bounds alone."""
    agreed: float | None
    """Share of these samples on which judge and people agree (for images: at most 1 point apart)."""
    agreed_low: float | None
    """Lower end of its exact 95% interval."""
    agreed_high: float | None
    """Upper end of its exact 95% interval."""
    kappa: float | None
    """Cohen's kappa of judge and people (for images with quadratic weights); None: one side always answers alike."""
    kappa_low: float | None
    """Lower end of its 95% interval; None below 50 samples."""
    kappa_high: float | None
    """Upper end of its 95% interval; None below 50 samples."""
    shared: int
    """Samples that two or more people judged."""
    people_agreed: float | None
    """Share of equal answers of two people on these samples."""
    people_agreed_low: float | None
    """Lower end of its exact 95% interval, for this number of samples."""
    people_agreed_high: float | None
    """Upper end of its exact 95% interval, for this number of samples."""
    people_kappa: float | None
    """Cohen's kappa of two people on these samples, over all pairs; None: one of a pair always answers alike."""
    people_kappa_low: float | None
    """Lower end of its 95% interval; None below 50 samples."""
    people_kappa_high: float | None
    """Upper end of its 95% interval; None below 50 samples."""
    names: tuple[str, ...]
    """Labels that count (labels.name)."""
    why: str
    """Reasons for a missing corrected score and for each set of labels that does not count; empty: no problem."""
    stamp: str
    """Hash of the labels from which it was computed."""


class _Judged(NamedTuple):
    """Answer of an evaluation to one question about a sample."""

    candidate: str
    sample_id: str
    tag: str
    prompt_id: str
    question: str
    verdict: str | None
    score: float | None
    status: str
    pictures: Mapping[str, str]

    @property
    def unit(self) -> str:
        """Unit of the mean: a figure, or the prompt of an image."""
        return self.prompt_id or self.sample_id


class _Label(NamedTuple):
    """Answer of one person to one question about a sample."""

    name: str
    candidate: str
    sample_id: str
    tag: str
    question: str
    verdict: str | None
    score: float | None
    annotator: str
    pictures: Mapping[str, str]
    dataset_key: str
    prompts_key: str
    drawn: str


def _about(each: _Judged | _Label) -> tuple[str, str]:
    """Return the sample and the question."""
    return each.sample_id, each.question


class _Evaluation(NamedTuple):
    run_id: str
    flow: str
    dataset_key: str
    prompts: Mapping[str, str]
    stamp: str


def correct(master: Master) -> list[str]:
    """Update the table `corrections`; return the evaluations whose corrections were due."""
    db = master.db
    due = [run_id for (run_id,) in db.execute(CORRECTIONS_DUE).fetchall()]
    for run_id in due:
        db.execute("DELETE FROM corrections WHERE run_id = ?", [run_id])
        for row in db.execute(_EVALUATION, [run_id]).fetchall():
            insert_rows(master, "corrections", _correction_rows(db, _Evaluation(*row)), Path("corrections"))
    return due


def _correction_rows(db: Connection, evaluation: _Evaluation) -> Iterator[dict[str, Any]]:
    labels = [_Label(*row) for row in db.execute(_LABELS, [evaluation.flow]).fetchall()]
    judged = [_Judged(*row) for row in db.execute(_JUDGED, [evaluation.run_id]).fetchall()]
    headlines, pooled = {OVERALL, *(each.tag for each in judged)}, label_rules_of(evaluation.flow).pooled
    usable_by_dimension: defaultdict[str, list[_Label]] = defaultdict(list)
    places: list[tuple[str, str, _Units, list[_Judged], list[_Label], list[str]]] = []
    for candidate, dimension, coverage in db.execute(_DIMENSIONS, [evaluation.run_id]).fetchall():
        own = [each for each in judged if (each.candidate, _dimension(each)) == (candidate, dimension)]
        about = [each for each in labels if (each.candidate, _dimension(each)) == (candidate, dimension)]
        answers = own
        if pooled:  # a label is about one of the questions that the score is a mean of
            about = [each for each in labels if each.candidate == candidate]
            answers = [each for each in judged if each.candidate == candidate and each.question != OVERALL_SCORE]
        if about or dimension in headlines:
            usable, why = _usable(about, own, evaluation)
            usable_by_dimension[dimension] += usable
            units = _Units(evaluation.flow, own, 1.0 if coverage >= ENOUGH else coverage)
            places.append((candidate, dimension, units, answers, usable, why))
    # People who label figures of several candidates share too few of each to show whether they agree.
    at_odds = {dimension: _at_odds(evaluation.flow, some) for dimension, some in usable_by_dimension.items()}
    for candidate, dimension, units, answers, usable, why in places:
        found = _correction(evaluation.flow, units, answers, usable, at_odds[dimension])
        place = {"run_id": evaluation.run_id, "candidate": candidate, "dimension": dimension}
        withheld = found.pop("withheld")
        row = {**place, **found, "why": "; ".join([*filter(None, [withheld]), *why]), "stamp": evaluation.stamp}
        yield Correction.model_validate(row).model_dump()


def _at_odds(flow: str, labels: Iterable[_Label]) -> str:
    """Return that two people agree no better than by chance on what they share; empty if they do, or share too little.

    Args:
        labels: answers to one question about figures or images of all candidates.
    """
    asked: defaultdict[tuple[str, str], dict[str, Answered | None]] = defaultdict(dict)
    for label in labels:
        asked[f"{label.candidate}\n{label.sample_id}", label.question][label.annotator] = _answer(label)
    answered = {
        about: {person: answer for person, answer in some.items() if answer is not None}
        for about, some in asked.items()
    }
    met = {about: some for about, some in answered.items() if len(some) > 1}
    shared = sum(len(people) > 1 for people in asked.values())
    if shared < FEWEST_SHARED or not _by_chance(_among(label_rules_of(flow), met)):
        return ""
    people = f"two people who share {shared} samples agree no better than by chance"
    return f"{people}: what they say corrects nothing"


def _dimension(each: _Judged | _Label) -> str:
    """Return the dimension whose score includes an answer; empty for an aspect."""
    if not each.tag:
        return each.question
    return each.tag if each.question == OVERALL_SCORE else ""


def _usable(
    labels: Sequence[_Label], judged: Sequence[_Judged], evaluation: _Evaluation
) -> tuple[list[_Label], list[str]]:
    """Return the labels that count, and the reason for each set that does not."""
    by_name: defaultdict[str, list[_Label]] = defaultdict(list)
    for label in labels:
        by_name[label.name].append(label)
    shown = {each.sample_id: each.pictures for each in judged}
    reasons = {name: _unusable(some, shown, evaluation) for name, some in by_name.items()}
    usable = [label for name, some in by_name.items() if not reasons[name] for label in some]
    return usable, [f"{name} does not count: {reason}" for name, reason in reasons.items() if reason]


def _unusable(labels: Sequence[_Label], shown: Mapping[str, Mapping[str, str]], evaluation: _Evaluation) -> str:
    first = labels[0]
    if first.drawn != UNIFORM:
        return "not drawn uniformly"
    if first.dataset_key != evaluation.dataset_key:
        return "of another dataset"
    if first.prompts_key != digest(evaluation.prompts):
        return "of another protocol, whose prompts put other questions"
    other = sum(shown.get(label.sample_id) != label.pictures for label in labels)
    return f"{other} of its {len(labels)} answers are about other pictures" if other else ""


def _correction(
    flow: str, units: "_Units", judged: Sequence[_Judged], labels: Sequence[_Label], at_odds: str
) -> dict[str, Any]:
    """Return the columns of a correction that can be computed.

    Args:
        judged: the judge's answers to the questions that people were asked: its scores, or answers behind them.
        at_odds: reason why the answers of these people correct nothing; empty: there is none.
    """
    rules = label_rules_of(flow)
    said: defaultdict[tuple[str, str], dict[str, Answered]] = defaultdict(dict)
    for label in labels:
        if (answer := _answer(label)) is not None:
            said[_about(label)][label.annotator] = answer
    given = {
        _about(each): (each, ours, theirs)
        for each in judged
        if (ours := _answer(each)) is not None and (some := said.get(_about(each)))
        if (theirs := rules.merged_answer(each.question, [*some.values()])) is not None
    }
    skipped = {_about(label) for label in labels} - said.keys()
    unsaid = [
        (each.unit, rules.scale.score(ours))
        for each in judged
        if _about(each) in skipped and (ours := _answer(each)) is not None
    ]
    labelled = [(each.unit, rules.scale.score(a), rules.scale.score(b)) for each, a, b in given.values()]
    alike: defaultdict[str, list[float]] = defaultdict(list)
    for each, ours, theirs in given.values():
        alike[each.unit].append(float(rules.scale.alike(ours, theirs)))
    told: dict[str, Any] = {
        "labels": len(alike),
        "people": len({label.annotator for label in labels}),
        "cannot_tell": len(skipped),
        "names": tuple(sorted({label.name for label in labels})),
        **_agreement("agreed", [fmean(shares) for shares in alike.values()]),
        **_kappa("kappa", rules, [(ours, theirs, each.unit) for each, ours, theirs in given.values()]),
        **_among(rules, {sample: some for sample, some in said.items() if len(some) > 1}),
    }
    found = units.corrected(labelled)
    if found is None:
        return {**told, "withheld": f"{FEWEST_LABELS} labels are needed, {told['labels']} count"}
    if at_odds:
        return {**told, "withheld": at_odds}
    bounds = units.bounds(found, labelled, unsaid)
    if len(unsaid) > MOST_SKIPPED * (len(unsaid) + len(labelled)):
        return {**told, **bounds, "withheld": f"people could not tell {len(unsaid)} of {len(unsaid) + len(labelled)}"}
    ends = {"corrected_low": found.ci_low, "corrected_high": found.ci_high}
    return {**told, "corrected": found.value, **ends, **bounds, "weight": found.weight, "withheld": ""}


def _by_chance(told: Mapping[str, Any]) -> bool:
    """Return whether people who share samples agree no better than by chance; kappa is None of one answer."""
    kappa = told["people_kappa"]
    return told["people_agreed"] == 0 if kappa is None else kappa <= 0


def _answer(each: _Judged | _Label) -> Answered | None:
    return each.score if each.verdict is None else each.verdict


class _Units:
    """Units of the mean of a score: figures, or prompts with the mean of their images; a forfeit scores 0."""

    def __init__(self, flow: str, judged: Sequence[_Judged], known: float) -> None:
        self._known = known  # share that the judge scored: nobody was shown the others, which may have any score
        self._highest, worth = protocol_of(flow).highest, label_rules_of(flow).scale.score
        self._scores: defaultdict[str, list[float]] = defaultdict(list)
        self._delivered: defaultdict[str, list[float]] = defaultdict(list)
        for each in judged:
            answer = _answer(each)
            if each.status == "forfeit":
                self._scores[each.unit].append(0.0)
            elif answer is not None:
                self._scores[each.unit].append(worth(answer))
                self._delivered[each.unit].append(1.0)

    def corrected(self, labelled: Sequence[tuple[str, float, float]]) -> Corrected | None:
        """Return the score corrected by labels, each a unit with the judge's value and the people's value."""
        by_unit: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for unit, ours, theirs in labelled:
            by_unit[unit].append((ours, theirs))
        shares = {unit: len(self._delivered[unit]) / len(self._scores[unit]) for unit in by_unit}
        judged = [shares[unit] * fmean(ours for ours, _ in some) for unit, some in by_unit.items()]
        people = [shares[unit] * fmean(theirs for _, theirs in some) for unit, some in by_unit.items()]
        judge = [fmean(scores) for unit, scores in self._scores.items() if self._delivered[unit]]
        return corrected(judge, judged, people, len(self._scores) - len(judge), self._highest)

    def bounds(
        self, found: Corrected, labelled: Sequence[tuple[str, float, float]], unsaid: Sequence[tuple[str, float]]
    ) -> dict[str, float]:
        """Return the bounds of a corrected score, if any; `unsaid` are skipped samples with the judge's values."""
        if not unsaid and self._known == 1:
            return {}
        ends = [
            self.corrected([*labelled, *((unit, ours, end) for unit, ours in unsaid)]) for end in (0.0, self._highest)
        ]
        lowest, best = (end or found for end in ends)
        low, high = bounded_by_skipped(found, lowest, best, self._highest)
        unknown = (1 - self._known) * self._highest
        return {"bounds_low": self._known * low, "bounds_high": self._known * high + unknown}


def _among(rules: LabelRules, shared: Mapping[tuple[str, str], Mapping[str, Answered]]) -> dict[str, Any]:
    """Return the agreement of people on the samples that two or more of them answered."""
    pairs = {
        sample: [(some[one], some[other]) for one, other in combinations(sorted(some), 2)]
        for sample, some in shared.items()
    }
    shares = [fmean(float(rules.scale.alike(a, b)) for a, b in each) for each in pairs.values()]
    met = [(a, b, sample) for (sample, _), each in pairs.items() for a, b in each]
    return {"shared": len(shared), **_agreement("people_agreed", shares), **_kappa("people_kappa", rules, met)}


def _kappa(name: str, rules: LabelRules, met: Sequence[tuple[Answered, Answered, str]]) -> dict[str, float | None]:
    """Return Cohen's kappa of two raters' answers, each pair with its unit of resampling."""
    found = rules.scale.concordance([a for a, _, _ in met], [b for _, b, _ in met], [drawn for *_, drawn in met]).kappa
    return {name: found.value, f"{name}_low": found.ci_low, f"{name}_high": found.ci_high}


def _agreement(name: str, shares: Sequence[float]) -> dict[str, float | None]:
    """Return a share with its exact interval, for this number of samples."""
    found = proportion(sum(shares), len(shares))
    return {name: found.value, f"{name}_low": found.ci_low, f"{name}_high": found.ci_high}


_TAGS = """
    SELECT count(DISTINCT tag)
    FROM (SELECT unnest(dimensions) AS tag FROM evaluations WHERE list_contains(?, run_id))"""


class _Member(NamedTuple):
    """Candidate of a group, with its newest runs: one, or for all tags together one of each flow."""

    flow: str
    dataset_key: str
    alike: str
    candidate: str
    runs: Sequence[str]

    @property
    def group(self) -> tuple[str, str, str]:
        return self.flow, self.dataset_key, self.alike


def compare_with_best(master: Master) -> None:
    """Update the table `versus_best`."""
    db = master.db
    due = {(str(flow), str(dataset), str(alike)) for flow, dataset, alike in db.execute(BEST_DUE).fetchall()}
    members = [_Member(*row) for row in db.execute(f"{MEMBERS} ORDER BY ALL").fetchall()]
    for group in due:
        db.execute("DELETE FROM versus_best WHERE (flow, dataset_key, alike) = (?, ?, ?)", list(group))
    for group, its in groupby(members, key=lambda member: member.group):
        if group in due:
            insert_rows(master, "versus_best", _best_rows(db, list(its)), Path("versus_best"))


def _best_rows(db: Connection, members: Sequence[_Member]) -> Iterator[dict[str, Any]]:
    sides = {member.candidate: _side(db, member) for member in members}
    together = not members[0].flow
    tags = 0
    if together:  # the overall is of all tags that a run of the group asks about
        runs = [run for member in members for run in member.runs]
        [tags] = db.execute(_TAGS, [runs]).fetchone() or (0,)
    best = max(sides, key=lambda candidate: _headline(sides[candidate], tags))
    beside = beside_best(sides, best)
    for member in members:
        found = {measure.dimension: each for measure, each in beside.get(member.candidate, {}).items()}
        shown = {OVERALL: _joined(found, tags)} if together else {name: _told(each) for name, each in found.items()}
        for dimension in [OVERALL] if together else [measure.dimension for measure in sides[best].values]:
            told = {**shown[dimension], "among": len(members)} if shown.get(dimension) else {}
            yield {**member._asdict(), "runs": list(member.runs), "best": best, "dimension": dimension, **told}


def _side(db: Connection, member: _Member) -> Series:
    """Return the scores of a member by dimension or tag; the headline of a flow comes first."""
    found = [_series(db, run_id, member.candidate) for run_id in member.runs]
    measures = {measure: each for each in found for measure in each.values if measure.measure == "score"}
    shown = {name: each for name, each in measures.items() if member.flow or name.dimension != ALL_PROMPTS}
    values = {name: each.values[name] for name, each in shown.items()}
    return Series(values, {name: each.lacking[name] for name, each in shown.items()}, {}, 1.0)


def _series(db: Connection, run_id: str, candidate: str) -> Series:
    [flow] = db.execute("SELECT flow FROM evaluations WHERE run_id = ?", [run_id]).fetchone() or ("",)
    rows = db.execute(OUTCOMES, [run_id, candidate]).fetchall()
    return series(protocol_of(flow).measured(compared(*row)) for row in rows)


def _headline(side: Series, tags: int) -> float:
    """Return the score that selects the best: the flow's own, or the mean of all tags; below 0: there is none."""
    means = [fmean(units.values()) for units in side.values.values() if units]
    if tags:
        return fmean(means) if len(means) == tags else -1.0
    return next(iter(means), -1.0)


def _told(beside: BesideBest) -> dict[str, Any]:
    found, names = beside.difference, ("n", "of", "change", "ci_low", "ci_high", "worst_low", "worst_high")
    return {**{name: getattr(found, name) for name in names}, "p": beside.p}


def _joined(beside: Mapping[str, BesideBest], tags: int) -> dict[str, Any]:
    """Return the mean over all tags; empty if one is missing.

    Independent intervals add up as squares (MOVER; Zou and Donner, 2008), those of all pairs of candidates, too.
    """
    found = {tag: each.difference for tag, each in beside.items()}
    changes = [each.change for each in found.values() if each.change is not None]
    if len(changes) < tags:
        return {}
    change, ends = fmean(changes), dict[str, float]()
    known = [(each.change, each.ci_low, each.ci_high) for each in found.values()]
    if all(None not in each for each in known):
        below = hypot(*((middle or 0.0) - (low or 0.0) for middle, low, _ in known)) / tags
        above = hypot(*((high or 0.0) - (middle or 0.0) for middle, _, high in known)) / tags
        ends = {"ci_low": change - below, "ci_high": change + above}
        if any(each.worst_low is not None for each in found.values()):
            lows = (each.ci_low if each.worst_low is None else each.worst_low for each in found.values())
            highs = (each.ci_high if each.worst_high is None else each.worst_high for each in found.values())
            ends |= {"worst_low": fmean(low or 0.0 for low in lows), "worst_high": fmean(high or 0.0 for high in highs)}
    pairs = {"n": sum(each.n for each in found.values()), "of": sum(each.of or 0 for each in found.values())}
    return {**pairs, "change": change, **ends}
