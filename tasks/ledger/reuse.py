"""Replies of earlier runs that need not be paid for again.

Owns which runs may lend replies, and where in their ledgers those lie. What makes two calls the same call is the key's
affair, which `judging.questions` makes; a row is taken over by the step `judge`.
"""

import re
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.files import open_regular, read_regular
from tasks.ledger.checksums import SINCE, holds
from tasks.ledger.forgotten import marks
from tasks.ledger.meant import Meant, started
from tasks.ledger.reading import (
    END,
    JUDGMENTS,
    Confirms,
    moment_of,
    parse_row,
    read_end,
    read_start,
    rows_told,
    run_folders,
    validate_row,
    whole_lines,
)
from tasks.records import SCHEMA, Judgment, RunStart

_KNOWN = tuple(b'{"schema":%d,' % number for number in range(1, SCHEMA + 1))
_WITHOUT_CHECKSUM = _KNOWN[: SINCE - 1]
_FIELDS = [re.compile(rb'"%s":"([ -!#-\[\]-~]*)"' % name) for name in (b"status", b"key", b"judged_at")]
"""Fields of a row in their order. A quote inside of a text is escaped: what a judge wrote cannot look like a field."""


_NAMES = {"sample_id", "candidate", "control"}
"""By which a row tells whether it was forgotten."""
_STOPPED = b'"stopped": {'
"""Part of the end of a run that stopped at its budget, as `Ledger` writes it."""
_MOST_BYTES = 2**26


def _nothing(_: Judgment) -> bool:
    return False


def _none(_run: Path, _row: Judgment) -> bool:
    return False


class _Place(NamedTuple):
    moment: float
    """When the judge replied, as a Unix time."""
    file: int
    offset: int


class Replies:
    """Ok judgments of earlier runs by call key. Holds their places, not their texts.

    Args:
        since: folder of each run that lends replies -> the moment before which they are too old; None: any age will do.
        confirms: asked of replies without a checksum, which are left out otherwise.
        forgotten: asked of a run's folder and its reply whether that was forgotten, and so is lent to nobody.
    """

    def __init__(
        self,
        since: Mapping[Path, datetime | None],
        confirms: Confirms = _nothing,
        forgotten: Callable[[Path, Judgment], bool] = _none,
    ) -> None:
        self.unreadable = 0
        """Rows, and files of rows, that are missing or not to be believed, here or so far in `find`: they spare no
        call."""
        self.first_unreadable = ""
        """What is wrong with the first of them, and where."""
        self._confirms, self._forgotten = confirms, forgotten
        self._files = [run / JUDGMENTS for run in since]
        self._places = _Places()
        for file, moment in enumerate(since.values()):
            try:
                rows = self._add(file, moment.timestamp() if moment else float("-inf"))
                self._miss(file, rows)
            except (InputError, OSError) as error:
                self._leave_out(str(error))

    def __len__(self) -> int:
        return len(self._places)

    def find(self, key: str) -> Judgment | None:
        """The newest ok judgment of this very call, or None."""
        place = self._places.get(key)
        if place is None:
            return None
        file = self._files[place.file]
        try:
            found = _read(file, place, key, self._confirms)
            return None if self._forgotten(file.parent, found) else found
        except (InputError, OSError) as error:
            self._leave_out(str(error))
            self._places.drop(key)
            return None

    def _add(self, file: int, not_before: float) -> int:
        """Take in a file; returns how many rows there are in it."""
        path, number = self._files[file], 0
        for number, (offset, line) in enumerate(whole_lines(path), 1):
            try:
                found = _ok_reply(line, path, number)
            except InputError as error:
                self._leave_out(str(error))
                continue
            if found and found[1] >= not_before:
                self._places.keep(*found, file, offset)
        return number

    def _miss(self, file: int, rows: int) -> None:
        """Count what the end of a run tells of and its file lacks."""
        path = self._files[file]
        end = read_end(path.parent)
        if end and (missing := rows_told(end, JUDGMENTS) - rows) > 0:
            self._leave_out(f"{path}: {missing:,} of the rows that {END} tells of are missing", missing)

    def _leave_out(self, words: str, rows: int = 1) -> None:
        self.unreadable += rows
        self.first_unreadable = self.first_unreadable or words


class _Places:
    """The newest place of each key, in columns.

    An object for each would take twice the memory, and a garbage collector that walks through hundreds of thousands of
    them stops the event loop as long as it walks.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._moments, self._files, self._offsets = array("d"), array("i"), array("q")

    def __len__(self) -> int:
        return len(self._rows)

    def keep(self, key: str, moment: float, file: int, offset: int) -> None:
        row = self._rows.setdefault(key, len(self._moments))
        if row == len(self._moments):
            self._moments.append(moment)
            self._files.append(file)
            self._offsets.append(offset)
        elif moment > self._moments[row]:
            self._moments[row], self._files[row], self._offsets[row] = moment, file, offset

    def get(self, key: str) -> _Place | None:
        row = self._rows.get(key)
        return None if row is None else _Place(self._moments[row], self._files[row], self._offsets[row])

    def drop(self, key: str) -> None:
        del self._rows[key]


def earlier_replies(store: Path, start: RunStart, reuse_hours: float, confirms: Confirms = _nothing) -> Replies:
    """Replies that the run may take over instead of paying again.

    From every run those younger than `reuse_hours`, counted from the original call (0: none at all). From an unfinished
    run that asked the same of the same candidates those of any age, unless a run finished since has superseded it; and
    so from one that stopped at its budget, unless this one was started by a schedule: what is judged night by night
    with the same budget is judged anew.
    Takes seconds where ledgers are large: an event loop gives it to a thread.

    What was forgotten on another machine, and is still in this local cache, is lent to nobody.

    Args:
        confirms: asked of replies without a checksum, which are left out otherwise.
    """
    if reuse_hours == 0:
        return Replies({})
    cutoff = datetime.fromisoformat(start.started_at) - timedelta(hours=reuse_hours)
    meant = Meant(marks(store))
    runs = [run for run in run_folders(store) if not _is_gone(meant, run)]
    resumed = _unfinished_like(start, runs)
    used = [run for run in runs if run in resumed or _written_since(run, cutoff)]
    return Replies({run: None if run in resumed else cutoff for run in used}, confirms, _asked_of(meant))


def _is_gone(meant: Meant, run: Path) -> bool:
    """Whether all of a run was forgotten."""
    if not meant.marks:  # as in most stores: to read how all runs began takes a while
        return False
    begun = started(run)
    return bool(meant.run(begun) if begun else meant.name("run", "", run.name, ""))


def _asked_of(meant: Meant) -> Callable[[Path, Judgment], bool]:
    """Whether a row of a run was forgotten."""
    known = cache(started)

    def is_forgotten(run: Path, row: Judgment) -> bool:
        begun = known(run) if meant.marks else None
        return bool(begun and meant.row(begun.flow, row.model_dump(include=_NAMES), begun.started_at))

    return is_forgotten


def _ok_reply(line: bytes, path: Path, number: int) -> tuple[str, float] | None:
    """Key and moment of a row's reply; None where it is not ok."""
    # Reading every row whole takes three times as long; what else is in it is checked when it is taken.
    is_old = line.startswith(_WITHOUT_CHECKSUM)
    status, key, judged_at = ((is_old or holds(line)) and _fields(line)) or _fields_of_any_layout(line, path, number)
    if status != "ok":
        return None
    moment = moment_of(judged_at) if isinstance(judged_at, str) else None
    if moment is None or not isinstance(key, str):
        raise InputError(f"{path}, line {number}: damaged: key or judged_at is none")
    return key, moment.timestamp()


def _fields(line: bytes) -> list[str] | None:
    """Status, key and moment of a row as `Ledger` writes it; None for any other."""
    if not line.startswith(_KNOWN):
        return None
    found: list[str] = []
    end = 0
    for field in _FIELDS:
        if not (value := field.search(line, end)):
            return None
        found.append(value[1].decode())
        end = value.end()
    return found


def _fields_of_any_layout(line: bytes, path: Path, number: int) -> list[Any]:
    row = parse_row(line, path, number)
    return [row.get(name) for name in ("status", "key", "judged_at")]


def _read(path: Path, place: _Place, key: str, confirms: Confirms) -> Judgment:
    with open_regular(path) as file:
        file.seek(place.offset)
        found = validate_row(Judgment, parse_row(file.readline(), path, confirms=confirms), path)
    moment = moment_of(found.judged_at)
    if (found.key, found.status, moment and moment.timestamp()) != (key, "ok", place.moment):
        raise InputError(f"{path}, byte {place.offset:,}: damaged: its key, status or time is told twice")
    return found


def _written_since(run: Path, moment: datetime) -> bool:
    # A ledger only grows, so the file's own time tells without reading it that all of it is too old.
    rows = run / JUDGMENTS
    return rows.exists() and datetime.fromtimestamp(rows.stat().st_mtime, UTC) >= moment


def _unfinished_like(start: RunStart, runs: list[Path]) -> set[Path]:
    """Unfinished or stopped runs of the same undertaking that no finished one has superseded."""
    ended = {run for run in runs if _is_over(run, start.scheduled)}
    oldest = next((place for place, run in enumerate(runs) if run not in ended), len(runs))
    found: set[Path] = set()
    for run in reversed(runs[oldest:]):
        if run.name != start.run_id and resume_key(run) == start.resume_key:
            if run in ended:
                break
            found.add(run)
    return found


def _is_over(run: Path, scheduled: bool) -> bool:
    """Whether a run ended, and not at its budget; for a scheduled run such an end is one, too."""
    # A quote inside of a text is escaped: no warning can look like a field. To read all ends whole takes seconds.
    return (run / END).exists() and (scheduled or _STOPPED not in read_regular(run / END, _MOST_BYTES))


def resume_key(run: Path) -> str:
    """Equal for two runs that ask the same; empty: how this one began cannot be read."""
    with suppress(InputError, OSError):
        return read_start(run).resume_key
    return ""
