"""Python API of Image Jury: judge samples that are objects, and read tables of the history as Polars frames.

A run does the same as `jury run`, in a process that stays for the next one, so that a notebook or a thread can start
it. Its output goes to the logger `flows` at level INFO. `docs/howto/notebooks.md` and `api.ipynb` have examples.
"""

import asyncio
import atexit
import gc
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from flows.commands.options import judge_of_environment
from flows.result import Result, read_result
from flows.server.server import running
from flows.server.supervision import GARBAGE_THRESHOLDS, LEFT_BEHIND, end_without_the_rest
from tasks.datasets.sample_objects import FigureSample, Given, ImageSample, Picture, write_samples
from tasks.endpoint.catalog import judge_named
from tasks.errors import InputError
from tasks.files import private_folder
from tasks.ledger.remote import local_cache
from tasks.protocols import parameters_of
from tasks.records.judge import Judge
from tasks.records.parameters import (
    CHECKLIST,
    DEFAULT_STORE,
    FLOWS,
    PairwiseParameters,
    Parameters,
    RubricParameters,
    at_store,
    default_store,
)

if TYPE_CHECKING:
    import polars

    from tasks.protocols.checklist.parameters import ChecklistParameters

__all__ = [
    "ChecklistParameters", "FigureSample", "ImageSample", "InputError", "Judge", "PairwiseParameters", "Picture",
    "Result", "RubricParameters", "judge", "judge_async", "table", "tables",
]  # fmt: skip


Samples = Sequence[Given] | None
_log = logging.getLogger("flows")


def __getattr__(name: str) -> Any:
    """Import the parameters of checklists on request: no other flow needs the folder of that kind."""
    if name != "ChecklistParameters":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tasks.protocols.checklist.parameters import ChecklistParameters

    return ChecklistParameters


def judge(
    flow: str,
    samples: Samples = None,
    parameters: Parameters | None = None,
    name: str = "given",
    store: str | Path = "",
) -> Result:
    """Run a flow to its end, and return its result.

    The run has a process and a Prefect server of its own. Both stay for the next call, and end with this process. A
    call that comes meanwhile, from another thread, has others. So has one with another store, working folder or
    environment (keys, `JURY_` variables): it starts them again.

    Ctrl-C stops the run. All replies so far are in the ledger, and the same call continues from there.

    Args:
        flow: `diagram`, `plot`, `object`, `counting`, `colors`, `position` or `facts`.
        samples: None: the samples of `parameters.dataset`, from which `facts` always takes them.
        parameters: `PairwiseParameters`, `RubricParameters` or `ChecklistParameters`, as the flow requires. Without a
            `judge`, `JURY_JUDGE` counts.
        name: name of the dataset of these samples, and of a candidate without a name.
        store: store of the run; empty: that of the parameters.

    Raises:
        InputError: a mistake in the input, or the reason that stopped the run, in the words of `jury run`.
        RuntimeError: a fault of the program.
    """
    asked = _checked(flow, samples, parameters, str(store))
    with worker(local_cache(asked.store)) as at_work:
        return _judged(at_work, flow, samples, asked, name)


async def judge_async(
    flow: str,
    samples: Samples = None,
    parameters: Parameters | None = None,
    name: str = "given",
    store: str | Path = "",
) -> Result:
    """Do the same as `judge` without blocking the event loop; when cancelled, stop the run and wait for its end."""
    asked = _checked(flow, samples, parameters, str(store))
    with worker(local_cache(asked.store)) as at_work:
        work = asyncio.create_task(asyncio.to_thread(_judged, at_work, flow, samples, asked, name))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            at_work.stop()
            with suppress(Exception):
                await work
            raise


def table(question: str, store: str | Path = DEFAULT_STORE, seconds: float = 60) -> "polars.DataFrame":
    """Return one table of the history; see `tables`."""
    return tables(question, store=store, seconds=seconds)[question]


def tables(*questions: str, store: str | Path = DEFAULT_STORE, seconds: float = 60) -> "dict[str, polars.DataFrame]":
    """Return tables and views of the history by name, or answers to SQL, as of one moment; then close the history.

    Args:
        questions: names or SQL, as in `jury query`; `jury query` alone lists the names.
        seconds: longest time of an answer; 0: no limit.

    Raises:
        InputError: there is no history or no such name, the SQL is refused, or an answer is too large.
    """
    import polars

    with tempfile.TemporaryDirectory() as folder:
        place = local_cache(default_store() if store == DEFAULT_STORE else str(store))
        with worker(place) as at_work:
            at_work.ask("tables", store=str(place), questions=questions, seconds=seconds, folder=folder)
        return {question: polars.read_ipc(Path(folder) / str(number)) for number, question in enumerate(questions)}


GRACE_SECONDS = 20
"""Longest time that a stopped process has to end by itself, as after Ctrl-C."""
LAST_WORDS = 20
"""Last lines of output that an error quotes if a process ended without an answer."""

POLARS = "_RJEM_MALLOC_CONF"
"""Environment variable that Polars changes when it is imported, as the first frame does."""


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
    own = {name: value for name, value in os.environ.items() if name != POLARS}
    place = own, Path.cwd(), store.absolute(), running(store)
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


def _checked(flow: str, samples: Samples, parameters: Parameters | None, store: str) -> Parameters:
    """Return the parameters with their store if a program can wait for their result; else raise InputError."""
    if flow not in FLOWS:
        raise InputError(f"flow is {flow!r}, allowed are {', '.join(FLOWS)}")
    asked = parameters or parameters_of(flow)()
    if not isinstance(asked, parameters_of(flow)):
        raise InputError(f"flow {flow} takes {parameters_of(flow).__name__}, not {type(asked).__name__}")
    if asked.quote or asked.to_be_split or asked.judge.service_tier == "batch":
        raise InputError("a quote, shards and batches have no result to wait for: `jury run` is the way to them")
    named, default = ("dataset", "results", "images", "metadata", "follow_links"), parameters_of(flow)()
    places = [each for each in named if getattr(asked, each, "") != getattr(default, each, "")]
    if samples is not None and flow in CHECKLIST:
        raise InputError(f"flow {flow} takes checks with its samples: write a manifest, and name it as the dataset")
    if samples is not None and places:
        raise InputError(f"samples are given, and {', '.join(places)} besides: give either")
    if samples is None and "dataset" not in asked.model_fields_set:
        raise InputError("no samples are given, and the parameters name no dataset; drawn ones are dataset='samples'")
    if "judge" not in asked.model_fields_set and (judge_name := judge_of_environment()):
        asked = asked.model_copy(update={"judge": Judge.model_validate(judge_named(judge_name))})
    return at_store(asked.model_copy(update={"store": store}) if store else asked)


def _judged(at_work: Worker, flow: str, samples: Samples, asked: Parameters, name: str) -> Result:
    """Return the result of a run; the folder in which its samples are written is gone then."""
    store, folder = local_cache(asked.store).absolute(), ""  # the program may go on in another folder
    try:
        if samples is not None:
            private_folder(store)
            folder = tempfile.mkdtemp(prefix="given-", dir=store)
            manifest = str(write_samples(Path(folder), flow, samples, name))
            dataset = manifest.replace("{", "{{").replace("}", "}}")  # single braces mark a date
            asked = asked.model_copy(update={"dataset": dataset})
        told = at_work.ask("run", flow=flow, parameters=asked.model_dump(mode="json"), folder=folder)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return read_result(store, str(told["run_id"]), [str(each) for each in told["warnings"]])


def _main() -> int:
    """Answer each line of standard input by a line of output with its mark; end at an empty line, or without input."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
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
    lines.put(b"")  # ends the wait for a line, which a signal no longer interrupts once Polars is imported


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
    from flows.process import judged

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
