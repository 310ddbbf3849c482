"""The flow run that this process works on, as Prefect knows it: who started it, its name and log, where it is shown."""

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
"""Name of the state of a run whose replies have not come yet."""
ANSWER_SECONDS = 10.0
"""Longest wait for the server, with all that Prefect's client asks again by itself: a run waits for its answers."""
SCHEDULED = "scheduled"
"""Tag of the shards of an evaluation that a schedule started: they are runs on request."""
OF_OURS = " · "
"""Stands in every name that the program gives, behind the flow's."""
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|omicron|pi|rho|sigma|tau|upsilon|phi|chi"
    "|psi|omega"
)
_PRAISE = (
    "Awesome|Rustic|Small|Gorgeous|Fantastic|Sleek|Intelligent|Unbranded|Refined|Licensed|Generic|Practical|Ergonomic"
    "|Handcrafted|Tasty|Handmade|Incredible"
)
_OF_THE_UIS = re.compile(rf"({_GREEK})\d*(-[a-z]*)+|({_PRAISE})-[^\W\da-z_].{{0,5}}")
"""A star and where it lies (`theta3-cancri-nebula`, one in nine without a number: `omega-mudor-point`), or praise of a
dish of six letters at most (`Rustic-Drob`)."""


# While the flow is loaded, before Prefect calls the run Running: it may wait for its server after that.
claim_run()


def own_run() -> FlowRun | None:
    """The flow run that this is called in, as the server knew it at its start; None outside of one."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_scheduled() -> bool:
    """Whether a schedule started this run, or the evaluation that it is a shard of."""
    record = own_run()
    return bool(record and (record.auto_scheduled or SCHEDULED in record.tags))


async def results_key(flow: str) -> str:
    """The key under which Prefect keeps the artifacts of this run, beside those of earlier ones of the same sort.

    Whoever looks at a nightly evaluation wants to see what was scheduled, and nothing that somebody tried out: so only
    a run that a schedule started with the deployment's own parameters has the key `<flow>-<deployment>`.
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
    """Flow and deployment as a key of artifacts, the flow once: `diagram-nightly`."""
    name = re.sub("[^a-z0-9]+", "-", deployment.lower()).strip("-")
    return name if f"{name}-".startswith(f"{flow}-") else f"{flow}-{name}".strip("-")


def log_start(start: RunStart) -> None:
    """Say in the run's log what is judged and by whom."""
    part = f", shard {start.shard} of {start.shards}" if start.shards > 1 else ""
    get_run_logger().info(
        "Run %s judges %s samples of %s (%s%s) with %s.",
        *(start.run_id, f"{start.samples:,}", start.dataset, " + ".join(start.candidates), part),
        judge_words(start.judge, start.endpoint),
    )


async def show_end(run_id: str, message: str) -> None:
    """Let the flow run that handed a run in, and waited, show what came of it.

    Args:
        run_id: of the flow run; empty: there was none.
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
    """Give the run in the UI a name that says what is judged, unless a person gave it one."""
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
    """Whether nobody typed this name of a run: Prefect, one of its UIs or this program made it.

    Prefect keeps no record of who named a run.
    """
    ours = name.partition(OF_OURS)
    return (bool(ours[1]) and ours[0] in FLOWS) or bool(_OF_THE_UIS.fullmatch(name)) or _of_prefect(name)


def _of_prefect(name: str) -> bool:
    """Whether the name is two of the words that Prefect draws from, such as `bold-falcon`."""
    lists: dict[str, dict[str, Any]] = data.config  # pyright: ignore
    known = {word for each in lists.values() for word in each.get("words", ())}
    words = name.split("-")
    return len(words) == 2 and known.issuperset(words)


def tell_in_sentences() -> None:
    """From now on, write one sentence to the log for what the user has to mend; to do so again changes nothing.

    Prefect writes the traceback of whatever a task raises: thirty lines that tell nothing of a mistake in the input.
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
    """Whether the step that writes a line goes on.

    Bar *Supervision*, a cancel in the UI takes at most five lines: each step that was under way would write two.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return True
    return not (task and task.cancelling())
