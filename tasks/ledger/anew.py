"""Replies of an evaluation that no earlier evaluation has.

A repeat that reuses the replies of an earlier run measures nothing new about judge or candidate. The rule, also in SQL
in the history's view `evaluations`: a reply belongs to the first finished evaluation that has it. If a run was killed,
or stopped at its budget, its replies count for the run that resumed it.
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
    """Number of new replies of an evaluation, and whether the evaluation is complete."""

    replies: int
    """Ok replies about samples, without those about controls."""
    anew: int
    """Replies that no earlier evaluation has; an evaluation that stopped at its budget does not count as earlier."""
    stopped: BudgetStop | None = None
    """Stop at the budget; None: the evaluation is complete."""

    @property
    def measured(self) -> bool:
        """Return whether the evaluation is complete and at least half of its replies are new."""
        return not self.stopped and 2 * self.anew >= self.replies

    @property
    def words(self) -> str:
        """Sentence if the evaluation measured nothing or only a part; otherwise empty."""
        if self.stopped:
            return self.stopped.sentence
        return "" if self.measured else unmeasured_words(self.replies, self.anew)


def unmeasured_words(replies: int, anew: int, run_id: str = "") -> str:
    """Return the sentence about an evaluation with too few new replies; `run_id` names it among several."""
    which = f" in {run_id}" if run_id else ""
    taken = f"{replies - anew:,} of {replies:,} replies about samples were taken over from earlier runs"
    why = "The judge was not asked about these again"
    return f"Nothing was measured{which}: {taken}. {why}."


def shared_words(shared: int, replies: int, one: str, other: str) -> str:
    """Return a sentence if the runs `one` and `other` share replies; otherwise an empty text."""
    told = f"{shared:,} of {replies:,} replies of {other} are those of {one} itself"
    why = "they were reused without asking the judge again, so they cannot differ"
    return f"{told}: {why}." if shared else ""


def _counting(run: Path) -> Iterator[Judgment]:
    """Return the ok replies about samples."""
    return (row for row in read_judgments(run) if row.status == "ok" and not row.control)


def replies_anew(store: Path, evaluation: Evaluation) -> Anew:
    """Count the replies of a finished evaluation and the new ones among them.

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
    made = end.calls - end.control_calls  # none of them has an ok reply
    return Anew(made, made, stopped) if made else Anew(end.reused, 0, stopped)


def _origins(evaluation: Evaluation) -> Counter[str]:
    """Count the ok replies about samples in this evaluation by the run that asked."""
    return Counter(row.reused_from or run.name for run in evaluation.folders for row in _counting(run))


def _is_first(store: Path, evaluation: Evaluation, origin: str) -> bool:
    """Return whether no earlier finished evaluation has replies of the run `origin`."""
    if origin in {run.name for run in evaluation.folders}:
        return True
    return not any(_has(run, origin) for run in _finished_between(store, evaluation, origin))


def _finished_between(store: Path, evaluation: Evaluation, origin: str) -> Iterator[Path]:
    """Yield the ledgers of the flow's other complete evaluations, from a run up to this one; ids begin with a time."""
    own = {run.name for run in evaluation.folders}
    for run in run_folders(store):
        if origin <= run.name < min(own) and (run / END).exists():
            with suppress(InputError, FileNotFoundError):  # `jury store sync` reports an unreadable one
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
