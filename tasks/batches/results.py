"""Results of a run's batches: their progress, their files of replies, and the reply to each call."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tasks.batches.log import LOCK, Log, Part
from tasks.batches.submission import submit
from tasks.endpoint.api_keys import Mask, Secret
from tasks.endpoint.batches import CANCELLING, Batches, BatchState
from tasks.endpoint.client import LONGEST_REPLY
from tasks.endpoint.replies import Reply, as_object
from tasks.errors import BatchesUnavailable
from tasks.files import remove_folder, write_whole
from tasks.ledger.run_files import PROGRESS, read_start
from tasks.protocols import earlier_parameters
from tasks.records.parameters import Parameters
from tasks.text import one_line

LONGEST_LINE = 2 * LONGEST_REPLY
"""Bytes of a line of replies from which on the line is not read."""
LONGEST_WORDS = 500


class Line(NamedTuple):
    """Position of a line in a file: a few hundred bytes of memory, while the line itself may have megabytes."""

    path: Path
    start: int
    length: int
    """Length in bytes, including the line's end."""

    def read(self) -> bytes:
        """Return the line."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.length)


def logged_parameters(log: Log) -> Parameters:
    """Return the parameters that a run was started with, at its present store."""
    start = read_start(log.run)
    return earlier_parameters(start.flow, {**start.parameters, "store": str(log.store), "reuse_hours": 0})


def asking(log: Log, secret: Secret) -> Batches:
    """Return the client for the files and batches of the run's endpoint."""
    return Batches(logged_parameters(log).judge, secret)


async def looked_after(log: Log, secret: Secret) -> str:
    """Submit the rest, query the progress, fetch finished files; return the reason to wait, empty if there is none.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
    """
    if not log.prepared or log.ended:
        return ""
    try:
        async with asking(log, secret) as batches:
            await submit(log, batches)
            return await fetch(log, batches)
    except BatchesUnavailable as error:
        if error.is_busy:
            return f"the endpoint is busy, and `jury batch collect` tries again ({error})"
        again = "`jury batch collect` tries again, `jury batch cancel` gives the rest of it up"
        raise BatchesUnavailable(f"Run {log.run_id} still waits: {error}. {again}", error.status) from None


async def fetch(log: Log, batches: Batches) -> str:
    """Query the progress of the batches, and fetch finished files; return the progress, empty if all have come.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
    """
    asked = [(part, await _state(log, part, batches)) for part in log.parts if part.batch_id]
    states = [(part, state) for part, state in asked if state]
    words = _progress(log, [state for _, state in states])
    told = f"{words}, as of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    write_whole(log.run / PROGRESS, told.encode(), private=True)
    for part, state in states:
        if state.ended:
            await _fetch_files(log, part, state, batches)
    return "" if all(state.ended for _, state in states) else words


async def _state(log: Log, part: Part, batches: Batches) -> BatchState | None:
    """Return the state of a batch; None if the run is cancelled and the endpoint does not have the batch any more."""
    return await (_last_state(part, batches) if log.cancelled else batches.state(part.batch_id))


async def _fetch_files(log: Log, part: Part, state: BatchState, batches: Batches) -> None:
    places = (log.replies(part, "output"), state.output_file), (log.replies(part, "error"), state.error_file)
    most, problems = part.requests * LONGEST_REPLY, [state.problem] if state.problem else []
    for place, file_id in places:
        if file_id and not place.exists():
            try:
                if not await batches.fetch(file_id, place, most):
                    problems.append(f"its file {file_id} has more than {most:,} bytes, and the rest was not read")
            except BatchesUnavailable as error:
                if not (log.cancelled and error.status == 404):  # a cancelled run goes on without lost files
                    raise
    if problems:
        write_whole(log.work / _problem(part), "; ".join(problems).encode(), private=True)


def _problem(part: Part) -> str:
    return f"problem-{part.number:03}.txt"


def _progress(log: Log, states: list[BatchState]) -> str:
    """Return the progress in a few words: `batches: 2 in_progress; 740 of 1,168 requests done, 3 failed`."""
    statuses = Counter(sorted(state.status for state in states))
    batches = ", ".join(f"{number} {status}" for status, number in statuses.items())
    done, failed = (sum(numbers) for numbers in ((s.completed for s in states), (s.failed for s in states)))
    of = sum(part.requests for part in log.parts)
    return f"batches: {batches}; {done:,} of {of:,} requests done" + (f", {failed:,} failed" if failed else "")


class Replies:
    """Replies of one run, found by the ids of their calls, in any order within the files."""

    def __init__(self, log: Log, mask: Mask) -> None:
        """Find the replies; `mask` removes the judge's key from each line before its reply is read."""
        self._mask = mask
        self._lines: dict[str, Line] = {}
        for name, line in _named(log.replies(part, kind) for part in log.parts for kind in ("output", "error")):
            self._lines.setdefault(name, line)  # the first of several replies to one call counts
        told = [log.work / _problem(part) for part in log.parts]
        self._problems = [each.read_text(encoding="utf-8") for each in told if each.exists()]
        self._cancelled = log.cancelled

    def find(self, name: str, read: Callable[[int, bytes], Reply]) -> Reply:
        """Return the reply to a call, made by `read` from its status and body, or the reason why there is none."""
        found = self._lines.get(name)
        if not found:
            return Reply("unavailable", error=self._absent())
        row = _object(self._mask.body(found.read()))
        response, status = as_object(row.get("response")), as_object(row.get("response")).get("status_code")
        if isinstance(status, int):
            return read(status, json.dumps(response.get("body")).encode())
        why = _words(as_object(row.get("error"))) or "it does not say why"
        return Reply("unavailable", error=f"the batch gave no reply: {why}")

    def _absent(self) -> str:
        if self._problems:
            return one_line(f"the batch failed: {'; '.join(self._problems)}", LONGEST_WORDS)
        return "the batch was cancelled" if self._cancelled else "the batch has no reply to it in its files"


def _named(files: Iterable[Path]) -> Iterator[tuple[str, Line]]:
    """Yield the lines of files of replies with the ids of their calls; lines that are too long are skipped."""
    for path in (path for path in files if path.exists()):
        with path.open("rb") as file:
            start, is_new = 0, True
            for text in iter(partial(file.readline, LONGEST_LINE), b""):
                name = _object(text).get("custom_id") if is_new else None
                if isinstance(name, str):
                    yield name, Line(path, start, len(text))
                start, is_new = start + len(text), text.endswith(b"\n")


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line) if len(line) < LONGEST_LINE else None
    except (ValueError, RecursionError):
        return {}
    return as_object(found)


def _words(error: dict[str, Any]) -> str:
    return one_line(": ".join(str(error[name]) for name in ("code", "message") if error.get(name)), LONGEST_WORDS)


async def cancel(log: Log, batches: Batches) -> None:
    """Cancel the batches of a run; finished replies are still collected."""
    if not log.cancelled:
        log.add("cancelled")
    await submit(log, batches)  # finds a batch without a record, and creates none
    for part in log.parts:
        state = await _last_state(part, batches)
        if state and not state.ended and state.status != CANCELLING:  # some endpoints refuse to cancel a batch twice
            await batches.cancel(part.batch_id)


async def clear(log: Log, batches: Batches) -> None:
    """Delete the files of an ended run at the endpoint, including those without a record; then delete ours.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached; our files are all still there.
    """
    for part in log.parts:
        state = await _last_state(part, batches)
        files = [part.file_id, *((state.output_file, state.error_file) if state else ())]
        for file_id in filter(None, files):
            await batches.delete(file_id)
    try:
        unknown = [file_id async for file_id in batches.files(log.run_id)]
    except BatchesUnavailable as error:  # not every endpoint lists its files; they expire
        unknown = list[str]()
        if not error.status:
            raise
    for file_id in unknown:
        await batches.delete(file_id)
    remove(log)


async def _last_state(part: Part, batches: Batches) -> BatchState | None:
    try:
        return await batches.state(part.batch_id) if part.batch_id else None
    except BatchesUnavailable as error:
        if error.status == 404:
            return None
        raise


def withdraw(log: Log) -> None:
    """Delete our files of a run of which nothing was sent, and its ledger, which may hold its limit."""
    remove_folder(log.store, f"ledger/{log.run_id}")
    remove(log)


def remove(log: Log) -> None:
    """Delete our files of a run, with the lock last, since runs are found by their locks."""
    remove_folder(log.store, f"batches/{log.run_id}", last=LOCK)
