"""What a run is made for, where a command makes it for a purpose of its own: told in its ledger, for the bill."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tasks.records import MadeFor

_MADE_FOR: ContextVar[MadeFor] = ContextVar("made for", default="")


@contextmanager
def runs_made_for(purpose: MadeFor) -> Generator[None]:
    """Make the runs that this process begins within the context runs for this."""
    token = _MADE_FOR.set(purpose)
    try:
        yield
    finally:
        _MADE_FOR.reset(token)


def made_for() -> MadeFor:
    """What a run that begins now is made for; empty: for itself."""
    return _MADE_FOR.get()
