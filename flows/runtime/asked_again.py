"""What is done with a Prefect server that has answered before, and is busy just then, or ends and begins again.

Owns which failures are the server's, and how long it is waited for. What asks for ever is `patient_runner`; a run's own
patience is in `without_server`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import httpx
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from websockets.exceptions import WebSocketException

PATIENCE_SECONDS = 120.0
"""As long as a server of ours may take to start."""
_PAUSE_SECONDS = 1.0
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before each new question to a server that is busy."""
_T = TypeVar("_T")
_AWAY = (httpx.TransportError, WebSocketException, OSError)


def is_away(error: BaseException | None) -> bool:
    """Whether an error says that a server does not answer, or no better than by an error of its own."""
    return isinstance(error, _AWAY) or (isinstance(error, httpx.HTTPStatusError) and error.response.is_server_error)


async def asked_again(work: Callable[[], Awaitable[_T]]) -> _T:
    """Do something that may be done twice; do it again where the server was away before patience ended.

    Raises:
        Exception: what `work` raises of anything else, or of the server after that time.
    """
    last = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await work()
        except Exception as error:
            # Prefect's runner tells what it could not start by an error of its own.
            if not (is_away(error) or is_away(error.__cause__)) or time.monotonic() > last:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


def prompt_client() -> PrefectClient:
    """A client for `asked_soon`: it is told at once where the server is busy. Prefect's own waits two seconds then, and
    does so here, too, where the server asks for a time.
    """
    return get_client(httpx_settings={"event_hooks": {"response": [_tell_busy]}})


async def asked_soon(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Ask a server by a prompt client, and again within a moment where it was busy.

    SQLite turns away one of two writers at once, and nothing has changed then. A run whose slots came two seconds late
    would take a second longer.

    Raises:
        Exception: what `ask` raises of anything else, or of the server in the end.
    """
    for pause in PAUSES:
        try:
            return await ask()
        except httpx.HTTPStatusError as error:
            if not _is_busy(error.response):
                raise
        await asyncio.sleep(pause)
    return await ask()


async def _tell_busy(response: httpx.Response) -> None:
    if _is_busy(response):
        response.raise_for_status()


def _is_busy(response: httpx.Response) -> bool:
    return response.status_code == HTTPStatus.SERVICE_UNAVAILABLE and "retry-after" not in response.headers
