"""Refusal of stores and shards that do not work with a batch, before anything is read."""

from tasks.errors import InputError
from tasks.ledger.remote import is_remote
from tasks.parameters import Parameters
from tasks.spending.prices import BATCH


def check_batch(asked: Parameters) -> None:
    """Raise InputError for a batch if more than one machine could collect its replies."""
    if asked.judge.service_tier != BATCH:
        return
    where = f"the store is {asked.store}" if is_remote(asked.store) else f"shards is {asked.shards}"
    if is_remote(asked.store) or asked.shards > 1:
        raise InputError(
            f"judge.service_tier is 'batch', and {where}: one machine hands a batch in and takes it in again. Give "
            "a folder as the store and no shards, or leave judge.service_tier out, which is the standard price"
        )


def check_folder(store: str) -> None:
    """Raise InputError for a store in a bucket, where no run waits."""
    if is_remote(store):
        raise InputError(f"{store} is no folder: runs wait for batches in a store that is a folder of this machine")
