"""Errors of the project: mistakes of the user, failures that a retry may fix, and lists of problems."""

from collections import Counter
from typing import TYPE_CHECKING

from tasks.text import cut, one_line

if TYPE_CHECKING:
    from pydantic import ValidationError


class InputError(ValueError):
    """Mistake of the user, or a state that only the user can change, with the problem and the allowed values."""

    run_id = ""
    """Run that the error stopped after the first call, if any: its table can be shown."""


class Habitual(InputError):
    """Mistake that usually repeats in every row: it is reported once, with the number of its occurrences."""

    def __init__(self, what: str, habit: str) -> None:
        super().__init__(what)
        self.habit = habit


class JudgeStopped(InputError):
    """Error after which no call to this judge can succeed, now or at all: the run stops with this sentence."""


class BatchesUnavailable(InputError):
    """Failure to reach an endpoint's files and batches, or its refusal: nothing is lost, and a retry may help."""

    def __init__(self, what: str, status: int = 0, is_busy: bool = False) -> None:
        super().__init__(what)
        self.status = status
        """HTTP status of the endpoint's answer; 0: there was none."""
        self.is_busy = is_busy
        """True if the endpoint asks to try again later."""


class CallsUnsettled(Exception):
    """Calls of a chunk got no reply, or none in the allowed form; their retry may help."""


def first_of(errors: BaseExceptionGroup[Exception]) -> BaseException:
    """Return the first of simultaneous errors: the others are mostly its consequences."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def first_fault(error: "ValidationError") -> str:
    """Return the first fault that Pydantic found in a record: `0.count: Input should be a valid integer, found '2'`."""
    detail = error.errors(include_url=False, include_context=False)[0]
    place = one_line(".".join(map(str, detail["loc"])))
    found = "" if detail["type"] == "missing" else f", found {one_line(repr(detail['input']), 80)}"
    is_unknown = detail["type"] == "extra_forbidden"
    reason = ("there is no such key" if is_unknown else detail["msg"].removeprefix("Value error, ")) + found
    return f"{place}: {reason}" if place else reason


SHOWN = 20
"""Problems listed in full; the rest is counted."""
MOST = 1000
"""Number of problems after which the reading of an input ends: they have few causes, which the first ones show."""


class Problems:
    """Problems of one input, in the order found. Only the first `SHOWN` are kept: a broken file may have millions."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._habits: dict[str, str] = {}
        self._more = Counter[str]()
        self._count = self._met = 0

    def add(self, where: str, what: str | InputError) -> None:
        """Note one problem. `where` names file and row; `what` is the problem and the allowed values."""
        self._met += 1
        problem = f"{cut(where)}: {cut(str(what))}"
        habit = what.habit if isinstance(what, Habitual) else ""
        if habit in self._habits:
            self._more[self._habits[habit]] += 1
            return
        if habit:
            self._habits[habit] = problem
        self._count += 1
        if self._count <= SHOWN:
            self._first.append(problem)

    def count(self) -> None:
        """Count a problem that is listed elsewhere, once; it counts toward the end of reading."""
        self._met += 1

    @property
    def number(self) -> int:
        """Number of noted problems, counting each one of those that are listed together."""
        return self._met

    @property
    def too_many(self) -> bool:
        """Return whether further reading would show the user nothing new."""
        return self._met >= MOST

    def stop(self, subject: str) -> None:
        """Raise one InputError that lists the problems of `subject`, if there are any."""
        if not self._count:
            return
        more = f"\n  and {self._count - SHOWN} more" if self._count > SHOWN else ""
        number = "1 problem" if self._count == 1 else f"{self._count} problems"
        unread = ", and was not read to its end" if self.too_many else ""
        lines = (f"{each} ({self._more[each]:,} more like it)" if each in self._more else each for each in self._first)
        raise InputError(f"{subject} has {number}{unread}:\n  " + "\n  ".join(lines) + more)
