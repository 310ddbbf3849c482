"""What a judge was found to see, kept as a ledger of its own beside those of the runs.

Owns `<store>/passports/<passport_id>/` with `passport.json` (at the start), `replies.jsonl` (each the moment it
arrives) and `card.json` (once, at the end; without it the passport is unfinished, and its replies are taken over by the
next one). It is the source of the history's table `passports`. What is asked, and what passes, is for `tasks.passport`.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tasks.errors import InputError
from tasks.files import keep_private, private_folder
from tasks.ledger import reading as ledger
from tasks.ledger.bucket import MOST_OBJECT, Bucket
from tasks.ledger.writing import append_line, line_of, write_record
from tasks.records import SCHEMA, HistoryRecord, JudgmentStatus
from tasks.store_files import read_file, write_file

PASSPORT, REPLIES, CARD = "passport.json", "replies.jsonl", "card.json"

_FILES = (PASSPORT, REPLIES, CARD)
_ID = re.compile(r"\d{8}T\d{9}-passport-[0-9a-f]{6}")
"""Id of a passport: a bucket may hold names that lead elsewhere."""

LineState = Literal["passed", "failed", "not measured", "told"]


class PassportStart(HistoryRecord):
    """What a passport set out to ask: `passport.json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    passport_id: str
    """Name of the passport and of its folder; ids sort by time."""
    judge: str
    """Judge, by the name that it is asked by."""
    endpoint: str
    """Address of the judge."""
    started_at: str
    """When the first question was asked, UTC, ISO 8601."""
    version: str
    """Of Image Jury."""
    edition: str
    """Of the questions: another one asks something else by the same seed."""
    seed: int
    """Of the drawn pictures: equal for passports that asked the very same."""
    settings: dict[str, str]
    """Sampling parameters and what else is sent with every question, as in a run's protocol."""


class PassportReply(HistoryRecord):
    """What came back to one question. Rows of `replies.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    key: str
    """SHA-256 of all that makes the question the same question."""
    line: str
    item: int
    turn: str
    """Empty, or why the same was asked again: `repeat 2`, `seed 3`."""
    status: JudgmentStatus
    """invalid: there is no answer of the form that was asked for."""
    answer: str | int | tuple[str, ...] | None
    """As it was read; None: there is none."""
    expected: str | int | tuple[str, ...]
    right: bool
    raw: str
    error: str
    pictures: tuple[str, ...]
    """SHA-256 of each picture as sent."""
    rung: str
    judge_answered: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    seconds: float
    waits: int
    not_sent: tuple[str, ...]
    asked_at: str
    reused_from: str = ""
    """Unfinished passport that the reply was taken over from; empty: it was asked for."""


class CardLine(HistoryRecord):
    """One line of a card."""

    line: str
    """Name of what was tested: text, counting, two_pictures, …"""
    title: str
    """What a judge that passes can do."""
    state: LineState
    """passed, failed, not measured (replies are missing), or told: a figure that nothing is asked of."""
    items: int
    """Questions that count; 0: the line measures all replies."""
    right_answers: int
    """Of those."""
    unanswered: int
    """Of those, without a reply because the judge was away."""
    pass_mark: int
    """Right answers from which on the line is passed."""
    chance: float
    """Share of questions that guessing answers rightly."""
    guessing: float
    """Share of guessing judges that pass the line."""
    found: str
    """What was found besides, in words."""
    needed_by: tuple[str, ...]
    """Flows that need the line."""


class Card(HistoryRecord):
    """What a passport came to: `card.json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    passport_id: str
    """Name of the passport and of its folder; ids sort by time."""
    judge: str
    """Judge, by the name that it is asked by."""
    endpoint: str
    """Address of the judge."""
    judge_answered: str
    """Names that it answered by."""
    finished_at: str
    """After the last reply, UTC, ISO 8601."""
    edition: str
    """Of the questions: another one asks something else by the same seed."""
    seed: int
    """Of the drawn pictures: equal for passports that asked the very same."""
    calls: int
    """Questions asked for this passport, without those whose replies an unfinished one had."""
    seconds: float
    """Wall time."""
    lines: tuple[CardLine, ...] = ()

    def failed(self) -> tuple[CardLine, ...]:
        """Lines that were not passed, be it for want of replies."""
        return tuple(line for line in self.lines if line.state in ("failed", "not measured"))


class PassportLedger:
    """The folder of one passport, written by the one process that makes it."""

    def __init__(self, store: Path, start: PassportStart) -> None:
        self.folder = folder(store, start.passport_id)
        private_folder(self.folder)
        write_record(self.folder / PASSPORT, start)
        self._file = FileIO(self.folder / REPLIES, "ab")
        keep_private(self.folder / REPLIES)

    def append(self, row: PassportReply) -> None:
        """Add one reply. Raises OSError, with nothing of it left in the file."""
        append_line(self._file, line_of(row))

    def end(self, card: Card) -> None:
        """Mark the passport as finished."""
        write_record(self.folder / CARD, card)

    def close(self) -> None:
        """Release the file; without `end` the passport stays unfinished."""
        self._file.close()


def folder(store: Path, passport_id: str) -> Path:
    """Where the passport with this id is kept."""
    return store / "passports" / passport_id


def passport_folders(store: Path) -> list[Path]:
    """Folders of all finished passports, oldest first."""
    return sorted(path.parent for path in (store / "passports").glob(f"*/{CARD}"))


def read_card(place: Path) -> Card:
    """The card in a folder.

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
    """The newest card of a judge that can be read; None: there is none."""
    for place in reversed(passport_folders(store)):
        with suppress(InputError, OSError):
            card = read_card(place)
            if (card.judge, card.endpoint) == (model, endpoint):
                return card
    return None


def unfinished_replies(store: Path) -> dict[str, tuple[str, PassportReply]]:
    """Key -> passport and reply, of those that passports without a card have: they were paid for."""
    found: dict[str, tuple[str, PassportReply]] = {}
    for place in sorted(path.parent for path in (store / "passports").glob(f"*/{PASSPORT}")):
        if not (place / CARD).exists():
            with suppress(InputError, OSError):  # what was written before a damaged row is believed
                for row in ledger.read_rows(place / REPLIES):
                    reply = PassportReply.model_validate(row)
                    found[reply.key] = place.name, reply
    return found


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """The card in a folder as rows of the history's table `passports`, a line each. Raises what `read_card` raises."""
    card = read_card(place)
    about: Mapping[str, Any] = card.model_dump(mode="json", exclude={"lines"})
    return ({**line.model_dump(mode="json"), **about} for line in card.lines)


def exchange_passports(bucket: Bucket, store: Path) -> tuple[list[str], list[str]]:
    """Send the finished passports that the bucket lacks and fetch those that the local cache lacks; returns their ids.

    `card.json` goes last: where it is, all is.

    Raises:
        RemoteUnavailable: the network or the store fails; what was done until then stays done.
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
