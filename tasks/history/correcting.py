"""Scores of each evaluation corrected by people's labels: the history's table `corrections`.

Labels count if `jury labels page` made the page that asked for them, for uniformly drawn samples of the same dataset
with the same pictures and prompts. The judge does not matter, since people's answers do not depend on it. The table has
the reason why other labels do not count. `statistics.people` makes the estimate; `protocols` merges the answers of
several people.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection as Connection

from tasks.history.database import Master
from tasks.history.due import CORRECTIONS_DUE, LABEL_STAMPS
from tasks.history.rows import insert_rows
from tasks.ledger.label_pages import UNIFORM
from tasks.ledger.protocol_keys import digest
from tasks.protocols import label_rules_of, protocol_of
from tasks.protocols.labels import LabelRules
from tasks.protocols.protocol import Answered
from tasks.records import OVERALL, OVERALL_SCORE, HistoryRecord
from tasks.statistics.intervals import proportion
from tasks.statistics.people import FEWEST, Corrected, corrected

_EVALUATION = f"""
    SELECT run_id, flow, dataset_key, prompts, stamp
    FROM evaluations JOIN ({LABEL_STAMPS}) t USING (flow) WHERE run_id = ?"""
_SCORES = """
    SELECT DISTINCT candidate, dimension FROM scores WHERE run_id = ? AND "grouping" = 'all' AND measure = 'score'"""
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
    weight: float | None = None
    """Weight of the judge's score in it, 0-1."""
    labels: int
    """Samples (for images: prompts) that people judged and that count."""
    people: int
    """Persons who judged them."""
    cannot_tell: int
    """Samples that were shown to people and got no answer."""
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
            insert_rows(master, "corrections", _rows(db, _Evaluation(*row)), Path("corrections"))
    return due


def _rows(db: Connection, evaluation: _Evaluation) -> Iterator[dict[str, Any]]:
    labels = [_Label(*row) for row in db.execute(_LABELS, [evaluation.flow]).fetchall()]
    judged = [_Judged(*row) for row in db.execute(_JUDGED, [evaluation.run_id]).fetchall()]
    headlines = {OVERALL, *(each.tag for each in judged)}
    for candidate, dimension in db.execute(_SCORES, [evaluation.run_id]).fetchall():
        own = [each for each in judged if (each.candidate, _dimension(each)) == (candidate, dimension)]
        about = [each for each in labels if (each.candidate, _dimension(each)) == (candidate, dimension)]
        if about or dimension in headlines:
            usable, why = _usable(about, own, evaluation)
            found = _correction(evaluation.flow, own, usable)
            place = {"run_id": evaluation.run_id, "candidate": candidate, "dimension": dimension}
            reasons = [*([] if "corrected" in found else [_too_few(found["labels"])]), *why]
            row = {**place, **found, "why": "; ".join(reasons), "stamp": evaluation.stamp}
            yield Correction.model_validate(row).model_dump()


def _dimension(each: _Judged | _Label) -> str:
    """Return the dimension whose score includes an answer; empty for an aspect."""
    if not each.tag:
        return each.question
    return each.tag if each.question == OVERALL_SCORE else ""


def _too_few(labels: int) -> str:
    return f"{FEWEST} labels are needed, {labels} count"


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
        return f"drawn by {first.drawn}, for finding errors"
    if first.dataset_key != evaluation.dataset_key:
        return "of another dataset"
    if first.prompts_key != digest(evaluation.prompts):
        return "of another protocol, whose prompts put other questions"
    other = sum(shown.get(label.sample_id) != label.pictures for label in labels)
    return f"{other} of its {len(labels)} answers are about other pictures" if other else ""


def _correction(flow: str, judged: Sequence[_Judged], labels: Sequence[_Label]) -> dict[str, Any]:
    """Return the columns of a correction that can be computed."""
    rules = label_rules_of(flow)
    said: defaultdict[str, dict[str, Answered]] = defaultdict(dict)
    for label in labels:
        if (answer := _answer(label)) is not None:
            said[label.sample_id][label.annotator] = answer
    given = {
        each.sample_id: (each, ours, theirs)
        for each in judged
        if (ours := _answer(each)) is not None and (some := said.get(each.sample_id))
        if (theirs := rules.merged_answer(each.question, [*some.values()])) is not None
    }
    units = _Units(flow, judged)
    found = units.corrected(
        [(each.unit, rules.worth(ours), rules.worth(theirs)) for each, ours, theirs in given.values()]
    )
    told = {
        "labels": len({each.unit for each, *_ in given.values()}),
        "people": len({label.annotator for label in labels}),
        "cannot_tell": len({label.sample_id for label in labels} - said.keys()),
        "names": tuple(sorted({label.name for label in labels})),
        **_agreement("agreed", [float(rules.alike(ours, theirs)) for _, ours, theirs in given.values()]),
        **_kappa("kappa", rules, [(ours, theirs, each.unit) for each, ours, theirs in given.values()]),
        **_among(rules, {sample: some for sample, some in said.items() if len(some) > 1}),
    }
    if found:
        ends = {"corrected_low": found.ci_low, "corrected_high": found.ci_high}
        told |= {"corrected": found.value, **ends, "weight": found.weight}
    return told


def _answer(each: _Judged | _Label) -> Answered | None:
    return each.score if each.verdict is None else each.verdict


class _Units:
    """Units of the mean of a score: figures, or prompts with the mean of their images; a forfeit scores 0."""

    def __init__(self, flow: str, judged: Sequence[_Judged]) -> None:
        self._highest, worth = protocol_of(flow).highest, label_rules_of(flow).worth
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


def _among(rules: LabelRules, shared: Mapping[str, Mapping[str, Answered]]) -> dict[str, Any]:
    """Return the agreement of people on the samples that two or more of them answered."""
    pairs = {
        sample: [(some[one], some[other]) for one, other in combinations(sorted(some), 2)]
        for sample, some in shared.items()
    }
    shares = [fmean(float(rules.alike(a, b)) for a, b in each) for each in pairs.values()]
    met = [(a, b, sample) for sample, each in pairs.items() for a, b in each]
    return {"shared": len(shared), **_agreement("people_agreed", shares), **_kappa("people_kappa", rules, met)}


def _kappa(name: str, rules: LabelRules, met: Sequence[tuple[Answered, Answered, str]]) -> dict[str, float | None]:
    """Return Cohen's kappa of two raters' answers, each pair with its unit of resampling."""
    found = rules.concordance([a for a, _, _ in met], [b for _, b, _ in met], [drawn for *_, drawn in met]).kappa
    return {name: found.value, f"{name}_low": found.ci_low, f"{name}_high": found.ci_high}


def _agreement(name: str, shares: Sequence[float]) -> dict[str, float | None]:
    """Return a share with its exact interval, for this number of samples."""
    found = proportion(sum(shares), len(shares))
    return {name: found.value, f"{name}_low": found.ci_low, f"{name}_high": found.ci_high}
