"""The ledger: what was asked and answered, appended as it arrives and never changed.

Owns `<store>/ledger/<run_id>/` with `run.json`, `judgments.jsonl`, `outcomes.jsonl` and `end.json`, and finds in it the
replies that need not be paid for again. The history that people query is made from it by `store`.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from tasks.errors import InputError
from tasks.files import write_whole
from tasks.records import SCHEMA, Judgment, Outcome, Record, RunEnd, RunStart

RUN, JUDGMENTS, OUTCOMES, END = "run.json", "judgments.jsonl", "outcomes.jsonl", "end.json"

R = TypeVar("R", bound=Record)


class Ledger:
    """The folder of one run, written by the one process that makes the run.

    Each row is handed to the operating system before the next call returns: a killed process loses the calls in
    flight and nothing else.
    """

    def __init__(self, store: Path, start: RunStart) -> None:
        self.folder = folder(store, start.run_id)
        self._start = start
        self._files: dict[str, BinaryIO] = {}

    def append(self, row: Judgment | Outcome) -> None:
        """Add one row to the file of its kind. The first row makes the folder: a run refused before it leaves none."""
        self._open()
        file = self._files[JUDGMENTS if isinstance(row, Judgment) else OUTCOMES]
        file.write(row.model_dump_json().encode() + b"\n")
        file.flush()

    def end(self, end: RunEnd) -> None:
        """Mark the run as finished. From here on nothing in the folder changes."""
        self._open()
        self.close()
        _write_record(self.folder / END, end)

    def close(self) -> None:
        """Release the files; without `end` the run stays unfinished."""
        for file in self._files.values():
            file.close()

    def _open(self) -> None:
        if not self._files:
            self.folder.mkdir(parents=True)
            _write_record(self.folder / RUN, self._start)
            self._files = {name: (self.folder / name).open("ab") for name in (JUDGMENTS, OUTCOMES)}


def _write_record(path: Path, record: Record) -> None:
    write_whole(path, (record.model_dump_json(indent=1) + "\n").encode())


def folder(store: Path, run_id: str) -> Path:
    """Where the run with this id is kept."""
    return store / "ledger" / run_id


def run_folders(store: Path) -> list[Path]:
    """Folders of all runs in the store, oldest first (run ids begin with their time)."""
    return sorted(path.parent for path in (store / "ledger").glob(f"*/{RUN}"))


def evaluation_folders(run: Path) -> list[Path]:
    """Folders of the finished runs that make up the evaluation of a run, a run of its own being all of it.

    Of shards that ran twice, because a worker was killed, the newest finished run counts. What found another dataset
    at the same place is no part.
    """
    start = read_start(run)
    if start.shards == 1:
        return [run]
    counting: dict[int, Path] = {}
    for each in run_folders(run.parent.parent):
        if (each / END).exists() and _same_evaluation(other := read_start(each), start):
            counting[other.shard] = each
    return list(counting.values())


def _same_evaluation(one: RunStart, other: RunStart) -> bool:
    return (one.evaluation_id, one.dataset_key) == (other.evaluation_id, other.dataset_key)


def read_start(run: Path) -> RunStart:
    """What the run set out to do."""
    return read_record(run / RUN, RunStart)


def read_end(run: Path) -> RunEnd | None:
    """What came of the run; None while it is unfinished."""
    return read_record(run / END, RunEnd) if (run / END).exists() else None


def read_judgments(run: Path) -> Iterator[Judgment]:
    """Judgments of a run in the order of their arrival, those of control samples (`control`) included."""
    return (Judgment.model_validate(row) for row in read_rows(run / JUDGMENTS))


def read_outcomes(run: Path) -> Iterator[Outcome]:
    """Outcomes of a run's real samples in the order in which they were decided: what scores are made of."""
    return (Outcome.model_validate(row) for row in read_rows(run / OUTCOMES) if not row.get("control"))


def read_controls(run: Path) -> Iterator[Outcome]:
    """Outcomes of a run's control samples; none where it had no controls."""
    return (Outcome.model_validate(row) for row in read_rows(run / OUTCOMES) if row.get("control"))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a ledger file, lifted to the present schema; none where the file is absent.

    Raises:
        InputError: a row that a newer version wrote, or one that is damaged, with file and line.
    """
    return (_parsed(line, path, number) for number, (_, line) in enumerate(_lines(path), 1))


def lift(row: dict[str, Any], path: Path, line: int = 1) -> dict[str, Any]:
    """A row of any known schema as a row of the present one.

    Raises:
        InputError: the row's schema is newer than this version knows.
    """
    found = row.get("schema")
    # 2 added what text-to-image rubrics say, 3 shards, controls and what votes and orders tell: all of it absent here.
    if found in (1, 2):
        return {**row, "schema": SCHEMA}
    if found != SCHEMA:
        raise InputError(
            f"{path}, line {line}: ledger schema {found!r}, known here are 1 to {SCHEMA}: upgrade Image Jury"
        )
    return row


def read_record(path: Path, kind: type[R]) -> R:
    """The one record that a file holds, lifted to the present schema.

    Raises:
        InputError: a newer version wrote it, or it is damaged.
    """
    return kind.model_validate(_parsed(path.read_bytes(), path))


def _parsed(text: bytes, path: Path, line: int = 1) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}, line {line}: damaged: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {line}: damaged: found {row!r}, expected an object")
    return lift(row, path, line)  # pyright: ignore[reportUnknownArgumentType]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each whole line: a last line without its end was cut by a crash and is left out."""
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)


class _Spot(NamedTuple):
    path: Path
    offset: int
    judged_at: str


class Replies:
    """Ok judgments of earlier runs by call key. Holds their places, not their texts."""

    def __init__(self, runs: Iterable[Path], not_before: dict[Path, str]) -> None:
        self._spots: dict[str, _Spot] = {}
        for run in runs:
            # A ledger that cannot be read spares no call; `sync` is where it is reported.
            with suppress(InputError):
                self._add(run / JUDGMENTS, not_before.get(run, ""))

    def _add(self, path: Path, not_before: str) -> None:
        for number, (offset, line) in enumerate(_lines(path), 1):
            row = _parsed(line, path, number)
            known = self._spots.get(row["key"])
            fresh = row["judged_at"] >= not_before and (known is None or row["judged_at"] > known.judged_at)
            if row["status"] == "ok" and fresh:
                self._spots[row["key"]] = _Spot(path, offset, row["judged_at"])

    def __len__(self) -> int:
        return len(self._spots)

    def find(self, key: str) -> Judgment | None:
        """The newest ok judgment of this very call, or None."""
        spot = self._spots.get(key)
        if spot is None:
            return None
        with spot.path.open("rb") as file:
            file.seek(spot.offset)
            return Judgment.model_validate(_parsed(file.readline(), spot.path))


def earlier_replies(store: Path, start: RunStart, reuse_hours: float) -> Replies:
    """Replies that the run may take over instead of paying again.

    From every run those younger than `reuse_hours`, counted from the original call (0: none at all). From an unfinished
    run that asked the same of the same candidates those of any age, unless a run finished since has superseded it.
    """
    if reuse_hours == 0:
        return Replies([], {})
    cutoff = datetime.fromisoformat(start.started_at) - timedelta(hours=reuse_hours)
    runs = run_folders(store)
    resumed = _unfinished_like(start, runs)
    used = [run for run in runs if run in resumed or _written_since(run, cutoff)]
    return Replies(used, {run: cutoff.isoformat() for run in used if run not in resumed})


def _written_since(run: Path, moment: datetime) -> bool:
    # A ledger only grows, so the file's own time tells without reading it that all of it is too old.
    rows = run / JUDGMENTS
    return rows.exists() and datetime.fromtimestamp(rows.stat().st_mtime, UTC) >= moment


def _unfinished_like(start: RunStart, runs: list[Path]) -> set[Path]:
    unfinished = {run for run in runs if not (run / END).exists() and run.name != start.run_id}
    if not unfinished:
        return set()
    alike = {run for run in runs if _resume_key(run) == start.resume_key}
    newest = max((run.name for run in alike if (run / END).exists()), default="")
    return {run for run in unfinished & alike if run.name > newest}


def _resume_key(run: Path) -> str:
    with suppress(InputError):
        return read_start(run).resume_key
    return ""
