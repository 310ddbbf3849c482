"""Collect the replies of runs that wait for their batches: on request, and regularly while any run waits."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.collecting import collect_waiting
from flows.pipeline import store_and_report
from tasks.records.parameters import Collect

NAME = "collect"
DEFAULTS = Collect()


@flow(name=NAME, validate_parameters=False)
async def collect(parameters: Collect = DEFAULTS) -> State:
    """Collect the replies of batches, and end the runs that have all of their replies."""
    return await collect_waiting(parameters, store_and_report)
