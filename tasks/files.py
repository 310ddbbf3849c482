"""Files that others see whole or not at all, however many processes write the same one, and who is alone with them."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a hidden name beside its place, and rename it into it; what fails leaves nothing behind."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}.draft")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(place: Path) -> Generator[None]:
    """Wait for a file or a folder until no other process of this machine is alone with it, until the context ends or
    the process does.

    Raises:
        ImportError: on Windows, which has no such locks.
    """
    import fcntl

    # Where a network file system makes this lock one of its own, a file must be open for writing; a folder cannot be.
    opened = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)
