"""Python API of Image Jury: judge samples that are objects, and read tables of the history as Polars frames.

A run does the same as `jury run`, in a process that stays for the next one, so that a notebook or a thread can start
it. Its output goes to the logger `flows` at level INFO. `docs/howto/notebooks.md` and `api.ipynb` have examples.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flows.result import Result, read_result
from flows.subprocess import Worker, worker
from tasks.datasets.sample_objects import FigureSample, Given, ImageSample, Picture, write_samples
from tasks.errors import InputError
from tasks.files import private_folder
from tasks.ledger.remote import local_cache
from tasks.records.judge import Judge
from tasks.records.parameters import (
    DEFAULT_STORE,
    FLOWS,
    PairwiseParameters,
    Parameters,
    RubricParameters,
    at_store,
    default_store,
    parameters_of,
)

if TYPE_CHECKING:
    import polars

__all__ = [
    "FigureSample", "ImageSample", "InputError", "Judge", "PairwiseParameters", "Picture", "Result",
    "RubricParameters", "judge", "judge_async", "table", "tables",
]  # fmt: skip


Samples = Sequence[Given] | None


def judge(
    flow: str, samples: Samples = None, parameters: Parameters | None = None, name: str = "given", store: str = ""
) -> Result:
    """Run a flow to its end, and return its result.

    The run has a process and a Prefect server of its own. Both stay for the next call, and end with this process. A
    call that comes meanwhile, from another thread, has others. So has one with another store, working folder or
    environment (keys, `JURY_` variables): it starts them again.

    Ctrl-C stops the run. All replies so far are in the ledger, and the same call continues from there.

    Args:
        flow: `diagram`, `plot`, `object`, `counting`, `colors` or `position`.
        samples: None: the samples of `parameters.dataset`.
        parameters: `PairwiseParameters` or `RubricParameters`, as the flow requires.
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
    flow: str, samples: Samples = None, parameters: Parameters | None = None, name: str = "given", store: str = ""
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


def table(question: str, store: str = DEFAULT_STORE, seconds: float = 60) -> "polars.DataFrame":
    """Return one table of the history; see `tables`."""
    return tables(question, store=store, seconds=seconds)[question]


def tables(*questions: str, store: str = DEFAULT_STORE, seconds: float = 60) -> "dict[str, polars.DataFrame]":
    """Return tables and views of the history by name, or answers to SQL, as of one moment; then close the history.

    Args:
        questions: names or SQL, as in `jury query`; `jury query` alone lists the names.
        seconds: longest time of an answer; 0: no limit.

    Raises:
        InputError: there is no history or no such name, the SQL is refused, or an answer is too large.
    """
    import polars

    with tempfile.TemporaryDirectory() as folder:
        place = local_cache(default_store() if store == DEFAULT_STORE else store)
        with worker(place) as at_work:
            at_work.ask("tables", store=str(place), questions=questions, seconds=seconds, folder=folder)
        return {question: polars.read_ipc(Path(folder) / str(number)) for number, question in enumerate(questions)}


def _checked(flow: str, samples: Sequence[Given] | None, parameters: Parameters | None, store: str) -> Parameters:
    """Return the parameters with their store if a program can wait for their result; else raise InputError."""
    if flow not in FLOWS:
        raise InputError(f"flow is {flow!r}, allowed are {', '.join(FLOWS)}")
    asked = parameters or parameters_of(flow)()
    if not isinstance(asked, parameters_of(flow)):
        raise InputError(f"flow {flow} takes {parameters_of(flow).__name__}, not {type(asked).__name__}")
    if asked.quote or asked.to_be_split or asked.judge.service_tier == "batch":
        raise InputError("a quote, shards and batches have no result to wait for: `jury run` is the way to them")
    defaults = {name: info.default for name, info in type(asked).model_fields.items()}
    named = [each for each in ("dataset", "results", "images", "metadata", "follow_links") if each in defaults]
    places = [each for each in named if getattr(asked, each) != defaults[each]]
    if samples is not None and places:
        raise InputError(f"samples are given, and {', '.join(places)} besides: give either")
    return at_store(asked.model_copy(update={"store": store}) if store else asked)


def _judged(at_work: Worker, flow: str, samples: Sequence[Given] | None, asked: Parameters, name: str) -> Result:
    """Return the result of a run; the folder in which its samples are written is gone then."""
    store, folder = local_cache(asked.store), ""
    try:
        if samples is not None:
            private_folder(store)
            folder = tempfile.mkdtemp(prefix="given-", dir=store.absolute())
            manifest = str(write_samples(Path(folder), flow, samples, name))
            dataset = manifest.replace("{", "{{").replace("}", "}}")  # single braces mark a date
            asked = asked.model_copy(update={"dataset": dataset})
        told = at_work.ask("run", flow=flow, parameters=asked.model_dump(mode="json"), folder=folder)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return read_result(store, str(told["run_id"]), [str(each) for each in told["warnings"]])
