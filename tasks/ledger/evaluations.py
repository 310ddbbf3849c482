"""An evaluation as one: a run, or all shards of it read as if they were a run.

Owns finding the ledgers that belong together and putting their beginnings and ends into one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tasks.ledger import files as ledger
from tasks.ledger.protocol_keys import joint_key
from tasks.records import Outcome, RunEnd, RunStart


class Whole(NamedTuple):
    """What a run, or the shards of an evaluation, set out to do and came to."""

    start: RunStart
    """Of shards: with the evaluation's id as `run_id`, and all samples."""
    end: RunEnd | None
    """None: the run, or a shard, is unfinished."""
    folders: list[Path]
    """Ledgers, one for each run."""

    def outcomes(self) -> Iterator[Outcome]:
        """Outcomes of the real samples, run by run."""
        return chain.from_iterable(map(ledger.read_outcomes, self.folders))


def read_whole(store: Path, run_id: str) -> Whole:
    """The run with this id, or the finished shards of the evaluation with this id.

    Raises:
        FileNotFoundError: the store has neither.
        InputError: a ledger is damaged, or was written by a newer version.
    """
    run = ledger.folder(store, run_id)
    if run.exists():
        return Whole(ledger.read_start(run), ledger.read_end(run), [run])
    folders = _shards(store, run_id)
    starts = [ledger.read_start(folder) for folder in folders]
    ends = [end for folder in folders if (end := ledger.read_end(folder))]
    return Whole(_start(starts), _end(starts, ends) if len(folders) == starts[0].shards else None, folders)


def finished_before(store: Path, now: RunStart) -> Iterator[Whole]:
    """Finished evaluations of the same flow and dataset key that began before one, the newest first.

    A ledger that cannot be read is left out: `sync` reports it, here it only cannot be compared.
    """
    met = {now.evaluation_id}
    for run in reversed(ledger.run_folders(store)):
        with suppress(ValueError, FileNotFoundError):
            start = ledger.read_start(run)
            same = (start.flow, start.dataset_key) == (now.flow, now.dataset_key)
            if same and start.started_at < now.started_at and start.evaluation_id not in met:
                met.add(start.evaluation_id)
                found = read_whole(store, start.evaluation_id)
                if found.end:
                    yield found


def _shards(store: Path, evaluation_id: str) -> list[Path]:
    for run in ledger.run_folders(store):
        if (run / ledger.END).exists() and ledger.read_start(run).evaluation_id == evaluation_id:
            return ledger.evaluation_folders(run)
    raise FileNotFoundError(f"{store} holds no run and no finished shard of an evaluation called {evaluation_id!r}")


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
            "warnings": tuple(dict.fromkeys(words for end in ends for words in end.warnings)),
        }
    )


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter[str]()))
