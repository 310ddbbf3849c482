"""What the marks of a store mean among its runs and rows: who is meant, and since when.

A mark means what was judged in runs that began before it. Whoever judges the same again later has not forgotten it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.ledger.forgotten import Kind, Mark
from tasks.ledger.reading import moment_of, read_start
from tasks.records import ANCHOR, RunStart

Row = Mapping[str, Any]


class Meant:
    """What all marks mean together."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.marks = marks
        self._known: dict[tuple[Kind, str, str], list[Mark]] = {}

    def run(self, start: RunStart) -> Mark | None:
        """The mark by which all of a run goes: its own, that of its evaluation, or of the last of its candidates."""
        for name in (start.run_id, start.evaluation_id):
            if found := self.name("run", start.flow, name, start.started_at):
                return found
        found = [self.name("candidate", start.flow, each, start.started_at) for each in start.candidates]
        return found[0] if found and all(found) else None

    def row(self, flow: str, row: Row, moment: str) -> Mark | None:
        """The mark by which a row goes, of a run that began then; None: it stays. Labels are rows, too."""
        sample = str(row.get("sample_id", ""))
        # In an anchor's manifest the id of an image has no slash.
        names = {sample, sample.replace("_", "/")} if row.get("control") == ANCHOR else {sample}
        found = [self.name("sample", flow, each, moment) for each in names]
        found.append(self.name("candidate", flow, str(row.get("candidate", "")), moment))
        return next((mark for mark in found if mark), None)

    def name(self, kind: Kind, flow: str, name: str, moment: str) -> Mark | None:
        """The mark that means what has this name, as it was at a moment; None: there is none."""
        key = (kind, flow, name)
        if key not in self._known:
            mine = [mark for mark in self.marks if mark.kind == kind and mark.flow in ("", flow)]
            self._known[key] = [mark for mark in mine if mark.means(name)] if name else []
        then = moment_of(moment)
        return next((mark for mark in self._known[key] if then is None or then <= _moment(mark)), None)


def _moment(mark: Mark) -> Any:
    return moment_of(mark.forgotten_at)


def started(run: Path) -> RunStart | None:
    """What a run set out to do; None where its record is damaged, which `sync` reports."""
    try:
        return read_start(run)
    except (InputError, OSError):
        return None
