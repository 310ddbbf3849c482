"""Thumbnails on their way between a local cache and its bucket: each travels once.

Owns the note of those known to be in the bucket. When they travel is up to `remote`.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tasks.files import private_folder, write_whole
from tasks.ledger.bucket import BATCH_OBJECTS, Bucket
from tasks.ledger.reading import moment_of
from tasks.pictures.thumbnails import made

PICTURES = "pictures.txt"
"""In the local cache: names of the thumbnails known to be in the bucket, one a line."""

_DECIDED = re.compile(rb'"decided_at":\s*"([0-9T:.+Z-]{1,40})"')
_PICTURE = re.compile(rb'"source_sha256":\s*"([0-9a-f]{64})"')


class RemotePictures:
    """The thumbnails of one bucket and of its local cache.

    Raises:
        RemoteUnavailable: from every method, when the network or the store fails.
    """

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket = bucket
        self._folder = folder

    def send(self, rows: bytes) -> None:
        """Send the thumbnails that outcomes tell of and the bucket may lack."""
        note = self._folder / PICTURES
        known = note.read_text(encoding="utf-8") if note.exists() else ""
        new = sorted(_pictures([rows]) - set(known.split()))
        for names in _slices([name for name in new if made(self._folder, Path(name).stem)]):
            self._bucket.put({name: (self._folder / name).read_bytes() for name in names})
            self._know(names)

    def fetch(self, rows: Iterable[bytes]) -> None:
        """Bring the thumbnails that outcomes tell of and the local cache lacks."""
        judged = _judged(rows)
        lacking = sorted(name for name in judged if not (self._folder / name).exists())
        private_folder(self._folder / "pictures")
        for names in _slices(lacking):
            found = self._bucket.get(names)
            for name, data in found.items():
                write_whole(self._folder / name, data, private=True)
            self._know(found)
        for name, moment in judged.items():
            self._date(name, moment, name in lacking)

    def _date(self, name: str, moment: float, is_new: bool) -> None:
        """Give a picture the time of its last judgment, by which it is removed when it is old."""
        with suppress(OSError):  # it was not in the bucket either
            if is_new or (self._folder / name).stat().st_mtime < moment:
                os.utime(self._folder / name, (moment, moment))

    def _know(self, pictures: Iterable[str]) -> None:
        with (self._folder / PICTURES).open("a", encoding="utf-8") as note:
            note.write("".join(f"{name}\n" for name in pictures))


def _pictures(rows: Iterable[bytes]) -> set[str]:
    """Names of the thumbnails of all pictures that rows tell of; quotes inside of texts are escaped and never match."""
    return {f"pictures/{sha256.decode()}.jpg" for lines in rows for sha256 in _PICTURE.findall(lines)}


def _judged(rows: Iterable[bytes]) -> dict[str, float]:
    """Name of each thumbnail that outcomes tell of -> when its picture was last judged, as a Unix time."""
    found: dict[str, float] = {}
    for line in (line for lines in rows for line in lines.splitlines()):
        told = _DECIDED.search(line)
        moment = moment_of(told[1].decode()) if told else None
        for name in _pictures([line]):
            found[name] = max(found.get(name, 0.0), moment.timestamp() if moment else time.time())
    return found


def _slices(names: list[str]) -> Iterator[list[str]]:
    return (names[first : first + BATCH_OBJECTS] for first in range(0, len(names), BATCH_OBJECTS))
