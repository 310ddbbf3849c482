"""Judge whether images show objects where their prompts put them (GenEval's tag position)."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.records.parameters import RubricParameters

NAME = "position"
DEFAULTS = RubricParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def position(parameters: RubricParameters = DEFAULTS) -> State:
    """Judge whether images show objects where their prompts put them."""
    return await evaluate(NAME, parameters)
