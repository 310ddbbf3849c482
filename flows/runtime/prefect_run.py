"""The flow run that this process works on, as Prefect knows it."""

from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from tasks.records import RunStart

SCHEDULED = "scheduled"
"""Tag of the shards of an evaluation that a schedule started: they are runs on request."""


def own_run() -> FlowRun | None:
    """The flow run that this is called in, as the server knew it at its start; None outside of one."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_scheduled() -> bool:
    """Whether a schedule started this run, or the evaluation that it is a shard of."""
    record = own_run()
    return bool(record and (record.auto_scheduled or SCHEDULED in record.tags))


async def name_run(start: RunStart) -> None:
    """Give the run in the UI a name that says what is judged, now that the dataset is known."""
    if start.prefect_run_id:
        part = f" · shard {start.shard} of {start.shards}" if start.shards > 1 else ""
        name = f"{start.flow} · {' + '.join(start.candidates)} · {start.model} · {start.samples} samples{part}"
        try:
            async with get_client() as client:
                await client.update_flow_run(start.prefect_run_id, name=name)  # pyright: ignore
        except Exception as error:  # A name is nice to have; no run stops for want of one.
            get_run_logger().debug("The run could not be named", exc_info=error)
