"""The load step: the whole dataset checked before anything is asked, with texts and pictures left where they are."""

import asyncio
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.datasets.dataset import Dataset
from tasks.kinds.loading import load_dataset
from tasks.parameters import Parameters
from tasks.synthetic.samples import DRAWN, drawn_samples


@task(name="load", cache_policy=NO_CACHE)
async def load(flow: str, parameters: Parameters) -> Dataset:
    """All there is to judge, as the filters of `parameters` leave it.

    Raises:
        InputError: everything that is wrong with the dataset, with file and row.
    """
    if parameters.dataset == DRAWN:
        folder = await asyncio.to_thread(drawn_samples, Path(parameters.store) / DRAWN, flow)
        parameters = parameters.model_copy(update={"dataset": str(folder)})
    return await asyncio.to_thread(load_dataset, flow, parameters)
