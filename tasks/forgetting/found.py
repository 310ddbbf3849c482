"""What is meant among the runs of a store, row by row, before anything of it is removed.

Owns which runs go whole, which lose rows, and which pictures nobody else shows: those go. A control that shows a
picture of what is forgotten (the figure of another sample) goes with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic_core import from_json

from tasks.errors import InputError
from tasks.ledger.forgotten import Mark
from tasks.ledger.meant import Meant, Row, started
from tasks.ledger.reading import JUDGMENTS, OUTCOMES, run_folders, whole_lines
from tasks.records import ANCHOR, RunStart

FILES = (JUDGMENTS, OUTCOMES)
"""In the order in which they lose rows: outcomes tell to the last which pictures are meant."""


@dataclass
class Part:
    """What one run that stays has of what is forgotten."""

    start: RunStart
    mark: Mark
    judgments: int = 0
    outcomes: int = 0
    samples: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Candidate and sample of what was judged for itself."""
    names: set[str] = field(default_factory=set[str])
    """What is not to be named any more."""


@dataclass
class Found:
    """All that is meant."""

    meant: Meant
    whole: dict[str, tuple[RunStart | None, Mark]] = field(default_factory=dict[str, tuple[RunStart | None, Mark]])
    """Runs that go, by id; None: its record is damaged."""
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    """Runs that lose rows, by id."""
    renamed: set[str] = field(default_factory=set[str])
    """Runs that stay, and have replies of runs that go."""
    pictures: set[str] = field(default_factory=set[str])
    """SHA-256 of those that go."""
    shown: set[str] = field(default_factory=set[str])
    """SHA-256 of those that what stays shows."""
    shared: int = 0
    """Pictures of what is forgotten that stay, since what stays shows them, too."""
    rows: dict[str, int] = field(default_factory=lambda: {"judgments": 0, "outcomes": 0})
    """Those that go, of runs that go and of runs that stay."""
    unreadable: list[str] = field(default_factory=list[str])
    """Places that could not be read, and so stay as they are."""

    def goes(self, row: Row, start: RunStart) -> Mark | None:
        """The mark by which a row of a run that stays goes; None: it stays."""
        if mark := self.meant.row(start.flow, row, start.started_at):
            return mark
        shows_one = row.get("control") not in ("", None, ANCHOR) and self.pictures & pictures_of(row)
        return self.meant.marks[-1] if shows_one else None


def find(store: Path, meant: Meant) -> Found:
    """Look through all runs of a store. Damaged lines are left as they are, and told."""
    found = Found(meant)
    runs = {run.name: run for run in run_folders(store)}
    starts = {name: started(run) for name, run in runs.items()}
    for name, start in starts.items():
        if mark := meant.run(start) if start else meant.name("run", "", name, ""):
            found.whole[name] = (start, mark)
    _gather_pictures(found, runs, starts)
    for name, run in runs.items():
        _gather_rows(found, run, starts[name])
    return found


def _gather_pictures(found: Found, runs: dict[str, Path], starts: dict[str, RunStart | None]) -> None:
    going, shown = set[str](), set[str]()
    for name, run in runs.items():
        start = starts[name]
        for _, row in rows_of(run, found.unreadable):
            is_control = row.get("control") not in ("", None, ANCHOR)
            goes = name in found.whole or (start and found.meant.row(start.flow, row, start.started_at))
            if goes:
                going |= pictures_of(row)
            elif not is_control:
                shown |= pictures_of(row)
    found.pictures, found.shown, found.shared = going - shown, shown, len(going & shown)


def _gather_rows(found: Found, run: Path, start: RunStart | None) -> None:
    for file, row in rows_of(run, []):
        kind = "judgments" if file == JUDGMENTS else "outcomes"
        if run.name in found.whole:
            found.rows[kind] += 1
        elif start and (mark := found.goes(row, start)):
            found.rows[kind] += 1
            part = found.parts.setdefault(run.name, Part(start, mark))
            _count(part, kind, row, mark)
        else:
            if row.get("reused_from") in found.whole:
                found.renamed.add(run.name)
            if row.get("control") not in ("", None, ANCHOR):
                found.shown |= pictures_of(row)


def _count(part: Part, kind: str, row: Row, mark: Mark) -> None:
    if kind == "judgments":
        part.judgments += 1
    else:
        part.outcomes += 1
    if not row.get("control"):
        part.samples.add((str(row.get("candidate")), str(row.get("sample_id"))))
    part.names |= {str(row[name]) for name in ("candidate", "sample_id") if name in row and mark.means(str(row[name]))}


def rows_of(run: Path, unreadable: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """File and row of all that was judged in a run, whether it is to be believed or not."""
    for file in FILES:
        try:
            for number, (_, line) in enumerate(whole_lines(run / file), 1):
                if row := row_of(line):
                    yield file, row
                else:
                    unreadable.append(f"{run / file}, line {number}")
        except (InputError, OSError) as error:
            unreadable.append(str(error))


def row_of(line: bytes) -> dict[str, Any] | None:
    """A line as it is; None where it is no JSON object."""
    try:
        row = from_json(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", row) if isinstance(row, dict) else None


def pictures_of(row: Row) -> set[str]:
    """SHA-256 of the files of all pictures of a row."""
    notes: Any = row.get("pictures")
    found = cast("dict[str, Any]", notes).values() if isinstance(notes, dict) else ()
    told = (cast("dict[str, Any]", note).get("source_sha256") for note in found if isinstance(note, dict))
    return {sha256 for sha256 in told if isinstance(sha256, str)}
