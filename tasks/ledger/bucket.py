"""A remote place for whole objects: a bucket, or whatever else fsspec reaches.

Owns the URL, the file system behind it, and its failures, which all become `RemoteUnavailable`. Names of objects are
relative to the URL; which objects there are is up to `remote`. fsspec is imported only when a place is opened.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any, Literal, Protocol, cast
from uuid import uuid4

from tasks.errors import InputError
from tasks.store_files import LONGEST_PART, fits, is_store_name, read_file, remove_file, write_file
from tasks.text import one_line

_SHOWN = 80
"""Characters of an object's name in a message."""
MOST_OBJECT = 2**27
"""Bytes of an object that is fetched whole: a part of a ledger has 8 MB and at most a row more."""
BATCH_OBJECTS = 256
"""At most so many objects are got or put at once."""

_OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"auto_mkdir": True},
    # More connections than botocore's ten, for thousands of small objects; and few attempts, since whatever could not
    # be sent now is sent with the next chunk or by the next sync.
    "s3": {"config_kwargs": {"max_pool_connections": 32, "retries": {"mode": "standard", "total_max_attempts": 3}}},
}
_URL = re.compile(r"[a-z][a-z0-9+.-]+://[^/].*|file:///.+")
_SECRET = re.compile(r":[^:]*:.*@|:/[^/].*:.*@|[?#]")


class RemoteUnavailable(OSError):
    """The remote store cannot be reached, or refuses. Nothing local is lost, and asking again later may help."""


class _Files(Protocol):
    """What is used of fsspec's file systems, which have no types of their own."""

    def invalidate_cache(self) -> None: ...
    def ls(self, path: str, detail: Literal[False]) -> list[str]: ...
    def find(self, path: str, detail: Literal[True]) -> dict[str, dict[str, Any]]: ...
    def pipe(self, path: dict[str, bytes], **options: str) -> None: ...
    def mv(self, path: str, name: str, /) -> None: ...
    def rm(self, path: list[str]) -> None: ...

    cat: Callable[..., dict[str, bytes | Exception]]


def checked_url(store: str) -> str:
    """The URL without a slash at its end.

    Raises:
        InputError: it is malformed, or holds credentials or a query.
    """
    url = store.rstrip("/")
    if _SECRET.search(url):
        # The URL is not repeated: what it holds would end in logs.
        raise InputError(
            "The store's URL holds a password or a query; it must be bare, such as s3://bucket/prefix, and credentials "
            "belong into the worker's environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)"
        )
    if not _URL.fullmatch(url):
        raise InputError(f"The store {store!r} is no URL of a remote store, such as s3://bucket/prefix")
    return url


class Bucket:
    """The objects below one URL. May be used from any thread.

    Raises:
        InputError: the URL is malformed, its scheme is unknown, or the package for it is missing.
        RemoteUnavailable: from every method, when the network or the other side fails.
    """

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self._scheme = self.url.partition(":")[0]
        self._files, self._root = _open(self.url, self._scheme)
        self.skipped = set[str]()
        """Names of objects that were left out so far: no file here can be called so, or none of ours is so large."""

    def folders(self, name: str) -> list[str]:
        """Names of the folders and objects right below a folder; none where it is absent."""
        with self._reaching(), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            found = [path.rstrip("/").rpartition("/")[2] for path in self._files.ls(self._path(name), detail=False)]
            return [each for each in found if fits(each)]
        return []

    def sizes(self, name: str, most: float = inf) -> dict[str, int]:
        """Names of all objects in a folder and below it, with their sizes in bytes.

        Args:
            most: bytes above which an object is left out.
        """
        with self._reaching():
            self._files.invalidate_cache()
            found = self._files.find(self._path(name), detail=True)
        named = {path.removeprefix(self._path("")): int(about["size"]) for path, about in found.items()}
        # A browser of buckets makes empty objects that end in a slash, to show them as folders.
        fitting = {each: size for each, size in named.items() if fits(each) and size <= most}
        self.skipped |= {each for each in named if each not in fitting and not each.endswith("/")}
        return fitting

    @property
    def skipped_words(self) -> str:
        """A sentence about the objects that were left out; "": there are none."""
        if not self.skipped:
            return ""
        first = one_line(min(self.skipped), _SHOWN)
        return (
            f"{self.url}: skipped {len(self.skipped):,} with names that no file here can have (a part above "
            f"{LONGEST_PART} bytes, empty, or leading elsewhere), or of more than {MOST_OBJECT:,} bytes: {first}"
        )

    def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """These objects, fetched side by side; without those that are not there."""
        paths = {self._path(name): name for name in names}
        found: dict[str, bytes] = {}
        with self._reaching():
            for path, data in (self._files.cat(list(paths), on_error="return") if paths else {}).items():
                if isinstance(data, bytes):
                    found[paths[path]] = data
                elif not isinstance(data, FileNotFoundError):
                    raise data
        return found

    def put(self, objects: Mapping[str, bytes], content_type: str = "") -> None:
        """Write these objects side by side; nobody sees one that is half written.

        Args:
            content_type: what they are for who shows them from the bucket; empty: nobody does.
        """
        paths = {self._path(name): data for name, data in objects.items()}
        with self._reaching():
            if self._scheme != "file":
                self._files.pipe(paths, **self._described(content_type))
                return
            for path, data in paths.items():  # a folder, other than an object store, shows what is half written
                draft = f"{path}.{uuid4().hex}.draft"
                self._files.pipe({draft: data})
                self._files.mv(draft, path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove these objects, which are there."""
        with self._reaching():
            for some in slices(names):
                self._files.rm([self._path(name) for name in some])

    def _described(self, content_type: str) -> dict[str, str]:
        # Other file systems have other words for it, and guess it from the name.
        return {"ContentType": content_type} if content_type and self._scheme in ("s3", "s3a") else {}

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _reaching(self) -> Generator[None]:
        try:
            yield
        except Exception as error:  # every file system has errors of its own
            words = " ".join(str(error).split())[:300] or type(error).__name__
            raise RemoteUnavailable(f"The store {self.url} cannot be used now: {words}") from error


def _open(url: str, scheme: str) -> tuple[_Files, str]:
    try:
        from fsspec.core import url_to_fs  # pyright: ignore

        files, root = cast("tuple[_Files, str]", url_to_fs(url, **_OPTIONS.get(scheme, {})))
    except ImportError as error:
        cure = ": pip install -e '.[s3]', in the folder of Image Jury" if scheme in ("s3", "s3a") else ""
        raise InputError(f"The store {url} needs a package that is not installed ({error}){cure}") from error
    except ValueError as error:
        raise InputError(f"The store {url} cannot be opened: {error}") from error
    return files, root.rstrip("/")


def slices(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut names into as many as are got or put at once."""
    return (names[first : first + BATCH_OBJECTS] for first in range(0, len(names), BATCH_OBJECTS))


def fetch_folder(bucket: Bucket, store: Path, name: str) -> None:
    """Bring the files below a folder that the local cache lacks, and those that lost rows on another machine.

    Such a file is written once; where one was forgotten, an empty object stays in the bucket.

    Raises:
        RemoteUnavailable: the network or the store fails.
    """
    there = {each: size for each, size in bucket.sizes(name, MOST_OBJECT).items() if is_store_name(each)}
    for each, size in there.items():
        if not size:  # it was forgotten on another machine, and is not to be sent again
            remove_file(store, each)
    lacking = [each for each, size in there.items() if size and _size(store / each) != size]
    for names in _batches(lacking):
        for each, data in bucket.get(names).items():
            write_file(store, each, data)


def send_folder(bucket: Bucket, store: Path, name: str) -> None:
    """Send the files below a folder that the bucket lacks.

    Raises:
        InputError: a link leads out of the store to one.
        RemoteUnavailable: the network or the store fails.
    """
    there = bucket.sizes(name)
    files = [path.relative_to(store).as_posix() for path in (store / name).rglob("*") if path.is_file()]
    for names in _batches([each for each in files if is_store_name(each) and each not in there]):
        bucket.put({each: read_file(store, each) for each in names})


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """What lies deepest goes first: where the file is that tells of others, they are."""
    for _, level in groupby(sorted(names, key=_depth, reverse=True), _depth):
        yield from slices(list(level))


def _depth(name: str) -> int:
    return name.count("/")
