"""The load step: the whole dataset checked before anything is asked, with texts and pictures left where they are."""

import asyncio

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.datasets.dataset import Dataset
from tasks.kinds.loading import dataset_of
from tasks.parameters import Parameters


@task(name="load", cache_policy=NO_CACHE)
async def load(flow: str, parameters: Parameters) -> Dataset:
    """All there is to judge, as the filters of `parameters` leave it.

    Raises:
        InputError: everything that is wrong with the dataset, with file and row.
    """
    return await asyncio.to_thread(dataset_of, flow, parameters)
