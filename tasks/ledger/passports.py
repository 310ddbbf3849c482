"""Passports: exams of the judges' vision, each in one file `<store>/passports/<passport_id>/card.json`.

Until an exam ends, its replies are in `stopped.json` in its place. If it stops, the next one takes them over.
The history's table `passports` is loaded from these files. `tasks.passport` defines questions and pass marks.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tasks.errors import InputError
from tasks.files import remove_file, write_file
from tasks.ledger import run_files as ledger
from tasks.ledger.run_files import record_bytes
from tasks.records import HistoryRecord, Int32, JudgmentStatus, LedgerRecord, Record

PASSPORTS, CARD, STOPPED = "passports", "card.json", "stopped.json"

LineState = Literal["passed", "failed", "not measured"]


class PassportReply(Record):
    """Reply to one question."""

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
    """Beginning of the reply."""
    error: str
    pictures: tuple[str, ...]
    """SHA-256 of each picture as sent."""
    rung: str
    judge_answered: str
    not_sent: tuple[str, ...]
    asked_at: str


class StoppedExam(LedgerRecord):
    """Replies of an exam that stopped: `stopped.json`."""

    replies: tuple[PassportReply, ...]


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


class Card(LedgerRecord):
    """Result of a passport: `card.json`."""

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
    """Questions asked."""
    seconds: float
    """Wall time."""
    lines: tuple[CardLine, ...] = ()
    replies: tuple[PassportReply, ...] = ()
    """Reply to each question, in order of arrival."""

    def failed(self) -> tuple[CardLine, ...]:
        """Return the lines that were not passed, including those with missing replies."""
        return tuple(line for line in self.lines if line.state in ("failed", "not measured"))


def keep_exam(store: Path, passport_id: str, exam: Card | StoppedExam) -> None:
    """Write a card, or the replies of an exam that has not ended, whole or not at all; a card replaces the replies."""
    place, ended = f"{PASSPORTS}/{passport_id}", isinstance(exam, Card)
    write_file(store, f"{place}/{CARD if ended else STOPPED}", record_bytes(exam))
    if ended:
        remove_file(store, f"{place}/{STOPPED}")


def stopped_replies(store: Path) -> dict[str, PassportReply]:
    """Return the replies of exams that stopped, which were paid for, by the key of their questions."""
    found: dict[str, PassportReply] = {}
    for place in ledger.folders_with(store, PASSPORTS, STOPPED):
        if (place / CARD).exists():  # it ended: a bucket returned the replies, or the exam was killed at its end
            continue
        with suppress(InputError, OSError):  # a damaged file costs questions that are asked again
            found |= {reply.key: reply for reply in ledger.read_record(place / STOPPED, StoppedExam).replies}
    return found


def passport_folders(store: Path) -> list[Path]:
    """Return the folders of all passports, oldest first."""
    return ledger.folders_with(store, PASSPORTS, CARD)


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


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """Return the card in a folder as rows of the history's table `passports`, a line each; raises as `read_card`."""
    card = read_card(place)
    about: Mapping[str, Any] = card.model_dump(mode="json", exclude={"lines", "replies"})
    return ({**line.model_dump(mode="json"), **about} for line in card.lines)
