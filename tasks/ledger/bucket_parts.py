"""Numbered parts: how a file that only grows is kept where nothing can be appended.

Owns how a ledger's file is cut into parts of whole lines, what they are called, how they come together again, which of
them are lacking, and the notes of what has been sent. A part, once cut, never changes. Where the parts lie, and when
they travel, is `remote`'s.
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
"""The files of a ledger that grow."""
PART_BYTES = 8_000_000
"""A part ends with the line that reaches this, so that memory stays flat."""
SENT = "sent.json"
"""The notes, in the folder of the run."""


class Part(NamedTuple):
    """One part and the place of its bytes in the file; a file that travels whole is a part that begins at 0."""

    name: str
    file: str
    start: int
    size: int


class Sent(Record):
    """What of a run has been sent."""

    ends: dict[str, tuple[int, ...]]
    """File -> where each of its parts ends, in bytes. Noted before a part is sent: after a crash, or a reply that got
    lost, the same number is sent with the same bytes, however much the file has grown meanwhile."""
    objects: tuple[str, ...]
    """Names of what has arrived, parts and whole files."""

    def parts(self) -> list[Part]:
        """All parts that were cut, in their order."""
        return [
            Part(_name(file, number), file, start, end - start)
            for file, ends in self.ends.items()
            for number, (start, end) in enumerate(zip((0, *ends), ends, strict=False), 1)
        ]

    def cut(self, run: Path) -> "Sent":
        """With new parts for the whole lines that came since; a torn last line waits for its end."""
        ends = {file: (*self.ends.get(file, ()), *_new_ends(run / file, self.ends.get(file, ()))) for file in PARTED}
        return Sent(ends=ends, objects=self.objects)

    def arrived(self, name: str) -> "Sent":
        """With one more object that is there."""
        return Sent(ends=self.ends, objects=(*self.objects, name))


def whole(run: Path, name: str) -> Part:
    """A file of a run that does not grow."""
    return Part(name, name, 0, (run / name).stat().st_size)


def sent_before(sizes: Mapping[str, int]) -> Sent:
    """What has been sent of a run whose folder in the bucket has these objects."""
    ends = {file: tuple(part.start + part.size for part in _parts_there(file, sizes)) for file in PARTED}
    return Sent(ends=ends, objects=tuple(sizes))


def lacking_parts(run: Path, sizes: Mapping[str, int]) -> Iterator[Part]:
    """What the bucket has of a run and its folder here lacks; `end.json` only when the bucket misses no part."""
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
    """The lines of a part, from the file of the run."""
    with open_regular(run / part.file) as file:
        file.seek(part.start)
        return file.read(part.size)


def read_notes(run: Path) -> Sent | None:
    """What was noted as sent; None where there are no notes that can be read."""
    with suppress(FileNotFoundError, ValidationError):
        return Sent.model_validate_json(read_regular(run / SENT, MOST_BYTES))
    return None


def write_notes(run: Path, sent: Sent) -> None:
    """Keep what has been sent."""
    write_file(run.parents[1], f"ledger/{run.name}/{SENT}", sent.model_dump_json().encode())


def _parts_there(file: str, sizes: Mapping[str, int]) -> list[Part]:
    """The parts of a file among what lies in a folder, from the first up to the first that is missing."""
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
