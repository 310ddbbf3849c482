"""How far the batches of a run were when their endpoint was last asked: for whoever shows it without asking again."""

from pathlib import Path

from tasks.records import Record

PROGRESS = "progress.json"


class Progress(Record):
    """How far the batches of a run were when the endpoint was last asked."""

    asked_at: str
    """UTC, ISO 8601."""
    turn: int
    statuses: dict[str, int]
    """Status, in the endpoint's word -> batches."""
    requests: int
    completed: int
    failed: int

    @property
    def words(self) -> str:
        """In a few words: `2 in_progress, 740 of 1,168 requests done, 3 failed`."""
        batches = ", ".join(f"{n} {status}" for status, n in self.statuses.items())
        again = "a second time, " if self.turn > 1 else ""
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{again}batches: {batches}; {self.completed:,} of {self.requests:,} requests done{failed}"


def progress_of(work: Path) -> Progress | None:
    """What was last written down of it; None: nothing was."""
    try:
        return Progress.model_validate_json((work / PROGRESS).read_bytes())
    except (OSError, ValueError):
        return None
