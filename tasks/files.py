"""Files that are written whole, locks, and safe reading of strangers' files, which may be links or pipes.

A store is for its user alone, unless the user shares its folder with a group.
"""

import errno
import math
import os
import random
import stat
import sys
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from io import BytesIO, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from tasks.errors import InputError


def write_whole(path: Path, data: bytes, private: bool = False) -> None:
    """Write a file whole, or leave nothing of it behind; a private one as `keep_private` does."""
    with drafted(path) as draft:
        draft.write_bytes(data)
        if private:
            keep_private(draft)


@contextmanager
def drafted(path: Path) -> Generator[Path]:
    """Yield a hidden name beside a file's path, renamed to the path on success; an OSError names the file."""
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
    """Make a folder and its missing parents, for this user alone (or also the group, as in `keep_private`)."""
    if place.is_dir():
        return
    private_folder(place.parent)
    try:
        place.mkdir(mode=stat.S_IRWXU)
    except FileExistsError:
        if not place.is_dir():  # another process made it meanwhile, or it is a file
            raise
    else:
        keep_private(place)


def keep_private(place: Path) -> None:
    """Make a file or folder private to this user, or also to the group to which its parent folder was given."""
    mode = stat.S_IRWXU if place.is_dir() else stat.S_IRUSR | stat.S_IWUSR
    shared = place.parent.stat().st_mode & stat.S_ISGID
    place.chmod(mode | mode >> 3 | (stat.S_ISGID if place.is_dir() else 0) if shared else mode)


@contextmanager
def alone(place: Path, seconds: float | None = None) -> Generator[None]:
    """Lock a file or folder against other processes of this machine; wait at most this time (None: forever).

    Raises:
        ImportError: on Windows, which has no such locks.
        TimeoutError: another process held the lock for so long.
    """
    import fcntl

    # If a network file system converts this lock to its own kind, a file must be open for writing; folders cannot be.
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
    """Lock a file unless another process of this machine has locked it; yield whether it succeeded. Not on Windows."""
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
    """Show other processes, by `alone_at_once`, that this one uses a file until the file closes or the process ends."""
    with suppress(ImportError):  # Windows has no such locks
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_SH)


_IS_LINK = "{}: refused: it is a link; allowed is a file in its place"


class LeadsOut(InputError):
    """File whose links currently lead outside of the allowed places."""


def open_regular(path: Path, buffering: int = -1, within: Collection[str] = ()) -> BinaryIO:
    """Open a file for reading that a stranger may have put there, or may replace meanwhile.

    Args:
        within: files and folders, as `real_place` returns them: the opened file must be one of them or lie in one, even
            through links. Empty: the file itself must not be a link.

    Raises:
        FileNotFoundError: there is none.
        LeadsOut: it is outside of `within`, or a link that may lead anywhere.
        InputError: it is not a regular file; reading from a pipe, for example, may never end.
    """
    if not within and path.is_symlink():
        raise LeadsOut(_IS_LINK.format(path))

    def opener(name: str, flags: int) -> int:
        return _regular(name, flags, within)

    return open(path, "rb", buffering, opener=opener)


def _regular(name: str, flags: int, within: Collection[str]) -> int:
    # Open without waiting, since a pipe may never get a writer.
    flags |= 0 if within else getattr(os, "O_NOFOLLOW", 0)
    try:
        opened = _open_at_once(name, flags)
    except OSError as error:
        if not within and error.errno == errno.ELOOP:
            raise LeadsOut(_IS_LINK.format(name)) from error  # it became a link just now
        raise
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise InputError(f"{name}: refused: it is no regular file")
        if within:
            _check_within(name, _opened_place(opened, name), within)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _open_at_once(name: str, flags: int) -> int:
    try:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    except BlockingIOError:
        if not stat.S_ISREG(Path(name).stat().st_mode):
            raise
        return os.open(name, flags)  # another process, such as a file server, has a lease on the file: it gives way


def _check_within(name: str, real: str, within: Collection[str]) -> None:
    if not any(Path(real).is_relative_to(place) for place in within):
        raise LeadsOut(f"{name}: refused: it leads to {real}, outside of {' and '.join(within)}")


def real_place(path: Path) -> str:
    """Return the path of a file or folder behind all links; for a missing one, the path that it would have."""
    try:
        opened = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return str(path.resolve())
    try:
        return _opened_place(opened, str(path))
    finally:
        os.close(opened)


def _opened_place(opened: int, name: str) -> str:
    """Return the path of an open file, from the system: its name may lead elsewhere by now."""
    if sys.platform == "linux":
        place = str(Path(f"/proc/self/fd/{opened}").readlink())
        return place if os.fstat(opened).st_nlink else place.removesuffix(" (deleted)")  # it was replaced just now
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(opened, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return str(Path(name).resolve())  # on Windows, users lack the permission to make links


def read_regular(path: Path, most: int, within: Collection[str] = ()) -> bytes:
    """Read a file that a stranger may have put there; raise InputError if it has more than `most` bytes."""
    with open_regular(path, within=within) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""  # read() allocates this many bytes first
    if max(size, len(data)) > most:
        raise InputError(f"{path}: refused: it has more than {most:,} bytes")
    return data


def read_regular_text(path: Path, most: int, within: Collection[str] = ()) -> str:
    """Read a UTF-8 file as `read_regular` does; line breaks become `\\n`, and a byte order mark is left out."""
    return TextIOWrapper(BytesIO(read_regular(path, most, within)), encoding="utf-8-sig").read()
