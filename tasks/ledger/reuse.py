"""Replies of earlier runs that can be reused instead of paid for again: the lending runs, and the replies' places.

`judging.questions` makes the key that two equal calls share; the step `judge` takes a row over.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from tasks.errors import InputError
from tasks.files import open_regular, read_regular
from tasks.ledger.removals import is_removing
from tasks.ledger.run_files import (
    END,
    JUDGMENTS,
    LONGEST_ROW,
    is_waiting,
    is_written,
    moment_of,
    parse_row,
    run_folders,
    start_of,
    validate_row,
    whole_lines,
)
from tasks.records import Judgment, RunStart, Sample
from tasks.text import enumerated

_STOPPED = b'"stopped": {'
"""Part of the end of a run that stopped at its budget, as `Ledger` writes it."""


class Replies:
    """Ok judgments of earlier runs by call key, held as file positions without texts.

    The positions are plain tuples of numbers, which the garbage collector does not walk through: with hundreds of
    thousands of other objects it would stop the event loop.

    Args:
        since: folder of each lending run -> time before which its replies are too old; None: any age is allowed.
        at_work: ids of those that processes of this machine, or batches, are judging now, with the same questions.
        is_night: the run is scheduled: the time before which a reply is too old is then that of the run that asked.
    """

    def __init__(
        self, since: Mapping[Path, datetime | None], at_work: Sequence[str] = (), is_night: bool = False
    ) -> None:
        others = enumerated(at_work)
        again = "stop this run, and start it again once that has ended, to pay once"
        self.at_work_words = f"some replies are paid for twice: {others} asks the same now ({again})" if others else ""
        """Warning about other runs at work; empty if there are none."""
        self.unreadable = 0
        """Damaged rows, and files of rows, here or so far in `find`: they save no call."""
        self.first_unreadable = ""
        """Problem and place of the first of them."""
        self._files = [run / JUDGMENTS for run in since]
        self._open: tuple[int, BinaryIO] | None = None
        self._places: dict[str, tuple[float, int, int]] = {}
        """Key -> time of the reply (Unix time), number of its file, offset of its row."""
        self._samples = set[int]()
        """Hashes of candidate and sample: the names would take much more memory."""
        for file, moment in enumerate(since.values()):
            try:
                began = f"{moment:%Y%m%dT%H%M%S}" if moment and is_night else ""
                self._add(file, moment.timestamp() if moment else float("-inf"), began)
            except (InputError, OSError) as error:
                self._leave_out(str(error))

    def have(self, sample: Sample) -> bool:
        """Return whether there is a reply about a sample; few questions about it may then be left."""
        return hash((sample.candidate, sample.sample_id)) in self._samples

    def __len__(self) -> int:
        return len(self._places)

    def find(self, key: str) -> Judgment | None:
        """Return the newest ok judgment of this call, or None."""
        if key not in self._places:
            return None
        _, file, offset = self._places[key]
        try:
            return self._read(file, offset, key)
        except (InputError, OSError) as error:
            self._leave_out(str(error))
            del self._places[key]
            return None

    def close(self) -> None:
        """Close the file that was read last."""
        if self._open:
            self._open[1].close()
        self._open = None

    def _read(self, file: int, offset: int, key: str) -> Judgment:
        path = self._files[file]
        if not self._open or self._open[0] != file:
            self.close()
            self._open = file, open_regular(path)
        lines = self._open[1]
        lines.seek(offset)
        found = validate_row(Judgment, parse_row(lines.readline(), path), path)
        if found.key != key:
            raise InputError(f"{path}, byte {offset:,}: changed since the run began")
        return found

    def _add(self, file: int, not_before: float, began: str) -> None:
        path = self._files[file]
        for number, (offset, line) in enumerate(whole_lines(path), 1):
            try:
                row = parse_row(line, path, number)
                moment = _ok_moment(row, path, number)
            except InputError as error:
                self._leave_out(str(error))
                continue
            asked_by = str(row.get("reused_from") or path.parent.name)  # ids begin with the time
            if moment is not None and moment >= not_before and asked_by >= began:
                self._samples.add(hash((str(row.get("candidate")), str(row.get("sample_id")))))
                if row["key"] not in self._places or moment > self._places[row["key"]][0]:
                    self._places[row["key"]] = moment, file, offset

    def _leave_out(self, words: str) -> None:
        self.unreadable += 1
        self.first_unreadable = self.first_unreadable or words


def earlier_replies(store: Path, start: RunStart, reuse_hours: float) -> Replies:
    """Find the replies that the run can reuse instead of paying again.

    Every run lends replies younger than `reuse_hours`, counted from the original call (0: no reuse). To a scheduled run
    they count from the begin of the run that asked: a long night, or a batch, would answer the next night, too. An
    unfinished run with the same questions about the same candidates lends replies of any age, unless a later finished
    run has superseded it. So does a run that stopped at its budget, unless the new run is scheduled: nightly runs with
    one budget judge everything again.

    This takes seconds for large ledgers, so an event loop calls it in a thread. A store with unfinished removals of
    its own lends nothing.
    """
    if reuse_hours == 0 or is_removing(store):
        return Replies({})
    cutoff = datetime.fromisoformat(start.started_at) - timedelta(hours=reuse_hours)
    runs = run_folders(store)
    resumed = _unfinished_like(start, runs)
    # A ledger only grows, so the file's own time shows that all rows are too old, without reading them.
    written = {run: rows.stat().st_mtime for run in runs if (rows := run / JUDGMENTS).exists()}
    used = [run for run in runs if run in resumed or written.get(run, 0.0) >= cutoff.timestamp()]
    # A batch with the same questions would attach to the one that waits.
    by_batch = start.judge_settings.get("service_tier") == "batch" and not start.scheduled
    at_work = [run.name for run in sorted(resumed) if is_written(run) or (is_waiting(run) and not by_batch)]
    return Replies({run: None if run in resumed else cutoff for run in used}, at_work, start.scheduled)


def _ok_moment(row: Mapping[str, Any], path: Path, number: int) -> float | None:
    """Return the time of the judge's reply in a row, as a Unix time; None if the row is not ok."""
    if row.get("status") != "ok":
        return None
    key, judged_at = row.get("key"), row.get("judged_at")
    moment = moment_of(judged_at) if isinstance(judged_at, str) else None
    if moment is None or not isinstance(key, str):
        raise InputError(f"{path}, line {number}: damaged: key or judged_at is none")
    return moment.timestamp()


def _unfinished_like(start: RunStart, runs: list[Path]) -> set[Path]:
    """Return the unfinished or stopped runs with the same questions that no finished one has superseded."""
    ended = {run for run in runs if _is_over(run, start.scheduled)}
    oldest = next((place for place, run in enumerate(runs) if run not in ended), len(runs))
    found: set[Path] = set()
    for run in reversed(runs[oldest:]):
        other = start_of(run)
        if other and other.run_id != start.run_id and other.resume_key == start.resume_key:
            if run in ended:
                break
            found.add(run)
    return found


def _is_over(run: Path, scheduled: bool) -> bool:
    """Return whether a run ended, not counting a stop at its budget; for a scheduled run a stop is an end, too."""
    # Quotes inside texts are escaped: no warning can look like a field. Parsing all end records takes seconds.
    try:
        return (run / END).exists() and (scheduled or _STOPPED not in read_regular(run / END, LONGEST_ROW))
    except (InputError, OSError):  # its replies are lent by their age alone
        return True
