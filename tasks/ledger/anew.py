"""What an evaluation measured: which of its replies no earlier evaluation has.

A repeat that takes its replies over from an earlier run says nothing new of judge or candidate. Owns the rule, which
the view `evaluations` of the history has for SQL: a reply belongs to the first finished evaluation that has it, so that
those of a run that was killed, or stopped at its budget, count for the one that went on with it.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.ledger.evaluations import Evaluation, read_evaluation
from tasks.ledger.reading import END, read_judgments, read_start, run_folders
from tasks.records import BudgetStop, Judgment


class Anew(NamedTuple):
    """How much of an evaluation is its own, and whether it is whole."""

    replies: int
    """Ok replies about samples; those about controls do not count."""
    anew: int
    """Those of them that no earlier evaluation has, one that stopped at its budget aside."""
    stopped: BudgetStop | None = None
    """Where it stopped at its budget; None: it is whole."""

    @property
    def measured(self) -> bool:
        """Whether it is whole, and at least half of the replies are anew."""
        return not self.stopped and 2 * self.anew >= self.replies

    @property
    def words(self) -> str:
        """A sentence where nothing was measured, or not all; else nothing."""
        if self.stopped:
            return self.stopped.sentence
        return "" if self.measured else unmeasured_words(self.replies, self.anew)


def unmeasured_words(replies: int, anew: int, run_id: str = "") -> str:
    """The sentence about an evaluation of which so few replies are anew; `run_id` where several may be meant."""
    which = f" in {run_id}" if run_id else ""
    taken = f"{replies - anew:,} of {replies:,} replies about samples were taken over from earlier runs"
    why = "About these the judge was not asked again"
    return f"Nothing was measured{which}: {taken}. {why}."


def shared_words(shared: int, replies: int, one: str, other: str) -> str:
    """What to say where replies of the run `other` are the very replies of `one`; nothing where none is."""
    told = f"{shared:,} of {replies:,} replies of {other} are those of {one} itself"
    why = "they were used again, and the judge was not asked twice, so that these cannot differ"
    return f"{told}: {why}." if shared else ""


def _counting(run: Path) -> Iterator[Judgment]:
    """The ok replies about samples."""
    return (row for row in read_judgments(run) if row.status == "ok" and not row.control)


def replies_anew(store: Path, evaluation: Evaluation) -> Anew:
    """The replies of a finished evaluation, and how many are anew.

    Raises:
        InputError: one of its ledgers is damaged.
    """
    end = evaluation.end
    stopped = end.stopped if end else None
    if end is None or not end.reused:
        ok = end.judgments.get("ok", 0) if end else 0
        return Anew(ok, ok, stopped)
    if origins := _origins(evaluation):
        anew = sum(n for origin, n in origins.items() if _is_first(store, evaluation, origin))
        return Anew(origins.total(), anew, stopped)
    made = end.calls - end.control_calls  # none of them was answered
    return Anew(made, made, stopped) if made else Anew(end.reused, 0, stopped)


def _origins(evaluation: Evaluation) -> Counter[str]:
    """Run that asked -> its ok replies about samples in this evaluation."""
    return Counter(row.reused_from or run.name for run in evaluation.folders for row in _counting(run))


def _is_first(store: Path, evaluation: Evaluation, origin: str) -> bool:
    """Whether no earlier finished evaluation has replies of that run."""
    if origin in {run.name for run in evaluation.folders}:
        return True
    return not any(_has(run, origin) for run in _finished_between(store, evaluation, origin))


def _finished_between(store: Path, evaluation: Evaluation, origin: str) -> Iterator[Path]:
    """Ledgers of the flow's other whole evaluations, from a run on to this one. Ids begin with the run's time."""
    own = {run.name for run in evaluation.folders}
    for run in run_folders(store):
        if origin <= run.name < min(own) and (run / END).exists():
            with suppress(InputError, FileNotFoundError):  # one that cannot be read is reported by `sync`
                start = read_start(run)
                end = read_evaluation(store, start.evaluation_id).end if start.flow == evaluation.start.flow else None
                if end and not end.stopped:
                    yield run


def _has(run: Path, origin: str) -> bool:
    if run.name == origin:
        return True
    with suppress(InputError):
        return any(row.reused_from == origin for row in read_judgments(run))
    return False
