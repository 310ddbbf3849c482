"""Files written whole, locks, safe reading of strangers' files, and removal of a store's files by their own names."""

import errno
import fcntl
import math
import os
import random
import re
import stat
import sys
import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
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


def new_folder(place: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder with these files for this user alone, across no link.

    Raises:
        InputError: there is something of its name.
    """
    try:
        place.mkdir(mode=stat.S_IRWXU)
    except FileExistsError:
        raise InputError(f"{place} is there already: remove it, or choose another name") from None
    opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, data in files.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=opened), "wb") as file:
                file.write(data)
    finally:
        os.close(opened)


def keep_private(place: Path) -> None:
    """Make a file or folder private to this user, or also to the group to which its parent folder was given."""
    mode = stat.S_IRWXU if place.is_dir() else stat.S_IRUSR | stat.S_IWUSR
    shared = place.parent.stat().st_mode & stat.S_ISGID
    place.chmod(mode | mode >> 3 | (stat.S_ISGID if place.is_dir() else 0) if shared else mode)


@contextmanager
def alone(place: Path, seconds: float | None = None) -> Generator[None]:
    """Lock a file or folder against other processes of this machine; wait at most this time (None: forever).

    Raises:
        TimeoutError: another process held the lock for so long.
    """
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
    """Lock a file unless another process of this machine has locked it; yield whether it succeeded."""
    opened = os.open(place, os.O_RDWR)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(opened)


def is_locked(file: Path) -> bool:
    """Return whether a living process has locked a file."""
    try:
        with file.open() as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def in_use(file: RawIOBase) -> None:
    """Show other processes, by `is_locked`, that this one uses a file until the file closes or the process ends."""
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)


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
        real = _opened_place(opened) if within else ""
        if within and not any(Path(real).is_relative_to(place) for place in within):
            raise LeadsOut(f"{name}: refused: it leads to {real}, outside of {' and '.join(within)}")
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


def real_place(path: Path) -> str:
    """Return the path of a file or folder behind all links; for a missing one, the path that it would have."""
    try:
        opened = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return str(path.resolve())
    try:
        return _opened_place(opened)
    finally:
        os.close(opened)


def _opened_place(opened: int) -> str:
    """Return the path of an open file, from the system: its name may lead elsewhere by now."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(opened, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    place = str(Path(f"/proc/self/fd/{opened}").readlink())
    return place if os.fstat(opened).st_nlink else place.removesuffix(" (deleted)")  # it was replaced just now


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


LONGEST_PART = 200
"""Maximum bytes of a folder's or a file's name. File systems allow 255; a draft's name takes 40 of them."""
MOST_BYTES = 2**28
"""Maximum bytes of a file that is read whole."""

_ID, _SHA256 = r"\w[\w.-]*", "[0-9a-f]{64}"
_FILES = (
    rf"ledger/{_ID}/((run|end|removed)\.json|(judgments|outcomes|batches)\.jsonl|(fetched|progress)\.txt)",
    rf"batches/{_ID}/{_ID}",
    rf"pictures/({_SHA256}\.jpg|waiting/{_SHA256})",
    rf"pages/({_ID}\.html|\.served\.json|{_ID}\.files/([0-9a-f]{{16}}|{_SHA256})\.jpg)",
    rf"labels/{_ID}/(labels\.jsonl|label\.json)|labels-removed/{_ID}/{_SHA256}\.json",
    r"label-pages/[0-9a-f]{16}\.json",
    rf"anchors/{_ID}/{_ID}/(anchors\.jsonl|pictures/{_SHA256})",
    rf"bridges/{_ID}/bridge\.jsonl|calls/{_ID}/calls\.jsonl",
    rf"passports/{_ID}/(card|stopped)\.json",
    rf"alarms/(restart|told)-{_ID}\.json",
    r"jury\.log|forgetting\.json",
)
_FILE = re.compile("|".join(f"(?:{each})" for each in _FILES))
_FOLDER = re.compile(
    rf"(?:ledger|batches|labels|bridges|calls|passports)/{_ID}|anchors/{_ID}/{_ID}(?:/pictures)?|pages/{_ID}\.files"
)
_DRAFT = re.compile(rf"\.(?P<name>{_ID})\.[0-9a-f]{{32}}\.draft")
_DRAFT_FOLDER = re.compile(r"\.[0-9a-f]{32}")
_SHOWN = 80


def is_store_name(name: str) -> bool:
    """Return whether a store writes files of this name, relative to its folder."""
    return _FILE.fullmatch(name) is not None and fits(name)


def is_store_folder(name: str) -> bool:
    """Return whether a store makes a folder of this name that is removed with its files."""
    return _FOLDER.fullmatch(name) is not None and fits(name)


def is_sha256(text: str) -> bool:
    """Return whether a text, possibly a stranger's, has the form of a file's hash, the name of a picture."""
    return re.fullmatch(_SHA256, text) is not None


def fits(name: str) -> bool:
    """Return whether a relative name is possible for a file here: no part is empty, leads elsewhere or is too long."""
    return all(
        part not in ("", ".", "..") and "\0" not in part and len(part.encode("utf-8", "replace")) <= LONGEST_PART
        for part in name.split("/")
    )


def remove_file(store: Path, name: str) -> None:
    """Remove a file of a store if it exists; remove a link in its place, but not the link's target.

    Raises:
        InputError: no store writes this name, or a folder on the way is a link; as for all changes here.
    """
    _check(_FILE, store, name)
    with suppress(FileNotFoundError), _folder_of(store, name) as (folder, file):
        os.unlink(file, dir_fd=folder)


def remove_folder(store: Path, name: str, last: str = "", kept: str = "") -> None:
    """Remove our files in a folder of a store, and the folder unless it contains other files.

    Args:
        last: file that identifies the folder; it is removed after all others.
        kept: file that remains.
    """
    _check(_FOLDER, store, name)
    for file in sorted({*names_in(store, name)} - {kept}, key=lambda each: each == last):
        draft = _DRAFT.fullmatch(file)
        if is_store_name(f"{name}/{draft['name'] if draft else file}"):
            with suppress(FileNotFoundError), _folder_of(store, f"{name}/{file}") as (folder, _):
                os.unlink(file, dir_fd=folder)
        elif _FOLDER.fullmatch(f"{name}/{file}"):
            remove_folder(store, f"{name}/{file}")
    with suppress(FileNotFoundError), _folder_of(store, name) as (above, folder_name):
        try:
            os.rmdir(folder_name, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def write_file(store: Path, name: str, data: bytes) -> None:
    """Write a file of a store whole, in place of an existing one; an OSError leaves nothing of the new file."""
    rewrite_file(store, name, [data])


def rewrite_file(store: Path, name: str, pieces: Iterable[bytes]) -> None:
    """Write a file of a store whole, piece after piece, as `write_file` does."""
    _check(_FILE, store, name)
    with _folder_of(store, name, make=True) as (folder, file):
        draft = f".{file}.{uuid4().hex}.draft"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as opened:
                opened.writelines(pieces)
                os.fchmod(opened.fileno(), _mode(folder, stat.S_IRUSR | stat.S_IWUSR))
            os.rename(draft, file, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            error.filename = str(store / name)
            raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)


def write_at(store: Path, name: str, start: int, data: bytes) -> None:
    """Write a part of a store's file at its position; create the file if there is none."""
    _check(_FILE, store, name)
    with _folder_of(store, name, make=True) as (folder, file):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with _refusing_links(store / name), os.fdopen(os.open(file, flags, 0o600, dir_fd=folder), "r+b") as opened:
            os.fchmod(opened.fileno(), _mode(folder, stat.S_IRUSR | stat.S_IWUSR))
            opened.seek(start)
            opened.write(data)


def read_file(store: Path, name: str) -> bytes:
    """Read a file of a store, possibly a stranger's.

    Raises:
        FileNotFoundError: there is none.
        InputError: it is not a regular file, a link to it leads out of the store, or it has more than `MOST_BYTES`.
    """
    return read_regular(store / name, MOST_BYTES, within=(real_place(store),))


def names_in(store: Path, name: str) -> Sequence[str]:
    """Return the sorted names in a folder of a store; none if the folder is absent."""
    with suppress(FileNotFoundError), _folder_of(store, f"{name}/.") as (folder, _):
        return sorted(entry.name for entry in os.scandir(folder))
    return []


def remove_drafts(store: Path) -> None:
    """Remove half-written files of killed processes in all folders of a store, without following links.

    In a folder that was not completed, such as one of anchors, all files go.
    """
    for place, _, files, folder in os.fwalk(store):
        is_draft = any(_DRAFT_FOLDER.fullmatch(part) for part in Path(place).relative_to(store).parts)
        for file in files:
            if is_draft or _DRAFT.fullmatch(file):
                with suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=folder)


def _check(known: re.Pattern[str], store: Path, name: str) -> None:
    if not known.fullmatch(name) or not fits(name):
        raise InputError(f"{store}: refused to change {name[:_SHOWN]!r}: no store of Image Jury has such a name")


@contextmanager
def _folder_of(store: Path, name: str, make: bool = False) -> Generator[tuple[int, str]]:
    """Open the folder of a file, part by part from the store's own; yield it with the file's own name."""
    if make:
        private_folder(store)
    *folders, file = name.split("/")
    opened = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            store /= folder
            if make:
                _make(opened, folder)
            with _refusing_links(store):
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened, file
    finally:
        os.close(opened)


@contextmanager
def _refusing_links(place: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise InputError(
            f"{place}: refused: it is a link, or a file in place of a folder; nothing behind it is changed"
        ) from None


def _make(above: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
        if os.fstat(above).st_mode & stat.S_ISGID:
            os.chmod(name, _mode(above, stat.S_IRWXU) | stat.S_ISGID, dir_fd=above)


def _mode(folder: int, mode: int) -> int:
    """Return the mode for an entry of a folder: for its user, or also for the group to which the folder was given."""
    return mode | mode >> 3 if os.fstat(folder).st_mode & stat.S_ISGID else mode
