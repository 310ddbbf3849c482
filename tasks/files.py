"""Files that others see whole or not at all, however many processes write the same one, and who is alone with them.

What a store holds is for its user alone, unless that user shares a folder of it with a group.
"""

import os
import stat
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


def private_folder(place: Path) -> None:
    """Make a folder that is for this user alone, and those above it that are missing; what is there stays as it is.

    In a folder that was given to a group (`chmod g+s`) it is for that group, too.
    """
    if place.is_dir():
        return
    private_folder(place.parent)
    try:
        place.mkdir(mode=stat.S_IRWXU)
    except FileExistsError:
        if not place.is_dir():  # made meanwhile by another process, or a file
            raise
    else:
        keep_private(place)


def keep_private(place: Path) -> None:
    """Let a file or folder be read by this user alone, or also by the group that the folder around it was given to."""
    mode = stat.S_IRWXU if place.is_dir() else stat.S_IRUSR | stat.S_IWUSR
    shared = place.parent.stat().st_mode & stat.S_ISGID
    place.chmod(mode | mode >> 3 | (stat.S_ISGID if place.is_dir() else 0) if shared else mode)


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
