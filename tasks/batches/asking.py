"""What a run waits for, asked of its endpoint: the judge as the run had it, and everything before replies are read."""

from collections.abc import Mapping
from typing import Any

from tasks.batches.handing_in import submit
from tasks.batches.log import Log, waiting_runs
from tasks.batches.progress import progress_of
from tasks.batches.taking_out import fetch
from tasks.endpoint.api_keys import Secret
from tasks.endpoint.batches import Batches
from tasks.errors import BatchesUnavailable
from tasks.ledger.reading import folder, read_start
from tasks.ledger.remote import local_cache, remote_of
from tasks.parameters import OF_SHARDS, Parameters, at_store, parameters_of


def asked_of(log: Log) -> Parameters:
    """The parameters that a run was begun with, in the store where it is."""
    start = read_start(log.run)
    return parameters_of(start.flow).model_validate({**start.parameters, "store": log.place, "reuse_hours": 0})


def asking(log: Log, secret: Secret) -> Batches:
    """The files and batches of the run's endpoint."""
    return Batches(asked_of(log).judge, secret)


def waiting_evaluation(flow: str, asked: Parameters) -> str:
    """The evaluation that was asked for the very same, in shards of which some wait; empty: there is none."""
    store = at_store(asked).store
    cache, remote = local_cache(store), remote_of(store)
    for run_id in waiting_runs(cache, remote):
        if remote:
            remote.fetch_run(run_id)
        if not (run := folder(cache, run_id)).exists():
            continue
        start = read_start(run)
        same = (start.flow, start.scheduled, start.shards) == (flow, False, asked.shards)
        if same and _alike(start.parameters, asked.model_dump(mode="json")):
            return start.evaluation_id
    return ""


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    apart = {*OF_SHARDS, "store"}
    return all(one.get(name) == other.get(name) for name in {*one, *other} - apart)


async def looked_after(log: Log, secret: Secret) -> str:
    """Send what is not sent, ask how far it is, and bring here what is ready; what it waits for, empty: nothing.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
        InputError: the run cannot be read.
    """
    if not log.prepared or log.ended:
        return ""
    try:
        async with asking(log, secret) as batches:
            await submit(log, batches)
            if await fetch(log, batches):
                return ""
    except BatchesUnavailable as error:
        again = "`jury collect` tries again, `jury collect --cancel` gives the rest of it up"
        raise BatchesUnavailable(f"Run {log.run_id} still waits: {error}. {again}", error.status) from None
    progress = progress_of(log.work)
    return progress.words if progress else "nothing is known of its batches"
