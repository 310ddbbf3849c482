"""The process of a server that begins again where it ends without having been told to, as after `kill -9`."""

import subprocess
import threading
import time
from collections.abc import Callable

from flows.runtime.process import interrupt

SHORTEST_SECONDS, MOST_TIMES = 60.0, 3
"""A process that has so many times in a row not lived so long would not live longer the next time."""
END_SECONDS = 15.0
"""For it to end by itself, once it is told to."""


class KeptProcess:
    """A process, until `end`. Where it cannot be kept, `process.interrupt` ends this one, and `lost` is set."""

    lost = False

    def __init__(self, begin: Callable[[], subprocess.Popen[bytes]], tell: Callable[[], None]) -> None:
        """Begin it.

        Args:
            begin: starts the process, each time.
            tell: says that it had ended, and begins again.
        """
        self._begin, self._tell = begin, tell
        self._may_begin, self._told = threading.Lock(), False
        self.now = begin()

    def keep(self) -> None:
        """From now on, begin it again when it ends."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        in_a_row = 0
        while not self.lost:
            began = time.monotonic()
            self.now.wait()
            in_a_row = in_a_row + 1 if time.monotonic() - began < SHORTEST_SECONDS else 0
            with self._may_begin:
                if self._told:
                    return
                self.lost = in_a_row == MOST_TIMES
                if not self.lost:
                    self._tell()
                    self.now = self._begin()
        interrupt()

    def end(self) -> None:
        """End it for good, by force where it takes too long."""
        with self._may_begin:
            self._told = True
            self.now.terminate()
        try:
            self.now.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.now.kill()
            self.now.wait()
