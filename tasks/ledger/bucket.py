"""Remote place for whole objects, such as a bucket, and folders of files that are shared through it."""

import asyncio
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from math import inf
from pathlib import PurePosixPath
from typing import Any, TypeVar, cast
from uuid import uuid4

from tasks.errors import InputError
from tasks.files import fits

T = TypeVar("T")
MOST_OBJECT = 2**27
"""Maximum bytes of an object that is fetched whole: a part of a ledger has 8 MB and at most one row more."""
BATCH_OBJECTS = 256
"""Maximum number of objects that are read or written at once."""

_OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"auto_mkdir": True},
    # More connections than botocore's ten, for thousands of small objects. Few attempts, since the next chunk or the
    # next `jury store sync` sends the failed objects again.
    "s3": {"config_kwargs": {"max_pool_connections": 32, "retries": {"mode": "standard", "total_max_attempts": 3}}},
}
_URL = re.compile(r"[a-z][a-z0-9+.-]+://[^/].*|file:///.+")
_SECRET = re.compile(r":[^:]*:.*@|:/[^/].*:.*@|[?#]")


class RemoteUnavailable(OSError):
    """Failure to reach the remote store, or its refusal. Nothing local is lost, and a later retry may help."""


def checked_url(store: str) -> str:
    """Return the URL without a slash at its end.

    Raises:
        InputError: it is malformed, or contains credentials or a query.
    """
    url = store.rstrip("/")
    if _SECRET.search(url):
        # The message omits the URL, whose secrets would end up in logs.
        raise InputError(
            "The store's URL holds a password or a query; it must be bare, such as s3://bucket/prefix, and credentials "
            "belong into the worker's environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)"
        )
    if not _URL.fullmatch(url):
        raise InputError(f"The store {store!r} is no URL of a remote store, such as s3://bucket/prefix")
    return url


class Bucket:
    """Objects below one URL. Can be used from any thread.

    Raises:
        InputError: the URL is malformed, its scheme is unknown, or the package for it is missing.
        RemoteUnavailable: from every method, if the network or the other side fails.
    """

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self._scheme = self.url.partition(":")[0]
        self._is_s3 = self._scheme in ("s3", "s3a")
        self._files, self._root = _open(self.url, self._scheme)
        self.skipped = set[str]()
        """Names of objects that no machine of ours has sent: no file here can have the name, or they are too large."""

    def sizes(self, name: str, most: float = inf) -> dict[str, int]:
        """Return the names of all objects in a folder and below it, with their sizes in bytes.

        Args:
            most: bytes above which an object is skipped.
        """
        with self._reaching():
            self._files.invalidate_cache()
            # Told a prefix, s3fs does not ask twice more about a folder that it finds empty, as most are.
            below = {"path": self._root, "prefix": f"{name}/"} if self._is_s3 and name else {"path": self._path(name)}
            found: dict[str, dict[str, Any]] = self._files.find(**below, detail=True)
        named = {path.removeprefix(self._path("")): int(about["size"]) for path, about in found.items()}
        # Bucket browsers create empty objects whose names end in a slash, to show them as folders.
        fitting = {each: size for each, size in named.items() if fits(each) and size <= most}
        self.skipped |= {each for each in named if each not in fitting and not each.endswith("/")}
        return fitting

    def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """Fetch these objects concurrently; missing ones are left out."""
        paths = {self._path(name): name for name in names}
        found: dict[str, bytes] = {}
        with self._reaching():
            answers: dict[str, bytes | Exception] = self._files.cat(list(paths), on_error="return") if paths else {}
            for path, data in answers.items():
                if isinstance(data, bytes):
                    found[paths[path]] = data
                elif not isinstance(data, FileNotFoundError):
                    raise data
        return found

    def put(self, objects: Mapping[str, bytes], content_type: str = "") -> None:
        """Write these objects concurrently; no reader sees a half-written one.

        Args:
            content_type: MIME type for browsers that show the objects from the bucket; empty: no browser does.
        """
        paths = {self._path(name): data for name, data in objects.items()}
        with self._reaching():
            if self._scheme != "file":
                # Other file systems use other names for this option, and guess the type from the object's name.
                is_told = bool(content_type) and self._is_s3
                self._files.pipe(paths, **({"ContentType": content_type} if is_told else {}))
                return
            for path, data in paths.items():  # unlike an object store, a folder shows half-written files
                draft = f"{path}.{uuid4().hex}.draft"
                self._files.pipe({draft: data})
                self._files.mv(draft, path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove these objects, which must exist."""
        with self._reaching():
            for some in slices(names):
                self._files.rm([self._path(name) for name in some])
        # S3 answers a refused removal as it answers one that was done.
        there = {name for folder in _outermost_folders(names) for name in self.sizes(folder)}
        if left := sorted(there.intersection(names)):
            words = f"{len(left)} of {len(names)} objects to remove are still there, such as {left[0]}"
            raise RemoteUnavailable(f"In the store {self.url} {words}: do its credentials allow s3:DeleteObject?")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _reaching(self) -> Generator[None]:
        try:
            yield
        except Exception as error:  # every file system has its own errors
            words = " ".join(str(error).split())[:300] or type(error).__name__
            raise RemoteUnavailable(f"The store {self.url} cannot be used now: {words}") from error


def _open(url: str, scheme: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path of the URL's place in it."""
    try:
        from fsspec.core import url_to_fs  # pyright: ignore

        files, root = cast("tuple[Any, str]", url_to_fs(url, **_OPTIONS.get(scheme, {})))
    except ImportError as error:
        cure = ": pip install -e '.[s3]', in the folder of Image Jury" if scheme in ("s3", "s3a") else ""
        raise InputError(f"The store {url} needs a package that is not installed ({error}){cure}") from error
    except ValueError as error:
        raise InputError(f"The store {url} cannot be opened: {error}") from error
    return files, root.rstrip("/")


def slices(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut names into slices of at most `BATCH_OBJECTS`."""
    return (names[first : first + BATCH_OBJECTS] for first in range(0, len(names), BATCH_OBJECTS))


def _outermost_folders(names: Iterable[str]) -> set[str]:
    """Return the folders of objects, without those that are below another of them: one listing covers these, too."""
    folders = {str(PurePosixPath(name).parent) for name in names}
    return {each for each in folders if folders.isdisjoint(map(str, PurePosixPath(each).parents))}


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of work in a thread that the end of the process does not wait for, unlike one of `to_thread`.

    A thread cannot be stopped half-way. If this call is cancelled, the thread continues, and its result is lost.
    """
    done: Future[T] = Future()

    def run() -> None:
        done.set_running_or_notify_cancel()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="image-jury", daemon=True).start()
    return await asyncio.wrap_future(done)
