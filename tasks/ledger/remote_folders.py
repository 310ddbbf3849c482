"""Folders of whole files that a bucket and its local cache share: each file is written once and never changed.

Which folders those are is for their owners; they are no ledgers, which grow.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tasks.files import private_folder, write_whole
from tasks.ledger.bucket import BATCH_OBJECTS, Bucket

_NAME = re.compile(r"(?:\w[\w.-]*/)+\w[\w.-]*")
"""Of a file: nothing that leads out of the folder, and nothing hidden."""


def fetch_folder(bucket: Bucket, store: Path, name: str) -> None:
    """Bring the files below a folder that the local cache lacks.

    Raises:
        RemoteUnavailable: the network or the store fails.
    """
    lacking = [each for each in bucket.sizes(name) if _NAME.fullmatch(each) and not (store / each).exists()]
    for names in _batches(lacking):
        for each, data in bucket.get(names).items():
            private_folder((store / each).parent)
            write_whole(store / each, data)


def send_folder(bucket: Bucket, store: Path, name: str) -> None:
    """Send the files below a folder that the bucket lacks.

    Raises:
        RemoteUnavailable: the network or the store fails.
    """
    there = bucket.sizes(name)
    files = [path.relative_to(store).as_posix() for path in (store / name).rglob("*") if path.is_file()]
    for names in _batches([each for each in files if _NAME.fullmatch(each) and each not in there]):
        bucket.put({each: (store / each).read_bytes() for each in names})


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """What lies deepest goes first: where the file is that tells of others, they are."""
    for _, level in groupby(sorted(names, key=_depth, reverse=True), _depth):
        deep = list(level)
        yield from (deep[first : first + BATCH_OBJECTS] for first in range(0, len(deep), BATCH_OBJECTS))


def _depth(name: str) -> int:
    return name.count("/")
