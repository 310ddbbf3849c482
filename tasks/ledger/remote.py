"""Remote stores: the ledgers of many machines in one bucket.

Owns what lies in the bucket and how it comes and goes. A run works on a local cache, an ordinary store on the local
disk. Its ledger is sent as numbered parts, each written once, and `end.json` last: where it is, all is. `fetch` brings
the runs of other machines into the local cache. What rows mean is left to `reading`, the history to `tasks.history`.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.files import alone, private_folder, write_whole
from tasks.ledger import reading as ledger
from tasks.ledger.bucket import BATCH_OBJECTS, Bucket, RemoteUnavailable, checked_url
from tasks.ledger.bucket_parts import (
    PART_BYTES,
    PARTED,
    Part,
    Sent,
    lacking_parts,
    read_notes,
    read_part,
    sent_before,
    whole,
    write_notes,
    write_part,
)
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN
from tasks.ledger.remote_folders import fetch_folder, send_folder
from tasks.ledger.remote_pictures import RemotePictures

FETCHED = "fetched.txt"
"""Marks the folder of a run that another machine made, or may go on with; says where it came from."""
BATCH_BYTES = 32_000_000
"""At most so much, or one object, travels together and is held in memory."""

_RUN_ID = re.compile(r"\w[\w.-]*")


def is_remote(store: str) -> bool:
    """Whether a store is a URL such as s3://bucket/prefix, or was meant to be one, and no local folder."""
    return re.match(r"[^/\\]{2,}:/", store) is not None


def local_cache(store: str) -> Path:
    """The local folder in which runs on a store work: a local store itself; for a remote one a folder of its own.

    It lies under JURY_CACHE where that is set (JURY_MIRROR is its former name), else under `~/.cache/image-jury`.

    Raises:
        InputError: the URL is malformed, or holds credentials or a query.
    """
    if not is_remote(store):
        return Path(store)
    url = checked_url(store)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", url.partition("://")[2]).strip("-.")[:48]
    base = os.environ.get("JURY_CACHE") or os.environ.get("JURY_MIRROR")
    folder = Path(base) if base else Path.home() / ".cache" / "image-jury"
    return folder / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


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
        self._pictures = RemotePictures(self.bucket, folder)

    def send(self, run_id: str) -> None:
        """Send what is new of a run made here: its whole lines with their pictures, and at its end `end.json`."""
        self._send(ledger.folder(self.folder, run_id))

    def send_held(self, run_id: str) -> None:
        """The same of a run that waits for its batches and belongs to whoever has its lease: this process has it."""
        run = ledger.folder(self.folder, run_id)
        if (run / RUN).exists():
            self._mark(run)
            self._send_parts(run)

    def fetch_held(self, run_id: str) -> None:
        """Have here what the bucket has of such a run. What is here beyond that stays only where it goes on from it."""
        run, sizes = ledger.folder(self.folder, run_id), self._runs([f"ledger/{run_id}"]).get(run_id, {})
        notes = read_notes(run)
        if (run / RUN).exists() and ((notes and notes.goes_on_from(sizes)) or not sizes):
            return
        if run.exists() and sizes:
            shutil.rmtree(run)
        if RUN in sizes:
            self._keep_all(_Travelling(run, part) for part in lacking_parts(run, sizes))

    def send_all(self) -> list[str]:
        """Send what is new of every run made here, also of crashed ones; returns the ids of those that had any."""
        return [run.name for run in ledger.run_folders(self.folder) if self._send(run)]

    def fetch(self, since: datetime | None = None) -> list[str]:
        """Bring what is new of the runs that others made into the local cache; returns the ids of those that had any.

        Where a part is missing its file stops before it and the run stays unfinished, until a later fetch.

        Args:
            since: only runs that began then or later; with a time zone.
        """
        return sorted(self._keep_all(self._lacking(since)))

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

    def fetch_run(self, run_id: str) -> None:
        """Bring what is new of one run that others made."""
        sizes, run = self._runs([f"ledger/{run_id}"]).get(run_id, {}), ledger.folder(self.folder, run_id)
        if RUN in sizes and not _is_own(run):
            self._keep_all(_Travelling(run, part) for part in lacking_parts(run, sizes))

    def send_pictures(self, rows: Path) -> None:
        """Send the thumbnails that rows of a file tell of and the bucket may lack."""
        for lines in _blocks(rows):
            self._pictures.send(lines)

    def fetch_pictures(self, rows: Path) -> None:
        """Bring the thumbnails that rows of a file tell of and the local cache lacks."""
        for lines in _blocks(rows):
            self._pictures.fetch([lines])

    def fetch_folder(self, name: str) -> None:
        """Bring what the local cache lacks of a folder of whole files, which are never changed."""
        fetch_folder(self.bucket, self.folder, name)

    def send_folder(self, name: str) -> None:
        """Send what the bucket lacks of such a folder."""
        send_folder(self.bucket, self.folder, name)

    # Sending

    def _send(self, run: Path) -> bool:
        if not _is_own(run) or _is_sent(run):
            return False
        return self._send_parts(run)

    def _send_parts(self, run: Path) -> bool:
        with alone(run / RUN):  # two would cut it differently under the same numbers
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

    def _lacking(self, since: datetime | None) -> Iterator[_Travelling]:
        """What to fetch, in the order in which it is to be kept."""
        folders = ["ledger"]
        if since:
            first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
            folders = [f"ledger/{run_id}" for run_id in self.bucket.folders("ledger") if run_id >= first]
        for run_id, sizes in sorted(self._runs(folders).items()):
            run = ledger.folder(self.folder, run_id)
            if RUN in sizes and not _is_own(run):
                yield from (_Travelling(run, part) for part in lacking_parts(run, sizes))

    def _runs(self, folders: Iterable[str]) -> dict[str, dict[str, int]]:
        """Names and sizes of what lies in these folders, by run."""
        runs: dict[str, dict[str, int]] = {}
        for path, size in (found for folder in folders for found in self.bucket.sizes(folder).items()):
            run_id, _, name = path.removeprefix("ledger/").partition("/")
            if _RUN_ID.fullmatch(run_id):
                runs.setdefault(run_id, {})[name] = size
        return runs

    def _mark(self, run: Path) -> None:
        (run / FETCHED).write_text(f"{self.bucket.url}\n", encoding="utf-8")

    def _keep(self, wanted: _Travelling, data: bytes) -> None:
        run, part = wanted
        if part.file == RUN:
            private_folder(run)
            self._mark(run)
        if part.file in PARTED:
            write_part(run, part, data)
        else:
            write_whole(run / part.file, data, private=True)
        if part.file == END:
            _date(run)


def remote_of(store: str) -> Remote | None:
    """The bucket of a store, with its local cache; None: the store is a folder."""
    return Remote(store, local_cache(store)) if is_remote(store) else None


def _is_own(run: Path) -> bool:
    return (run / RUN).exists() and not (run / FETCHED).exists()


def _is_sent(run: Path) -> bool:
    notes = read_notes(run)
    return notes is not None and END in notes.objects


def _blocks(rows: Path) -> Iterator[bytes]:
    with rows.open("rb") as file:
        while lines := file.read(PART_BYTES) + file.readline():
            yield lines


def _date(run: Path) -> None:
    """Give the rows the time of the run's end, by which `reuse` sees without reading them that all are too old."""
    with suppress(InputError, FileNotFoundError):  # a ledger that cannot be read is reported when it is loaded
        if ended := ledger.read_end(run):
            moment = datetime.fromisoformat(ended.finished_at).timestamp()
            os.utime(run / JUDGMENTS, (moment, moment))


def _batches(items: Iterable[_Travelling]) -> Iterator[list[_Travelling]]:
    batch: list[_Travelling] = []
    for item in items:
        if batch and (len(batch) == BATCH_OBJECTS or sum(each.part.size for each in (*batch, item)) > BATCH_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
