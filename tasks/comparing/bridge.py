"""Bridge between two judges: its evaluations, and the decision whether the new judge may continue a history."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.ledger.evaluations import PROMPT, Evaluation, protocol_differences
from tasks.ledger.side_records import BridgeRow
from tasks.presentation.tables import Grid
from tasks.presentation.wording import change_words, pairs_words, signed
from tasks.protocols import label_rules_of, protocol_of
from tasks.protocols.labels import Scale
from tasks.records import OVERALL, Outcome, RunEnd, new_id
from tasks.statistics.intervals import CONTINUED, OFFSET_MARGIN, WITH_OFFSET, offset
from tasks.statistics.series import ALL_PROMPTS, Compared, Measured, gaps, series
from tasks.text import listed, number_words, one_line

LONGEST_NAME = 40
FEWEST = 30
"""Fewest samples that two judges must have in common."""
OF_THE_JUDGE = {
    *("model asked", "model answered", "endpoint", "temperature", "max output tokens", "detail"),
    *("effort", "extra", "headers", "seed", "reply formats", "not sent"),
}
"""Items of a protocol in which two judges may differ; all others define the questions and the scoring."""

NEAR = 1.0
"""Greatest difference of two judges' scores that count as equal; labels have another."""

Key = tuple[str, str]
"""Candidate and sample."""


class _Pair(NamedTuple):
    """Outcomes of one sample by both judges."""

    old: Outcome
    new: Outcome

    @property
    def judged(self) -> bool:
        """True if both judges scored it; a forfeit is the same with any judge."""
        return {self.old.status, self.new.status} == {"complete"}

    @property
    def same_pictures(self) -> bool:
        """True if both judges were sent the same pictures."""
        old, new = ({role: note.sent_sha256 for role, note in each.pictures.items()} for each in self)
        return old == new


def _comparable(old: Evaluation, new: Evaluation, pairs: Mapping[Key, _Pair]) -> dict[str, list[_Pair]]:
    """Return candidate -> its samples that both judges were asked about with the same pictures and texts."""
    found: defaultdict[str, list[_Pair]] = defaultdict(list)
    # An equal key covers the texts.
    before, after = ({}, {}) if old.start.dataset_key == new.start.dataset_key else map(_texts, (old, new))
    for key, pair in pairs.items():
        asked_both = {pair.old.status, pair.new.status} <= {"complete", "incomplete", "forfeit"}
        asked = [Compared.of(each).asked for each in pair]
        # The same questions need not be the same calls: after a wrong answer some are not asked.
        same_texts = asked[0] == asked[1] if any(asked) else before.get(key) == after.get(key)
        if asked_both and pair.same_pictures and same_texts:
            found[key[0]].append(pair)
    return found


def _texts(evaluation: Evaluation) -> dict[Key, set[tuple[str, str]]]:
    """Return hashes of the texts sent with each sample, by dimension; none of forfeits, which nobody judges."""
    found: dict[Key, set[tuple[str, str]]] = {}
    for row in evaluation.judgments():
        if not row.control:
            found.setdefault((row.candidate, row.sample_id), set()).add((row.dimension, row.text_sha256))
    return found


def _check_questions(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise InputError with all differences if two protocols do not ask the same questions."""
    names = [name for name in protocol_differences(old, new) if name not in OF_THE_JUDGE]
    prompts = [name.removeprefix(PROMPT) for name in names if name.startswith(PROMPT)]
    others = [
        f"{name} ({old.get(name, 'none')} → {new.get(name, 'none')})" for name in names if not name.startswith(PROMPT)
    ]
    if names:
        what = [f"other prompts: {', '.join(prompts)}"] * bool(prompts) + others
        raise InputError(
            f"the two judges were not asked the same, so their scores do not compare: {'; '.join(what)}. Let both be "
            "asked alike, by `jury run` with the same prompt set and options, and bridge those runs"
        )


def bridge(first: Evaluation, second: Evaluation, margin: float = OFFSET_MARGIN) -> tuple[list[BridgeRow], str]:
    """Compare two judges on the same samples: a row for each candidate and dimension, the headline's first.

    Args:
        first: evaluation by the judge of the history.
        margin: points of a scale of 100.

    Returns:
        The rows, and words that count the samples left out; empty: none.

    Raises:
        InputError: both are one evaluation, one is unfinished, their flows or questions differ, or no candidate has
            30 samples in common; or a ledger is damaged.
    """
    if first.start.run_id == second.start.run_id:
        raise InputError(f"both runs are {first.start.run_id}: a bridge takes runs by two judges")
    if first.start.flow != second.start.flow:
        whose = f"{first.start.run_id} is of {first.start.flow} and {second.start.run_id} of {second.start.flow}"
        raise InputError(f"{whose}: they share no samples")
    if first.end is None or second.end is None:
        raise InputError("only finished runs, with all their shards, are bridged")
    _check_questions(first.end.protocol, second.end.protocol)
    one, other = (
        {(each.candidate, each.sample_id): each for each in side.outcomes() if not each.control}
        for side in (first, second)
    )
    common = {key: _Pair(each, other[key]) for key, each in one.items() if key in other}
    pairs = _comparable(first, second, common)
    number = len(common) - sum(map(len, pairs.values()))
    words = f"{number:,} of the same name have other pictures, texts or checks, or could not be judged"
    left_out = words if number else ""
    enough = {name: its for name, its in pairs.items() if sum(each.judged for each in its) >= FEWEST}
    if not enough:
        raise InputError(_too_few(first, second, pairs, left_out))
    about = _about(first, second, first.end, second.end)
    return [row for name, its in enough.items() for row in _rows(name, its, margin, about)], left_out


def _too_few(first: Evaluation, second: Evaluation, pairs: Mapping[str, Sequence[_Pair]], left_out: str) -> str:
    found = listed(f"{name} {sum(each.judged for each in its)}" for name, its in pairs.items())
    why = left_out and f"; {left_out}"
    return (
        f"{first.start.run_id} and {second.start.run_id} have too few samples in common that both scored: {found}; a "
        f"bridge takes {FEWEST} of one candidate{why}. Let both judge the same samples, by `jury run`, and bridge "
        "those runs"
    )


def _about(first: Evaluation, second: Evaluation, ended: RunEnd, then: RunEnd) -> dict[str, str]:
    now, one, other = datetime.now(UTC), first.start, second.start
    whole = one if one.samples >= other.samples else other  # the other may have judged a part of them
    return {
        "bridge_id": new_id(one.flow, now),
        "made_at": now.isoformat(),
        "flow": one.flow,
        "dataset": whole.dataset,
        "dataset_key": whole.dataset_key,
        "prompt_set": whole.prompt_set,
        "old_run": one.run_id,
        "new_run": other.run_id,
        "old_judge": one.judge,
        "new_judge": other.judge,
        "old_protocol_key": ended.protocol_key,
        "new_protocol_key": then.protocol_key,
    }


def _rows(candidate: str, pairs: Sequence[_Pair], margin: float, about: Mapping[str, str]) -> Iterator[BridgeRow]:
    old, new = series(_measured(each.old) for each in pairs), series(_measured(each.new) for each in pairs)
    for measure in old.values:
        if measure.measure != "score" or measure not in new.values:
            continue
        first, second = old.values[measure], new.values[measure]
        units = sorted(first.keys() & second.keys())
        scores = [first[one] for one in units], [second[one] for one in units]
        found = offset(*scores, measure.highest, margin, gaps(old, new, measure))
        yield BridgeRow.model_validate(
            {
                **about,
                **found.model_dump(),
                **_agreed(pairs, measure.dimension, replace(label_rules_of(about["flow"]).scale, near=NEAR)),
                "candidate": candidate,
                "dimension": measure.dimension,
                "highest": measure.highest,
            }
        )


def _measured(outcome: Outcome) -> Measured:
    return protocol_of(outcome.flow).measured(Compared.of(outcome))


def _agreed(pairs: Sequence[_Pair], dimension: str, scale: Scale) -> dict[str, Any]:
    answered = [(each, answer_of(each.old, dimension), answer_of(each.new, dimension)) for each in pairs if each.judged]
    both = [(each, old, new) for each, old, new in answered if old is not None and new is not None]
    if not both:
        return {"judged": 0, "agreement": None, "kappa": None, "confusion": {}}
    drawn = [_measured(each.old).unit for each, *_ in both]
    found = scale.concordance([old for _, old, _ in both], [new for *_, new in both], drawn)
    confusion = Counter((scale.category(old), scale.category(new)) for _, old, new in both)
    return {
        "judged": len(both),
        "agreement": found.agreement.value,
        "kappa": found.kappa.value,
        "confusion": {f"{old.name} > {new.name}": n for (old, new), n in sorted(confusion.items())},
    }


def answer_of(outcome: Outcome, dimension: str) -> str | float | None:
    """Return the answer of a judge about a sample: on one dimension, overall, or its score alone."""
    if dimension == OVERALL:
        return outcome.overall
    if dimension == ALL_PROMPTS:
        return outcome.score
    found = next((each for each in outcome.dimensions if each.dimension == dimension), None)
    return None if found is None else found.score if found.verdict is None else found.verdict


def sentences(row: BridgeRow) -> str:
    """State whether the new judge may continue the history of a candidate, and why."""
    decimals, units = protocol_of(row.flow).decimals, protocol_of(row.flow).unit
    whose = f"{row.flow}, {one_line(row.candidate, LONGEST_NAME)}"
    new, old = (one_line(name, LONGEST_NAME) for name in (row.new_judge, row.old_judge))
    shift = f"{shift_words(row)} at n = {pairs_words(row.n, row.of)} {units}"
    margin = number_words(row.margin, decimals)
    if row.decision == CONTINUED:
        return f"{whose}: may be continued with {new}. The shift from {old} is {shift}, within ±{margin}."
    if row.decision == WITH_OFFSET:
        offset = signed(row.shift, decimals)
        return f"{whose}: may be continued with {new} with an offset of {offset}. The shift from {old} is {shift}."
    more = f"; about {row.enough:,} {units} would" if row.enough else ""
    return f"{whose}: cannot tell{more}. The shift from {old} to {new} is {shift}, too wide for ±{margin}."


def shift_words(row: BridgeRow) -> str:
    """Format the shift with its interval."""
    return change_words(row.shift, row.ci_low, row.ci_high, protocol_of(row.flow).decimals)


def bridge_grid(rows: Sequence[BridgeRow]) -> Grid:
    """Tabulate the rows of one candidate: scores by both judges, the shift, their agreement, and the decision."""
    header = ["", "old", "new", "shift", "n", "equal", "kappa", "history"]
    return Grid(header, [_line(row) for row in rows])


def _line(row: BridgeRow) -> list[str]:
    decimals = protocol_of(row.flow).decimals
    return [
        row.dimension,
        number_words(row.old_score, decimals),
        number_words(row.new_score, decimals),
        shift_words(row),
        str(row.n),
        "–" if row.agreement is None else f"{row.agreement:.0%}",
        number_words(row.kappa),
        row.decision,
    ]


def confusion_grid(row: BridgeRow) -> Grid:
    """Tabulate how often the old judge gave the answer of the row and the new judge that of the column."""
    category = label_rules_of(row.flow).scale.category
    met = {name for pair in row.confusion for name in pair.split(" > ")}
    names = sorted(met, key=lambda name: category(float(name) if name.isdigit() else name))
    lines = [[old, *(str(row.confusion.get(f"{old} > {new}", 0)) for new in names)] for old in names]
    return Grid(["", *(name.replace("Both are ", "both\n") for name in names)], lines)
