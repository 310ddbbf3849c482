"""Removal and rewriting of a store's files, by names that the store itself writes, without following links."""

import errno
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tasks.errors import InputError
from tasks.files import private_folder, read_regular, real_place

LONGEST_PART = 200
"""Maximum bytes of a folder's or a file's name. File systems allow 255; a draft's name takes 40 of them."""
MOST_BYTES = 2**28
"""Maximum bytes of a file that is read whole."""

_ID, _SHA256 = r"\w[\w.-]*", "[0-9a-f]{64}"
_FILES = (
    rf"ledger/{_ID}/((run|end|sent|removed)\.json|(judgments|outcomes|batches)\.jsonl|fetched\.txt)",
    rf"batches/{_ID}/{_ID}",
    rf"pictures/({_SHA256}\.jpg|waiting/{_SHA256}|removed\.json)|pictures\.txt",
    rf"pages/({_ID}\.html|\.served\.json)",
    rf"labels/{_ID}/(labels\.jsonl|label\.json)|labels-removed/{_ID}/{_SHA256}\.json",
    r"label-pages/[0-9a-f]{16}\.json",
    rf"anchors/{_ID}/{_ID}/(anchors\.jsonl|pictures/{_SHA256})",
    rf"bridges/{_ID}/bridge\.jsonl|calls/{_ID}/calls\.jsonl",
    rf"passports/{_ID}/(passport\.json|replies\.jsonl|card\.json)",
    rf"alarms/(restart|told)-{_ID}\.json",
    r"jury\.log|forgetting\.json",
)
_FILE = re.compile("|".join(f"(?:{each})" for each in _FILES))
_FOLDER = re.compile(rf"(?:ledger|batches|labels|bridges|calls|passports)/{_ID}|anchors/{_ID}/{_ID}(?:/pictures)?")
_DRAFT = re.compile(rf"\.(?P<name>{_ID})\.[0-9a-f]{{32}}\.draft")
_SHOWN = 80


def is_store_name(name: str) -> bool:
    """Return whether a store writes files of this name, relative to its folder."""
    return _FILE.fullmatch(name) is not None and fits(name)


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
    """Remove half-written files of killed processes in all folders of a store, without following links."""
    for _, _, files, folder in os.fwalk(store):
        for file in files:
            if _DRAFT.fullmatch(file):
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
        for place, folder in _places(store, folders):
            if make:
                _make(opened, folder)
            with _refusing_links(place):
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened, file
    finally:
        os.close(opened)


def _places(store: Path, folders: Sequence[str]) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        store /= folder
        yield store, folder


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
