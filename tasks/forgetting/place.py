"""A store from which something goes, and the bucket behind it, if it is the local cache of a remote one.

Owns the order: the bucket first, for what is still here tells, after a kill, what is to go there; and that nothing is
changed where people only ask what would go.
"""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from tasks.files import private_folder, write_whole
from tasks.ledger.bucket import BATCH_OBJECTS, Bucket


class Place:
    """A store, its bucket, and whether anything is to be changed there.

    Raises:
        OSError: from every method: the disk, or the remote store (RemoteUnavailable), fails.
    """

    def __init__(self, store: Path, bucket: Bucket | None = None, is_dry: bool = False) -> None:
        self.store, self.bucket, self.is_dry = store, bucket, is_dry

    @cached_property
    def in_bucket(self) -> dict[str, int]:
        """Name of each object of the store -> its bytes."""
        return self.bucket.sizes("") if self.bucket else {}

    def remove(self, names: Iterable[str]) -> None:
        """Remove these files, as far as they are there."""
        if self.is_dry:
            return
        wanted = [*names]
        there = [name for name in wanted if name in self.in_bucket]
        for first in range(0, len(there), BATCH_OBJECTS):
            if self.bucket:
                self.bucket.remove(there[first : first + BATCH_OBJECTS])
        for name in there:
            del self.in_bucket[name]
        for name in wanted:
            (self.store / name).unlink(missing_ok=True)

    def remove_folder(self, name: str, last: str = "") -> None:
        """Remove a folder with all that is in it.

        Args:
            last: the file by which the folder is found: it goes after all others.
        """
        if self.is_dry:
            return
        here = {file.relative_to(self.store).as_posix() for file in (self.store / name).rglob("*") if not file.is_dir()}
        there = {each for each in self.in_bucket if each.startswith(f"{name}/")}
        self.remove(sorted(here | there, key=lambda each: (each == f"{name}/{last}", each)))
        folders = [folder for folder in (self.store / name).rglob("*") if folder.is_dir()]
        for folder in sorted(folders, reverse=True):
            folder.rmdir()
        if (self.store / name).is_dir():
            (self.store / name).rmdir()

    def write(self, name: str, data: bytes, always: bool = False) -> None:
        """Write a file whole in place of what was there; in the bucket where that has it, or always."""
        if self.is_dry:
            return
        if self.bucket and (always or name in self.in_bucket):
            self.bucket.put({name: data})
        private_folder((self.store / name).parent)
        write_whole(self.store / name, data, private=True)

    def rewrite_in_bucket(self, name: str, data: bytes) -> None:
        """Put an object of the bucket anew, and leave the store as it is."""
        if self.bucket and not self.is_dry:
            self.bucket.put({name: data})
