"""Passports: exams of the judges' vision, kept as a ledger beside those of the runs.

`<store>/passports/<passport_id>/` has `passport.json` (at the start), `replies.jsonl` (each reply on arrival) and
`card.json` (once, at the end). Without a card the passport is unfinished, and the next one reuses its replies. The
history's table `passports` is loaded from these files. `tasks.passport` defines questions and pass marks.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tasks.errors import InputError
from tasks.files import keep_private, private_folder, read_file, write_file
from tasks.ledger import run_files as ledger
from tasks.ledger.bucket import MOST_OBJECT, Bucket
from tasks.ledger.run_files import append_line, line_of, write_record
from tasks.records import SCHEMA, HistoryRecord, Int32, JudgmentStatus

PASSPORT, REPLIES, CARD = "passport.json", "replies.jsonl", "card.json"

_FILES = (PASSPORT, REPLIES, CARD)
_ID = re.compile(r"\d{8}T\d{9}-passport-[0-9a-f]{6}")
"""Ids of passports: a bucket may contain names that lead elsewhere."""

LineState = Literal["passed", "failed", "not measured"]


class PassportStart(HistoryRecord):
    """Start record of a passport: `passport.json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    passport_id: str
    """Name of the passport and of its folder; ids sort by time."""
    judge: str
    """Name by which the judge is requested."""
    endpoint: str
    """Address of the judge."""
    started_at: str
    """Time of the first question, UTC, ISO 8601."""
    version: str
    """Version of Image Jury."""
    edition: str
    """Edition of the questions: with the same seed, another edition asks other questions."""
    seed: int
    """Seed of the drawn pictures; equal for passports with the same questions."""
    settings: dict[str, str]
    """Sampling parameters and other options sent with every question, as in a run's protocol."""


class PassportReply(HistoryRecord):
    """Reply to one question: a row of `replies.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    key: str
    """SHA-256 of all properties that identify the question."""
    line: str
    item: int
    status: JudgmentStatus
    """Status; invalid: the reply has no answer of the requested form."""
    answer: str | int | tuple[str, ...] | None
    """Parsed answer; None: there is none."""
    expected: str | int | tuple[str, ...]
    right: bool
    raw: str
    error: str
    pictures: tuple[str, ...]
    """SHA-256 of each picture as sent."""
    rung: str
    judge_answered: str
    not_sent: tuple[str, ...]
    asked_at: str
    reused_from: str = ""
    """Unfinished passport whose reply was reused; empty: the question was asked."""


class CardLine(HistoryRecord):
    """Line of a card."""

    line: str
    """Name of the test: text, counting, two_pictures, …"""
    title: str
    """Ability of a judge that passes."""
    state: LineState
    """passed, failed, or not measured (replies are missing)."""
    items: Int32
    """Questions that count; 0: the line measures all replies."""
    right_answers: Int32
    """Questions answered correctly."""
    unanswered: Int32
    """Questions without a reply because the judge was unavailable."""
    pass_mark: Int32
    """Correct answers needed to pass the line."""
    chance: float
    """Share of questions that a guessing judge answers correctly."""
    guessing: float
    """Share of guessing judges that pass the line."""
    found: str
    """Further findings, in words."""
    needed_by: tuple[str, ...]
    """Flows that need the line."""


class Card(HistoryRecord):
    """Result of a passport: `card.json`."""

    schema_version: Int32 = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    passport_id: str
    """Name of the passport and of its folder; ids sort by time."""
    judge: str
    """Name by which the judge is requested."""
    endpoint: str
    """Address of the judge."""
    judge_answered: str
    """Names in the judge's replies."""
    finished_at: str
    """Time after the last reply, UTC, ISO 8601."""
    edition: str
    """Edition of the questions: with the same seed, another edition asks other questions."""
    seed: int
    """Seed of the drawn pictures; equal for passports with the same questions."""
    calls: Int32
    """Questions asked for this passport, without the replies reused from an unfinished one."""
    seconds: float
    """Wall time."""
    lines: tuple[CardLine, ...] = ()

    def failed(self) -> tuple[CardLine, ...]:
        """Return the lines that were not passed, including those with missing replies."""
        return tuple(line for line in self.lines if line.state in ("failed", "not measured"))


class PassportLedger:
    """Folder of one passport, written only by the process that makes it."""

    def __init__(self, store: Path, start: PassportStart) -> None:
        self.folder = folder(store, start.passport_id)
        private_folder(self.folder)
        write_record(self.folder / PASSPORT, start)
        self._file = FileIO(self.folder / REPLIES, "ab")
        keep_private(self.folder / REPLIES)

    def append(self, row: PassportReply) -> None:
        """Append one reply. Raises OSError; the file then has nothing of the reply."""
        append_line(self._file, line_of(row))

    def end(self, card: Card) -> None:
        """Mark the passport as finished."""
        write_record(self.folder / CARD, card)

    def close(self) -> None:
        """Close the file; without `end` the passport is unfinished."""
        self._file.close()


def folder(store: Path, passport_id: str) -> Path:
    """Return the folder of the passport with this id."""
    return store / "passports" / passport_id


def passport_folders(store: Path) -> list[Path]:
    """Return the folders of all finished passports, oldest first."""
    return ledger.folders_with(store, "passports", CARD)


def read_card(place: Path) -> Card:
    """Return the card in a folder.

    Raises:
        InputError: it is damaged, of a newer version, or of another passport.
    """
    card = ledger.read_record(place / CARD, Card)
    if card.passport_id != place.name:
        raise InputError(f"{place / CARD}: refused: it is the card of another passport")
    if ledger.moment_of(card.finished_at) is None:
        raise InputError(f"{place / CARD}: damaged: finished_at is no time in ISO 8601 with a time zone")
    return card


def newest_card(store: Path, model: str, endpoint: str) -> Card | None:
    """Return the newest readable card of a judge; None: there is none."""
    for place in reversed(passport_folders(store)):
        with suppress(InputError, OSError):
            card = read_card(place)
            if (card.judge, card.endpoint) == (model, endpoint):
                return card
    return None


def unfinished_replies(store: Path) -> dict[str, tuple[str, PassportReply]]:
    """Return passport and reply by key, from passports without a card: these replies were paid for."""
    found: dict[str, tuple[str, PassportReply]] = {}
    for place in ledger.folders_with(store, "passports", PASSPORT):
        if not (place / CARD).exists():
            with suppress(InputError, OSError):  # the rows before a damaged one are used
                for row in ledger.read_rows(place / REPLIES):
                    reply = ledger.validate_row(PassportReply, row, place / REPLIES)
                    found[reply.key] = place.name, reply
    return found


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """Return the card in a folder as rows of the history's table `passports`, a line each; raises as `read_card`."""
    card = read_card(place)
    about: Mapping[str, Any] = card.model_dump(mode="json", exclude={"lines"})
    return ({**line.model_dump(mode="json"), **about} for line in card.lines)


def exchange_passports(bucket: Bucket, store: Path) -> tuple[list[str], list[str]]:
    """Send the finished passports that the bucket lacks and fetch those that the local cache lacks; return their ids.

    `card.json` goes last: its presence means a complete passport.

    Raises:
        RemoteUnavailable: the network or the store fails; passports sent or fetched before are kept.
    """
    parts = (path.split("/") for path in bucket.sizes("passports", MOST_OBJECT))
    there = {name for _, name, *file in parts if file == [CARD] and _ID.fullmatch(name)}
    here = {place.name for place in passport_folders(store)}
    sent, fetched = sorted(here - there), sorted(there - here)
    for name in sent:
        for file in _FILES:
            bucket.put({_object(name, file): read_file(store, _object(name, file))})
    found = bucket.get([_object(name, file) for name in fetched for file in _FILES])
    for name in fetched:
        for file in _FILES:
            write_file(store, _object(name, file), found.get(_object(name, file), b""))
    return sent, fetched


def _object(name: str, file: str) -> str:
    return f"passports/{name}/{file}"
