"""Remote stores: the ledgers of many machines in one bucket.

A run works in a local cache, an ordinary store on the local disk. Its ledger is sent as numbered parts, each written
once, and `end.json` last: its presence means a complete ledger. `fetch` copies the runs of other machines into the
local cache.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.files import alone, private_folder, read_file, write_at, write_file
from tasks.ledger import run_files as ledger
from tasks.ledger.bucket import (
    BATCH_OBJECTS,
    MOST_OBJECT,
    PARTED,
    Bucket,
    Part,
    RemoteUnavailable,
    Sent,
    checked_url,
    fetch_folder,
    lacking_parts,
    read_notes,
    read_part,
    send_folder,
    sent_before,
    slices,
    whole,
    write_notes,
)
from tasks.ledger.removals import PICTURE, drop_run, mark_of, note_outdated, revision_in, revision_of
from tasks.ledger.run_files import END, JUDGMENTS, OUTCOMES, REMOVED, RUN
from tasks.pictures.thumbnails import made

FETCHED = "fetched.txt"
"""Mark in the folder of a run from another machine; contains the origin of the run."""
BATCH_BYTES = 32_000_000
"""Maximum bytes that are transferred together and held in memory; a single object may be larger."""

_RUN_ID = re.compile(r"\w[\w.-]*")
_DECIDED = re.compile(rb'"decided_at":\s*"([0-9T:.+Z-]{1,40})"')


def is_remote(store: str) -> bool:
    """Return whether a store is a URL such as s3://bucket/prefix, or an attempt at one, and not a local folder."""
    return re.match(r"[^/\\]{2,}:/", store) is not None


def local_cache(store: str) -> Path:
    """Return the folder in which runs on a store work: a local store itself, or a separate folder for a remote one.

    The folder is in JURY_CACHE if that is set, else in `~/.cache/image-jury`.

    Raises:
        InputError: the URL is malformed, or has credentials or a query; or DuckDB cannot open a file in the folder.
    """
    if not is_remote(store):
        return _openable(Path(store))
    url = checked_url(store)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", url.partition("://")[2]).strip("-.")[:48]
    base = os.environ.get("JURY_CACHE")
    folder = Path(base) if base else Path.home() / ".cache" / "image-jury"
    return _openable(folder / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}")


def writable_folder(store: str) -> Path:
    """Return the local folder of a store for a command that writes there.

    Raises:
        InputError: `local_cache` raises it, or the store is of an earlier version.
    """
    folder = local_cache(store)
    ledger.check_schema(folder)
    return folder


def _openable(folder: Path) -> Path:
    """Return a folder; InputError if DuckDB would look elsewhere for its files, since it reads options after a `?`."""
    if found := next((each for each in "?\\\0" if each in str(folder.absolute())), ""):
        raise InputError(
            f"the path of the store has a {found!r}, with which DuckDB cannot open the history: "
            f"{str(folder.absolute())!r}; choose another folder (--store, JURY_STORE; for a bucket JURY_CACHE)"
        )
    return folder


class _Travelling(NamedTuple):
    """Part of a run, with its place here and in the bucket."""

    run: Path
    part: Part

    @property
    def object(self) -> str:
        return f"ledger/{self.run.name}/{self.part.name}"


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

    def send(self, run_id: str) -> None:
        """Send the new data of a run made here: whole lines with their pictures, and after the end `end.json`."""
        self._send(ledger.folder(self.folder, run_id))

    def send_all(self) -> list[str]:
        """Send the new data of every run made here, even crashed ones; return the ids of the runs with new data."""
        self._drop_outdated(self._runs(["ledger"]))  # runs that another machine removed must not be sent again
        return [run.name for run in ledger.run_folders(self.folder) if self._send(run)]

    def fetch(self, since: datetime | None = None) -> list[str]:
        """Fetch the new data of other machines' runs into the local cache; return the ids of the runs with new data.

        If a part is missing, its file stops before it and the run is unfinished until a later fetch.

        Args:
            since: fetch only runs that began then or later, or are unfinished here; with a time zone.
        """
        there = self._runs(self._folders(since))
        self._drop_outdated(there)
        return sorted(self._keep_all(self._lacking(there)))

    def replace(self, run_id: str, revision: int) -> None:
        """Replace the bucket's copy of a run, if there is one, by the local copy."""
        run, there = ledger.folder(self.folder, run_id), self._runs([f"ledger/{run_id}"]).get(run_id, {})
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

    def _keep_all(self, wanted_parts: Iterable[_Travelling]) -> set[str]:
        changed: set[str] = set()
        for batch in _batches(wanted_parts):
            found = self.bucket.get([wanted.object for wanted in batch])
            if any(len(found.get(wanted.object, b"")) != wanted.part.size for wanted in batch):
                raise RemoteUnavailable(f"The store {self.bucket.url} was changed while it was read")
            # Before the rows: no later fetch gets the pictures of rows that are already here.
            self._pictures.fetch(found[wanted.object] for wanted in batch if wanted.part.file == OUTCOMES)
            for wanted in batch:
                self._keep(wanted, found[wanted.object])
                changed.add(wanted.run.name)
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
        """Fetch the files that the local cache lacks of a folder of whole files, which never change."""
        fetch_folder(self.bucket, self.folder, name)

    def send_folder(self, name: str) -> None:
        """Send the files that the bucket lacks of such a folder."""
        send_folder(self.bucket, self.folder, name)

    def share_folder(self, name: str) -> None:
        """Send and fetch the files that either side lacks of such a folder."""
        self.send_folder(name)
        self.fetch_folder(name)

    # Sending

    def _send(self, run: Path) -> bool:
        if not _is_own(run) or _is_sent(run) or any(each.is_symlink() for each in (run, *run.iterdir())):
            return False  # loading reports a ledger with a link
        return self._send_parts(run)

    def _send_parts(self, run: Path) -> bool:
        with alone(_lock(run)):  # two senders would cut different parts with the same numbers
            ended = (run / END).exists()  # checked first: once it exists, the other files have all their rows
            sent = (read_notes(run) or self._sent_before(run)).cut(run)
            parts = [whole(run, RUN), *sent.parts(), *([whole(run, END)] if ended else [])]
            due = [part for part in parts if part.name not in sent.objects]
            for part in due:
                write_notes(run, sent)
                self._send_part(run, part)
                sent = sent.arrived(part.name)
            write_notes(run, sent)
        return bool(due)

    def _sent_before(self, run: Path) -> Sent:
        """Return notes made from the bucket for a run without notes: empty, unless the run was copied from
        elsewhere."""
        return sent_before(self._runs([f"ledger/{run.name}"]).get(run.name, {}))

    def _send_part(self, run: Path, part: Part) -> None:
        data = read_part(run, part)
        if part.file == OUTCOMES:
            self._pictures.send(data)
        self.bucket.put({_Travelling(run, part).object: data})

    # Fetching

    def _folders(self, since: datetime | None) -> list[str]:
        """Return the folders of the bucket to list; unfinished runs are included, since they lend replies at any
        age."""
        if not since:
            return ["ledger"]
        first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
        unfinished = {run.name for run in ledger.run_folders(self.folder) if not (run / END).exists()}
        known = [run_id for run_id in self.bucket.folders("ledger") if run_id >= first or run_id in unfinished]
        return [f"ledger/{run_id}" for run_id in known]

    def _lacking(self, there: Mapping[str, Mapping[str, int]]) -> Iterator[_Travelling]:
        """Yield the parts to fetch, in the order in which they are written."""
        for run_id, sizes in sorted(there.items()):
            run = ledger.folder(self.folder, run_id)
            if RUN in sizes and REMOVED not in sizes and not _is_own(run):
                yield from (_Travelling(run, part) for part in lacking_parts(run, sizes))

    def _runs(self, folders: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return names and sizes of the objects in these folders, by run."""
        runs: dict[str, dict[str, int]] = {}
        for path, size in (found for folder in folders for found in self.bucket.sizes(folder, MOST_OBJECT).items()):
            run_id, _, name = path.removeprefix("ledger/").partition("/")
            if _RUN_ID.fullmatch(run_id):
                runs.setdefault(run_id, {})[name] = size
        return runs

    def _keep(self, wanted: _Travelling, data: bytes) -> None:
        run, part = wanted
        name = f"ledger/{run.name}/{part.file}"
        if part.file == RUN:
            write_file(self.folder, f"ledger/{run.name}/{FETCHED}", f"{self.bucket.url}\n".encode())
        if part.file in PARTED:  # at its own offset: an earlier write, partial or whole, had the same bytes
            write_at(self.folder, name, part.start, data)
        else:
            write_file(self.folder, name, data)
        if part.file == END:
            _date(run)


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


def _is_sent(run: Path) -> bool:
    notes = read_notes(run)
    return notes is not None and END in notes.objects


def _date(run: Path) -> None:
    """Set the file time of the rows to the run's end, so that `reuse` need not read rows that are all too old."""
    with suppress(InputError, FileNotFoundError):  # loading reports an unreadable ledger
        if ended := ledger.read_end(run):
            moment = datetime.fromisoformat(ended.finished_at).timestamp()
            os.utime(run / JUDGMENTS, (moment, moment), follow_symlinks=False)


def _batches(items: Iterable[_Travelling]) -> Iterator[list[_Travelling]]:
    batch: list[_Travelling] = []
    for item in items:
        if batch and (len(batch) == BATCH_OBJECTS or sum(each.part.size for each in (*batch, item)) > BATCH_BYTES):
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
        """Fetch the thumbnails of outcomes that the local cache lacks."""
        judged = _judged(rows)
        lacking = sorted(name for name in judged if not (self._folder / name).exists())
        private_folder(self._folder / "pictures")
        for names in slices(lacking):
            for name, data in self._bucket.get(names).items():
                write_file(self._folder, name, data)
        for name, moment in judged.items():
            self._date(name, moment, name in lacking)

    def _date(self, name: str, moment: float, is_new: bool) -> None:
        """Set the file time of a picture to its last judgment, which decides when the picture is removed."""
        with suppress(OSError):  # the bucket lacks it, too
            if is_new or (self._folder / name).stat().st_mtime < moment:
                os.utime(self._folder / name, (moment, moment), follow_symlinks=False)


def _pictures(rows: Iterable[bytes]) -> set[str]:
    """Return the thumbnail names of all pictures in rows; quotes inside texts are escaped and never match."""
    return {f"pictures/{sha256.decode()}.jpg" for lines in rows for sha256 in PICTURE.findall(lines)}


def _judged(rows: Iterable[bytes]) -> dict[str, float]:
    """Map the thumbnail names in outcomes to the time of their picture's last judgment, as a Unix time."""
    found: dict[str, float] = {}
    for line in (line for lines in rows for line in lines.splitlines()):
        told = _DECIDED.search(line)
        moment = ledger.moment_of(told[1].decode()) if told else None
        for name in _pictures([line]):
            found[name] = max(found.get(name, 0.0), moment.timestamp() if moment else time.time())
    return found
