"""Process of a Prefect server, its database and its guard: `python -m … [SOCKET [temporary]]`."""

import contextlib
import gc
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flows.server.supervision import end_with_parent
from tasks.files import alone

DATABASE = "prefect.db"
"""Prefect's name for the database in its home."""
FOLDER = "image-jury"
FAILURES = (OSError, RuntimeError, sqlite3.Error, subprocess.SubprocessError)
"""Errors if the database cannot be made or kept; RuntimeError: this user has no home."""
MIGRATE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def give_database(home: Path) -> None:
    """Put the prepared database into a home of Prefect that has none; prepare it first if necessary.

    Errors are ignored: without it, the server migrates a database of its own.
    """
    with contextlib.suppress(*FAILURES), alone(home):
        # A log that others left without its database would be taken for a part of the new one.
        if not any(home.glob(f"{DATABASE}*")):
            draft = home / f".{DATABASE}.draft"
            shutil.copy(prepared_file(), draft)  # and its mode
            draft.replace(home / DATABASE)


def prepared_file() -> Path:
    """Return the prepared database; make it if there is none.

    Raises:
        Exception: one of `FAILURES`; it could not be made.
    """
    found = _place()
    with alone(found.parent):
        if not found.exists():
            _prepare(found)
    return found


def _place() -> Path:
    """Return its file, in a private folder of the environment, or of this user's cache if that cannot be written."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (Path(sys.prefix) / "var" / FOLDER, caches / FOLDER / "prefect"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
            if found.st_uid == os.getuid() and not found.st_mode & 0o077 and os.access(folder, os.W_OK):
                return folder / f"prefect-{version('prefect')}.db"
    raise PermissionError(f"neither {sys.prefix} nor {caches} can be written")


def _prepare(target: Path) -> None:
    home = target.with_suffix(".draft")
    shutil.rmtree(home, ignore_errors=True)  # left by a process that was killed here
    home.mkdir(mode=0o700)
    # A person's settings of Prefect, above all another database, must not apply here.
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    settings = {**others, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-P", "-c", MIGRATE]
    try:
        subprocess.run(command, env=settings, cwd=home, check=True, capture_output=True, umask=0o077)
        draft = home / target.name
        with contextlib.closing(sqlite3.connect(home / DATABASE)) as made:
            made.execute("VACUUM INTO ?", (str(draft),))  # one file, without a log beside it
        draft.chmod(0o600)
        draft.replace(target)
    finally:
        shutil.rmtree(home)


LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
"""Names of this machine, which no other machine can be given."""
FOREIGN = {"cross-site", "same-site"}
"""`Sec-Fetch-Site` in requests by a page of another address; another port is another address of the same site."""
_WITH_PORT = re.compile(r"([^:]+|\[[0-9a-f:.]+\]):[0-9]{1,5}")
POLICY_VIOLATION = 1008
"""Code with which a refused WebSocket is closed."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def guarded(app: App, hosts: Collection[str], pages: bool) -> App:
    """Return the app behind a check of host names and origins; refused requests never reach the app.

    Args:
        hosts: names of the app, `127.0.0.1:4200`, or `127.0.0.1` for any port, which is another behind a tunnel.
        pages: whether it has pages, which may ask it. If not, no request of a browser is answered.
    """

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _may_ask(scope, hosts, pages):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"this server answers programs and pages of its own"})

    return answering


def _may_ask(scope: Scope, hosts: Collection[str], pages: bool) -> bool:
    named, origins, sites = (_values(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
    if len(named) != 1 or not ({named[0], _name(named[0])} & {*hosts}):
        return False
    if not pages:
        return not origins and not sites
    own = (f"http://{named[0]}", f"https://{named[0]}")  # `https` behind a proxy
    # Browsers ask for pictures, scripts and frames of another page without `Origin`.
    return all(origin in own for origin in origins) and (not FOREIGN & {*sites} or _is_followed_link(scope))


def _name(host: str) -> str:
    """Return a host without its port. No browser sends a host with two colons, or with more than digits behind one."""
    found = _WITH_PORT.fullmatch(host)
    return found[1] if found else host


def _is_followed_link(scope: Scope) -> bool:
    """Return whether a person opens a page of ours in a window of its own, not in a frame of the other page."""
    return scope.get("method") == "GET" and _values(scope, b"sec-fetch-dest") == ["document"]


def _values(scope: Scope, header: bytes) -> list[str]:
    """Return all values of a header, in lower case, since the app behind could read two values differently."""
    return [value.decode("latin-1").lower() for name, value in scope.get("headers", ()) if name == header]


HOSTS = "JURY_HOSTS"
"""Environment variable: further host names of the server, such as a proxy's, separated by commas."""
TEMPORARY = "temporary"
"""Argument of a server for one command: it starts no schedules, and answers no pages."""
END_SECONDS = 3
"""Seconds for open requests when the server ends."""


def main(inherited: str = "", kind: str = "") -> None:
    """Serve until a signal ends the process.

    Args:
        inherited: number of a listening socket; empty: it listens at the address in Prefect's settings.
        kind: `temporary`, or empty.
    """
    os.umask(0o077)  # the database holds the parameters of runs, and Prefect makes it for everybody to read
    end_with_parent()
    if inherited:
        give_database(Path(os.environ["PREFECT_HOME"]))
    gc.disable()  # bar `bench-cold`: repeated searches of all imported objects are an eighth of the start
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    begin_to_write()
    settings, temporary = get_current_settings().server, kind == TEMPORARY
    app = create_app(ephemeral=temporary, final=True)
    gc.enable()
    config = uvicorn.Config(
        guarded(app, {*LOOPBACK, *further_hosts()}, pages=not temporary),
        host=settings.api.host,
        port=settings.api.port,
        timeout_keep_alive=settings.api.keepalive_timeout,
        timeout_graceful_shutdown=END_SECONDS,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )
    uvicorn.Server(config).run([socket.socket(fileno=int(inherited))] if inherited else None)


def further_hosts() -> set[str]:
    """Return the names from the environment, in lower case."""
    return {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",") if name.strip()}


def begin_to_write() -> None:
    """Let Prefect begin each transaction as one that writes, so that it waits until the others have ended.

    Prefect begins most transactions as if they would only read. If another one writes before such a transaction does,
    SQLite fails it at once, with any time-out, and Prefect answers 503. Programs then ask again; pages show an error.
    Bar *Supervision*, 100 actions in the UI beside six runs: without this, the server refused 20.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_for_update(self: AioSqliteConfiguration, session: Any, *_: Any, **__: Any) -> Any:
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = begin_for_update


if __name__ == "__main__":
    main(*sys.argv[1:])
