"""Choice of a command's Prefect server: that of `PREFECT_API_URL`, that of `jury up` for the store, or a temporary one.

Prefect reads its settings from the environment while it is imported, so this module runs first and does not import it.
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
"""Settings that keep Prefect from printing on a terminal; commands print the messages that people need."""
_VARIABLE = "PREFECT_API_URL"
_OF_JURY_UP: set[str] = set()
"""Values that this program gave the variable because it found a `jury up` there; no user set them."""


def use_running(store: Path) -> Server | None:
    """Use the server of this store's `jury up` for Prefect in this process, and return it, if there is one."""
    server = running(store)
    if server:
        os.environ.update(client_settings(server.api, server.auth))
        _OF_JURY_UP.add(server.api)
    return server


def find_prefect(store: Path) -> bool:
    """Set the environment that Prefect reads while it is imported: no output, and the server of `jury up` if it runs.

    Returns:
        Whether Prefect has a server, or is imported already.
    """
    logging.raiseExceptions = False  # a log record that a stopped server cannot take is no error
    for name, value in {**QUIET, **_SILENT}.items():
        os.environ.setdefault(name, value)
    return _VARIABLE in os.environ or "prefect" in sys.modules or use_running(store) is not None


def prepare_prefect(store: Path) -> None:
    """Connect Prefect to an available server, or start a temporary one with a home of its own under the store.

    The temporary server is still starting on return. Its first user waits for it.
    """
    if find_prefect(store):
        return
    place = Path(os.environ.get("PREFECT_HOME") or made_home(store)).expanduser().absolute()
    os.environ["PREFECT_HOME"] = str(place)
    # Windows has neither process groups nor sockets that a child can inherit, so Prefect starts its own server there.
    if os.name != "posix":
        os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
        return
    private_folder(place)
    begin_temporary(place)


@contextmanager
def answered() -> Generator[None]:
    """Turn the error of a Prefect server that does not answer into an InputError, since the user can fix that.

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
