"""The chain, once: load, judge, aggregate, store, report.

Every flow is one call of `evaluate`. This module owns the order of the steps; how Prefect runs each stands in `steps`,
how much is judged at once in `judging`, how each step works in `tasks`.
"""

import asyncio
import atexit
import gc
import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from prefect import get_client
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.runtime.chunks import judge_all
from flows.runtime.overlap import unfinished_before
from flows.runtime.prefect_run import is_scheduled, own_run
from flows.runtime.progress import Progress
from flows.runtime.quiet import hush
from flows.runtime.secrets import secret_block
from flows.runtime.sending import Sending, fetch_replies
from flows.runtime.shards import judge_in_shards
from flows.runtime.shared_limit import shared_slots
from flows.runtime.steps import Chunks, load_step, report_step, store_step
from tasks.comparing.changing import resolved, unchanged_words
from tasks.controls.samples import with_controls
from tasks.datasets.dataset import Dataset
from tasks.endpoint.client import Vlm
from tasks.errors import HistoryLocked
from tasks.history.loading import sync
from tasks.judging.cases import RunContext
from tasks.judging.protocol import picture_policy, run_end, run_start
from tasks.kinds.geneval_export import open_export
from tasks.ledger.evaluations import read_whole
from tasks.ledger.files import Ledger, earlier_replies
from tasks.ledger.remote import Remote, is_remote, mirror
from tasks.parameters import Parameters, at_store
from tasks.records import RunStart
from tasks.rubrics.rubric import Rubric, load_rubric

if "PREFECT__FLOW_RUN_ID" in os.environ:  # a process that Prefect started for one run, as `jury` is its own
    atexit.register(hush)

# What is imported by now stays for good, and calls leave few circles behind: without this the collector walks through
# everything again and again.
gc.freeze()
gc.set_threshold(50_000, 20, 50)


CLOCKS = timedelta(hours=1)
"""Clocks of machines that work on one evaluation differ by less."""


async def evaluate(flow: str, parameters: Parameters) -> State:
    """Run one evaluation from its dataset to its report.

    Returns:
        Completed, with the counts in its message and `{"run_id", "warnings"}` as its result; or Failed with one
        sentence, where the input or the judge makes any further call pointless. What was paid for is in the ledger. A
        scheduled run that finds the one before it unfinished is Completed as `Skipped`.
    """
    try:
        if sentence := await unfinished_before():
            return Completed(name="Skipped", message=sentence)
        now = datetime.now().astimezone()
        asked = await asyncio.to_thread(resolved, at_store(parameters), now)
        if asked.to_be_split:
            evaluation = await judge_in_shards(flow, asked.model_copy(update={"store": parameters.store}))
            return await _put_together(evaluation, asked.store, now)
        return await _evaluate(flow, asked)
    except* (ValueError, OSError) as stopped:
        get_run_logger().debug("The run was stopped", exc_info=stopped)
        sentence = _first(stopped)
    return Failed(message=sentence)


async def _evaluate(flow: str, asked: Parameters) -> State:
    started = time.monotonic()
    rubric = load_rubric(flow, asked.prompt_set)
    # A run on a remote store works on a mirror of it.
    parameters = asked.model_copy(update={"store": str(mirror(asked.store))})
    remote = Remote(asked.store, mirror(asked.store)) if is_remote(asked.store) else None
    async with shared_slots(parameters.judge) as slots, Vlm(parameters.judge, slots, secret_block) as vlm:
        dataset = await load_step(flow, parameters)
        unfetched = await fetch_replies(remote, asked.reuse_hours)
        start = _start(flow, asked, dataset, rubric)
        run = _open_run(start, parameters, rubric, vlm)
        async with Sending(remote, start.run_id) as sending:
            try:
                async with Progress(flow, len(dataset.samples)) as progress, asyncio.TaskGroup() as group:
                    group.create_task(_name_run(start))
                    shown = with_controls(dataset.samples, parameters.controls, parameters.shards)
                    group.create_task(judge_all(Chunks(run, progress, sending), shown))
                unlike = run.tally.contract.warnings()
                alike = await _unchanged(Path(parameters.store), start.run_id) if start.shards == 1 else ()
                warnings = (*dataset.warnings, *unfetched, *_exported(run), *unlike, *alike)
            except* (ValueError, OSError):
                # What was paid for until then is to be seen in the history, as an unfinished run.
                if run.ledger.folder.exists():
                    await asyncio.gather(_store(run), sending.finish())
                raise
            finally:
                run.close()
            run.ledger.end(run_end(run, warnings, time.monotonic() - started))
            storing = asyncio.create_task(_store(run))
            reported, unstored, unsent = await asyncio.gather(
                _report(run, warnings, storing), storing, sending.finish()
            )
    data = {"run_id": start.run_id, "warnings": [*warnings, *unstored, *unsent]}
    return Completed(message=" ".join([reported, *unstored, *unsent]), data=data)


async def _put_together(evaluation: str, store: str, began: datetime) -> State:
    """Show the shards of an evaluation as one. They are done, whether or not that can be shown from this machine."""
    folder = mirror(store)
    try:
        if is_remote(store):
            await asyncio.to_thread(Remote(store, folder).fetch, began - CLOCKS)
        await asyncio.to_thread(sync, folder)
        end = read_whole(folder, evaluation).end
        warnings = [*(end.warnings if end else ()), *await _unchanged(folder, evaluation)]
        message = await report_step(str(folder), evaluation, warnings, is_scheduled())
    except Exception as error:
        get_run_logger().warning("The shards could not be put together", exc_info=error)
        message = f"All shards of {evaluation} are done, but cannot be put together here: {error}"
        advice = f"{message}. `jury sync` where their store can be reached does it."
        return Completed(message=message, data={"run_id": "", "warnings": [advice]})
    return Completed(message=message, data={"run_id": evaluation, "warnings": warnings})


def _start(flow: str, asked: Parameters, dataset: Dataset, rubric: Rubric) -> RunStart:
    record = own_run()
    return run_start(flow, asked, dataset, rubric, str(record.id) if record else "", is_scheduled())


def _open_run(start: RunStart, parameters: Parameters, rubric: Rubric, vlm: Vlm) -> RunContext:
    store = Path(parameters.store)
    replies = earlier_replies(store, start, parameters.reuse_hours)
    export = open_export(parameters, start.candidates)
    return RunContext(start, rubric, parameters, picture_policy(parameters), vlm, Ledger(store, start), replies, export)


async def _unchanged(store: Path, run_id: str) -> tuple[str, ...]:
    """What a scheduled run that judged the same pictures as the last one should say."""
    words = await asyncio.to_thread(unchanged_words, store, run_id) if is_scheduled() else ""
    return (words,) if words else ()


def _exported(run: RunContext) -> tuple[str, ...]:
    """Put the export in its place; returns what there is to warn of."""
    left_out = run.export.close().left_out if run.export else 0
    return (f"{left_out} images without a score are not in the export",) if left_out else ()


async def _name_run(start: RunStart) -> None:
    """Give the run in the UI a name that says what is judged, now that the dataset is known."""
    if start.prefect_run_id:
        part = f" · shard {start.shard} of {start.shards}" if start.shards > 1 else ""
        name = f"{start.flow} · {' + '.join(start.candidates)} · {start.model} · {start.samples} samples{part}"
        try:
            async with get_client() as client:
                await client.update_flow_run(start.prefect_run_id, name=name)  # pyright: ignore
        except Exception as error:  # A name is nice to have; no run stops for want of one.
            get_run_logger().debug("The run could not be named", exc_info=error)


async def _store(run: RunContext) -> tuple[str, ...]:
    """Load the run into the history; a history that stays locked costs a warning, for the ledger holds everything."""
    try:
        await store_step(run.parameters.store, run.start.run_id)
    except (HistoryLocked, ValueError, OSError) as error:
        return (f"{error}. The run is safe in its ledger; `jury sync` loads it into the history.",)
    return ()


async def _report(run: RunContext, warnings: tuple[str, ...], storing: asyncio.Task[tuple[str, ...]]) -> str:
    """Show the run in the UI; returns it in one sentence. A finished run does not fail because it cannot be shown."""
    try:
        if run.start.scheduled:
            await storing  # the trend is read from the history
        return await report_step(run.parameters.store, run.start.run_id, list(warnings), run.start.scheduled)
    except Exception as error:
        get_run_logger().warning("The report could not be made", exc_info=error)
        return f"The run is complete, but its report could not be made: {error}."


def _first(stopped: BaseExceptionGroup[Exception]) -> str:
    error: BaseException = stopped
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
