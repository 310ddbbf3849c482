"""Load step: check the whole dataset before the first call; texts and pictures are not kept in memory."""

import asyncio

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Cancelled

from tasks.datasets.dataset import Dataset
from tasks.protocols.loading import dataset_of
from tasks.records.parameters import Parameters


@task(name="load", cache_policy=NO_CACHE)
async def load(flow: str, parameters: Parameters) -> Dataset | State:
    """Return all samples that the filters leave; or Cancelled if the run ends first.

    `jury run` has read the dataset before its server answered: then this takes it over (`loading.load_ahead`).

    Raises:
        InputError: all problems of the dataset, by file and row.
    """
    try:
        return await asyncio.to_thread(dataset_of, flow, parameters)
    except asyncio.CancelledError:
        return Cancelled(message="The run ended before its dataset was checked.")
