"""Judge statistical plots: the Model's figure against the Human figure of the same paper."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.records.parameters import PairwiseParameters

NAME = "plot"
DEFAULTS = PairwiseParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def plot(parameters: PairwiseParameters = DEFAULTS) -> State:
    """Judge Model plots against Human plots on four dimensions."""
    return await evaluate(NAME, parameters)
