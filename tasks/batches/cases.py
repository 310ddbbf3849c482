"""Samples in hand, put down with a run that waits: what they were when they were handed in is what they are judged as,
whatever became of the dataset since.

Owns the form in which they are kept, and what a call is called in a batch.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tasks.judging.case import Call, Case
from tasks.kinds.values import Lack
from tasks.pictures.prepare import Picture
from tasks.records import Judgment, PictureNote, Record, Sample

CASES = "cases.jsonl"


class KeptCase(Record):
    """A case without its pictures' bytes, which stand in the requests."""

    sample: Sample
    texts: dict[str, str]
    pictures: dict[str, PictureNote]
    lack: Lack | None
    calls: tuple[Call, ...]
    judgments: tuple[Judgment, ...]
    """Replies of earlier runs that are taken over."""


def kept(case: Case) -> bytes:
    """A case as a line of a file."""
    form = KeptCase(
        sample=case.sample,
        texts=case.texts,
        pictures=case.notes(),
        lack=case.lack,
        calls=case.calls,
        judgments=tuple(case.judgments),
    )
    return form.model_dump_json().encode() + b"\n"


def read_cases(work: Path) -> Iterator[Case]:
    """The cases of a run that waits, in the order in which they were put down."""
    with (work / CASES).open("rb") as lines:
        for line in lines:
            form = KeptCase.model_validate_json(line)
            pictures = {role: Picture(note, b"") for role, note in form.pictures.items()}
            yield Case(form.sample, form.texts, pictures, form.lack, form.calls, [*form.judgments])


def place_of(case: Case) -> tuple[str, str, str]:
    """What tells a case of a run from all others."""
    return case.sample.candidate, case.sample.sample_id, case.sample.control


def custom_id(case: Case, call: Call, turn: int) -> str:
    """What a call is called in its batch: two samples may ask the very same."""
    named = "\n".join((call.key, *place_of(case), str(turn)))
    return hashlib.sha256(named.encode()).hexdigest()[:32]
