"""Errors of the project: mistakes of the user, failures that asking again may mend, and lists of problems."""

from dataclasses import dataclass

from tasks.text import cut


class InputError(ValueError):
    """A mistake in what the user gave, or a state that only the user can change: what was found, what is allowed."""

    run_id = ""
    """Run that it stopped after the first call, if it did: its table can be shown."""


class Habitual(InputError):
    """A mistake that whoever makes it makes in every row: it is told once, with how often it was met."""

    def __init__(self, what: str, habit: str) -> None:
        super().__init__(what)
        self.habit = habit


class JudgeStopped(InputError):
    """No call to this judge can succeed: the run stops with this sentence."""


class JudgeGaveUp(JudgeStopped):
    """The judge was waited for as long as it may be: the same run, started again, asks for what is missing."""


class BatchesUnavailable(InputError):
    """An endpoint's files and batches cannot be reached, or it refuses: nothing is lost, and asking again may help."""

    def __init__(self, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.status = status
        """Of the endpoint's answer; 0: there was none."""


class JudgeUnavailable(Exception):
    """The judge gave no reply: network, 429, 5xx or a time-out. Asking again may help."""


class InvalidReply(Exception):
    """The judge replied, but not with one of the allowed verdicts. Asking once more may help."""


def first_of(errors: BaseExceptionGroup[Exception]) -> BaseException:
    """The first of errors that happened together: the others are seldom more than what it led to."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


SHOWN = 20
"""Problems listed in full; the rest is counted."""
MOST = 1000
"""Problems of one input after which no more of it is read: so many have few causes, and the first tell them."""


@dataclass
class _Told:
    """One problem as it is listed."""

    words: str
    more: int = 0

    def __str__(self) -> str:
        return f"{self.words} ({self.more:,} more like it)" if self.more else self.words


class Problems:
    """Problems of one input, in the order found. Only the first `SHOWN` are kept: a broken file may hold millions."""

    def __init__(self) -> None:
        self._first: list[_Told] = []
        self._habits: dict[str, _Told] = {}
        self._count = self._met = 0

    def add(self, where: str, what: str | InputError) -> None:
        """Note one problem. `where` names file and row, `what` says what was found and what is allowed."""
        self._met += 1
        told = _Told(f"{cut(where)}: {cut(str(what))}")
        habit = what.habit if isinstance(what, Habitual) else ""
        if habit and (known := self._habits.setdefault(habit, told)) is not told:
            known.more += 1
            return
        self._count += 1
        if self._count <= SHOWN:
            self._first.append(told)

    def count(self) -> None:
        """One more of what is told elsewhere, and once: it brings the end of reading nearer, and is not listed."""
        self._met += 1

    @property
    def number(self) -> int:
        """How many were noted, those that are told together one by one."""
        return self._met

    @property
    def too_many(self) -> bool:
        """Whether reading on would tell a user nothing new."""
        return self._met >= MOST

    def stop(self, subject: str) -> None:
        """Raise one InputError that lists the problems of `subject`; return when there are none."""
        if not self._count:
            return
        more = f"\n  and {self._count - SHOWN} more" if self._count > SHOWN else ""
        number = "1 problem" if self._count == 1 else f"{self._count} problems"
        unread = ", and was not read to its end" if self.too_many else ""
        raise InputError(f"{subject} has {number}{unread}:\n  " + "\n  ".join(map(str, self._first)) + more)
