"""Which Prefect server a command uses: that of `PREFECT_API_URL`, that of `jury up` for the store, or a temporary one.

Prefect reads its settings from the environment while it is imported, so this comes first and imports nothing of it.
"""

import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from flows.runtime.server import (
    QUIET,
    Server,
    begin_temporary,
    client_settings,
    made_home,
    running,
    temporary_server,
)
from tasks.errors import InputError, first_of
from tasks.files import private_folder

_SILENT = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL", "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL"}
"""What Prefect says on a terminal: nothing. What of it a person needs to know, a command says itself."""
_VARIABLE = "PREFECT_API_URL"
_OF_JURY_UP: set[str] = set()
"""Addresses that stand in it because `jury up` was found there, not because somebody set it."""


def use_running(store: Path) -> Server | None:
    """Make the server that `jury up` runs for this store the one that Prefect uses in this process, if there is one."""
    server = running(store)
    if server:
        os.environ.update(client_settings(server.api, server.auth))
        _OF_JURY_UP.add(server.api)
    return server


def find_prefect(store: Path) -> bool:
    """Set what Prefect reads while it is imported: quiet, and the server of `jury up`. Returns whether there is one."""
    logging.raiseExceptions = False  # what cannot be sent to a server that has gone is no error of the logging
    for name, value in {**QUIET, **_SILENT}.items():
        os.environ.setdefault(name, value)
    return _VARIABLE in os.environ or "prefect" in sys.modules or use_running(store) is not None


def prepare_prefect(store: Path) -> None:
    """The server that there is for Prefect, or else a temporary one with a home of its own under the store.

    The temporary one has only begun then. Whoever needs it first waits for it.
    """
    if find_prefect(store):
        return
    place = Path(os.environ.get("PREFECT_HOME") or made_home(store)).expanduser().absolute()
    os.environ["PREFECT_HOME"] = str(place)
    # Windows has neither process groups nor sockets that a child takes over: there, too, it is left to Prefect.
    if os.name != "posix":
        os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
        return
    private_folder(place)
    begin_temporary(place)


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
        first = first_of(cast("ExceptionGroup[Exception]", error)) if isinstance(error, ExceptionGroup) else error
        reason = first if isinstance(first, httpx.HTTPError) else first.__cause__
        api = os.environ.get(_VARIABLE)
        if not api or not isinstance(reason, httpx.HTTPError):
            raise
        if api in _OF_JURY_UP:
            raise InputError(f"the server of `jury up` at {api} does not answer; start it again: {reason}") from error
        if own := temporary_server():
            raise InputError(f"the temporary Prefect server has ended; its last words are in {own.log}") from error
        raise InputError(f"the Prefect server of PREFECT_API_URL, {api}, does not answer: {reason}") from error
