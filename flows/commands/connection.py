"""Which Prefect server a command uses: that of `PREFECT_API_URL`, that of `jury up` for the store, or a temporary one.

Prefect reads its settings from the environment while it is imported, so this comes first and imports nothing of it.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from flows.runtime.server import QUIET, Server, client_settings, home, running
from tasks.errors import InputError

_OF_JURY_UP: set[str] = set()
"""Addresses that stand in `PREFECT_API_URL` because `jury up` was found there, not because somebody set it."""


def use_running(store: Path) -> Server | None:
    """Make the server that `jury up` runs for this store the one that Prefect uses in this process, if there is one."""
    server = running(store)
    if server:
        os.environ.update(client_settings(server.api))
        _OF_JURY_UP.add(server.api)
    return server


def find_prefect(store: Path) -> bool:
    """Set what Prefect reads while it is imported: quiet, and the server of `jury up`. Returns whether there is one."""
    for name, value in {**QUIET, "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}.items():
        os.environ.setdefault(name, value)
    return "PREFECT_API_URL" in os.environ or "prefect" in sys.modules or use_running(store) is not None


def prepare_prefect(store: Path) -> None:
    """The server that there is for Prefect, or else a temporary one with a home of its own under the store."""
    if not find_prefect(store):
        place = home(store)
        place.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("PREFECT_HOME", str(place))
        os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
        print("starting a temporary Prefect server (about 10 s) …", file=sys.stderr)


@contextmanager
def answered() -> Generator[None]:
    """For what is asked of a Prefect server: that it does not answer is a state which the user mends.

    Raises:
        InputError: the server cannot be reached, or refuses.
    """
    import httpx

    try:
        yield
    except Exception as error:
        reason = error if isinstance(error, httpx.HTTPError) else error.__cause__
        api = os.environ.get("PREFECT_API_URL")
        if not api or not isinstance(reason, httpx.HTTPError):
            raise
        if api in _OF_JURY_UP:
            raise InputError(f"the server of `jury up` at {api} does not answer; start it again: {reason}") from error
        raise InputError(f"the Prefect server of PREFECT_API_URL, {api}, does not answer: {reason}") from error
