"""Numbered parts of a file that only grows, for a place where nothing can be appended.

A part has whole lines and never changes once it is cut. This module names, cuts and joins parts, finds missing ones,
and keeps notes of the sent ones. `remote` decides where parts are stored and when they are transferred.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from tasks.files import open_regular, read_regular
from tasks.ledger.reading import BATCHES, END, JUDGMENTS, OUTCOMES, RUN
from tasks.records import Record
from tasks.store_files import MOST_BYTES, write_file

PARTED = (JUDGMENTS, OUTCOMES, BATCHES)
"""Files of a ledger that grow."""
PART_BYTES = 8_000_000
"""Bytes after which a part ends, with the line that reaches this size, so that memory stays flat."""
SENT = "sent.json"
"""File with the notes, in the folder of the run."""


class Part(NamedTuple):
    """Part of a file, with the position of its bytes; a file that is sent whole is one part that begins at 0."""

    name: str
    file: str
    start: int
    size: int


class Sent(Record):
    """Notes of the parts and files of a run that were sent."""

    ends: dict[str, tuple[int, ...]]
    """File -> end of each of its parts, in bytes. Noted before a part is sent: after a crash or a lost reply, the same
    number is sent with the same bytes, even if the file has grown since."""
    objects: tuple[str, ...]
    """Names of the parts and whole files that have arrived."""

    def parts(self) -> list[Part]:
        """Return all parts that were cut, in order."""
        return [
            Part(_name(file, number), file, start, end - start)
            for file, ends in self.ends.items()
            for number, (start, end) in enumerate(zip((0, *ends), ends, strict=False), 1)
        ]

    def cut(self, run: Path) -> "Sent":
        """Return the notes with new parts for the whole lines added since; a torn last line waits for its end."""
        ends = {file: (*self.ends.get(file, ()), *_new_ends(run / file, self.ends.get(file, ()))) for file in PARTED}
        return Sent(ends=ends, objects=self.objects)

    def arrived(self, name: str) -> "Sent":
        """Return the notes with one more object that has arrived."""
        return Sent(ends=self.ends, objects=(*self.objects, name))


def whole(run: Path, name: str) -> Part:
    """Return a file of a run that does not grow as one part."""
    return Part(name, name, 0, (run / name).stat().st_size)


def sent_before(sizes: Mapping[str, int]) -> Sent:
    """Return the notes of a run, from the objects in its folder in the bucket."""
    ends = {file: tuple(part.start + part.size for part in _parts_there(file, sizes)) for file in PARTED}
    return Sent(ends=ends, objects=tuple(sizes))


def lacking_parts(run: Path, sizes: Mapping[str, int]) -> Iterator[Part]:
    """Yield the parts of a run that only the bucket has; `end.json` only if the bucket misses no part."""
    there = {file: _parts_there(file, sizes) for file in PARTED}
    complete = all(len(parts) == sum(_is_part(name, file) for name in sizes) for file, parts in there.items())
    wholes = {name: Part(name, name, 0, sizes[name]) for name in (RUN, END) if name in sizes}
    if not (run / RUN).exists():
        yield wholes[RUN]
    for file, parts in there.items():
        have = (run / file).stat().st_size if (run / file).exists() else 0
        yield from (part for part in parts if part.start + part.size > have)
    if END in wholes and complete and not (run / END).exists():
        yield wholes[END]


def read_part(run: Path, part: Part) -> bytes:
    """Read the lines of a part from the file of the run."""
    with open_regular(run / part.file) as file:
        file.seek(part.start)
        return file.read(part.size)


def read_notes(run: Path) -> Sent | None:
    """Return the notes of a run; None if they are missing or damaged."""
    with suppress(FileNotFoundError, ValidationError):
        return Sent.model_validate_json(read_regular(run / SENT, MOST_BYTES))
    return None


def write_notes(run: Path, sent: Sent) -> None:
    """Write the notes of a run."""
    write_file(run.parents[1], f"ledger/{run.name}/{SENT}", sent.model_dump_json().encode())


def _parts_there(file: str, sizes: Mapping[str, int]) -> list[Part]:
    """Return the parts of a file that a folder has, from the first up to the first missing one."""
    parts: list[Part] = []
    start = 0
    for name in takewhile(sizes.__contains__, (_name(file, number) for number in count(1))):
        parts.append(Part(name, file, start, sizes[name]))
        start += sizes[name]
    return parts


def _is_part(name: str, file: str) -> bool:
    return re.fullmatch(rf"{Path(file).stem}-\d+{Path(file).suffix}", name) is not None


def _name(file: str, number: int) -> str:
    return f"{Path(file).stem}-{number:06}{Path(file).suffix}"


def _new_ends(path: Path, ends: tuple[int, ...]) -> Iterator[int]:
    if not path.exists():
        return
    end = ends[-1] if ends else 0
    with open_regular(path) as file:
        while True:
            file.seek(end)
            lines = file.read(PART_BYTES) + file.readline()
            length = lines.rfind(b"\n") + 1
            if not length:
                return
            end += length
            yield end
