"""What does not go together with a batch, refused before anything is read."""

from tasks.errors import InputError
from tasks.ledger.bucket import Bucket, RemoteUnavailable
from tasks.ledger.remote import is_remote
from tasks.parameters import Parameters
from tasks.spending.shelves import check_conditional


def check_batch(asked: Parameters) -> None:
    """Refuse a bucket where two processes could take in the same run.

    Raises:
        InputError: with what to do instead.
    """
    if asked.judge.tier != "batch":
        return
    if is_remote(asked.store):
        what, harm = "one process at a time takes in what waits for a batch, kept apart", "two could take it in at once"
        try:
            check_conditional(Bucket(asked.store), what, harm, "Give a folder as the store, leave judge.tier out")
        except RemoteUnavailable as error:
            raise InputError(str(error)) from error
