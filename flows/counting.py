"""Judge whether images show as many objects as their prompts ask for (GenEval's tag counting)."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.records.parameters import RubricParameters

NAME = "counting"
DEFAULTS = RubricParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def counting(parameters: RubricParameters = DEFAULTS) -> State:
    """Judge whether images show as many objects as their prompts ask for."""
    return await evaluate(NAME, parameters)
