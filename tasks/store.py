"""Store step: land a run, and all others that the history lacks, in the history."""

import asyncio
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.errors import InputError


@task(name="store", cache_policy=NO_CACHE)
async def store(folder: str, run_id: str) -> None:
    """Land all runs that the history lacks, finished or not.

    Raises:
        InputError: the ledger of this run is damaged, or the history cannot be written or was made by another version.
    """
    from tasks.history.landing import land  # DuckDB, which is not needed before the end of a run

    landed = await asyncio.to_thread(land, Path(folder))
    if sentence := landed.sentence_about(run_id):
        raise InputError(sentence)


async def store_or_warn(folder: str, run_id: str) -> list[str]:
    """Land a run as `store` does; return a warning if that fails. Nothing is lost: the ledger has everything."""
    try:
        await store(folder, run_id)
    except (InputError, OSError) as error:
        told = "" if "`jury store " in str(error) else "; `jury store sync` loads it into the history"
        return [f"{error}. The run is safe in its ledger{told}."]
    return []
