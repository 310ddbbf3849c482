"""The flow run that this process works on, as Prefect knows it.

Owns what a run may ask of itself: its record, and whether a schedule started it.
"""

from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext

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
