"""Our Prefect servers: that of a store, a temporary one, the choice between them, sign-in and Secret blocks."""

import asyncio
import atexit
import base64
import json
import logging
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from pydantic import TypeAdapter, ValidationError

from flows.server.server_process import DATABASE, TEMPORARY
from flows.server.supervision import UP, Supervised, lifeline, start_child
from tasks.endpoint.api_keys import key_names
from tasks.errors import InputError, first_of
from tasks.files import alone, is_locked, private_folder, read_regular
from tasks.text import one_line

SIGN_IN_FILE = "auth"


def kept_sign_in(home: Path) -> str:
    """Return the text that signs in to the server of this home; "": none is needed."""
    with suppress(OSError, UnicodeDecodeError):
        return (home / SIGN_IN_FILE).read_text(encoding="ascii").strip()
    return ""


def settle_sign_in(home: Path, wanted: bool) -> str:
    """Keep a text that signs in, the same as before if there is one, and return it; remove it if none is wanted."""
    if not wanted:
        (home / SIGN_IN_FILE).unlink(missing_ok=True)
        return ""
    if not kept_sign_in(home):
        (home / SIGN_IN_FILE).unlink(missing_ok=True)
        with os.fdopen(os.open(home / SIGN_IN_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"jury:{secrets.token_urlsafe(24)}\n")
    return kept_sign_in(home)


def sign_in_header(text: str) -> dict[str, str]:
    """Return the header that Prefect's server checks; empty without a text."""
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"} if text else {}


HOST = "127.0.0.1"
NOTE = "server.json"
LOG = "server.log"
"""File in the home of a server: its output."""
PATIENCE_SECONDS = 300.0
"""Longest wait for a server to start; on a busy machine the first start of all takes minutes."""
QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}
"""Settings that turn off telemetry and advertisements."""
NOT_FOR_SERVERS = ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING")
"""Variables about another server than the one that is started."""
OTHER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "OPENAI_CUSTOM_HEADERS")
"""Keys of buckets, and headers that may hold a key."""


class Server(NamedTuple):
    """A running server of `jury up`."""

    port: int
    pid: int
    """Id of the server's process."""
    up: int = 0
    """Id of the process of its `jury up`, which ends it and restarts it."""
    lock: str = ""
    """File that its `jury up` has locked for as long as it lives."""
    machine: str = platform.node()
    """Name of its machine: another one that shares the store cannot reach it."""
    auth: str = ""
    """Text that signs in; "": none is needed. It is never noted with the rest."""

    @property
    def ui(self) -> str:
        """Address for people."""
        return f"http://{HOST}:{self.port}"

    @property
    def api(self) -> str:
        """Value of `PREFECT_API_URL` for its clients."""
        return api_at(self.port)


class PrefectServer:
    """A server of ours as a child process until `end`. It listens from the start, so early requests wait."""

    def __init__(self, home: Path, port: int = 0, auth: str = "", temporary: bool = False) -> None:
        """Start the server; return at once.

        Args:
            home: Prefect's home; the output goes to `server.log` there.
            port: 0: a free one.
            auth: text that must be sent to sign in; "": none.
            temporary: it serves one command: it starts no schedules, and answers no pages.

        Raises:
            OSError: another program has the port.
        """
        self.log = home / LOG
        self.port = port
        self._home, self._auth, self._temporary = home, auth, temporary
        self._is_announced = not temporary
        self.child = Supervised("Prefect server", self.log, self._start)

    @property
    def api(self) -> str:
        """Address of its API."""
        return api_at(self.port)

    async def answering(self) -> None:
        """Wait until the server answers; from then on it is restarted at the same address when it ends.

        The first wait for a temporary one is announced on standard error.

        Raises:
            InputError: it ended before that, or took longer than `PATIENCE_SECONDS`.
        """
        if not self._is_announced:
            print("starting a temporary Prefect server (about 10 s; 40 s the first time) …", file=sys.stderr)
        self._is_announced = True
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(HOST, self.port)
                with closing(writer):
                    writer.write(f"GET /api/health HTTP/1.0\r\nHost: {HOST}:{self.port}\r\n\r\n".encode())
                    line = await reader.readline()
        except OSError:  # a time-out is one, too
            line = b""
        if b" 200 " not in line:
            kind = "temporary " if self._temporary else ""
            raise InputError(f"the {kind}Prefect server did not start; its last words are in {self.log}")
        self.child.keep()

    def end(self) -> None:
        """End the server for good."""
        self.child.end()

    def _start(self) -> subprocess.Popen[bytes]:
        with listening(self.port) as inherited:
            self.port, number = inherited.getsockname()[1], inherited.fileno()
            arguments = [str(number), *([TEMPORARY] if self._temporary else [])]
            environment = _environment(self._home, self.port, self._auth, self._temporary)
            process = start_child(
                self.log, "flows.server.server_process", *arguments, env=environment, pass_fds=[number]
            )
        if not self._temporary:
            own = {"up": os.getpid(), "lock": os.environ.get(UP, ""), "machine": platform.node()}
            note = {"port": self.port, "pid": process.pid, **own}
            (self._home / NOTE).write_text(json.dumps(note), encoding="utf-8")
        return process


def api_at(port: int) -> str:
    """Return the address of the API of a server of ours, running or not."""
    return f"http://{HOST}:{port}/api"


def home(store: Path) -> Path:
    """Return Prefect's home under a store, so that it and a person's other Prefect never mix."""
    return store.absolute() / "prefect"


def noted(store: Path) -> Server | None:
    """Return the server that `jury up` runs for this store on any machine, as long as `jury up` lives."""
    place = home(store)
    try:
        server = TypeAdapter(Server).validate_json(read_regular(place / NOTE, 10_000))
    except (InputError, OSError, ValidationError):
        return None
    # By its name in this store: nobody has locked the file in a copy of a served one.
    return server._replace(auth=kept_sign_in(place)) if is_locked(place / Path(server.lock).name) else None


def running(store: Path) -> Server | None:
    """Return the server that `jury up` runs for this store on this machine."""
    server = noted(store)
    return server if server and server.machine == platform.node() else None


def made_home(store: Path) -> Path:
    """Make Prefect's home under a store, readable by its user alone, and return it.

    Raises:
        InputError: it, or a file in it, is a link: a server would write to the target.
    """
    place = home(store)
    private_folder(place)
    for each in (place, *place.iterdir()):
        if each.is_symlink():
            raise InputError(f"{each}: refused: it is a link; remove it, or put what it leads to in its place")
    with suppress(PermissionError):  # it belongs to another user, who has let this one in
        place.chmod(0o700)
        for file in place.glob(f"{DATABASE}*"):
            file.chmod(0o600)
    return place


@contextmanager
def own_server(store: Path, port: int, auth: str = "") -> Generator[Server]:
    """Run a server of our own inside the context, and note it for other commands.

    Raises:
        InputError: the server did not start, or the store has one.
        OSError: another program has taken the port meanwhile.
    """
    place = made_home(store)
    with alone(place):  # of two that start together, the second finds the note of the first
        if other := noted(store):
            raise InputError(f"Image Jury has just started for {place}, on {other.ui} of {other.machine}")
        served = PrefectServer(place, port, auth)
    try:
        asyncio.run(served.answering())
        yield Server(port, served.child.now.pid, auth=auth)
    finally:
        served.end()
        (place / NOTE).unlink(missing_ok=True)


@contextmanager
def listening(port: int) -> Generator[socket.socket]:
    """Open a socket that listens on a port of this machine; 0: a free one."""
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen(128)
        yield opened


def refuse_taken(port: int) -> None:
    """Raise InputError if a port of this machine is taken."""
    try:
        with listening(port):
            return
    except OSError as error:
        raise InputError(f"port {port} is taken; choose another with --port, or end the program that has it") from error


def for_servers() -> dict[str, str]:
    """Return the environment of a server, without another server's variables, and without keys, which only judges need.

    Raises:
        JudgeStopped: JURY_ENDPOINTS cannot be read.
    """
    kept_back = {*NOT_FOR_SERVERS, *key_names(), *OTHER_KEYS}
    return {name: value for name, value in os.environ.items() if name not in kept_back}


def client_settings(api: str, auth: str = "") -> dict[str, str]:
    """Return the environment in which Prefect's client uses this server, and signs in if necessary."""
    return {**QUIET, "PREFECT_API_URL": api, **({"PREFECT_API_AUTH_STRING": auth} if auth else {})}


def _environment(place: Path, port: int, auth: str, temporary: bool) -> Mapping[str, str]:
    signed_in = {"PREFECT_SERVER_API_AUTH_STRING": auth} if auth else {}
    origins = f"http://{HOST}:{port}" if temporary else f"http://{HOST}:{port},http://localhost:{port}"
    own = {
        "PREFECT_HOME": str(place),
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": origins,
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "true",
        "PREFECT_SERVER_API_HOST": HOST,
        "PREFECT_SERVER_API_PORT": str(port),
        # The browser asks the server of the page, on its port.
        "PREFECT_SERVER_UI_API_URL": "/api",
        # The holders of places under a limit are remembered after a restart, and soon forgotten when they vanish.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "5",
        # By default, each change of a task run is a transaction of its own: half of the server's time in a small run.
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    }
    if find_spec("tzdata"):
        # Prefect lists all time zones for each schedule that it reads; those of the system take 30 times as long.
        own["PYTHONTZPATH"] = ""
    if temporary:  # only users of a UI need the types of blocks there
        own["PREFECT_API_BLOCKS_REGISTER_ON_START"] = "false"
        own["PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION"] = "false"
    return {**for_servers(), **QUIET, **own, **signed_in}


_OF_THIS_PROCESS: list[PrefectServer] = []


def begin_temporary(home: Path) -> None:
    """Start a server for Prefect in this process, which ends with it; call this before Prefect is imported."""
    stack = ExitStack()
    stack.enter_context(lifeline(Path(tempfile.gettempdir())))
    server = PrefectServer(home, temporary=True)
    stack.callback(server.end)
    atexit.register(stack.close)
    _OF_THIS_PROCESS.append(server)
    os.environ.update(client_settings(server.api))


def temporary_server() -> PrefectServer | None:
    """Return the temporary server of this process, if it has one."""
    return next(iter(_OF_THIS_PROCESS), None)


async def secret_block(block: str) -> str:
    """Return the text in a Secret block.

    Raises:
        LookupError: there is none, in words that go on from "… and".
    """
    if not _server_at_hand():
        raise LookupError(f"no Prefect server to ask for the Secret block {block}: PREFECT_API_URL is not set")
    from prefect.blocks.system import Secret
    from prefect.exceptions import ObjectNotFound

    try:
        value = (await Secret.aload(block)).value.get_secret_value()  # pyright: ignore
    except Exception as error:  # any fault of a block, of a server, or of the way to it
        if isinstance(error.__cause__, ObjectNotFound):
            raise LookupError(f"the Prefect server has no Secret block {block}") from None
        # The words of a ValueError may quote the text in the block.
        words = type(error).__name__ if isinstance(error, ValueError) else one_line(str(error))
        raise LookupError(f"the Prefect server gives no Secret block {block}: {words}") from None
    if not isinstance(value, str):
        raise LookupError(f"the Secret block {block} holds JSON, where a key is a string")
    return value


def _server_at_hand() -> bool:
    if os.environ.get("PREFECT_API_URL"):
        return True
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


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
    # Another machine's server has its database in this home, where no second machine may write.
    own = made_home(store) / (platform.node() if noted(store) else "")
    place = Path(os.environ.get("PREFECT_HOME") or own).expanduser().absolute()
    os.environ["PREFECT_HOME"] = str(place)
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
