"""What the ledger of a run that is taken in says already, sample by sample: its rows stay on the disk."""

from collections.abc import Iterator
from pathlib import Path

from tasks.batches.index import Index, Line
from tasks.ledger.reading import JUDGMENTS, OUTCOMES, parse_row, validate_row, whole_lines
from tasks.records import Judgment, Outcome

Place = tuple[str, str, str]
"""Candidate, sample and control: what tells a sample of a run from all others."""


class Written:
    """The rows of a ledger as they are when this is made.

    Raises:
        InputError: a row is damaged, with file and line.
    """

    def __init__(self, run: Path) -> None:
        self._judgments, self._outcomes = Index(_rows(run / JUDGMENTS)), Index(_rows(run / OUTCOMES))

    def judgments(self, place: Place) -> list[Judgment]:
        """All about a sample, in the order of their arrival."""
        found = self._judgments.find(_name(*place))
        return [validate_row(Judgment, parse_row(each.read(), each.path), each.path, each.number) for each in found]

    def outcome(self, place: Place) -> Outcome | None:
        """What was decided of a sample; None: nothing was."""
        for each in self._outcomes.find(_name(*place)):
            return validate_row(Outcome, parse_row(each.read(), each.path), each.path, each.number)
        return None


def _rows(path: Path) -> Iterator[tuple[str, Line]]:
    for number, (start, text) in enumerate(whole_lines(path), 1):
        row = parse_row(text, path, number)
        name = _name(str(row.get("candidate")), str(row.get("sample_id")), str(row.get("control", "")))
        yield name, Line(path, number, start, len(text))


def _name(*place: str) -> str:
    return "\n".join(place)
