"""The Prefect server of one command, where no other is running: begun beside its other work, and ended with it.

Owns starting it, waiting for it and ending it; what the process does is for `temporary_process`. It listens from the
first moment on, so that whoever asks it before it is ready waits for the answer. It has a process group of its own,
which Ctrl-C does not reach, and ends when the pipe from this process is closed, which a `kill -9` does, too.
"""

import asyncio
import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flows.runtime import prepared_database
from flows.runtime.guard import own_settings
from flows.runtime.server import HOST, LOG, NOT_FOR_SERVERS, QUIET, client_settings
from flows.runtime.temporary_process import GRACE_SECONDS
from tasks.errors import InputError

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

PATIENCE_SECONDS = 300.0
"""For a server that is still there; on a busy machine the first of all takes minutes."""
_NOT_MADE = "starting a temporary Prefect server (about 40 s this once, 10 s from the next time on) …"
_MADE = "starting a temporary Prefect server (about 10 s) …"


class TemporaryServer:
    """A server that begins, until `end`; `answering` waits for it."""

    def __init__(self, home: Path) -> None:
        """Begin a server on this home of Prefect; returns at once."""
        self.log = home / LOG
        self._told = False
        self._prepared = (home / prepared_database.DATABASE).exists() or prepared_database.is_there()
        self._port = 0
        self._process = self._begun()

    def _begun(self) -> subprocess.Popen[bytes]:
        """Its process, at the port that it had before, or else at one that is free."""
        with socket.socket() as listening, self.log.open("ab") as log:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((HOST, self._port))
            listening.listen(128)
            self._port = int(listening.getsockname()[1])
            command = [sys.executable, "-P", "-m", "flows.runtime.temporary_process", str(listening.fileno())]
            return subprocess.Popen(
                command,
                env=_environment(self.log.parent, self.api),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )

    def begin_again(self) -> None:
        """Begin anew at the same address where the process has ended, as after `kill -9`; returns at once.

        Raises:
            InputError: another program has taken the port.
        """
        if self._process.poll() is None:
            return
        self.end()
        try:
            self._process = self._begun()
        except OSError as error:
            raise InputError(f"the temporary Prefect server has ended; its last words are in {self.log}") from error

    @property
    def api(self) -> str:
        """Address of its API."""
        return f"http://{HOST}:{self._port}/api"

    async def answering(self) -> None:
        """Wait until it answers.

        Raises:
            InputError: it ended before that, or takes longer than anybody waits.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                line = await self._first_line()
        except OSError:  # a time-out is one, too
            line = b""
        if b" 200 " not in line:
            raise InputError(f"the temporary Prefect server did not start; its last words are in {self.log}")

    async def _first_line(self) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        with contextlib.closing(writer):
            writer.write(f"GET /api/health HTTP/1.0\r\nHost: {HOST}:{self._port}\r\n\r\n".encode())
            return await reader.readline()

    def tell(self) -> None:
        """Say on standard error what is waited for, once: the next run of this process finds it started."""
        if not self._told:
            print(_MADE if self._prepared else _NOT_MADE, file=sys.stderr)
        self._told = True

    def end(self) -> None:
        """End it and whatever it has started, by force where it takes too long."""
        if self._process.stdin:
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS + 1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_OF_THIS_PROCESS: list[TemporaryServer] = []


def begin(home: Path) -> None:
    """Start the server that Prefect uses in this process, which ends with it. Prefect may not be imported yet."""
    server = TemporaryServer(home)
    atexit.register(server.end)
    _OF_THIS_PROCESS.append(server)
    os.environ.update(client_settings(server.api))


def own() -> TemporaryServer | None:
    """The temporary server of this process, if it has one."""
    return next(iter(_OF_THIS_PROCESS), None)


def is_alone(client: "PrefectClient") -> bool:
    """Whether a client's server is this process's own, which no other run asks."""
    from prefect.client.base import ServerType

    return own() is not None or client.server_type == ServerType.EPHEMERAL


def _environment(home: Path, api: str) -> Mapping[str, str]:
    others = {name: value for name, value in os.environ.items() if name not in NOT_FOR_SERVERS}
    own = {
        "PREFECT_HOME": str(home),
        # Only those who look at a server with a UI need to find the types of blocks there.
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
        "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    }
    return {**others, **QUIET, **own_settings(api.removesuffix("/api")), **own}
