"""Processes: locks that show whether they live, one a run, children that are restarted, and ends without the rest."""

import atexit
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.files import is_locked

UP = "JURY_UP"
"""Environment variable of children: the file that their parent has locked."""
RUNS = "runs"
"""Folder beside that file, with a file for each run that has a process: locked by the process, with its id."""
CALLED_IN = "JURY_CALLED_IN"
"""Environment variable of the processes of runs: the folder in which `jury up` was called."""
LOOKS, LOCK_SECONDS = 10, 0.1
LEFT_BEHIND = threading.Event()
"""Set once some work in this process will not end within reason, so that the process ends without it."""

GARBAGE_THRESHOLDS = 50_000, 20, 100
"""Thresholds of the garbage collector in our programs. With Python's own, it searches all imported objects again and
again, which is a sixth of a command's start."""


def end_without_the_rest(code: int) -> None:
    """End a process that has left work behind; return if it has not, since it then ends as any other."""
    if LEFT_BEHIND.is_set():
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def lifeline(home: Path) -> Generator[None]:
    """Lock a new file until the context or this process ends, and name it to children in the environment."""
    with tempfile.NamedTemporaryFile(dir=home, prefix="up-", suffix=".lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.environ[UP] = file.name
        try:
            yield
        finally:
            os.environ.pop(UP, None)


def end_with_parent() -> None:
    """End this process as soon as its parent has ended; do nothing if the parent has no lifeline."""
    if file := os.environ.get(UP):
        threading.Thread(target=_end_after, args=(file,), daemon=True).start()


def _end_after(file: str) -> None:
    with suppress(OSError), open(file) as opened:  # noqa: PTH123 - a missing path means that the parent has ended
        fcntl.flock(opened, fcntl.LOCK_SH)
    os._exit(1)


def claim_run() -> None:
    """Make this process the only one of its run, or end it, if `jury up` started it for a run.

    A killed runner leaves a process that begins its run; the next runner may start another one for it. Bar
    *Supervision*, runner killed while a run is PENDING: no call is asked twice.
    """
    up, run = os.environ.get(UP), os.environ.get("PREFECT__FLOW_RUN_ID")
    if not (up and run):
        return
    end_with_parent()
    folder = Path(up).parent / RUNS
    folder.mkdir(mode=0o700, exist_ok=True)
    opened = os.open(folder / run, os.O_RDWR | os.O_CREAT, 0o600)  # open until this process ends
    for _ in range(LOOKS):  # a runner that checks the lock holds it for a moment
        with suppress(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(LOCK_SECONDS)
    else:
        os._exit(0)  # the runner takes any other code for a crash of the run
    del os.environ[UP]  # processes that this one starts are not the run's
    os.truncate(opened, 0)
    os.write(opened, str(os.getpid()).encode())
    os.chdir(os.environ.pop(CALLED_IN, "."))  # relative paths of a run lead from there


def has_process(run: str) -> bool:
    """Return whether a run of this `jury up` has a process."""
    return is_locked(_claim(run))


def end_process(run: str) -> None:
    """Send SIGTERM to the process of a run."""
    with suppress(OSError, ValueError):
        os.kill(int(_claim(run).read_text()), signal.SIGTERM)


def _claim(run: str) -> Path:
    return Path(os.environ[UP]).parent / RUNS / run


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a child is restarted, first and at most: doubled each time that it lived for less than a minute."""
LIVED_SECONDS = 60.0
CHILD_SECONDS = 20.0
"""Longest wait for a child to end after SIGTERM."""


def start_child(
    log: Path, module: str, *arguments: str, env: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a module of ours as a process whose output is added to a log.

    It has a session of its own: Ctrl-C reaches its parent only, which ends its children one after another.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=pass_fds,
        )


class Supervised:
    """A child process from now until `end`."""

    def __init__(self, name: str, log: Path, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        """Start the process.

        Args:
            log: file of its output, to be named to the user.
            start: starts the process, each time.
        """
        self.log = log
        self._name, self._start = name, start
        self._starting, self._told = threading.Lock(), threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self.now = start()

    def keep(self) -> None:
        """Restart the process from now on when it ends."""
        if not self._watching.is_alive():
            self._watching.start()

    def _watch(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            self.now.wait()
            pause = FIRST_PAUSE if time.monotonic() - began > LIVED_SECONDS else pause
            if not self._told.is_set():
                print(f"the {self._name} has ended and starts again; its log is {self.log}", file=sys.stderr)
            if self._told.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            with self._starting, suppress(OSError):  # another program has the port for the moment
                if not self._told.is_set():
                    self.now = self._start()

    def end(self) -> None:
        """End the process for good: by force if it takes too long, or if the user presses Ctrl-C again."""
        with self._starting:
            self._told.set()
        self.now.terminate()
        try:
            self.now.wait(CHILD_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.now.kill()
            self.now.wait()
