"""Two evaluations compared: paired over the samples both have, where they were measured alike.

Owns whether two evaluations may be compared, and which candidates are meant. Which runs are meant stands in
`history.evaluations`, what is paired in `pairing`, the statistics in `statistics.paired`, the words in `wording`.
"""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from tasks.comparing.pairing import Change, Row, most_changed, not_paired, rows
from tasks.errors import InputError
from tasks.history.asking import one_opening, query
from tasks.history.compared import OUTCOMES, compared
from tasks.history.evaluations import Evaluation, find, shared_replies
from tasks.kinds import kind_of
from tasks.kinds.series import Series, series
from tasks.ledger.protocol_keys import PROMPT, protocol_differences
from tasks.records import Record
from tasks.text import listed, one_line

MOST_CHANGED = 10
"""Samples listed among those that changed."""
DATASET = "dataset"
SHARDS = "protocols of their shards"
LONGEST_VALUE = 60


class NotAlike(InputError):
    """Two evaluations were not measured alike: their scores do not compare."""


class Side(Record):
    """One of the two that are compared."""

    run_id: str
    """Id of the evaluation."""
    candidate: str
    flow: str
    started_at: datetime
    """UTC."""
    dataset: str
    model: str
    prompt_set: str
    forgotten: int
    """Samples of the evaluation, of all its candidates together, that were forgotten: they are in no pair."""


class Comparison(Record):
    """The second candidate against the first, on the same samples."""

    before: Side
    after: Side
    across: tuple[str, ...]
    """What differs between the two besides the candidate, by name: all of it was allowed."""
    rows: tuple[Row, ...]
    """The headline, then every dimension or measure."""
    not_paired: dict[str, int]
    """Why samples (prompts) are in no pair -> how many."""
    changed: tuple[Change, ...]
    """The samples (prompts) that changed most."""
    unmeasured: tuple[str, ...]
    """A sentence for each of two runs that measured nothing."""
    partial: tuple[str, ...]
    """A sentence for each run that stopped at its budget: compared are those samples that both judged."""
    shared: str
    """What to say of replies that both runs share; empty: there are none."""
    sizes: tuple[float, float]
    """Samples of a unit on either side: of generated images, the images of a prompt."""
    margin: float
    """Differences up to it, in points, count as none where that is claimed; 0: no such claim is made."""


@one_opening
def compare(
    store: Path,
    before: str,
    after: str,
    candidates: tuple[str, str] = ("", ""),
    across: Collection[str] = (),
    margin: float = 0.0,
) -> Comparison:
    """What changed from one evaluation to another, or from one candidate of an evaluation to another.

    Args:
        before: run_id of the view `evaluations`, or the beginning of one that is unique.
        after: likewise; it may be the same one.
        candidates: the first's and the second's; empty: the only one there is, or the only one that both have.
        across: names of differences that are meant: `dataset`, or items of the protocol (`temperature`,
            `prompt aesthetics`), or their first words (`prompt`, `model`).
        margin: differences up to it, in points, count as none; 0: none do.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: a run or candidate cannot be found or is not the only one, or a name in `across` is none.
        NotAlike: the two were not measured alike; all that differs is listed.
    """
    first, second = find(store, before), find(store, after)
    differing = _differing(first, second, across)
    names = _candidates(first, second, candidates)
    one, other = (
        series_of(store, run.run_id, run.flow, name) for run, name in zip((first, second), names, strict=True)
    )
    found = rows(one, other)
    if not found:
        raise NotAlike(f"{first.run_id} and {second.run_id} have no tag in common")
    return Comparison(
        before=_side(first, names[0]),
        after=_side(second, names[1]),
        across=tuple(differing),
        rows=tuple(found),
        not_paired=dict(not_paired(one, other)),
        changed=tuple(most_changed(one, other, MOST_CHANGED)),
        partial=tuple(dict.fromkeys(run.partial for run in (first, second) if run.partial)),
        unmeasured=tuple(run.unmeasured for run in (first, second) if run.unmeasured and first != second),
        shared=shared_replies(store, first.run_id, second.run_id) if first.reused or second.reused else "",
        sizes=(one.size, other.size),
        margin=margin,
    )


def _differing(first: Evaluation, second: Evaluation, across: Collection[str]) -> list[str]:
    """Names of what differs, all of it allowed."""
    if first.flow != second.flow:
        whose = f"{first.run_id} is of {first.flow} and {second.run_id} of {second.flow}"
        raise NotAlike(f"{whose}: they share no samples")
    _check_names(across, {DATASET, SHARDS, *first.protocol, *second.protocol})
    names = [DATASET] * (first.dataset_key != second.dataset_key)
    if first.protocol_key != second.protocol_key:
        names += protocol_differences(first.protocol, second.protocol) or [SHARDS]
    refused = [name for name in names if not any(_is_meant(name, given) for given in across)]
    if refused:
        lines = [f"  {name}: {_otherwise(name, first, second)}" for name in refused]
        allow = " ".join(f'--across "{name}"' if " " in name else f"--across {name}" for name in refused)
        raise NotAlike(
            f"{first.run_id} and {second.run_id} were not measured alike, so their scores do not compare:\n"
            + "\n".join(lines)
            + f"\nIf that is what you want to compare, say so: {allow}"
        )
    return names


def _check_names(across: Collection[str], names: Collection[str]) -> None:
    unknown = [given for given in across if not any(_is_meant(name, given) for name in names)]
    if unknown:
        raise InputError(
            f"--across {listed(map(repr, unknown))}: no difference is called so; allowed are these or their first "
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
    """The candidates that are meant: those asked for, and what is left open as far as there is one choice only."""
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


def series_of(store: Path, run_id: str, flow: str, candidate: str) -> Series:
    """One candidate of an evaluation, sample by sample.

    Raises:
        HistoryLocked: the history stayed in use.
    """
    table = query(store, OUTCOMES, values=(run_id, candidate))
    measured = kind_of(flow).measured
    return series(measured(compared(*row)) for row in table.rows)


def _side(run: Evaluation, candidate: str) -> Side:
    shared = {name: value for name, value in run._asdict().items() if name in Side.model_fields}
    return Side(candidate=candidate, **shared)
