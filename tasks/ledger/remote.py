"""Remote stores: the ledgers of many machines in one bucket.

Owns what lies in the bucket and how it comes and goes. A run works on a local cache, an ordinary store on the local
disk. Its ledger is sent as numbered parts, each written once, and `end.json` last: where it is, all is. `fetch` brings
the runs of other machines into the local cache. What rows mean is left to `reading`, the history to `tasks.history`.
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
from tasks.files import alone, private_folder
from tasks.ledger import reading as ledger
from tasks.ledger.bucket import (
    BATCH_OBJECTS,
    MOST_OBJECT,
    Bucket,
    RemoteUnavailable,
    checked_url,
    fetch_folder,
    send_folder,
    slices,
)
from tasks.ledger.bucket_parts import (
    PARTED,
    Part,
    Sent,
    lacking_parts,
    read_notes,
    read_part,
    sent_before,
    whole,
    write_notes,
)
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, REMOVED, RUN
from tasks.ledger.removed import PICTURE, drop_run, mark_of, note_outdated, revision_in, revision_of
from tasks.pictures.thumbnails import made
from tasks.store_files import read_file, write_at, write_file

FETCHED = "fetched.txt"
"""Marks the folder of a run that another machine made; says where it came from."""
BATCH_BYTES = 32_000_000
"""At most so much, or one object, travels together and is held in memory."""

_RUN_ID = re.compile(r"\w[\w.-]*")
_DECIDED = re.compile(rb'"decided_at":\s*"([0-9T:.+Z-]{1,40})"')


def is_remote(store: str) -> bool:
    """Whether a store is a URL such as s3://bucket/prefix, or was meant to be one, and no local folder."""
    return re.match(r"[^/\\]{2,}:/", store) is not None


def local_cache(store: str) -> Path:
    """The local folder in which runs on a store work: a local store itself; for a remote one a folder of its own.

    It lies under JURY_CACHE where that is set, else under `~/.cache/image-jury`.

    Raises:
        InputError: the URL is malformed, or holds credentials or a query; DuckDB cannot open a file in the folder.
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
        InputError: `local_cache` finds none, or the store is of an earlier version.
    """
    folder = local_cache(store)
    ledger.check_schema(folder)
    return folder


def _openable(folder: Path) -> Path:
    """Return a folder, unless DuckDB would look for its files elsewhere: behind a `?` it reads options."""
    if found := next((each for each in "?\\\0" if each in str(folder.absolute())), ""):
        raise InputError(
            f"the path of the store has a {found!r}, with which DuckDB cannot open the history: "
            f"{str(folder.absolute())!r}; choose another folder (--store, JURY_STORE; for a bucket JURY_CACHE)"
        )
    return folder


class _Travelling(NamedTuple):
    """A part of a run, here and in the bucket."""

    run: Path
    part: Part

    @property
    def object(self) -> str:
        return f"ledger/{self.run.name}/{self.part.name}"


class Remote:
    """One remote store and its local cache. May be used from any thread, and by several processes on one cache.

    Raises:
        InputError: the URL is malformed, or the package for its scheme is missing.
        RemoteUnavailable: from every method, when the network or the store fails; what was done until then stays done.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.bucket = Bucket(url)
        self.folder = folder
        self._pictures = _Pictures(self.bucket, folder)

    def send(self, run_id: str) -> None:
        """Send what is new of a run made here: its whole lines with their pictures, and at its end `end.json`."""
        self._send(ledger.folder(self.folder, run_id))

    def send_all(self) -> list[str]:
        """Send what is new of every run made here, also of crashed ones; returns the ids of those that had any."""
        self._drop_outdated(self._runs(["ledger"]))  # what another machine has removed is not sent again
        return [run.name for run in ledger.run_folders(self.folder) if self._send(run)]

    def fetch(self, since: datetime | None = None) -> list[str]:
        """Bring what is new of the runs that others made into the local cache; returns the ids of those that had any.

        Where a part is missing its file stops before it and the run stays unfinished, until a later fetch.

        Args:
            since: only runs that began then or later; with a time zone.
        """
        there = self._runs(self._folders(since))
        self._drop_outdated(there)
        return sorted(self._keep_all(self._lacking(there)))

    def replace(self, run_id: str, revision: int) -> None:
        """Put what is here of a run in place of what the bucket has, if that has anything."""
        run, there = ledger.folder(self.folder, run_id), self._runs([f"ledger/{run_id}"]).get(run_id, {})
        if not there:
            return
        name = f"ledger/{run_id}"
        self.bucket.put({f"{name}/{mark_of(revision)}": b""})  # first: what is fetched meanwhile is fetched again
        self.bucket.remove([f"{name}/{each}" for each in there if each != mark_of(revision)])
        self._send_parts(run)

    def replace_by_tombstone(self, run_id: str, tombstone: bytes) -> None:
        """Leave nothing of a run in the bucket but what says that it was removed."""
        name = f"ledger/{run_id}"
        self.bucket.put({f"{name}/{REMOVED}": tombstone})
        there = [*self.bucket.sizes(name), *self.bucket.sizes(f"batches/{run_id}")]
        self.bucket.remove([each for each in there if each != f"{name}/{REMOVED}"])

    def _drop_outdated(self, there: Mapping[str, Mapping[str, int]]) -> None:
        """Bring removals together: a copy with a lower revision, here or in the bucket, is replaced."""
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
            # Before the rows: once those are here, nobody asks for their pictures again.
            self._pictures.fetch(found[wanted.object] for wanted in batch if wanted.part.file == OUTCOMES)
            for wanted in batch:
                self._keep(wanted, found[wanted.object])
                changed.add(wanted.run.name)
        return changed

    def send_start(self, run_id: str) -> None:
        """Send what a run set out to do, anew where it was sent before: its limit may have changed."""
        run = ledger.folder(self.folder, run_id)
        with alone(_lock(run)):  # what is sent at the same time was read before
            name = f"ledger/{run_id}/{RUN}"
            self.bucket.put({name: read_file(self.folder, name)})

    def fetch_starts(self, since: datetime) -> None:
        """Bring the same of runs of other machines that began then or later and have not ended."""
        first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
        runs = [run for run in ledger.run_folders(self.folder) if run.name >= first and not _is_own(run)]
        names = [f"ledger/{run.name}/{RUN}" for run in runs if not (run / END).exists()]
        for some in slices(names):
            for name, data in self.bucket.get(some).items():
                write_file(self.folder, name, data)

    def fetch_folder(self, name: str) -> None:
        """Bring what the local cache lacks of a folder of whole files, which are never changed."""
        fetch_folder(self.bucket, self.folder, name)

    def send_folder(self, name: str) -> None:
        """Send what the bucket lacks of such a folder."""
        send_folder(self.bucket, self.folder, name)

    def share_folder(self, name: str) -> None:
        """Send and fetch what either side lacks of such a folder."""
        self.send_folder(name)
        self.fetch_folder(name)

    # Sending

    def _send(self, run: Path) -> bool:
        if not _is_own(run) or _is_sent(run) or any(each.is_symlink() for each in (run, *run.iterdir())):
            return False  # a ledger with a link is reported when it is loaded
        return self._send_parts(run)

    def _send_parts(self, run: Path) -> bool:
        with alone(_lock(run)):  # two would cut it differently under the same numbers
            ended = (run / END).exists()  # asked first: once it is there, the other files have all their rows
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
        """What the bucket has of a run without notes: nothing, or the run was copied here from another machine."""
        return sent_before(self._runs([f"ledger/{run.name}"]).get(run.name, {}))

    def _send_part(self, run: Path, part: Part) -> None:
        data = read_part(run, part)
        if part.file == OUTCOMES:
            self._pictures.send(data)
        self.bucket.put({_Travelling(run, part).object: data})

    # Fetching

    def _folders(self, since: datetime | None) -> list[str]:
        """Folders of the bucket that have what is wanted; unfinished runs lend replies at any age."""
        if not since:
            return ["ledger"]
        first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
        unfinished = {run.name for run in ledger.run_folders(self.folder) if not (run / END).exists()}
        known = [run_id for run_id in self.bucket.folders("ledger") if run_id >= first or run_id in unfinished]
        return [f"ledger/{run_id}" for run_id in known]

    def _lacking(self, there: Mapping[str, Mapping[str, int]]) -> Iterator[_Travelling]:
        """What to fetch, in the order in which it is to be kept."""
        for run_id, sizes in sorted(there.items()):
            run = ledger.folder(self.folder, run_id)
            if RUN in sizes and REMOVED not in sizes and not _is_own(run):
                yield from (_Travelling(run, part) for part in lacking_parts(run, sizes))

    def _runs(self, folders: Iterable[str]) -> dict[str, dict[str, int]]:
        """Names and sizes of what lies in these folders, by run."""
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
        if part.file in PARTED:  # at its own place: whoever wrote it before, half or whole, wrote the same bytes
            write_at(self.folder, name, part.start, data)
        else:
            write_file(self.folder, name, data)
        if part.file == END:
            _date(run)


def remote_of(store: str) -> Remote | None:
    """The bucket of a store, with its local cache; None: the store is a folder."""
    return Remote(store, local_cache(store)) if is_remote(store) else None


def _lock(run: Path) -> Path:
    """The file of a run that is locked while it is sent: `run.json` may be replaced meanwhile, rows are appended."""
    return run / OUTCOMES if (run / OUTCOMES).exists() else run / RUN


def _is_newer(sizes: Mapping[str, int], revision: int) -> bool:
    return REMOVED in sizes or revision_in(sizes) > revision


def _is_own(run: Path) -> bool:
    return (run / RUN).exists() and not (run / FETCHED).exists()


def _is_sent(run: Path) -> bool:
    notes = read_notes(run)
    return notes is not None and END in notes.objects


def _date(run: Path) -> None:
    """Give the rows the time of the run's end, by which `reuse` sees without reading them that all are too old."""
    with suppress(InputError, FileNotFoundError):  # a ledger that cannot be read is reported when it is loaded
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
    """The thumbnails of one bucket and of its local cache: each travels once."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket = bucket
        self._folder = folder
        self._there: set[str] | None = None
        """Names of the thumbnails known to be in the bucket; None: it was not listed yet."""

    def send(self, rows: bytes) -> None:
        """Send the thumbnails that outcomes tell of and the bucket may lack."""
        shown = _pictures([rows])
        if shown and self._there is None:
            self._there = {*self._bucket.sizes("pictures")}
        there = self._there or set[str]()
        for names in slices([name for name in sorted(shown - there) if made(self._folder, Path(name).stem)]):
            self._bucket.put({name: read_file(self._folder, name) for name in names})
            there.update(names)

    def fetch(self, rows: Iterable[bytes]) -> None:
        """Bring the thumbnails that outcomes tell of and the local cache lacks."""
        judged = _judged(rows)
        lacking = sorted(name for name in judged if not (self._folder / name).exists())
        private_folder(self._folder / "pictures")
        for names in slices(lacking):
            for name, data in self._bucket.get(names).items():
                write_file(self._folder, name, data)
        for name, moment in judged.items():
            self._date(name, moment, name in lacking)

    def _date(self, name: str, moment: float, is_new: bool) -> None:
        """Give a picture the time of its last judgment, by which it is removed when it is old."""
        with suppress(OSError):  # it was not in the bucket either
            if is_new or (self._folder / name).stat().st_mtime < moment:
                os.utime(self._folder / name, (moment, moment), follow_symlinks=False)


def _pictures(rows: Iterable[bytes]) -> set[str]:
    """Names of the thumbnails of all pictures that rows tell of; quotes inside of texts are escaped and never match."""
    return {f"pictures/{sha256.decode()}.jpg" for lines in rows for sha256 in PICTURE.findall(lines)}


def _judged(rows: Iterable[bytes]) -> dict[str, float]:
    """Name of each thumbnail that outcomes tell of -> when its picture was last judged, as a Unix time."""
    found: dict[str, float] = {}
    for line in (line for lines in rows for line in lines.splitlines()):
        told = _DECIDED.search(line)
        moment = ledger.moment_of(told[1].decode()) if told else None
        for name in _pictures([line]):
            found[name] = max(found.get(name, 0.0), moment.timestamp() if moment else time.time())
    return found
