"""A remote place for whole objects: a bucket, or whatever else fsspec reaches.

Owns the URL, the file system behind it, and its failures, which all become `RemoteUnavailable`. Names of objects are
relative to the URL; which objects there are is up to `remote`. fsspec is imported only when a place is opened.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol, cast
from uuid import uuid4

from tasks.errors import InputError
from tasks.files import drafted, keep_private

BATCH_OBJECTS = 256
"""At most so many objects are got or put at once."""

_OPTIONS: dict[str, dict[str, Any]] = {
    "file": {"auto_mkdir": True},
    # More connections than botocore's ten, for thousands of small objects; and few attempts, since whatever could not
    # be sent now is sent with the next chunk or by the next sync.
    "s3": {"config_kwargs": {"max_pool_connections": 32, "retries": {"mode": "standard", "total_max_attempts": 3}}},
}
_URL = re.compile(r"[a-z][a-z0-9+.-]+://[^/].*|file:///.+")
_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "NoSuchKey"}
"""Codes with which a conditional put is refused, since the object is another one by now, or gone."""
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
    def info(self, path: str) -> dict[str, Any]: ...
    def cat_file(self, path: str) -> bytes: ...
    def pipe_file(self, path: str, value: bytes, **options: str) -> None: ...
    def rm(self, path: list[str]) -> None: ...
    def put_file(self, path: str, name: str, /) -> None: ...
    def get_file(self, path: str, name: str, /) -> None: ...

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

    def folders(self, name: str) -> list[str]:
        """Names of the folders and objects right below a folder; none where it is absent."""
        with self._reaching(), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            return [path.rstrip("/").rpartition("/")[2] for path in self._files.ls(self._path(name), detail=False)]
        return []

    def sizes(self, name: str) -> dict[str, int]:
        """Names of all objects in a folder and below it, with their sizes in bytes."""
        with self._reaching():
            self._files.invalidate_cache()
            found = self._files.find(self._path(name), detail=True)
        return {path.removeprefix(self._path("")): int(about["size"]) for path, about in found.items()}

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

    def send_file(self, name: str, file: Path) -> None:
        """Write an object from a file, without having it in memory."""
        with self._reaching():
            self._files.put_file(str(file), self._path(name))

    def fetch_file(self, name: str, place: Path) -> None:
        """Bring an object into a file, whole or not at all."""
        with self._reaching(), drafted(place) as draft:
            self._files.get_file(self._path(name), str(draft))
            keep_private(draft)

    @property
    def is_conditional(self) -> bool:
        """Whether `put_if` can be asked for; whether the server heeds it is another question."""
        return self._scheme in ("s3", "s3a")

    def get_with_version(self, name: str) -> tuple[bytes, str] | None:
        """An object, with what tells this state of it from any other; None: there is none."""
        with self._reaching(), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            # Its version first: had it changed before it is read, `put_if` would find another one.
            version = str(self._files.info(self._path(name))["ETag"])
            return self._files.cat_file(self._path(name)), version
        return None

    def put_if(self, name: str, data: bytes, version: str | None, content_type: str = "") -> bool:
        """Write an object if it still has this version; None: if there is none. Returns whether it was written."""
        condition = {"IfMatch": version} if version else {"IfNoneMatch": "*"}
        with self._reaching():
            try:
                self._files.pipe_file(self._path(name), data, **condition, **self._described(content_type))
            except OSError as error:
                told: Any = getattr(error.__cause__, "response", {})
                if told.get("Error", {}).get("Code") in _CHANGED:
                    return False
                raise
        return True

    def remove(self, names: Sequence[str]) -> None:
        """Remove these objects, which are there."""
        with self._reaching():
            if names:
                self._files.rm([self._path(name) for name in names])

    def _described(self, content_type: str) -> dict[str, str]:
        # Other file systems have other words for it, and guess it from the name.
        return {"ContentType": content_type} if content_type and self.is_conditional else {}

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
