"""Gate for a candidate: passes, fails or cannot tell, by the bounds of a 95% interval.

It has the rule, the choice of evaluations, and the words in Markdown for a pull request.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from tasks.comparing.comparison import Comparison, NotAlike, compare, outcomes_of, series_of
from tasks.comparing.verdict import difference_grid, left_out_words, notes
from tasks.errors import InputError
from tasks.history.queries import Evaluation, find, one_opening, query
from tasks.judging.results import control_rate, red_words
from tasks.presentation.tables import bullets, markdown_table, plain_markdown
from tasks.presentation.wording import signed
from tasks.protocols import label_rules_of, protocol_of
from tasks.records import Record
from tasks.statistics.intervals import ENOUGH, FEWEST, Difference, interval, proportion
from tasks.statistics.series import LEAST_SHARED
from tasks.text import listed, number_words

Decision = Literal["passes", "fails", "cannot tell"]
CAVEAT = "Intervals are 95% intervals and cover chance alone: they include no bias of the judge itself."


class Found(Record):
    """A figure with its interval, and the bound that it must reach."""

    value: float | None
    """The candidate's score, or its paired difference from the other candidate; None: there is none."""
    low: float | None
    """Lower bound, of 95%; None: there is no interval."""
    high: float | None
    n: int
    """Samples (prompts) behind the value."""
    bound: float
    """Least value that passes."""

    @property
    def decision(self) -> Decision:
        """Decision by the interval alone."""
        if self.low is None or self.high is None:
            return "cannot tell"
        return "passes" if self.low >= self.bound else "fails" if self.high < self.bound else "cannot tell"


class Gate(Record):
    """The decision about a candidate, and why."""

    decision: Decision
    flow: str
    candidate: str
    against: str
    """Candidate that it is compared with; empty: its score alone counts."""
    run_id: str
    """The candidate's evaluation."""
    against_run: str
    """Evaluation of the other candidate; empty: there is none."""
    found: Found | None
    """None: the two do not compare."""
    unsure: tuple[str, ...]
    """Reasons for `cannot tell` with any interval, a sentence each."""
    warnings: tuple[str, ...]
    """Warnings above the figure; they decide nothing."""
    comparison: Comparison | None
    """None: there is no other candidate, or the two do not compare."""


@one_opening
def least_score(store: Path, flow: str, candidate: str, least: float) -> Gate:
    """Decide whether the newest score of a candidate is at least `least`, on the scale of the flow.

    Raises:
        InputError: no finished evaluation of this flow has the candidate, or the bound lies off the scale.
    """
    highest = protocol_of(flow).highest
    if not 0 < least <= highest:
        raise InputError(f"--min {least:g}: scores of {flow} lie between 0 and {highest:g}")
    run = _newest(store, flow, candidate)
    side = series_of(flow, outcomes_of(store, run.run_id, candidate))
    score = interval([*side.headline.values()], 0.0, highest)
    found = Found(value=score.value, low=score.ci_low, high=score.ci_high, n=len(side.headline), bound=least)
    return _gate(store, run, candidate, found)


@one_opening
def no_worse(store: Path, flow: str, candidate: str, against: str, margin: float, across: Collection[str] = ()) -> Gate:
    """Decide whether a candidate is at most `margin` points below another, or below its own earlier evaluation.

    Args:
        across: intended differences between the two evaluations, as for `compare`.

    Raises:
        InputError: no finished evaluation of this flow has a candidate, a name in `across` is unknown, or the margin is
            so wide that any candidate would pass.
    """
    highest = protocol_of(flow).highest
    if not 0 <= margin < highest:
        raise InputError(f"--margin {margin:g}: scores of {flow} lie between 0 and {highest:g}; allowed is less")
    after = _newest(store, flow, candidate, measured=candidate == against)
    before = _before(store, after, candidate, against)
    try:
        comparison = compare(store, before.run_id, after.run_id, (against, candidate), across)
    except NotAlike as error:
        return _gate(store, after, candidate, None, against, before, unsure=[str(error)])
    found = bounded(comparison.rows[0].difference, margin, highest)
    return _gate(store, after, candidate, found, against, before, comparison)


def bounded(found: Difference, margin: float, highest: float) -> Found:
    """Return a paired difference, on a scale from 0 to `highest`, with the margin that it may fall by.

    Below 97% of the pairs, its ends are those that the missing scores allow.
    """
    low, high = found.ci_low, found.ci_high
    if found.worst_low is not None:
        low, high = found.worst_low, found.worst_high
    if found.decision == "few differ":
        low, high = _few_differ(found, highest)
    return Found(value=found.change, low=low, high=high, n=found.n, bound=-margin)


def _few_differ(found: Difference, highest: float) -> tuple[float, float]:
    """Return bounds of a change for too few differing pairs, as if each of them differed by the whole scale.

    Clopper and Pearson (1934) bound the share of pairs that fall, and the share of those that rise, at 2.5% each.
    """
    fall, rise = (proportion(count, found.n).ci_high or 0.0 for count in (found.lower, found.higher))
    of = found.of or found.n
    if found.n < ENOUGH * of:  # each pair that lacks a score may fall or rise by the whole scale, too
        fall, rise = ((share * found.n + of - found.n) / of for share in (fall, rise))
    return -fall * highest, rise * highest


def _gate(
    store: Path,
    run: Evaluation,
    candidate: str,
    found: Found | None,
    against: str = "",
    before: Evaluation | None = None,
    comparison: Comparison | None = None,
    unsure: Collection[str] = (),
) -> Gate:
    sides = [(run, candidate), (before, against)] if before else [(run, candidate)]
    why = [*unsure, *_unfinished(store, run, candidate)]
    why += [words for side, name in sides for words in _incomplete(store, side, name)]
    why += [side.partial for side, _ in sides if side.partial]
    if comparison and comparison.left_out > (1 - LEAST_SHARED) * comparison.parts:
        why.append(f"{left_out_words(comparison)} between the two runs: more than {1 - LEAST_SHARED:.0%}")
    if found and found.low is None:
        why.append(f"there are {found.n} to go by, and no interval below {FEWEST}")
    red = dict.fromkeys(words for side, _ in sides if (words := _judge(store, side)))
    return Gate(
        decision="cannot tell" if why or not found else found.decision,
        flow=run.flow,
        candidate=candidate,
        against=against,
        run_id=run.run_id,
        against_run=before.run_id if before else "",
        found=found,
        unsure=tuple(dict.fromkeys(why)),
        warnings=tuple(red),
        comparison=comparison,
    )


def _incomplete(store: Path, run: Evaluation, candidate: str) -> Iterator[str]:
    # Not by the view coverage, for which a sample with one of its questions scored is whole. Of figures, whose rows
    # have verdicts, the overall score counts; of other kinds all tags do.
    sql = """SELECT sum(s.scored), sum(s.n), sum(s.coverage * s.n) / sum(s.n), any_value(c.incomplete),
            any_value(c.no_reference), any_value(c.bad_picture)
        FROM scores s JOIN coverage c USING (run_id, candidate)
        WHERE run_id = $1 AND candidate = $2 AND "grouping" = 'all' AND measure = 'score'
            AND (dimension = 'overall' OR model_wins IS NULL) HAVING sum(s.coverage * s.n) < $3 * sum(s.n)"""
    for scored, n, share, *lacking in query(store, sql, values=(run.run_id, candidate, ENOUGH)).rows:
        statuses = zip(lacking, ("incomplete", "no reference", "bad picture"), strict=True)
        why = f" ({', '.join(f'{number} {status}' for number, status in statuses if number)})" * any(lacking)
        parts = label_rules_of(run.flow).pooled
        counted = f"{share:.1%} of the {parts}" if parts else f"{scored} of {n} samples"
        yield f"{counted} of {candidate} have a score in {run.run_id}{why}: less than {ENOUGH:.0%}"


def _unfinished(store: Path, run: Evaluation, candidate: str) -> Iterator[str]:
    sql = """SELECT max(run_id) FROM runs WHERE status = 'unfinished' AND flow = $1 AND list_contains(candidates, $2)
        AND started_at > $3"""
    [(newer,)] = query(store, sql, values=(run.flow, candidate, run.started_at)).rows
    if newer:
        yield f"a newer run of {candidate}, {newer}, has not finished"


def _judge(store: Path, run: Evaluation) -> str:
    """Return the warning of controls about the judge of an evaluation; empty if none is red."""
    columns = "measure, n, failed, unusable, samples, failed_samples"
    found = query(store, f"SELECT {columns} FROM control_rates WHERE run_id = $1", values=(run.run_id,))
    return red_words([control_rate(*row) for row in found.rows])


def _newest(store: Path, flow: str, candidate: str, measured: bool = False) -> Evaluation:
    found = _having(store, flow, candidate, measured, stopped=True)
    if not found:
        sql = "SELECT DISTINCT unnest(candidates) AS name FROM evaluations WHERE flow = $1 ORDER BY name"
        names = [str(name) for (name,) in query(store, sql, values=(flow,)).rows]
        runs = f"those judged are {listed(names)}" if names else f"{store} holds no finished {flow} run"
        raise InputError(f"no finished {flow} run has a candidate {candidate!r}; {runs}")
    return find(store, found[0][0])


def _before(store: Path, after: Evaluation, candidate: str, against: str) -> Evaluation:
    """Return the evaluation of the other candidate: the same one, else the newest that compares, else the newest."""
    if against != candidate and against in after.candidates:
        return after
    _newest(store, after.flow, against)
    earlier = _having(store, after.flow, against, measured=candidate == against)
    others = [each for each in earlier if each[0] != after.run_id]
    if not others:
        raise InputError(
            f"{candidate} has one finished {after.flow} run with replies of its own, {after.run_id}: there is none "
            "before it to compare with"
        )
    keys = after.series_key, after.protocol_key
    return find(store, next((run_id for run_id, *its in others if (*its,) == keys), others[0][0]))


def _having(store: Path, flow: str, candidate: str, measured: bool, stopped: bool = False) -> list[tuple[str, ...]]:
    """Return id, series key and protocol key of a candidate's evaluations, the newest first.

    Args:
        measured: without those that measured nothing.
        stopped: with those that stopped at their budget: an older one would not show the candidate as it is now.
    """
    sql = """SELECT run_id, series_key, protocol_key FROM evaluations WHERE flow = $1 AND list_contains(candidates, $2)
        AND (measured OR NOT $3 OR $4 AND stopped IS NOT NULL) ORDER BY started_at DESC, run_id DESC"""
    return query(store, sql, values=(flow, candidate, measured, stopped)).rows


def markdown(gate: Gate) -> str:
    """Return the decision with its figures, its doubts, the table of differences, and the runs behind it."""
    parts = [f"### {gate.flow}, {plain_markdown(gate.candidate)}: {gate.decision}", _sentence(gate), *_marked(gate)]
    if gate.comparison:
        grid = difference_grid(gate.comparison.rows, gate.flow)
        parts.append(markdown_table(grid.header, [[plain_markdown(cell) for cell in line] for line in grid.lines]))
    read_by = notes(gate.comparison) if gate.comparison else []
    return "\n\n".join([*parts, bullets([*_runs(gate), *read_by, CAVEAT])])


def _sentence(gate: Gate) -> str:
    decimals, units = protocol_of(gate.flow).decimals, protocol_of(gate.flow).unit
    if gate.found is None:
        return f"{plain_markdown(gate.candidate)} and {plain_markdown(_other(gate))} do not compare."
    found, write = gate.found, signed if gate.against else number_words
    value, low, high, bound = (write(each, decimals) for each in (found.value, found.low, found.high, found.bound))
    between = f"[{low}, {high}]" if found.low is not None else "(no interval)"
    whose = " against ".join(plain_markdown(name) for name in (gate.candidate, _other(gate)) if name)
    rules = {
        "passes": f"the lower bound is not below {bound}",
        "fails": f"the upper bound is below {bound}",
        "cannot tell": f"the interval does not tell on which side of {bound} it is",
    }
    return f"{whose}: {value} {between}, n = {found.n} {units}; {rules[found.decision]}."


def _marked(gate: Gate) -> Iterator[str]:
    yield from (f"**{plain_markdown(words)}**" for words in gate.warnings)
    if gate.unsure:
        yield "Reasons for no decision:"
        yield bullets(line for words in gate.unsure for line in words.splitlines())


def _runs(gate: Gate) -> Iterator[str]:
    yield f"{gate.candidate}: run {gate.run_id}"
    if gate.against_run:
        yield f"{_other(gate)}: run {gate.against_run}"


def _other(gate: Gate) -> str:
    """Name the other side, which may be an earlier run of the same candidate; empty: there is none."""
    return "its run before" if gate.against == gate.candidate else gate.against
