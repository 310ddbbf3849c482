"""The shards of an evaluation, shown as one: once all of them have ended, or while some wait for their batches.

Owns how an evaluation is put together on this machine, from whichever machines its shards were judged on.
"""

import asyncio
from datetime import datetime, timedelta

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.runtime.prefect_run import WAITING, is_scheduled
from flows.runtime.sending import share_nights
from flows.runtime.session import unchanged_sentences
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.report import report

CLOCKS = timedelta(hours=1)
"""Clocks of machines that work on one evaluation differ by less."""


def waiting_evaluation(evaluation: str, waits: int, shards: int, said: list[str]) -> State:
    """The state of an evaluation of which so many shards wait for their batches."""
    told = (
        f"{waits} of {shards} shards of evaluation {evaluation} wait for their replies. `jury collect` takes them in, "
        "and reports the evaluation with the last of them."
    )
    return Completed(name=WAITING, message=told, data={"run_id": evaluation, "warnings": said, "waits": told})


async def put_together(evaluation: str, store: str, began: datetime, said: list[str], shown_as: str) -> State:
    """Show the shards of an evaluation as one. They are done, whether or not that can be shown from this machine."""
    from tasks.history.loading import sync  # DuckDB, which a run alone does not need here

    folder = local_cache(store)
    try:
        if is_remote(store):
            await asyncio.to_thread(Remote(store, folder).fetch, began - CLOCKS)
        await asyncio.to_thread(sync, folder)
        end = read_evaluation(folder, evaluation).end
        warnings = [
            *said,
            *(end.warnings if end else ()),
            *await unchanged_sentences(folder, evaluation, is_scheduled()),
        ]
        shared = Remote(store, folder) if is_remote(store) and is_scheduled() else None
        warnings += await share_nights(shared)
        message = await report(store, evaluation, warnings, is_scheduled(), shown_as)
        await share_nights(shared)  # what was told travels, too
    except Exception as error:
        get_run_logger().warning("The shards could not be put together", exc_info=error)
        message = f"All shards of {evaluation} are done, but cannot be put together here: {error}"
        advice = f"{message}. `jury sync` where their store can be reached does it."
        return Completed(message=message, data={"run_id": "", "warnings": [advice]})
    return Completed(message=message, data={"run_id": evaluation, "warnings": warnings})
