"""What a run waits for, asked of its endpoint: the judge as the run had it, and everything before replies are read."""

from tasks.batches.handing_in import submit
from tasks.batches.log import Log
from tasks.batches.progress import progress_of
from tasks.batches.taking_out import fetch
from tasks.endpoint.api_keys import Secret
from tasks.endpoint.batches import Batches
from tasks.ledger.reading import read_start
from tasks.parameters import Parameters, parameters_of


def asked_of(log: Log) -> Parameters:
    """The parameters that a run was begun with, in the store where it is."""
    start = read_start(log.run)
    return parameters_of(start.flow).model_validate({**start.parameters, "store": str(log.store), "reuse_hours": 0})


def asking(log: Log, secret: Secret) -> Batches:
    """The files and batches of the run's endpoint."""
    return Batches(asked_of(log).judge, secret)


async def looked_after(log: Log, secret: Secret) -> str:
    """Send what is not sent, ask how far it is, and bring here what is ready; what it waits for, empty: nothing.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
        InputError: the run cannot be read.
    """
    if not log.prepared or log.ended:
        return ""
    async with asking(log, secret) as batches:
        await submit(log, batches)
        if await fetch(log, batches):
            return ""
    progress = progress_of(log.work)
    return progress.words if progress else "nothing is known of its batches"
