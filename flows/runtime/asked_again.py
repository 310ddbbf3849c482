"""What is done with a Prefect server that has answered before, and may end just then and begin again.

Owns which failures are the server's, and how long it is waited for. What asks for ever is `patient_runner`; a run's own
patience is in `without_server`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx
from websockets.exceptions import WebSocketException

PATIENCE_SECONDS = 120.0
"""As long as a server of ours may take to start."""
_PAUSE_SECONDS = 1.0
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
