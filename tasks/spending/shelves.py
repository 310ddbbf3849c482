"""Small files of a store that only one run at a time changes: beside a lock in a folder, by conditional puts in a
bucket.

Owns that no change is lost, whoever else changes the same file. What is in the files is for `reservations`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tasks.errors import InputError
from tasks.files import alone, private_folder, read_regular, write_whole
from tasks.ledger.bucket import Bucket, RemoteUnavailable

MOST_BYTES = 2**24
"""Of a file: a run takes about a hundred."""
_PROOF = "budget/conditional-puts.txt"
_INSTEAD = "Unset JURY_BUDGET_MONTH and give each run a budget of its own"
TIMES = 50
"""A change that others forestall so often is given up."""

Edit = Callable[[bytes | None], bytes | None]
"""What is in a file (None: it is absent) -> what is to be in it (None: that). May be asked several times."""


class Shelf(Protocol):
    """A place for such files, named by their paths in the store."""

    def read(self, name: str) -> bytes | None:
        """What is in a file; None: it is absent."""
        ...

    def change(self, name: str, edit: Edit) -> None:
        """Change a file by what is in it, as if nobody else did at the same time."""
        ...


class LocalShelf:
    """In a store on a disk of this machine.

    Raises:
        InputError: from every method, where a file is a link or no regular file: a store may be a stranger's.
        OSError: from every method, where the disk fails.
    """

    def __init__(self, store: Path) -> None:
        self._store = store

    def read(self, name: str) -> bytes | None:
        """What is in a file; None: it is absent."""
        try:
            return read_regular(self._store / name, MOST_BYTES)
        except FileNotFoundError:
            return None

    def change(self, name: str, edit: Edit) -> None:
        """Change a file by what is in it, as if nobody else did at the same time."""
        file = self._store / name
        if file.parent.is_symlink():
            raise InputError(f"{file.parent}: refused: it is a link; allowed is a folder in its place")
        private_folder(file.parent)
        with alone(file.parent):
            data = edit(self.read(name))
            if data is not None:
                write_whole(file, data, private=True)


def check_conditional(bucket: Bucket, what: str, harm: str, instead: str) -> None:
    """Refuse a bucket that puts an object whatever it was.

    Args:
        what: goes by conditional puts.
        harm: may come where they are none.
        instead: what to do, but for keeping the store elsewhere.

    Raises:
        InputError: it does not heed the conditions.
        RemoteUnavailable: the network or the other side fails.
    """
    if not bucket.is_conditional:
        raise InputError(f"{bucket.url}: {what} by conditional puts, which only s3:// has")
    made = [bucket.put_if(_PROOF, b"The second put of this object is refused.\n", None) for _ in range(2)]
    if made[-1]:
        raise InputError(
            f"{bucket.url}: {what} by conditional puts (If-None-Match, If-Match), and this server ignores them: "
            f"{harm}. {instead}, or keep the store where puts are conditional (Amazon S3, Cloudflare R2, MinIO)"
        )


class BucketShelf:
    """In a bucket that puts an object only if it is as it was, which not all that speak S3's language do.

    Args:
        to_change: whether files are to be changed, so that the bucket has to prove that it can; else they are read.

    Raises:
        InputError: this one does not.
        RemoteUnavailable: from every method, when the network or the other side fails.
    """

    def __init__(self, bucket: Bucket, to_change: bool = True) -> None:
        self._bucket = bucket
        if to_change:
            check_conditional(bucket, "runs share a month's budget", "two runs could spend the same money", _INSTEAD)

    def read(self, name: str) -> bytes | None:
        """What is in an object; None: it is absent."""
        found = self._bucket.get_with_version(name)
        return found[0] if found else None

    def change(self, name: str, edit: Edit) -> None:
        """Change an object by what is in it, as if nobody else did at the same time."""
        for _ in range(TIMES):
            found = self._bucket.get_with_version(name)
            data = edit(found[0] if found else None)
            if data is None or self._bucket.put_if(name, data, found[1] if found else None):
                return
        raise RemoteUnavailable(f"{self._bucket.url}/{name} was changed by others {TIMES} times in a row")
