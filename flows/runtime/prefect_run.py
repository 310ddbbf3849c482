"""The flow run of this process in Prefect: who started it, its name and log, and the place of its artifacts."""

import asyncio
import logging
import re
from typing import Any, cast
from uuid import UUID

from coolname import data
from httpx import HTTPError
from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.runtime.lifeline import claim_run
from tasks.errors import InputError, first_of
from tasks.parameters import FLOWS
from tasks.presentation.wording import judge_words
from tasks.records import RunStart

WAITING = "Waiting"
"""State name of a run whose replies have not come yet."""
ANSWER_SECONDS = 10.0
"""Longest wait for the server, with all retries of Prefect's client: a run waits for its answers."""
SCHEDULED = "scheduled"
"""Tag of the shards of an evaluation that a schedule started, since Prefect starts shards as runs on request."""
OF_OURS = " · "
"""Separator behind the flow's name in every name that the program gives."""
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|omicron|pi|rho|sigma|tau|upsilon|phi|chi"
    "|psi|omega"
)
_PRAISE = (
    "Awesome|Rustic|Small|Gorgeous|Fantastic|Sleek|Intelligent|Unbranded|Refined|Licensed|Generic|Practical|Ergonomic"
    "|Handcrafted|Tasty|Handmade|Incredible"
)
_OF_THE_UIS = re.compile(rf"({_GREEK})\d*(-[a-z]*)+|({_PRAISE})-[^\W\da-z_].{{0,5}}")
"""Names by the UIs: a star and its place (`theta3-cancri-nebula`, one in nine without a number: `omega-mudor-point`),
or praise of a dish of six letters at most (`Rustic-Drob`).
"""


# At the import of the flow, before Prefect marks the run Running: it may wait for its server after that.
claim_run()


def own_run() -> FlowRun | None:
    """Return the flow run around this call, as the server stored it at its start; None outside of a flow run."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_scheduled() -> bool:
    """Return whether a schedule started this run, or the evaluation that it is a shard of."""
    record = own_run()
    return bool(record and (record.auto_scheduled or SCHEDULED in record.tags))


async def results_key(flow: str) -> str:
    """Return the key of this run's artifacts in Prefect, shared with earlier runs of the same sort.

    A nightly evaluation must show scheduled runs, and nobody's experiments. So only a run that a schedule started with
    the deployment's own parameters has the key `<flow>-<deployment>`.
    """
    run = own_run()
    if not run or not run.deployment_id:
        return f"{flow}-command"
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            deployment = await client.read_deployment(run.deployment_id)
    except (ObjectNotFound, HTTPError, TimeoutError):  # it is deleted, or the server is gone
        return f"{flow}-by-hand"
    unmodified = run.auto_scheduled and run.parameters == deployment.parameters
    return key_of(flow, deployment.name) + ("" if unmodified else "-by-hand")


def key_of(flow: str, deployment: str) -> str:
    """Return flow and deployment as a key of artifacts, with the flow once: `diagram-nightly`."""
    name = re.sub("[^a-z0-9]+", "-", deployment.lower()).strip("-")
    return name if f"{name}-".startswith(f"{flow}-") else f"{flow}-{name}".strip("-")


def log_start(start: RunStart) -> None:
    """Log the samples, the candidates and the judge of a run."""
    part = f", shard {start.shard} of {start.shards}" if start.shards > 1 else ""
    get_run_logger().info(
        "Run %s judges %s samples of %s (%s%s) with %s.",
        *(start.run_id, f"{start.samples:,}", start.dataset, " + ".join(start.candidates), part),
        judge_words(start.judge, start.endpoint),
    )


async def show_end(run_id: str, message: str) -> None:
    """Show the result of a run in the flow run that handed it in and waited.

    Args:
        run_id: id of that flow run; empty: there was none.
    """
    own = own_run()
    if not run_id or (own and str(own.id) == run_id):
        return
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            await client.set_flow_run_state(UUID(run_id), Completed(message=message), force=True)
    except Exception as error:  # It may be on another server, or deleted; the run has ended all the same.
        get_run_logger().debug("The run that was handed in could not be shown as ended", exc_info=error)


async def name_run(start: RunStart) -> None:
    """Name the run in the UI by flow, candidates, judge and samples, unless a person named it."""
    run = own_run()
    if run and is_made_up(run.name):
        part = f" · shard {start.shard} of {start.shards}" if start.shards > 1 else ""
        name = f"{start.flow} · {' + '.join(start.candidates)} · {start.judge} · {start.samples} samples{part}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
                await client.update_flow_run(run.id, name=name)
        except Exception as error:  # A name is nice to have; no run stops for want of one.
            get_run_logger().debug("The run could not be named", exc_info=error)


def is_made_up(name: str) -> bool:
    """Return whether a program made this name of a run: Prefect, one of its UIs, or this program.

    Prefect keeps no record of who named a run.
    """
    ours = name.partition(OF_OURS)
    return (bool(ours[1]) and ours[0] in FLOWS) or bool(_OF_THE_UIS.fullmatch(name)) or _of_prefect(name)


def _of_prefect(name: str) -> bool:
    """Return whether the name is two of the words that Prefect draws from, such as `bold-falcon`."""
    lists: dict[str, dict[str, Any]] = data.config  # pyright: ignore
    known = {word for each in lists.values() for word in each.get("words", ())}
    words = name.split("-")
    return len(words) == 2 and known.issuperset(words)


def tell_in_sentences() -> None:
    """Log errors that the user has to fix as one sentence from now on; a repeated call changes nothing.

    Prefect logs the traceback of any exception in a task: thirty lines that do not explain a mistake in the input.
    """
    logging.getLogger("prefect.task_runs").addFilter(_sentence_alone)
    logging.getLogger("prefect.task_runs").addFilter(_is_not_cancelled)


def _sentence_alone(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        error = first_of(cast(BaseExceptionGroup[Exception], error))
    if isinstance(error, InputError | OSError):
        record.msg, record.args, record.exc_info = "Stopped: %s", (str(error),), None
    return True


def _is_not_cancelled(_: logging.LogRecord) -> bool:
    """Return whether the step that writes a line continues.

    Bar *Supervision*, a cancel in the UI takes at most five lines: each unfinished step would write two.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return True
    return not (task and task.cancelling())
