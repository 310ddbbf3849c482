"""Take in what has come of runs that wait for their batches: on request, and by itself while any run waits."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import store_and_report
from flows.runtime.collecting import collect_waiting
from tasks.parameters import Collect

NAME = "collect"
DEFAULTS = Collect()


@flow(name=NAME, validate_parameters=False)
async def collect(parameters: Collect = DEFAULTS) -> State:
    """Take in the replies of batches, and end the runs that have all of theirs."""
    return await collect_waiting(parameters, store_and_report)
