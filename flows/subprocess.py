"""Worker process for runs and queries, for programs that continue after them, such as a notebook."""

import atexit
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from flows.server.server import running
from flows.server.supervision import LEFT_BEHIND, end_without_the_rest
from tasks.errors import InputError

GRACE_SECONDS = 20
"""Longest time that a stopped process has to end by itself, as after Ctrl-C."""
LAST_WORDS = 20
"""Last lines of output that an error quotes if a process ended without an answer."""

_log = logging.getLogger("flows")


class Worker:
    """A process that answers requests, one after the other, until it is stopped or its input ends."""

    def __init__(self, place: tuple[object, ...]) -> None:
        """Start the process; `place` is what it inherits, for comparison, and empty once it was stopped."""
        self.place = place
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C and signals to a group of processes reach it through this process
        )

    def ask(self, what: str, **asked: object) -> dict[str, Any]:
        """Return the result of `run` or `tables`, and log the output meanwhile.

        Raises:
            InputError: a mistake in the request, or the reason that stopped a run.
            RuntimeError: a fault of the program, with its traceback or its last output.
        """
        mark, said = secrets.token_hex(), deque[str](maxlen=LAST_WORDS)
        self._send(json.dumps({"mark": mark, "what": what, "asked": asked}))
        for line in self.process.stdout or ():
            words, is_answer, answer = line.partition(mark)
            if is_answer:
                kind, told, is_last = json.loads(answer)
                if is_last:
                    self.process.wait()
                if kind == "result":
                    return told
                raise (InputError if kind == "mistake" else RuntimeError)(told)
            said.append(words.rstrip())
            _log.info("%s", said[-1])
        raise RuntimeError(f"the process that did it ended with code {self.process.wait()}:\n" + "\n".join(said))

    def stop(self) -> None:
        """End the process as Ctrl-C does, or by force if that takes too long; return at once."""
        self.place = ()
        self._send("")

    def end(self) -> None:
        """Stop the process, and wait for its end."""
        self.stop()
        for line in self.process.communicate()[0].splitlines():
            _log.info("%s", line)

    def _send(self, line: str) -> None:
        with suppress(OSError, ValueError):  # it has ended
            print(line, file=self.process.stdin, flush=True)


_IDLE: dict[str, Worker] = {}
"""The worker that waits for a request, if there is one. Threads share it: each access is one step."""
os.register_at_fork(after_in_child=_IDLE.clear)  # it is the parent's, and ends with that
atexit.register(lambda: [each.end() for each in _IDLE.values()])


@contextmanager
def worker(store: Path) -> Generator[Worker]:
    """Yield the idle worker, or a new one; keep it, unless its request failed for another reason than a mistake.

    The idle one ends if it has another environment, working folder, store or server of `jury up`.
    """
    place = {**os.environ}, Path.cwd(), store.absolute(), running(store)
    found = _IDLE.pop("", None)
    if found and (found.place != place or found.process.poll() is not None):
        threading.Thread(target=found.end).start()
        found = None
    found = found or Worker(place)
    try:
        yield found
    except BaseException as error:
        if not isinstance(error, InputError):
            found.end()
        raise
    finally:
        if found.place and _IDLE.setdefault("", found) is not found:
            threading.Thread(target=found.end).start()


def _main() -> int:
    """Answer each line of standard input by a line of output with its mark; end at an empty line, or without input."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell script's background programs ignore it
    output = os.dup(1)  # children do not inherit it, so it ends with this process
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.stdout = sys.stderr = os.fdopen(output, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    lines = SimpleQueue[bytes]()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        while not LEFT_BEHIND.is_set():
            asked = json.loads(lines.get())
            answer = *_answer(asked["what"], asked["asked"]), LEFT_BEHIND.is_set()
            sys.stdout.write(f"{asked['mark']}{json.dumps(answer)}\n")
        return 0
    return 130


def _read(lines: "SimpleQueue[bytes]") -> None:
    with open(0, "rb", buffering=0, closefd=False) as opened:
        while line := opened.readline().strip():
            lines.put(line)
    signal.alarm(GRACE_SECONDS)  # ends this process by force
    os.kill(os.getpid(), signal.SIGINT)


def _answer(what: str, asked: Mapping[str, Any]) -> tuple[str, Any]:
    """Return a kind of answer and its content."""
    try:
        return "result", _run(**asked) if what == "run" else _tables(**asked)
    except (InputError, OSError) as error:
        return "mistake", str(error)
    except Exception:
        return "fault", traceback.format_exc()


def _run(flow: str, parameters: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Run a flow, and remove the folder of its samples, if there is one."""
    from flows.commands.running import judged
    from tasks.records.parameters import parameters_of

    try:
        return judged(flow, parameters_of(flow).model_validate(parameters))
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _tables(store: str, questions: list[str], seconds: float, folder: str) -> dict[str, Any]:
    from tasks.history.queries import write_frames

    write_frames(Path(store), questions, seconds, Path(folder))
    return {}


if __name__ == "__main__":
    code = _main()
    end_without_the_rest(code)
    sys.exit(code)
