"""Child processes of ours: detached from the terminal, and restarted after a growing pause when they end."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a child is restarted, first and at most: doubled each time that it lived for less than a minute."""
LIVED_SECONDS = 60.0
END_SECONDS = 20.0
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
            self.now.wait(END_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.now.kill()
            self.now.wait()
