"""Files that others see whole or not at all, however many processes write the same one, and who is alone with them;
and files of strangers, which may be no files at all.

What a store holds is for its user alone, unless that user shares a folder of it with a group.
"""

import math
import os
import random
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from tasks.errors import InputError


def write_whole(path: Path, data: bytes, private: bool = False) -> None:
    """Write a file whole, or leave nothing of it behind.

    Args:
        private: it is a store's, and nobody else's to read; see `keep_private`.
    """
    with drafted(path) as draft:
        draft.write_bytes(data)
        if private:
            keep_private(draft)


@contextmanager
def drafted(path: Path) -> Generator[Path]:
    """A hidden name beside a file's place, to write the file under: it is renamed into its place, if all went well.

    Raises:
        OSError: what the writing raised, with the file's own name where it had none: a full disk names no file.
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex}.draft")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
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
def alone(place: Path, seconds: float | None = None) -> Generator[None]:
    """Wait for a file or a folder until no other process of this machine is alone with it, until the context ends or
    the process does.

    Args:
        seconds: the longest wait; None: as long as it takes.

    Raises:
        ImportError: on Windows, which has no such locks.
        TimeoutError: another process was alone with it for so long.
    """
    import fcntl

    # Where a network file system makes this lock one of its own, a file must be open for writing; a folder cannot be.
    opened = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
    try:
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | (0 if seconds is None else fcntl.LOCK_NB))
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"another process was alone with {place} for {seconds:g} seconds") from None
            time.sleep(random.uniform(0.01, 0.05))
        yield
    finally:
        os.close(opened)


@contextmanager
def alone_at_once(place: Path) -> Generator[bool]:
    """Whether no other process of this machine is alone with a file; then this one is, until the context ends.

    Raises:
        ImportError: on Windows, which has no such locks.
    """
    import fcntl

    opened = os.open(place, os.O_RDWR)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(opened)


def in_use(file: RawIOBase) -> None:
    """Let others see, by `alone_at_once`, that this process uses a file, until that is closed or the process ends."""
    with suppress(ImportError):  # Windows has no such locks
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_SH)


def open_regular(path: Path, buffering: int = -1, follow_link: bool = False) -> BinaryIO:
    """Open a file to be read that a stranger may have put there.

    Args:
        follow_link: where a link leads was found to be allowed.

    Raises:
        FileNotFoundError: there is none.
        InputError: it is a link, which may lead anywhere, or no file: one would wait for ever for what is in a pipe.
    """
    if not follow_link and path.is_symlink():
        raise InputError(f"{path}: refused: it is a link; allowed is a file in its place")
    return open(path, "rb", buffering, opener=_regular)


def _regular(path: str, flags: int) -> int:
    # What is no file is opened without waiting for it: who writes into a pipe may never come.
    opened = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InputError(f"{path}: refused: it is no regular file")
    return opened


def read_regular(path: Path, most: int, follow_link: bool = False) -> bytes:
    """What is in a file that a stranger may have put there; one that says that it is larger is not read at all.

    Raises:
        FileNotFoundError: there is none.
        InputError: what `open_regular` raises; or it has more than so many bytes.
    """
    with open_regular(path, follow_link=follow_link) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""  # So many bytes are taken of the memory before it is read.
    if max(size, len(data)) > most:
        raise InputError(f"{path}: refused: it has more than {most:,} bytes")
    return data
