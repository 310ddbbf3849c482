"""Evaluations: a run of its own, or the shards that share an `evaluation_id`, read as if they were one run.

Owns which ledgers belong together: a shard ran for one evaluation on one dataset, and of shards that ran twice, because
a worker was killed, the newest finished run counts. Their beginnings and ends are put into one here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.ledger.protocol_keys import joint_key
from tasks.ledger.reading import END, folder, read_end, read_start, run_folders
from tasks.records import BudgetStop, RunEnd, RunStart


class Evaluation(NamedTuple):
    """What a run, or the shards of an evaluation, set out to do and came to."""

    start: RunStart
    """Of shards: with the evaluation's id as `run_id`, and all samples."""
    end: RunEnd | None
    """None: the run, or a shard, is unfinished."""
    folders: list[Path]
    """Ledgers, one for each run."""


def read_evaluation(store: Path, run_id: str) -> Evaluation:
    """The run with this id, or the finished shards of the evaluation with this id.

    Raises:
        FileNotFoundError: the store has neither.
        InputError: a ledger is damaged, or was written by a newer version.
    """
    run = folder(store, run_id)
    if run.exists():
        return Evaluation(read_start(run), read_end(run), [run])
    return _joined(evaluation_folders(_any_shard(store, run_id)))


def evaluation_folders(run: Path) -> list[Path]:
    """Folders of the finished runs that make up the evaluation of a run, a run of its own being all of it."""
    start = read_start(run)
    if start.shards == 1:
        return [run]
    found = _finished(run.parent.parent)
    return list({other.shard: each for each, other in found if _same_evaluation(other, start)}.values())


def _same_evaluation(one: RunStart, other: RunStart) -> bool:
    # What found another dataset at the same place is no part.
    return (one.evaluation_id, one.dataset_key) == (other.evaluation_id, other.dataset_key)


def _any_shard(store: Path, evaluation_id: str) -> Path:
    for run, start in _finished(store):
        if start.evaluation_id == evaluation_id:
            return run
    raise FileNotFoundError(f"{store} holds no run and no finished shard of an evaluation called {evaluation_id!r}")


def _finished(store: Path) -> Iterator[tuple[Path, RunStart]]:
    """All finished runs, oldest first. One that cannot be read belongs nowhere, and `sync` reports it."""
    for run in run_folders(store):
        with suppress(InputError):
            if (run / END).exists():
                yield run, read_start(run)


def _joined(shards: list[Path]) -> Evaluation:
    """Finished shards as one; without an end where one is missing."""
    starts = [read_start(run) for run in shards]
    ends = [end for run in shards if (end := read_end(run))]
    return Evaluation(_start(starts), _end(starts, ends) if len(shards) == starts[0].shards else None, shards)


def _start(starts: Sequence[RunStart]) -> RunStart:
    first = min(starts, key=lambda start: start.started_at)
    return first.model_copy(
        update={"run_id": first.evaluation_id, "samples": sum(start.samples for start in starts), "shard": 1}
    )


def _end(starts: Sequence[RunStart], ends: Sequence[RunEnd]) -> RunEnd:
    last = max(ends, key=lambda end: end.finished_at)
    # Shards that no judge answered, because they held nothing to ask, say nothing of how the others were judged.
    answered = [end for end in ends if end.protocol.get("model answered")] or [last]
    began = min(start.started_at for start in starts)
    took = datetime.fromisoformat(last.finished_at) - datetime.fromisoformat(began)
    return last.model_copy(
        update={
            "run_id": starts[0].evaluation_id,
            "seconds": took.total_seconds(),
            "protocol": answered[0].protocol,
            "protocol_key": joint_key(end.protocol_key for end in answered),
            "calls": sum(end.calls for end in ends),
            "control_calls": sum(end.control_calls for end in ends),
            "reused": sum(end.reused for end in ends),
            "judgments": _sums(end.judgments for end in ends),
            "outcomes": _sums(end.outcomes for end in ends),
            "stopped": _stopped(starts, ends),
            "warnings": tuple(dict.fromkeys(words for end in ends for words in end.warnings)),
        }
    )


def _stopped(starts: Sequence[RunStart], ends: Sequence[RunEnd]) -> BudgetStop | None:
    """Where shards stopped at the month's budget; what they judged together is no random part of all samples."""
    stops = [end.stopped for end in ends if end.stopped]
    if not stops:
        return None
    samples = {start.run_id: start.samples for start in starts}
    return BudgetStop(
        budget=stops[0].budget,
        month=stops[0].month,
        spent=sum(stop.spent for stop in stops),
        needed=max(stop.needed for stop in stops),
        judged=sum(end.stopped.judged if end.stopped else samples.get(end.run_id, 0) for end in ends),
        samples=sum(samples.values()),
    )


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter[str]()))
