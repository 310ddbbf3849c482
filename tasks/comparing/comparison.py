"""Comparison of two evaluations that were measured alike, paired over the samples that both have."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from tasks.errors import InputError
from tasks.history.derived_tables import OUTCOMES, compared
from tasks.history.queries import Evaluation, find, one_opening, query, shared_replies
from tasks.ledger.evaluations import PROMPT, RUNGS, protocol_differences
from tasks.protocols import label_rules_of, protocol_of
from tasks.records import Record
from tasks.statistics.concordance import Statistic
from tasks.statistics.intervals import DECIMALS, Difference, holm
from tasks.statistics.series import ALL_PROMPTS, Compared, Measured, Series, paired, series, share_parts
from tasks.text import listed, natural, one_line

MOST_CHANGED = 200
"""Most changed samples that a comparison holds."""
DATASET = "dataset"
SHARDS = "protocols of their shards"
LONGEST_VALUE = 60
_ANSWERED = """
    WITH answered AS (
        SELECT evaluation_id, prompt_id, sample_id, [each.source_sha256 FOR each IN map_values(pictures)] AS pictures,
               unnest(aspects) AS part
        FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id IN ($1, $2) AND candidate = $3
    )
    SELECT a.prompt_id, a.part.score, b.part.score FROM answered a JOIN answered b USING (sample_id, pictures)
    WHERE a.evaluation_id = $1 AND b.evaluation_id = $2 AND a.part.aspect = b.part.aspect AND a.part.asked_key <> ''
        AND a.part.asked_key = b.part.asked_key AND a.part.score IS NOT NULL AND b.part.score IS NOT NULL
    ORDER BY ALL"""
FIRST, SECOND = "the first", "the second"
ONLY_FIRST, ONLY_SECOND = f"only in {FIRST}", f"only in {SECOND}"


class NotAlike(InputError):
    """Error: two evaluations were not measured alike, so their scores do not compare."""


class Side(Record):
    """One side of a comparison."""

    run_id: str
    """Id of the evaluation."""
    candidate: str
    flow: str
    started_at: datetime
    """UTC."""
    dataset: str
    judge: str
    prompt_set: str


class Row(Record):
    """The paired difference by one measure."""

    dimension: str
    measure: str
    difference: Difference
    p_holm: float | None
    """p of the difference, adjusted for the other dimensions and measures; None for the headline, which is one test."""


class Change(Record):
    """A sample, or prompt, whose result changed."""

    sample_id: str
    """Id of the sample; for generated images, of the prompt."""
    before: float
    """Value on the scale of the headline."""
    after: float
    moved: dict[str, float]
    """Dimension (or measure) -> after - before, where they differ."""


class Comparison(Record):
    """The second candidate against the first, on the same samples."""

    before: Side
    after: Side
    across: tuple[str, ...]
    """Names of the differences between the two besides the candidate, all of them allowed."""
    rows: tuple[Row, ...]
    """The headline, then every dimension or measure."""
    not_paired: dict[str, int]
    """Reason why samples (prompts) are in no pair -> their number."""
    changed: tuple[Change, ...]
    """The samples (prompts) that changed most."""
    differing: int
    """Number of all that changed."""
    unmeasured: tuple[str, ...]
    """A sentence for each of two runs that measured nothing."""
    partial: tuple[str, ...]
    """A sentence for each run that stopped at its budget: only samples that both judged are compared."""
    shared: str
    """Sentence on replies that both runs share; empty: there are none."""
    sizes: tuple[float, float]
    """Mean number of samples of a unit on either side: for generated images, the images of a prompt."""
    left_out: int = 0
    """Number of questions that only one of the runs asks about the same units: their answers are left out."""
    parts: int = 0
    """Number of all questions about these units; 0: the kind of judging compares no single questions."""
    equal: Statistic | None = None
    """Share of equal answers across a difference that is meant, both right or both wrong, with an interval over units;
    None: another candidate, or no single questions."""
    equal_of: int = 0
    """Number of the questions about the same pictures that both answered."""
    among: int = 0
    """Candidates of the run that both sides are of; 0: they are of different runs."""


@one_opening
def compare(
    store: Path, before: str, after: str, candidates: tuple[str, str] = ("", ""), across: Collection[str] = ()
) -> Comparison:
    """Compare two evaluations, or two candidates of one, sample by sample.

    Args:
        before: run_id of the view `evaluations`, or the beginning of one that is unique.
        after: likewise; it may be the same one.
        candidates: of the first and of the second; empty: its only one, or the only one that both have.
        across: names of intended differences: `dataset`, or items of the protocol (`temperature`,
            `prompt aesthetics`), or their first words (`prompt`, `model`).

    Raises:
        InputError: a run or candidate cannot be found or is not the only one, or a name in `across` is unknown.
        NotAlike: the two were not measured alike; all differences are listed.
    """
    first, second = find(store, before), find(store, after)
    differing = _differing(first, second, across)
    names = _candidates(first, second, candidates)
    shared = share_parts(
        *(outcomes_of(store, run.run_id, name) for run, name in zip((first, second), names, strict=True))
    )
    protocol = protocol_of(first.flow)
    sides = [[protocol.measured(each) for each in side] for side in (shared.before, shared.after)]
    one, other = (series(map(_of_any_prompt, side) if protocol.selector in differing else side) for side in sides)
    found = rows(one, other)
    if not found:
        what = label_rules_of(first.flow).pooled if shared.left_out else "tag"
        raise NotAlike(f"{first.run_id} and {second.run_id} have no {what} in common")
    changes = [_change(one, other, unit) for unit in one.headline.keys() & other.headline.keys()]
    changed = sorted((each for each in changes if _differ(each.before, each.after) or each.moved), key=_by_size)
    same = differing and names[0] == names[1]
    equal, equal_of = _equal_answers(store, first, second, names[0]) if same else (None, 0)
    return Comparison(
        before=_side(first, names[0]),
        after=_side(second, names[1]),
        across=tuple(differing),
        rows=tuple(found),
        not_paired=dict(not_paired(one, other)),
        changed=tuple(changed[:MOST_CHANGED]),
        differing=len(changed),
        partial=tuple(dict.fromkeys(run.partial for run in (first, second) if run.partial)),
        unmeasured=tuple(run.unmeasured for run in (first, second) if run.unmeasured and first != second),
        shared=shared_replies(store, first.run_id, second.run_id) if first.reused or second.reused else "",
        sizes=(one.size, other.size),
        left_out=shared.left_out,
        parts=shared.of,
        equal=equal,
        equal_of=equal_of,
        among=len(first.candidates) if first == second else 0,
    )


@one_opening
def compare_candidates(store: Path, before: str, after: str, names: Sequence[str]) -> list[Comparison]:
    """Compare each of these candidates with itself in two evaluations; leave out those without a common question."""
    comparisons: list[Comparison] = []
    for name in names:
        with suppress(NotAlike):
            comparisons.append(compare(store, before, after, (name, name)))
    return comparisons


def _differing(first: Evaluation, second: Evaluation, across: Collection[str]) -> list[str]:
    if first.flow != second.flow:
        whose = f"{first.run_id} is of {first.flow} and {second.run_id} of {second.flow}"
        raise NotAlike(f"{whose}: they share no samples")
    _check_names(across, {DATASET, SHARDS, *first.protocol, *second.protocol})
    names = [DATASET] * (first.series_key != second.series_key)
    if first.protocol_key != second.protocol_key:
        names += protocol_differences(first.protocol, second.protocol) or [SHARDS]
    if protocol_of(first.flow).selector in names:  # each of its values has prompts and forms of replies of its own
        names = [name for name in names if not name.startswith((PROMPT, RUNGS))]
    refused = [name for name in names if not any(_is_meant(name, given) for given in across)]
    if refused:
        lines = [f"  {name}: {_otherwise(name, first, second)}" for name in refused]
        allow = " ".join(f'--across "{name}"' if " " in name else f"--across {name}" for name in refused)
        raise NotAlike(
            f"{first.run_id} and {second.run_id} were not measured alike, so their scores do not compare:\n"
            + "\n".join(lines)
            + f"\nTo compare them across these differences, add {allow}"
        )
    return names


def _check_names(across: Collection[str], names: Collection[str]) -> None:
    unknown = [given for given in across if not any(_is_meant(name, given) for name in names)]
    if unknown:
        raise InputError(
            f"--across {listed(map(repr, unknown))}: no difference has this name; allowed are these or their first "
            f"words: {', '.join(sorted(names))}"
        )


def _is_meant(name: str, given: str) -> bool:
    return name == given or name.startswith(f"{given} ")


def _otherwise(name: str, first: Evaluation, second: Evaluation) -> str:
    if name == DATASET:
        return f"other samples, texts or reference pictures ({first.dataset}, {second.dataset})"
    if name.startswith(PROMPT):
        return "its text or front matter was changed"
    before, after = (one_line(run.protocol.get(name) or "none", LONGEST_VALUE) for run in (first, second))
    return f"{before} → {after}"


def _candidates(first: Evaluation, second: Evaluation, asked: tuple[str, str]) -> tuple[str, str]:
    """Return the named candidates; one without a name is chosen if there is only one choice."""
    runs = (first, second)
    unknown = [
        f"{name!r} is none of {run.run_id}: {', '.join(run.candidates)}"
        for name, run in zip(asked, runs, strict=True)
        if name and name not in run.candidates
    ]
    if unknown:
        raise InputError("\n".join(f"candidate {words}" for words in unknown))
    shared = [name for name in first.candidates if name in second.candidates]
    one, other = (name or _only(run.candidates) or _only(shared) for name, run in zip(asked, runs, strict=True))
    if not (one and other):
        raise InputError(
            f"several candidates: {first.run_id} has {', '.join(first.candidates)}; {second.run_id} has "
            f"{', '.join(second.candidates)}; name one with --candidate, or two, the first run's first"
        )
    if (first.run_id, one) == (second.run_id, other):
        raise InputError(f"{one} of {first.run_id} would be compared with itself; name two runs or two candidates")
    return one, other


def _only(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ""


def outcomes_of(store: Path, run_id: str, candidate: str) -> list[Compared]:
    """Return the outcomes of one candidate of an evaluation."""
    return [compared(*row) for row in query(store, OUTCOMES, values=(run_id, candidate)).rows]


def series_of(flow: str, outcomes: Iterable[Compared]) -> Series:
    """Return the outcomes of one candidate of an evaluation by measure and unit."""
    return series(map(protocol_of(flow).measured, outcomes))


def _of_any_prompt(sample: Measured) -> Measured:
    """Return a sample whose measures have the same names by all prompts."""
    values, partial = (
        {measure._replace(dimension=ALL_PROMPTS): value for measure, value in each.items()}
        for each in (sample.values, sample.partial)
    )
    return sample._replace(tag="", values=values, partial=partial)


def _equal_answers(store: Path, first: Evaluation, second: Evaluation, candidate: str) -> tuple[Statistic | None, int]:
    """Return the share of equal answers to the same questions about the same pictures, and the number of these."""
    found = query(store, _ANSWERED, values=(first.run_id, second.run_id, candidate)).rows
    if not found:
        return None, 0
    units, one, other = zip(*found, strict=True)
    return label_rules_of(first.flow).scale.concordance(one, other, units).agreement, len(found)


def _side(run: Evaluation, candidate: str) -> Side:
    shared = {name: value for name, value in run._asdict().items() if name in Side.model_fields}
    return Side(candidate=candidate, **shared)


def rows(before: Series, after: Series) -> list[Row]:
    """Return the differences by every measure of both sides: the headline, then the others with p adjusted together."""
    shared = [measure for measure in before.values if measure in after.values]
    found = [
        Row(dimension=each.dimension, measure=each.measure, difference=paired(before, after, each), p_holm=None)
        for each in shared
    ]
    tested = [(row, row.difference.p) for row in found[1:] if row.difference.p is not None]
    adjusted = holm([p for _, p in tested])
    others = [row.model_copy(update={"p_holm": p}) for (row, _), p in zip(tested, adjusted, strict=True)]
    return [*found[:1], *others]


def not_paired(before: Series, after: Series) -> Counter[str]:
    """Count units in no pair of the headline, by reason: they are in one side only, or have no score in one."""
    reasons: Counter[str] = Counter()
    for unit in before.statuses.keys() | after.statuses.keys():
        if unit not in before.statuses:
            reasons[ONLY_SECOND] += 1
        elif unit not in after.statuses:
            reasons[ONLY_FIRST] += 1
        elif unit not in before.headline:
            reasons[f"{before.statuses[unit].replace('_', ' ')} in {FIRST}"] += 1
        elif unit not in after.headline:
            reasons[f"{after.statuses[unit].replace('_', ' ')} in {SECOND}"] += 1
    return reasons


def _change(before: Series, after: Series, unit: str) -> Change:
    moved: dict[str, float] = {}
    headline, *others = before.values
    repeated = "score" if headline.dimension == ALL_PROMPTS else ""  # for a prompt that repeats its tag's score
    for measure in others:
        first, second = before.values[measure].get(unit), after.values.get(measure, {}).get(unit)
        if first is not None and second is not None and _differ(first, second) and measure.measure != repeated:
            moved[measure.dimension if measure.measure == "score" else measure.measure] = second - first
    return Change(sample_id=unit, before=before.headline[unit], after=after.headline[unit], moved=moved)


def _differ(first: float, second: float) -> bool:
    return round(second - first, DECIMALS) != 0


def _by_size(change: Change) -> tuple[float, float, list[tuple[int, str]]]:
    """Return a key that sorts by the change of the headline, then by all other changes."""
    return -abs(change.after - change.before), -sum(map(abs, change.moved.values())), natural(change.sample_id)
