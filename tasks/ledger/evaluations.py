"""Evaluations: a run or the shards of one, and the keys by which they compare."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.ledger.run_files import (
    END,
    folder,
    read_end,
    read_judgments,
    read_outcomes,
    read_start,
    run_folders,
    start_of,
)
from tasks.ledger.side_records import OtherCall, first_questions_of
from tasks.records import BudgetStop, Judgment, Outcome, RunEnd, RunStart

PROMPT, RUNGS = "prompt ", "reply formats"
"""Prefix of the protocol items about prompts, and the item with the formats of replies."""
ASKED = "model asked"
"""Only item outside of the key: the model that answered counts."""


def digest(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of values, independent of their order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def protocol_key(protocol: Mapping[str, str]) -> str:
    """Return the SHA-256 of an answered protocol: equal for runs with comparable numbers."""
    return digest({name: value for name, value in protocol.items() if name != ASKED})


def judge_key(protocol: Mapping[str, str]) -> str:
    """Return the SHA-256 of an answered protocol without prompts: equal across flows for one judge and its settings."""
    return protocol_key({name: value for name, value in protocol.items() if not name.startswith(PROMPT)})


def joint_key(keys: Iterable[str]) -> str:
    """Return the protocol key of an evaluation in shards: the shards' common key, or a hash of all their keys."""
    distinct = sorted(set(keys))
    return distinct[0] if len(distinct) == 1 else hashlib.sha256(" ".join(distinct).encode()).hexdigest()


def protocol_differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the sorted names of the items in which the keys of two answered protocols differ."""
    return [name for name in sorted(one.keys() | other.keys()) if name != ASKED and one.get(name) != other.get(name)]


class Evaluation(NamedTuple):
    """Start and end records of a run, or of the shards of an evaluation, with their ledgers."""

    start: RunStart
    """Start record; for shards with the evaluation's id as `run_id`, and all samples."""
    end: RunEnd | None
    """End record; None: the run, or a shard, is unfinished."""
    folders: list[Path]
    """Folders of the ledgers, one for each run."""

    def judgments(self) -> Iterator[Judgment]:
        """Yield the judgments of its runs, in order of arrival in each."""
        return chain.from_iterable(map(read_judgments, self.folders))

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes of its runs, in order of decision in each."""
        return chain.from_iterable(map(read_outcomes, self.folders))

    def first_questions(self, store: Path) -> Iterator[OtherCall]:
        """Yield the questions of its runs that asked whether the judge is there."""
        until = datetime.fromisoformat(self.end.finished_at) if self.end else datetime.now(UTC)
        return first_questions_of(store, {run.name for run in self.folders}, until)


def read_evaluation(store: Path, run_id: str) -> Evaluation:
    """Return the run with this id, or the finished shards of the evaluation with this id.

    Raises:
        InputError: the store has neither; a ledger is damaged, or was written by a newer version.
    """
    run = folder(store, run_id)
    if run.exists():
        return Evaluation(read_start(run), read_end(run), [run])
    return _joined(evaluation_folders(_any_shard(store, run_id)))


def evaluation_folders(run: Path) -> list[Path]:
    """Return the folders of the finished runs in the evaluation of a run; an unsharded run is its whole evaluation."""
    start = read_start(run)
    if start.shards == 1:
        return [run]
    found, own = _finished(run.parent.parent), (start.evaluation_id, start.dataset_key)
    # A shard that found another dataset at the same place is not part of the evaluation.
    same = {other.shard: each for each, other in found if (other.evaluation_id, other.dataset_key) == own}
    return list(same.values())


def _any_shard(store: Path, evaluation_id: str) -> Path:
    for run, start in _finished(store):
        if start.evaluation_id == evaluation_id:
            return run
    raise InputError(
        f"{store} has no ledger of a run, and no finished shard of an evaluation, called {evaluation_id!r}: bring its "
        "folder back, or let `jury store rebuild` make the history without it"
    )


def _finished(store: Path) -> Iterator[tuple[Path, RunStart]]:
    """Yield all finished runs, oldest first. Unreadable ones are skipped, and `jury store sync` reports them."""
    for run in run_folders(store):
        if (run / END).exists() and (start := start_of(run)):
            yield run, start


def _joined(shards: list[Path]) -> Evaluation:
    """Join finished shards into one evaluation; it has no end record if a shard is missing."""
    starts = [read_start(run) for run in shards]
    ends = [end for run in shards if (end := read_end(run))]
    first, samples = min(starts, key=lambda start: start.started_at), sum(start.samples for start in starts)
    start = first.model_copy(update={"run_id": first.evaluation_id, "samples": samples, "shard": 1})
    return Evaluation(start, _end(starts, ends) if len(shards) == first.shards else None, shards)


def _end(starts: Sequence[RunStart], ends: Sequence[RunEnd]) -> RunEnd:
    last = max(ends, key=lambda end: end.finished_at)
    # Shards without questions have no answering judge, so their protocol does not describe the others.
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
    """Join the stops of shards at the month's budget; the samples judged until then are not a random part of all."""
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


def unmeasured_words(replies: int, anew: int, run_id: str = "", calls: int = 0) -> str:
    """Return the sentence about an evaluation with too few new replies to be a new measurement.

    Args:
        run_id: names the evaluation among several.
        calls: calls that it made, those about controls and anchors among them.
    """
    of = f" of {run_id}" if run_id else ""
    again = "--reuse-hours 0 asks again"
    if anew or not replies:
        return f"{replies - anew:,} of {replies:,} answers{of} reused: too few are new for a new measurement; {again}."
    spent = f"{calls:,} other calls made" if calls else "nothing spent"
    return f"All {replies:,} answers{of} reused, {spent}; {again}."


def shared_words(shared: int, replies: int, one: str, other: str) -> str:
    """Return a sentence if the runs `one` and `other` share replies; otherwise an empty text."""
    told = f"{shared:,} of {replies:,} replies of {other} are those of {one} itself"
    why = "they were reused without asking the judge again, so they cannot differ"
    return f"{told}: {why}." if shared else ""
