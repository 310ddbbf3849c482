"""Remote stores: the ledgers of many machines in one bucket.

A run works in a local cache, an ordinary store on the local disk. The files of its ledger that grow are sent in parts,
each named after the offset of its first byte, so that a listing of the bucket shows what has arrived. `end.json` is
sent last: its presence means a complete ledger. `fetch` copies the runs of other machines into the local cache.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.files import (
    alone,
    is_store_name,
    open_regular,
    private_folder,
    read_file,
    remove_file,
    write_at,
    write_file,
)
from tasks.ledger import run_files as ledger
from tasks.ledger.bucket import (
    BATCH_OBJECTS,
    MOST_OBJECT,
    Bucket,
    RemoteUnavailable,
    checked_url,
    slices,
)
from tasks.ledger.removals import drop_run, mark_of, note_outdated, revision_in, revision_of
from tasks.ledger.run_files import BATCHES, END, JUDGMENTS, OUTCOMES, REMOVED, RUN, SOURCE
from tasks.pictures.thumbnails import made
from tasks.records.parameters import at_home

FETCHED = "fetched.txt"
"""Mark in the folder of a run from another machine; contains the origin of the run."""
PARTED = (JUDGMENTS, OUTCOMES, BATCHES)
"""Files of a ledger that grow."""
PART_BYTES = 8_000_000
"""Bytes after which a part ends, with the line that reaches this size, so that memory stays flat."""
BATCH_BYTES = 32_000_000
"""Maximum bytes that are transferred together and held in memory; a single object may be larger."""

_RUN_ID = re.compile(r"\w[\w.-]*")


def is_remote(store: str) -> bool:
    """Return whether a store is a URL such as s3://bucket/prefix, or an attempt at one, and not a local folder."""
    return re.match(r"[^/\\]{2,}:/", store) is not None


def local_cache(store: str) -> Path:
    """Return the folder in which runs on a store work: a local store itself, or a separate folder for a remote one.

    The folder is in JURY_CACHE if that is set, else in `~/.cache/image-jury`.

    Raises:
        InputError: the URL is malformed, or has credentials or a query; or the place is a file, or a folder in which
            DuckDB can open none.
    """
    if not is_remote(store):
        return _openable(Path(at_home(store)))
    url = checked_url(store)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", url.partition("://")[2]).strip("-.")[:48]
    base = os.environ.get("JURY_CACHE")
    folder = Path(at_home(base)) if base else Path.home() / ".cache" / "image-jury"
    return _openable(folder / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}")


def _openable(folder: Path) -> Path:
    """Return a folder; InputError if it is a file, or DuckDB would look elsewhere: it reads options after a `?`."""
    if folder.is_file():
        raise InputError(f"the store {folder} is a file: name the folder that it is in (--store, JURY_STORE)")
    if found := next((each for each in "?\\\0" if each in str(folder.absolute())), ""):
        raise InputError(
            f"the path of the store has a {found!r}, with which DuckDB cannot open the history: "
            f"{str(folder.absolute())!r}; choose another folder (--store, JURY_STORE; for a bucket JURY_CACHE)"
        )
    return folder


class _Part(NamedTuple):
    """Bytes of a file of a run, as one object of the bucket; a file that does not grow is one part from 0."""

    run: Path
    name: str
    file: str
    start: int
    size: int

    @property
    def object(self) -> str:
        return f"ledger/{self.run.name}/{self.name}"


class Remote:
    """Remote store with its local cache. Can be used from any thread, and by several processes on one cache.

    Raises:
        InputError: the URL is malformed, or the package for its scheme is missing.
        RemoteUnavailable: from every method, if the network or the store fails; finished transfers are kept.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.bucket = Bucket(url)
        self.folder = folder
        self._pictures = _Pictures(self.bucket, folder)

    def send(self, run_id: str) -> bool:
        """Send the new data of a run made here: whole lines with their pictures, and after the end `end.json`.

        Returns:
            Whether there was any.
        """
        run = ledger.folder(self.folder, run_id)
        if not _is_own(run) or any(each.is_symlink() for each in (run, *run.iterdir())):
            return False  # loading reports a ledger with a link
        return self._send_parts(run)

    def send_all(self) -> list[str]:
        """Send the new data of every run made here, even crashed ones; return the ids of the runs with new data."""
        there = self._runs()
        self._drop_outdated(there)  # runs that another machine removed must not be sent again
        runs = [run for run in ledger.run_folders(self.folder) if END not in there.get(run.name, {})]
        return [run.name for run in runs if self.send(run.name)]

    def fetch(self, since: datetime | None = None) -> list[str]:
        """Fetch the new data of other machines' runs into the local cache; return the ids of the runs with new data.

        If a part is missing, its file stops before it and the run is unfinished until a later fetch.

        Args:
            since: fetch only runs that began then or later, or are unfinished here; with a time zone.
        """
        there = self._runs()
        self._drop_outdated(there)
        if since:
            first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
            # Unfinished runs lend replies at any age.
            unfinished = {run.name for run in ledger.run_folders(self.folder) if not (run / END).exists()}
            there = {run_id: sizes for run_id, sizes in there.items() if run_id >= first or run_id in unfinished}
        return sorted(self._keep_all(self._lacking(there)))

    def replace(self, run_id: str, revision: int) -> None:
        """Replace the bucket's copy of a run, if there is one, by the local copy."""
        run, there = ledger.folder(self.folder, run_id), self._runs(run_id).get(run_id, {})
        if not there:
            return
        name = f"ledger/{run_id}"
        self.bucket.put({f"{name}/{mark_of(revision)}": b""})  # first, so that concurrent fetches are repeated
        self.bucket.remove([f"{name}/{each}" for each in there if each != mark_of(revision)])
        self._send_parts(run)

    def replace_by_tombstone(self, run_id: str, tombstone: bytes) -> None:
        """Replace all objects of a run in the bucket by a tombstone."""
        name = f"ledger/{run_id}"
        self.bucket.put({f"{name}/{REMOVED}": tombstone})
        there = [*self.bucket.sizes(name), *self.bucket.sizes(f"batches/{run_id}")]
        self.bucket.remove([each for each in there if each != f"{name}/{REMOVED}"])

    def _drop_outdated(self, there: Mapping[str, Mapping[str, int]]) -> None:
        """Exchange removals: replace each copy with a lower revision, here or in the bucket."""
        here = {run.name: run for run in ledger.run_folders(self.folder)}
        behind = [run for run_id, run in here.items() if run_id in there and _is_newer(there[run_id], revision_of(run))]
        if behind:
            note_outdated(self.folder, behind)
        for run in behind:
            drop_run(self.folder, run.name)
        for run_id, sizes in there.items():
            run = ledger.folder(self.folder, run_id)
            if REMOVED in sizes and not (run / REMOVED).exists():
                for name, data in self.bucket.get([f"ledger/{run_id}/{REMOVED}"]).items():
                    write_file(self.folder, name, data)
            elif RUN in sizes and (run / REMOVED).exists():
                self.replace_by_tombstone(run_id, read_file(self.folder, f"ledger/{run_id}/{REMOVED}"))
            elif RUN in sizes and run_id in here and revision_of(run) > revision_in(sizes):
                self.replace(run_id, revision_of(run))

    def _keep_all(self, parts: Iterable[_Part]) -> set[str]:
        changed: set[str] = set()
        for batch in _batches(parts):
            found = self.bucket.get([part.object for part in batch])
            if any(len(found.get(part.object, b"")) != part.size for part in batch):
                raise RemoteUnavailable(f"The store {self.bucket.url} was changed while it was read")
            # Before the rows: no later fetch gets the pictures of rows that are already here.
            self._pictures.fetch(found[part.object] for part in batch if part.file == OUTCOMES)
            for part in batch:
                self._keep(part, found[part.object])
                changed.add(part.run.name)
        return changed

    def send_start(self, run_id: str) -> None:
        """Send the start record of a run, even if it was sent before: its limit may have changed."""
        run = ledger.folder(self.folder, run_id)
        with alone(_lock(run)):  # a concurrent sender may have read an older record
            name = f"ledger/{run_id}/{RUN}"
            self.bucket.put({name: read_file(self.folder, name)})

    def fetch_starts(self, since: datetime) -> None:
        """Fetch the start records of other machines' runs that began then or later and have not ended."""
        first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
        runs = [run for run in ledger.run_folders(self.folder) if run.name >= first and not _is_own(run)]
        names = [f"ledger/{run.name}/{RUN}" for run in runs if not (run / END).exists()]
        for some in slices(names):
            for name, data in self.bucket.get(some).items():
                write_file(self.folder, name, data)

    def fetch_folder(self, name: str) -> None:
        """Fetch the files below a folder that the local cache lacks, and those that lost rows on another machine.

        Such a file is written once; an empty object in the bucket marks a forgotten one.
        """
        self._fetch_files(self.bucket.sizes(name, MOST_OBJECT))

    def send_folder(self, name: str) -> None:
        """Send the files below a folder that the bucket lacks; InputError if a link to one leads out of the store."""
        self._send_files(name, self.bucket.sizes(name, MOST_OBJECT))

    def share_folder(self, name: str) -> None:
        """Send and fetch the files below a folder that either side lacks; the bucket lists the folder once."""
        there = self.bucket.sizes(name, MOST_OBJECT)
        self._send_files(name, there)
        self._fetch_files(there)

    def _fetch_files(self, listed: Mapping[str, int]) -> None:
        there = {each: size for each, size in listed.items() if is_store_name(each)}
        for each, size in there.items():
            if not size:  # forgotten on another machine, and must not be sent again
                remove_file(self.folder, each)
        lacking = [each for each, size in there.items() if size and _size(self.folder / each) != size]
        for names in _deepest_first(lacking):
            for each, data in self.bucket.get(names).items():
                write_file(self.folder, each, data)

    def _send_files(self, name: str, listed: Mapping[str, int]) -> None:
        there = self.bucket.skipped.union(listed)  # also objects that are too large stay as they are
        files = [path.relative_to(self.folder).as_posix() for path in (self.folder / name).rglob("*") if path.is_file()]
        for names in _deepest_first([each for each in files if is_store_name(each) and each not in there]):
            self.bucket.put({each: read_file(self.folder, each) for each in names})

    # Sending

    def _send_parts(self, run: Path) -> bool:
        """Send what the bucket lacks of a run; return whether it lacked anything."""
        sent = False
        with alone(_lock(run)):  # a second sender waits, and then finds these parts in the bucket
            ended = (run / END).exists()  # checked first: once it exists, the other files have all their rows
            there = self._runs(run.name).get(run.name, {})
            if not _is_newer(there, revision_of(run)):
                for name, data in self._due(run, there, ended):
                    self.bucket.put({f"ledger/{run.name}/{name}": data})
                    sent = True
        return sent

    def _due(self, run: Path, there: Mapping[str, int], ended: bool) -> Iterator[tuple[str, bytes]]:
        """Yield names and bytes of the objects to send, each after those that it must not precede."""
        if RUN not in there:
            yield RUN, read_file(self.folder, f"ledger/{run.name}/{RUN}")
        for file in PARTED:
            for start, lines in _lines_from(run / file, _end(_parts(run, file, there))):
                if file == OUTCOMES:
                    self._pictures.send(lines)
                yield _part_name(file, start), lines
        if ended and END not in there:
            yield END, read_file(self.folder, f"ledger/{run.name}/{END}")

    # Fetching

    def _lacking(self, there: Mapping[str, Mapping[str, int]]) -> Iterator[_Part]:
        """Yield the parts to fetch, in the order in which they are written."""
        for run_id, sizes in sorted(there.items()):
            run = ledger.folder(self.folder, run_id)
            if RUN in sizes and REMOVED not in sizes and not _is_own(run):
                yield from _lacking_parts(run, sizes)

    def _runs(self, run_id: str = "") -> dict[str, dict[str, int]]:
        """Return names and sizes of the objects of one run, or of all runs, by run."""
        runs: dict[str, dict[str, int]] = {}
        for path, size in self.bucket.sizes(f"ledger/{run_id}".rstrip("/"), MOST_OBJECT).items():
            found, _, name = path.removeprefix("ledger/").partition("/")
            if _RUN_ID.fullmatch(found):
                runs.setdefault(found, {})[name] = size
        return runs

    def _keep(self, part: _Part, data: bytes) -> None:
        name = f"ledger/{part.run.name}/{part.file}"
        if part.file == RUN:
            write_file(self.folder, f"ledger/{part.run.name}/{FETCHED}", f"{self.bucket.url}\n".encode())
        if part.file in PARTED:  # at its own offset: an earlier write, partial or whole, had the same bytes
            write_at(self.folder, name, part.start, data)
        else:
            write_file(self.folder, name, data)
        if part.file == END:
            _date(part.run)


def remote_of(store: str) -> Remote | None:
    """Return the bucket of a store, with its local cache; None: the store is a folder."""
    return Remote(store, local_cache(store)) if is_remote(store) else None


def _lock(run: Path) -> Path:
    """Return the file to lock while a run is sent: `run.json` may be replaced meanwhile, rows are only appended."""
    return run / OUTCOMES if (run / OUTCOMES).exists() else run / RUN


def _is_newer(sizes: Mapping[str, int], revision: int) -> bool:
    return REMOVED in sizes or revision_in(sizes) > revision


def _is_own(run: Path) -> bool:
    return (run / RUN).exists() and not (run / FETCHED).exists()


def _part_name(file: str, start: int) -> str:
    return f"{Path(file).stem}-{start:012}{Path(file).suffix}"


def _parts(run: Path, file: str, sizes: Mapping[str, int]) -> list[_Part]:
    """Return the parts of a file that the bucket has, from its beginning to the first gap."""
    parts: list[_Part] = []
    end = 0
    while size := sizes.get(_part_name(file, end), 0):
        parts.append(_Part(run, _part_name(file, end), file, end, size))
        end += size
    return parts


def _end(parts: Sequence[_Part]) -> int:
    return parts[-1].start + parts[-1].size if parts else 0


def _lacking_parts(run: Path, sizes: Mapping[str, int]) -> Iterator[_Part]:
    """Yield the parts of a run that only the bucket has; `end.json` only if no part lies behind a gap."""
    if not (run / RUN).exists():
        yield _Part(run, RUN, RUN, 0, sizes[RUN])
    gaps = False
    for file in PARTED:
        parts = _parts(run, file, sizes)
        have = _size(run / file)
        yield from (part for part in parts if part.start + part.size > have)
        behind = _part_name(file, _end(parts))
        gaps |= any(name > behind for name in sizes if name.startswith(f"{Path(file).stem}-"))
    if END in sizes and not gaps and not (run / END).exists():
        yield _Part(run, END, END, 0, sizes[END])


def _lines_from(path: Path, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a file from an offset on, with their offsets; a torn last line waits for its end."""
    if not path.exists():
        return
    with open_regular(path) as file:
        while True:
            file.seek(start)
            lines = file.read(PART_BYTES) + file.readline()
            lines = lines[: lines.rfind(b"\n") + 1]
            if not lines:
                return
            yield start, lines
            start += len(lines)


def _date(run: Path) -> None:
    """Set the file time of the rows to the run's end, so that `reuse` need not read rows that are all too old."""
    with suppress(InputError, FileNotFoundError):  # loading reports an unreadable ledger
        if ended := ledger.read_end(run):
            moment = datetime.fromisoformat(ended.finished_at).timestamp()
            os.utime(run / JUDGMENTS, (moment, moment), follow_symlinks=False)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _deepest_first(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield slices of names, the deepest first, so that files are complete before a file that refers to them."""
    for depth in sorted({name.count("/") for name in names}, reverse=True):
        yield from slices([name for name in names if name.count("/") == depth])


def _batches(items: Iterable[_Part]) -> Iterator[list[_Part]]:
    batch: list[_Part] = []
    for item in items:
        if batch and (len(batch) == BATCH_OBJECTS or sum(each.size for each in (*batch, item)) > BATCH_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


class _Pictures:
    """Thumbnails of one bucket and its local cache; each is transferred once."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket = bucket
        self._folder = folder
        self._there: set[str] | None = None
        """Names of the thumbnails in the bucket; None: the bucket has not been listed yet."""

    def send(self, rows: bytes) -> None:
        """Send the thumbnails of outcomes that the bucket may lack."""
        shown = _pictures([rows])
        if shown and self._there is None:
            self._there = {*self._bucket.sizes("pictures")}
        there = self._there or set[str]()
        for names in slices([name for name in sorted(shown - there) if made(self._folder, Path(name).stem)]):
            self._bucket.put({name: read_file(self._folder, name) for name in names})
            there.update(names)

    def fetch(self, rows: Iterable[bytes]) -> None:
        """Fetch the thumbnails of outcomes that the local cache lacks; the others become as young as new ones."""
        private_folder(self._folder / "pictures")
        shown = sorted(_pictures(rows))
        lacking = [name for name in shown if not (self._folder / name).exists()]
        for name in set(shown).difference(lacking):  # the age decides when a picture is removed
            os.utime(self._folder / name, follow_symlinks=False)
        for names in slices(lacking):
            for name, data in self._bucket.get(names).items():
                write_file(self._folder, name, data)


def _pictures(rows: Iterable[bytes]) -> set[str]:
    """Return the thumbnail names of all pictures in rows."""
    return {f"pictures/{sha256.decode()}.jpg" for lines in rows for sha256 in SOURCE.findall(lines)}
