"""Judge whether pictures show the facts of a checklist."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.pipeline import evaluate
from tasks.protocols.checklist.parameters import ChecklistParameters

NAME = "facts"
DEFAULTS = ChecklistParameters()


@flow(name=NAME, validate_parameters=False)  # `evaluate` validates, with the deployment's values
async def facts(parameters: ChecklistParameters = DEFAULTS) -> State:
    """Judge whether pictures show the facts of a checklist: questions with known answers."""
    return await evaluate(NAME, parameters)
