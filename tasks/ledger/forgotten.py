"""What a store was told to forget, kept without any of it, so that it goes again wherever it comes back from: another
machine's cache, a bucket, a backup.

Owns `<store>/forgotten/<mark_id>.json`, one each time that people ask for it, written before anything is removed and
never changed: when, what kind, how many rows, and the name as a salted hash alone. And `forgotten.jsonl` in the ledger
of a run that stays: how many of its own rows are gone. What is removed, and from where, is for `tasks.forgetting`.
"""

import hashlib
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from tasks.files import private_folder
from tasks.ledger.checksums import sealed
from tasks.ledger.reading import FORGOTTEN, read_record, read_rows, validate_row
from tasks.ledger.writing import write_record
from tasks.records import SCHEMA, Record

FOLDER = "forgotten"

Kind = Literal["run", "candidate", "sample"]


class Mark(Record):
    """One thing that is forgotten: `<mark_id>.json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    mark_id: str
    kind: Kind
    flow: str
    """Of this flow alone; empty: of all."""
    salt: str
    digest: str
    """SHA-256 of salt, kind and name: who knows the name can ask whether it is this one, and nobody can read it."""
    forgotten_at: str
    """UTC, ISO 8601. What was judged in runs that began later is not meant."""
    removed: dict[str, int]
    """Judgments, outcomes, pictures … -> how many were found when it was asked for."""

    def means(self, name: str) -> bool:
        """Whether it is the run, candidate or sample of this name that is forgotten."""
        return self.digest == _digest(self.salt, self.kind, name)


class Gone(Record):
    """Rows that one run lost at one time. Rows of `forgotten.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    mark_id: str
    kind: Kind
    forgotten_at: str
    samples: int
    """Those that were judged for themselves: neither controls nor anchors."""
    judgments: int
    outcomes: int

    @property
    def sentence(self) -> str:
        """What the reader of the run should know."""
        number = {0: "Controls or anchors", 1: "1 sample"}.get(self.samples, f"{self.samples:,} samples")
        of_whom = " of one candidate" if self.kind == "candidate" else ""
        verb = "was" if self.samples == 1 else "were"
        what = (
            f"{number}{of_whom} ({self.judgments:,} replies) {verb} forgotten on {self.forgotten_at[:10]} at a request"
        )
        return f"{what}: no count and no score of this run has them, and they are no missing output."


def new_mark(kind: Kind, name: str, flow: str) -> Mark:
    """A mark of now, which nobody has kept yet."""
    now, salt = datetime.now(UTC), secrets.token_hex(16)
    return Mark(
        mark_id=f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}",
        kind=kind,
        flow=flow,
        salt=salt,
        digest=_digest(salt, kind, name),
        forgotten_at=now.isoformat(),
        removed={},
    )


def keep_mark(store: Path, mark: Mark) -> None:
    """Write a mark: from here on every machine that has it removes what it means."""
    private_folder(store / FOLDER)
    write_record(store / FOLDER / f"{mark.mark_id}.json", mark)


def marks(store: Path) -> list[Mark]:
    """All marks of a store, oldest first; InputError where one is damaged."""
    return [read_record(file, Mark) for file in sorted((store / FOLDER).glob("[!.]*.json"))]


def token_of(mark_id: str) -> str:
    """What stands in the place of a forgotten run's name; it sorts before the names of all runs."""
    return f"0-forgotten-{mark_id}"


def forgotten_rows(run: Path) -> Iterator[Gone]:
    """What a run has lost; InputError where that is damaged."""
    path = run / FORGOTTEN
    return (validate_row(Gone, row, path, number) for number, row in enumerate(read_rows(path), 1))


def with_gone(run: Path, gone: Gone) -> bytes:
    """The file that tells of what a run has lost, with one more row, in place of the one that a kill of the same work
    left behind: of that some rows may be gone already.
    """
    rows = {row.mark_id: row for row in forgotten_rows(run)}
    known = rows.get(gone.mark_id, gone)
    most = {name: max(getattr(known, name), getattr(gone, name)) for name in ("samples", "judgments", "outcomes")}
    rows[gone.mark_id] = gone.model_copy(update=most)
    return b"".join(sealed(row.model_dump_json()) for row in rows.values())


def _digest(salt: str, kind: str, name: str) -> str:
    return hashlib.sha256("\n".join((salt, kind, name)).encode("utf-8", "replace")).hexdigest()
