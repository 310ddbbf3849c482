"""Judge method diagrams: the Model's figure against the Human figure of the same paper."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.records.parameters import PairwiseParameters

NAME = "diagram"
DEFAULTS = PairwiseParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def diagram(parameters: PairwiseParameters = DEFAULTS) -> State:
    """Judge Model diagrams against Human diagrams on four dimensions."""
    return await evaluate(NAME, parameters)
