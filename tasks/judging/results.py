"""Scores, rates, controls and counts of an evaluation, from one pass over its outcomes.

A run adds its outcomes while it judges; others are read from their ledgers, and the last few results are kept.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from tasks.controls.status import AnchorRow, ControlRow, anchor_row, control_row
from tasks.judging.tallies import OutcomeTally
from tasks.ledger.reading import OUTCOMES, read_end, read_judgments, read_outcomes
from tasks.presentation.wording import Scored
from tasks.protocols import display_of, protocol_of
from tasks.protocols.controls import Heard, Original
from tasks.records import ANCHOR, Order, Outcome, RunStart
from tasks.statistics.alike import Alike
from tasks.statistics.image_scores import GradeRow
from tasks.statistics.intervals import full_run_interval
from tasks.statistics.rates import Answer, RateRow, RateTally, answer, repeated
from tasks.statistics.series import Compared, Measure, Measured, Series, paired, series

KEPT = 4
"""Evaluations whose results are kept: a run, its shards together, and the one before it."""


class _Place(NamedTuple):
    """Sample, or control of it, that answers are about."""

    candidate: str
    sample_id: str
    control: str


def _place(outcome: Outcome) -> _Place:
    return _Place(outcome.candidate, outcome.sample_id, outcome.control)


_Votes = dict[str, dict[Order, list[Answer]]]
_original = lru_cache(maxsize=1024)(Original)


class Results:
    """Results of one evaluation. Add all outcomes before reading values that are computed from all of them."""

    def __init__(self, start: RunStart, runs: Sequence[Path]) -> None:
        """Begin without outcomes; `start` is that of any run, `runs` are the ledger folders of all."""
        self._protocol, self._display = protocol_of(start.flow), display_of(start.flow)
        self._start, self._runs = start, runs
        self._scores = self._protocol.score_tally(start)
        self._rates = RateTally()
        self._controls: list[Outcome] = []
        self.anchors: list[AnchorRow] = []
        self._originals: defaultdict[str, dict[str, Original]] = defaultdict(dict)
        self._alike = Alike[Measure]()
        self.outcomes = OutcomeTally(self._display, self._display.good_from(start.parameters))
        self.by_candidate: defaultdict[str, list[Measured]] = defaultdict(list)
        """Candidate -> values of its samples that are compared with those of other evaluations."""

    def add(self, outcome: Outcome) -> None:
        """Add the next outcome, of a real sample, of a control or of an anchor."""
        if outcome.control == ANCHOR:
            self.anchors.append(anchor_row(outcome))
            return
        if outcome.control:
            self._controls.append(outcome)
            return
        self._scores.add(outcome)
        self._rates.decide(outcome)
        self.outcomes.add(outcome)
        measured = self._protocol.measured(Compared.of(outcome))
        self.by_candidate[outcome.candidate].append(measured._replace(values=self._alike(measured.values)))
        self._originals[outcome.candidate][outcome.sample_id] = _original(outcome.overall, outcome.score)

    @cached_property
    def scores(self) -> Sequence[Scored]:
        """Scores of every candidate, dimension or tag, and group of samples."""
        rows = self._with_full_run(self._scores.rows())
        ranked = self._display.in_words(rows)
        return versus_best(rows, self.by_candidate, ranked[0][0]) if ranked else rows

    def _with_full_run(self, rows: Iterable[Scored]) -> list[Scored]:
        """Return the rows; after an early stop, those over all samples have the interval of the whole run's score."""
        parts, found = self._parts(), list[Scored]()
        for row in rows:
            tag = row.dimension if isinstance(row, GradeRow) else ""
            part = parts.get((row.candidate, tag)) if row.grouping in ("all", "aspect") else None
            if part:
                judged, there = part
                low, high = full_run_interval(row.score, (row.ci_low, row.ci_high), judged / there)
                row = row.model_copy(update={"full_n": there, "full_low": low, "full_high": high})
            found.append(row)
        return found

    def _parts(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return (candidate, tag) -> numbers of judged and of all units, for a run that stopped at its budget."""
        end = read_end(self._runs[0]) if len(self._runs) == 1 else None
        whole = end.stopped.whole if end and end.stopped else {}
        return {
            (candidate, tag): (len({each.unit for each in self.by_candidate[candidate] if each.tag == tag}), there)
            for candidate, tags in whole.items()
            for tag, there in tags.items()
        }

    @cached_property
    def rates(self) -> list[RateRow]:
        """Rates of the judge's agreement with itself; judgments are read for them if it was asked more than once."""
        asked_again = self._runs if repeated(self._start) else ()
        return self._rates.with_judgments(chain.from_iterable(map(read_judgments, asked_again))).rows()

    @cached_property
    def controls(self) -> list[ControlRow]:
        """Result of each control sample, with the outcome of the sample that it was made of."""
        votes = self._control_votes()
        return [
            control_row(control, self._originals.get(control.candidate, {}).get(control.sample_id), heard)
            for control in self._controls
            for heard in [Heard(votes[_place(control)], votes[_place(control)._replace(control="")])]
        ]

    def _control_votes(self) -> defaultdict[_Place, _Votes]:
        """Return the ok answers about controls and the samples that they were made of; none if there is one vote."""
        found: defaultdict[_Place, _Votes] = defaultdict(dict)
        if not self._controls or self._start.parameters.get("votes", 1) == 1:
            return found
        wanted = {_place(control)._replace(control="") for control in self._controls}
        for row in chain.from_iterable(map(read_judgments, self._runs)):
            place = _Place(row.candidate, row.sample_id, row.control)
            if (said := answer(row)) is not None and place._replace(control="") in wanted:
                by_order = found[place].setdefault(row.dimension, {})
                by_order.setdefault(row.order, []).append(said)
        return found


def versus_best(rows: Sequence[Scored], by_candidate: Mapping[str, Sequence[Measured]], best: str) -> Sequence[Scored]:
    """Return the scores of a run, those over all samples with the paired difference of their candidate from the best.

    Candidates of one run share prompts and references, so that overlapping intervals mean little.
    """
    if len(by_candidate) < 2:
        return rows
    sides = {candidate: series(samples) for candidate, samples in by_candidate.items()}
    return [_beside(row, sides[row.candidate], sides[best]) if row.candidate != best else row for row in rows]


def _beside(row: Scored, own: Series, best: Series) -> Scored:
    if row.grouping != "all":
        return row
    named = {(measure.dimension, measure.measure): measure for measure in own.values.keys() & best.values.keys()}
    measure = named.get((row.dimension, row.measure))
    if measure is None:
        return row
    found = paired(best, own, measure)
    told = {"vs_best": found.change, "vs_best_low": found.ci_low, "vs_best_high": found.ci_high, "vs_best_n": found.n}
    return row.model_copy(update=told)


def results_of(start: RunStart, runs: Sequence[Path]) -> Results:
    """Return the results of the evaluation in these ledger folders, read again only if the ledgers grow."""
    with _lock:
        key = _key(runs)
        found = _kept.get(key) or _read(start, runs)
        _keep(key, found)
        return found


def keep_results(results: Results, runs: Sequence[Path]) -> None:
    """Keep the results of a run that was judged in this process, after its ledger is written."""
    with _lock:
        _keep(_key(runs), results)


_Key = tuple[tuple[str, int], ...]
_kept: OrderedDict[_Key, Results] = OrderedDict()
_lock = RLock()


def _keep(key: _Key, results: Results) -> None:
    _kept[key] = results
    _kept.move_to_end(key)
    while len(_kept) > KEPT:
        _kept.popitem(last=False)


def _key(runs: Sequence[Path]) -> _Key:
    # A ledger only grows, so its size shows whether rows were added.
    files = [run / OUTCOMES for run in runs]
    return tuple((str(file), file.stat().st_size if file.exists() else 0) for file in files)


def _read(start: RunStart, runs: Sequence[Path]) -> Results:
    results = Results(start, runs)
    for outcome in chain.from_iterable(map(read_outcomes, runs)):
        results.add(outcome)
    return results
