"""Remote stores: the ledgers of many machines in one bucket.

Owns what lies in the bucket and how it comes and goes. A run works on a mirror, an ordinary store on the local disk.
Its ledger is sent as numbered parts, each written once, and `end.json` last: where it is, all is. `fetch` brings the
runs of other machines into the mirror. What rows mean is left to `ledger`, the history of a mirror to `store`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tasks.files import write_whole
from tasks.ledger import reading as ledger
from tasks.ledger.bucket import Bucket, RemoteUnavailable, checked_url
from tasks.ledger.parts import (
    PARTED,
    Part,
    Sent,
    alone,
    is_part,
    parts_there,
    read_notes,
    read_part,
    write_notes,
    write_part,
)
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN

__all__ = ["Remote", "RemoteUnavailable", "is_remote", "mirror"]

FETCHED = "fetched.txt"
"""Marks the folder of a run that another machine made; says where it came from."""
PICTURES = "pictures.txt"
"""In the mirror: names of the thumbnails known to be in the bucket, one a line."""
BATCH_BYTES, BATCH_OBJECTS = 32_000_000, 256
"""At most so much, or one object, travels together and is held in memory."""

_RUN_ID = re.compile(r"\w[\w.-]*")
_PICTURE = re.compile(rb'"source_sha256":\s*"([0-9a-f]{64})"')


def is_remote(store: str) -> bool:
    """Whether a store is a URL such as s3://bucket/prefix, or was meant to be one, and no local folder."""
    return re.match(r"[^/\\]{2,}:/", store) is not None


def mirror(store: str) -> Path:
    """The local folder in which runs on a store work: a local store itself; for a remote one a folder of its own.

    It lies under JURY_MIRROR where that is set, else under `~/.cache/image-jury`.

    Raises:
        InputError: the URL is malformed, or holds credentials or a query.
    """
    if not is_remote(store):
        return Path(store)
    url = checked_url(store)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", url.partition("://")[2]).strip("-.")[:48]
    base = os.environ.get("JURY_MIRROR")
    folder = Path(base) if base else Path.home() / ".cache" / "image-jury"
    return folder / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


class _Wanted(NamedTuple):
    """What the bucket has of a run and the mirror lacks; whole files are parts that begin at 0."""

    run: Path
    part: Part

    @property
    def object(self) -> str:
        return f"ledger/{self.run.name}/{self.part.name}"


class Remote:
    """One remote store and its mirror. May be used from any thread, and by several processes on one mirror.

    Raises:
        InputError: the URL is malformed, or the package for its scheme is missing.
        RemoteUnavailable: from every method, when the network or the store fails; what was done until then stays done.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.bucket = Bucket(url)
        self.folder = folder

    def send(self, run_id: str) -> None:
        """Send what is new of a run made here: its whole lines with their pictures, and at its end `end.json`."""
        self._send(ledger.folder(self.folder, run_id))

    def send_all(self) -> list[str]:
        """Send what is new of every run made here, also of crashed ones; returns the ids of those that had any."""
        return [run.name for run in ledger.run_folders(self.folder) if self._send(run)]

    def fetch(self, since: datetime | None = None) -> list[str]:
        """Bring what is new of the runs that others made into the mirror; returns the ids of those that had any.

        Where a part is missing its file stops before it and the run stays unfinished, until a later fetch.

        Args:
            since: only runs that began then or later; with a time zone.
        """
        changed: set[str] = set()
        for batch in _batches(self._lacking(since)):
            found = self.bucket.get([wanted.object for wanted in batch])
            if any(len(found.get(wanted.object, b"")) != wanted.part.size for wanted in batch):
                raise RemoteUnavailable(f"The store {self.bucket.url} was changed while it was read")
            # Before the rows: once those are here, nobody asks for their pictures again.
            self._fetch_pictures(found[wanted.object] for wanted in batch if wanted.part.file == OUTCOMES)
            for wanted in batch:
                self._keep(wanted, found[wanted.object])
                changed.add(wanted.run.name)
        return sorted(changed)

    # Sending

    def _send(self, run: Path) -> bool:
        if not _is_own(run) or _is_sent(run):
            return False
        with alone(run):
            ended = (run / END).exists()  # asked first: once it is there, the other files have all their rows
            sent = (read_notes(run) or self._sent_before(run)).cut(run)
            parts = [_whole(run, RUN), *sent.parts(), *([_whole(run, END)] if ended else [])]
            due = [part for part in parts if part.name not in sent.objects]
            for part in due:
                write_notes(run, sent)
                self._send_part(run, part)
                sent = sent.arrived(part.name)
            write_notes(run, sent)
        return bool(due)

    def _sent_before(self, run: Path) -> Sent:
        """What the bucket has of a run without notes: nothing, or the run was copied here from another machine."""
        sizes = self._runs([f"ledger/{run.name}"]).get(run.name, {})
        parts = {file: parts_there(file, sizes) for file in PARTED}
        ends = {file: tuple(part.start + part.size for part in found) for file, found in parts.items()}
        return Sent(ends=ends, objects=tuple(sizes))

    def _send_part(self, run: Path, part: Part) -> None:
        data = read_part(run, part)
        if part.file == OUTCOMES:
            self._send_pictures(data)
        self.bucket.put({f"ledger/{run.name}/{part.name}": data})

    def _send_pictures(self, rows: bytes) -> None:
        known = (self.folder / PICTURES).read_text(encoding="utf-8") if (self.folder / PICTURES).exists() else ""
        new = sorted(_pictures([rows]) - set(known.split()))
        for names in _slices([name for name in new if (self.folder / name).exists()]):
            self.bucket.put({name: (self.folder / name).read_bytes() for name in names})
            self._know(names)

    # Fetching

    def _lacking(self, since: datetime | None) -> Iterator[_Wanted]:
        """What to fetch, in the order in which it is to be kept."""
        folders = ["ledger"]
        if since:
            first = f"{since.astimezone(UTC):%Y%m%dT%H%M%S}"
            folders = [f"ledger/{run_id}" for run_id in self.bucket.folders("ledger") if run_id >= first]
        for run_id, sizes in sorted(self._runs(folders).items()):
            run = ledger.folder(self.folder, run_id)
            if RUN in sizes and not _is_own(run):
                yield from (_Wanted(run, part) for part in _lacking_parts(run, sizes))

    def _runs(self, folders: Iterable[str]) -> dict[str, dict[str, int]]:
        """Names and sizes of what lies in these folders, by run."""
        runs: dict[str, dict[str, int]] = {}
        for path, size in (found for folder in folders for found in self.bucket.sizes(folder).items()):
            run_id, _, name = path.removeprefix("ledger/").partition("/")
            if _RUN_ID.fullmatch(run_id):
                runs.setdefault(run_id, {})[name] = size
        return runs

    def _keep(self, wanted: _Wanted, data: bytes) -> None:
        run, part = wanted
        if part.file == RUN:
            run.mkdir(parents=True, exist_ok=True)
            (run / FETCHED).write_text(f"{self.bucket.url}\n", encoding="utf-8")
        if part.file in PARTED:
            write_part(run, part, data)
        else:
            write_whole(run / part.file, data)
        if part.file == END:
            _date(run)

    def _fetch_pictures(self, rows: Iterable[bytes]) -> None:
        lacking = sorted(name for name in _pictures(rows) if not (self.folder / name).exists())
        (self.folder / "pictures").mkdir(parents=True, exist_ok=True)
        for names in _slices(lacking):
            found = self.bucket.get(names)
            for name, data in found.items():
                write_whole(self.folder / name, data)
            self._know(found)

    def _know(self, pictures: Iterable[str]) -> None:
        with (self.folder / PICTURES).open("a", encoding="utf-8") as note:
            note.write("".join(f"{name}\n" for name in pictures))


def _is_own(run: Path) -> bool:
    return (run / RUN).exists() and not (run / FETCHED).exists()


def _is_sent(run: Path) -> bool:
    notes = read_notes(run)
    return notes is not None and END in notes.objects


def _whole(run: Path, name: str) -> Part:
    return Part(name, name, 0, (run / name).stat().st_size)


def _lacking_parts(run: Path, sizes: dict[str, int]) -> Iterator[Part]:
    """What the bucket has of a run and its folder lacks; `end.json` only when no part is missing in the bucket."""
    there = {file: parts_there(file, sizes) for file in PARTED}
    complete = all(len(parts) == sum(is_part(name, file) for name in sizes) for file, parts in there.items())
    wholes = {name: Part(name, name, 0, sizes[name]) for name in (RUN, END) if name in sizes}
    if not (run / RUN).exists():
        yield wholes[RUN]
    for file, parts in there.items():
        have = (run / file).stat().st_size if (run / file).exists() else 0
        yield from (part for part in parts if part.start + part.size > have)
    if END in wholes and complete and not (run / END).exists():
        yield wholes[END]


def _date(run: Path) -> None:
    """Give the rows the time of the run's end, by which `ledger` sees without reading them that all are too old."""
    with suppress(ValueError, FileNotFoundError):  # a ledger that cannot be read is reported when it is loaded
        if ended := ledger.read_end(run):
            moment = datetime.fromisoformat(ended.finished_at).timestamp()
            os.utime(run / JUDGMENTS, (moment, moment))


def _pictures(rows: Iterable[bytes]) -> set[str]:
    """Names of the thumbnails of all pictures that rows tell of; quotes inside of texts are escaped and never match."""
    return {f"pictures/{sha256.decode()}.jpg" for lines in rows for sha256 in _PICTURE.findall(lines)}


def _slices(names: list[str]) -> Iterator[list[str]]:
    return (names[first : first + BATCH_OBJECTS] for first in range(0, len(names), BATCH_OBJECTS))


def _batches(items: Iterable[_Wanted]) -> Iterator[list[_Wanted]]:
    batch: list[_Wanted] = []
    for item in items:
        if batch and (len(batch) == BATCH_OBJECTS or sum(each.part.size for each in (*batch, item)) > BATCH_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
