"""Runs and queries in a subprocess, for programs that continue after them, such as a notebook."""

import atexit
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tasks.errors import InputError

GRACE_SECONDS = 20.0
"""Longest wait for a stopped process to end by itself, as after Ctrl-C."""
LAST_WORDS = 20
"""Last lines of output that an error quotes if a process ended without an answer."""

_log = logging.getLogger("flows")


class Apart:
    """A subprocess for one request; `result` waits for it, and `stop` ends it."""

    def __init__(self, what: str, asked: Mapping[str, Any], folder: str = "") -> None:
        """Start the process.

        Args:
            what: `run` or `tables`.
            asked: arguments of the function that does the work, as JSON has them.
            folder: removed when a run has ended in any way; empty: none.
        """
        self._asked = json.dumps({"what": what, "asked": dict(asked), "folder": folder})
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C and signals to a group of processes reach it through this process
        )
        self._said: deque[str] = deque(maxlen=LAST_WORDS)

    def result(self) -> dict[str, Any]:
        """Wait for the result; Ctrl-C ends the process first.

        Raises:
            InputError: a mistake in the request, or the reason that stopped a run.
            RuntimeError: a fault of the program, with its traceback or its last output.
        """
        listening = threading.Thread(target=self._listen, daemon=True)
        listening.start()
        try:
            self._send(self._asked + "\n")
            assert self._process.stdout
            answer = self._process.stdout.readline()
            self._process.wait()
        except BaseException:
            self.stop()
            self._process.wait()
            raise
        finally:
            listening.join(1)  # processes that a run left behind may hold its standard error open
            self._close()
        return self._told(answer)

    def stop(self) -> None:
        """End the process as Ctrl-C does, or by force if that takes too long; return at once."""
        self._send("\n")
        last = threading.Timer(GRACE_SECONDS, self._process.kill)
        last.daemon = True
        last.start()

    def _send(self, text: str) -> None:
        assert self._process.stdin
        with suppress(OSError, ValueError):  # it has ended
            self._process.stdin.write(text)
            self._process.stdin.flush()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # the rest of the input could not be sent
                assert pipe
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stderr
        with self._process.stderr as lines:
            for line in lines:
                self._said.append(line.rstrip())
                _log.info("%s", line.rstrip())

    def _told(self, answer: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(answer) if answer.endswith("\n") else {}
        if "result" in told:
            return told["result"]
        if "mistake" in told:
            raise InputError(told["mistake"])
        words = told.get("fault") or "\n".join(self._said)
        raise RuntimeError(f"the process that did it ended with code {self._process.returncode}:\n{words}")


def _main() -> int:
    """Run the request in the first line of standard input, and print its result as the one line of standard output."""
    from flows.process import hush

    atexit.register(hush)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell script's background programs ignore it
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # printed output goes to standard error, apart from the answer
        with open(0, "rb", buffering=0, closefd=False) as lines:
            asked = json.loads(lines.readline())
        threading.Thread(target=_stop_with_input, daemon=True).start()
        try:
            answer = _answer(_WHAT[asked["what"]], asked["asked"])
        except KeyboardInterrupt:
            return 130
        finally:
            if asked["folder"]:
                shutil.rmtree(asked["folder"], ignore_errors=True)
        print(json.dumps(answer), file=answers)
    return 0


def _answer(work: Callable[..., dict[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"result": work(**asked)}
    except (InputError, OSError) as error:
        return {"mistake": str(error)}
    except Exception:
        return {"fault": traceback.format_exc()}


def _run(flow: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    from flows.commands.running import judged
    from tasks.records.parameters import parameters_of

    return judged(flow, parameters_of(flow).model_validate(parameters))


def _tables(store: str, questions: list[str], seconds: float, folder: str) -> dict[str, Any]:
    from tasks.history.queries import write_frames

    write_frames(Path(store), questions, seconds, Path(folder))
    return {}


_WHAT = {"run": _run, "tables": _tables}


def _stop_with_input() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    from flows.process import end_without_the_rest

    code = _main()
    end_without_the_rest(code)
    sys.exit(code)
