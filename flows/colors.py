"""Judge whether images show objects in the colors of their prompts (GenEval's tags colors and color_attr)."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.records.parameters import RubricParameters

NAME = "colors"
DEFAULTS = RubricParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def colors(parameters: RubricParameters = DEFAULTS) -> State:
    """Judge whether images show objects in the colors of their prompts."""
    return await evaluate(NAME, parameters)
