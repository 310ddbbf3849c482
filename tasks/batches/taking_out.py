"""What came of the batches of a run: how far they are, their files of replies brought here, and each reply found again.

Owns which of a batch's lines answers which call. How a reply is read and written down is as with any other; what
becomes of calls without one, the run that is collected decides.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from tasks.batches.handing_in import submit
from tasks.batches.index import Index, Line
from tasks.batches.log import LOCK, Log, Part
from tasks.batches.progress import PROGRESS, Progress
from tasks.endpoint.batches import Batches, BatchState
from tasks.endpoint.body import LONGEST_REPLY
from tasks.endpoint.completion import Reply
from tasks.errors import BatchesUnavailable
from tasks.files import write_whole
from tasks.text import one_line

LONGEST_LINE = 2 * LONGEST_REPLY
"""Bytes of a line of replies; of a longer one nothing is read."""
LONGEST_WORDS = 500


async def fetch(log: Log, batches: Batches) -> bool:
    """Ask how far the batches of the last turn are, and bring here what is ready; whether all is here.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
    """
    asked = [(part, await _state(log, part, batches)) for part in log.current if part.batch_id]
    states = [(part, state) for part, state in asked if state]
    _write_progress(log, [state for _, state in states])
    for part, state in states:
        if state.ended:
            await _fetch_files(log, part, state, batches)
    return all(state.ended for _, state in states)


async def _state(log: Log, part: Part, batches: Batches) -> BatchState | None:
    """How far a batch is; None: the endpoint knows nothing of it any more, and the run is given up."""
    return await (_last_state(part, batches) if log.cancelled else batches.state(part.batch_id))


async def _fetch_files(log: Log, part: Part, state: BatchState, batches: Batches) -> None:
    places = (log.replies(part, "output"), state.output_file), (log.replies(part, "error"), state.error_file)
    for place, file_id in places:
        if file_id and not place.exists():
            try:
                await batches.fetch(file_id, place)
            except BatchesUnavailable as error:
                if not (log.cancelled and error.status == 404):  # who gives the run up goes without what is gone
                    raise
    if state.problem:
        write_whole(log.work / _problem(part), state.problem.encode(), private=True)


def _problem(part: Part) -> str:
    return f"problem-{part.turn}-{part.number:03}.txt"


def _write_progress(log: Log, states: list[BatchState]) -> None:
    statuses = [state.status for state in states]
    progress = Progress(
        asked_at=datetime.now(UTC).isoformat(),
        turn=log.turn,
        statuses={status: statuses.count(status) for status in sorted({*statuses})},
        requests=sum(part.requests for part in log.current),
        completed=sum(state.completed for state in states),
        failed=sum(state.failed for state in states),
    )
    write_whole(log.work / PROGRESS, progress.model_dump_json().encode(), private=True)


class Replies:
    """The replies of one turn, found by what their calls are called, in whatever order the files have them."""

    def __init__(self, log: Log, turn: int) -> None:
        parts = [part for part in log.parts if part.turn == turn]
        self._lines = Index(_named(log.replies(part, kind) for part in parts for kind in ("output", "error")))
        told = [log.work / _problem(part) for part in parts]
        self._problems = [each.read_text(encoding="utf-8") for each in told if each.exists()]
        self._cancelled = log.cancelled

    def find(self, name: str, read: Callable[[int, bytes], Reply]) -> Reply:
        """The reply to a call, the first of several, or why there is none.

        Args:
            read: reads status and body of a reply.
        """
        found = self._lines.find(name)
        if not found:
            return Reply("unavailable", error=self._absent())
        line = found[0].read()
        row = _object(line)
        response, status = _inner(row, "response"), _inner(row, "response").get("status_code")
        if isinstance(status, int):
            return read(status, json.dumps(response.get("body")).encode())
        why = _words(_inner(row, "error")) or "it does not say why"
        return Reply("unavailable", error=f"the batch gave no reply: {why}")

    def _absent(self) -> str:
        if self._problems:
            return one_line(f"the batch failed: {'; '.join(self._problems)}", LONGEST_WORDS)
        return "the batch was cancelled" if self._cancelled else "the batch has no reply to it in its files"


def _named(files: Iterable[Path]) -> Iterator[tuple[str, Line]]:
    """Lines of files of replies by the names of their calls; of one that is too long only the beginning is read."""
    for path in (path for path in files if path.exists()):
        with path.open("rb") as file:
            start, number, is_new = 0, 1, True
            for text in iter(partial(file.readline, LONGEST_LINE), b""):
                name = _object(text).get("custom_id") if is_new else None
                if isinstance(name, str):
                    yield name, Line(path, number, start, len(text))
                start, is_new = start + len(text), text.endswith(b"\n")
                number += is_new


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line) if len(line) < LONGEST_LINE else None
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _inner(row: dict[str, Any], name: str) -> dict[str, Any]:
    found = row.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _words(error: dict[str, Any]) -> str:
    return one_line(": ".join(str(error[name]) for name in ("code", "message") if error.get(name)), LONGEST_WORDS)


async def cancel(log: Log, batches: Batches) -> None:
    """Let the endpoint do no more for a run; what it has done is still taken in.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
    """
    if not log.cancelled:
        log.add("cancelled")
    await submit(log, batches)  # a batch that was made and is not on record is found; none is made any more
    for part in log.current:
        state = await _last_state(part, batches)
        if state and not state.ended:
            await batches.cancel(part.batch_id)


async def clear(log: Log, batches: Batches) -> None:
    """Let the endpoint forget the files of a run that has ended, those included that nobody wrote down; then forget
    them here.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached; all is still here.
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


def remove(log: Log) -> None:
    """Remove what was kept of a run, in the bucket and here; the lock last, by which it is found."""
    if log.hold:
        log.hold.remove()
    for file in sorted(log.work.iterdir(), key=lambda file: file.name == LOCK):
        file.unlink()
    log.work.rmdir()
