"""Judge whether images show the one or two objects of their prompts (GenEval's tags single_object and two_object)."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.records.parameters import RubricParameters

NAME = "object"
DEFAULTS = RubricParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def object(parameters: RubricParameters = DEFAULTS) -> State:
    """Judge whether images show the one or two objects of their prompts, whole and easy to see."""
    return await evaluate(NAME, parameters)
