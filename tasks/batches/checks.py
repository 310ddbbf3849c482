"""What does not go together with a batch, refused before anything is read."""

import os

from tasks.errors import InputError
from tasks.ledger.remote import is_remote
from tasks.parameters import Parameters
from tasks.spending.reservations import VARIABLE


def check_batch(asked: Parameters) -> None:
    """Refuse a store where nothing can wait, a budget, and an evaluation that is to be split.

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
    if asked.budget or os.environ.get(VARIABLE):
        what = "budget is set" if asked.budget else f"{VARIABLE} is set here"
        raise InputError(
            f"judge.tier is 'batch', and {what}: what the calls of a batch cost is known when all are bought. Leave "
            "out one of the two"
        )
    if asked.shards > 1:
        raise InputError("judge.tier is 'batch', and shards is set: one run hands in all files. Leave shards out")
