"""Prefect's runner, going on where its server is away for however long: a service waits for the next night, too.

Prefect's own ends with all its runs when three questions in a row have failed, be it within ten seconds, and no longer
learns of runs that are cancelled then. Owns which of its questions may fail, and what is said of it.
"""

import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Self

from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner

from flows.runtime.asked_again import is_away
from tasks.text import one_line

LONGEST = 200
"""Characters of what went wrong."""
_BEGINNINGS = "prefect.runner.state_proposer"
"""Prefect's logger of runs that could not be begun."""
Question = Callable[[], Awaitable[Any]]


class PatientRunner(Runner):
    """A runner that ends by Ctrl-C and SIGTERM, or where its server refuses it, and in no other way."""

    async def __aenter__(self) -> Self:
        """Start; what is asked for ever from then on may fail."""
        logging.getLogger(_BEGINNINGS).addFilter(_is_fault)
        await super().__aenter__()
        runs, cancelled = self._scheduled_run_poller, self._cancelling_observer
        runs._get_and_submit_flow_runs = _patient(runs._get_and_submit_flow_runs, _Outage())  # pyright: ignore
        cancelled._check_for_cancelled_flow_runs = _patient(cancelled._check_for_cancelled_flow_runs)  # pyright: ignore
        return self

    def handle_sigterm(self, *_: object, **__: object) -> None:
        """End as Ctrl-C does: the runner's own way leaves its runs to themselves."""
        raise KeyboardInterrupt


def _is_fault(record: logging.LogRecord) -> bool:
    """Whether a run that was not begun is to be told with a traceback.

    The runner takes a run seconds before it is due: one that is gone by then was deleted, or its schedule paused or
    changed. One for which no server was found stays due, and the outage is told where runs are asked for.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, ObjectNotFound) or is_away(error))


class _Outage:
    """What is said while a server is away: that it is, once, and that it is back."""

    lasts = False

    def tell(self, error: Exception | None) -> None:
        if error and not self.lasts:
            what = one_line(f"{type(error).__name__}: {error}".removesuffix(": "), LONGEST)
            print(f"the Prefect server does not answer, and is asked until it does: {what}", file=sys.stderr)
        elif self.lasts and not error:
            print("the Prefect server answers again", file=sys.stderr)
        self.lasts = error is not None


def _patient(ask: Question, outage: _Outage | None = None) -> Question:
    """A question that is asked again and again: one that finds no server has no answer, and the next one may have."""

    async def asked() -> None:
        failed = None
        try:
            await ask()
        except Exception as error:
            if not is_away(error):
                raise
            failed = error
        if outage:
            outage.tell(failed)

    return asked
