"""State that Prefect shows for an evaluation: skipped, failed with a sentence, or completed with counts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module

from prefect import get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.flow_run import (
    Raw,
    given,
    judge_in_shards,
    name_stopped,
    own_run,
    put_together,
    results_key,
    tell_in_sentences,
)
from flows.process import noting_end
from tasks.batches.log import check_batch
from tasks.datasets.paths import resolved
from tasks.endpoint.catalog import addressed
from tasks.errors import InputError, first_of
from tasks.records.parameters import Parameters, at_store
from tasks.text import printable

IMPORTED_IN_RUNS = ("prefect.flow_engine", "prefect.task_engine", "fastapi.encoders")
"""Modules that Prefect would import when a flow is called: imported early, they save a run a third of a second."""
BEGIN_WITHIN = timedelta(minutes=15)
"""Longest time that a run may be pending, for example while a container's image is fetched. After that, its process
must be gone. Such a run reports nothing, so it is never marked as crashed, and would block its schedule for good."""
_UNFINISHED = {"state": {"type": {"any_": ["PENDING", "RUNNING", "PAUSED", "CANCELLING"]}}}

Chain = Callable[[str, Parameters, list[str]], Awaitable[State]]
"""Chain of a flow. Its arguments are the flow's name, its parameters, and sentences about them."""

for _name in IMPORTED_IN_RUNS:
    import_module(_name)


async def final_state(flow: str, parameters: Parameters | Raw, chain: Chain) -> State:
    """Run the chain, here or as the shards of a deployment.

    Returns:
        The state that the chain returns; `Skipped` if the scheduled run before this one is unfinished. Failed with one
        sentence if a mistake in the input, the judge or the machine stops the run. Any other exception is a fault of
        the program, and is raised.
    """
    tell_in_sentences()
    return await noting_end(_state(flow, parameters, chain))


async def _state(flow: str, parameters: Parameters | Raw, chain: Chain) -> State:
    try:
        if sentence := await unfinished_before():
            return Completed(name="Skipped", message=sentence)
        wanted, said = await given(flow, parameters)
        for sentence in said:
            get_run_logger().info(sentence)
        now = datetime.now().astimezone()
        asked = await asyncio.to_thread(resolved, addressed(at_store(wanted)), now)
        check_batch(asked)
        if asked.to_be_split:
            evaluation = await judge_in_shards(flow, asked.model_copy(update={"store": wanted.store}))
            return await put_together(evaluation, asked.store, now, said, await results_key(flow))
        return await chain(flow, asked, said)
    except* (InputError, OSError) as stopped:
        get_run_logger().debug("The run was stopped", exc_info=stopped)
        first = first_of(stopped)
    await name_stopped(flow)
    data = {"run_id": first.run_id if isinstance(first, InputError) else ""}
    return Failed(message=printable(str(first)), data=data)  # Prefect logs the message, and may do so to a terminal


async def unfinished_before() -> str:
    """Return the reason to skip this run: an earlier scheduled run of its deployment is unfinished; else empty.

    A concurrency limit on the deployment would also cancel runs that people start. Those are never skipped, and cause
    no other run to be skipped.
    """
    own = own_run()
    if not own or not own.auto_scheduled or not own.deployment_id:
        return ""
    async with get_client() as client:
        others = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate(_UNFINISHED),
            deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [own.deployment_id]}}),
        )
    # If two start together, the one that was due first goes on.
    earlier = [other for other in others if other.auto_scheduled and _due(other) < _due(own) and not _given_up(other)]
    if not earlier:
        return ""
    first = min(earlier, key=_due)
    due = f"{first.expected_start_time:%Y-%m-%d %H:%M} UTC"
    return f"Skipped: the scheduled run before this one ({first.name}, due {due}) is unfinished."


def _given_up(run: FlowRun) -> bool:
    state = run.state
    return bool(state and state.is_pending() and datetime.now(UTC) - state.timestamp > BEGIN_WITHIN)


def _due(run: FlowRun) -> tuple[str, str]:
    return str(run.expected_start_time), str(run.id)
