"""The store step: a run loaded from its ledger into the history, tried again while the history is in use."""

import asyncio
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from tasks.errors import HistoryLocked


def _worth_retrying(_task: object, _task_run: object, state: State) -> bool:
    return isinstance(state.data, HistoryLocked)


@task(
    name="store",
    cache_policy=NO_CACHE,
    retries=3,
    retry_delay_seconds=[1, 3, 6],
    retry_condition_fn=_worth_retrying,
    retry_jitter_factor=0.5,
)
async def store(folder: str, run_id: str) -> None:
    """Load one run, finished or not.

    Args:
        folder: of the store.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: the ledger is damaged, or the history was made by another version.
    """
    from tasks.history.loading import store_run  # DuckDB, which is not needed before the end of a run

    await asyncio.to_thread(store_run, Path(folder), run_id)
