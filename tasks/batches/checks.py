"""What does not go together with a batch, refused before anything is read."""

from tasks.errors import InputError
from tasks.ledger.remote import is_remote
from tasks.parameters import Parameters


def check_batch(asked: Parameters) -> None:
    """Refuse a store where nothing can wait.

    Raises:
        InputError: with what to do instead.
    """
    if asked.judge.tier != "batch":
        return
    if is_remote(asked.store):
        raise InputError(
            f"judge.tier is 'batch', and the store is {asked.store}: what waits for a batch is kept in a folder, whose "
            "lock keeps two processes from taking it in at once. Give a folder as the store, or leave judge.tier out"
        )
