"""What the log of a run says of that which stopped it: the sentence that its user needs.

Prefect writes the traceback of whatever a task raises. Of a mistake in the input it tells nothing, in thirty lines; the
log of level DEBUG keeps it. That of a fault of the program stays.
"""

import logging
from typing import cast

from tasks.errors import InputError, first_of

_TASK_RUNS = "prefect.task_runs"
"""Prefect's logger of what becomes of a task."""


def tell_in_sentences() -> None:
    """From now on, leave out tracebacks of what the user has to mend; to do so again changes nothing."""
    logging.getLogger(_TASK_RUNS).addFilter(_sentence_alone)


def _sentence_alone(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        error = first_of(cast(BaseExceptionGroup[Exception], error))
    if isinstance(error, InputError | OSError):
        record.msg, record.args, record.exc_info = "Stopped: %s", (str(error),), None
    return True
