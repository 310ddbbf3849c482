"""Prompts of a checklist dataset, and the rules that their checks follow."""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, Field, ValidationError, field_validator

from tasks.datasets.entries import clean_text, id_fault, links_note, text_fault
from tasks.datasets.rows import Row, whole_texts
from tasks.errors import Problems, first_fault
from tasks.records import Check, CheckForm, Place
from tasks.text import json_fault, kind, listed, number_of, quoted

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBERS = _NUMBERS.split()
"""Number words, each at the index of its number."""
_YES_NO = ("yes", "no")
_FULL = ("2",)
"""Expected answer of an ordinal, which is worth half its value."""
MOST_WEIGHT = 1e6


class ChecklistPrompt(NamedTuple):
    """A text (prompt or method text) with its checks; a reader leaves out the fields from `where` on."""

    prompt_id: str
    key: str
    """Key of the record that holds the text."""
    written: object
    """Checks as a manifest has them."""
    category: str = ""
    names: tuple[str, ...] = ()
    """Names of its images in a folder or map, besides its id."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader."""
    drafted_by: str = ""
    """Model that drafted the checks; empty: none did."""
    where: str = ""
    """File and row, for messages."""
    place: Place = Place("")
    text: str = ""
    """Text as the judge reads it."""
    checks: tuple[Check, ...] = ()
    confirmed: int = 0
    """Number of drafted checks that a person confirmed."""


Draw = Callable[[Sequence[Row]], ChecklistPrompt]
"""Reader of the rows of one prompt."""


class Broken(Problems):
    """Rows that are left out, with the first problem of each."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, str] = {}

    def add(self, where: str, what: object) -> None:
        """Note one problem of a row."""
        self.count()
        self._rows.setdefault(where, str(what))

    @property
    def too_many(self) -> bool:
        """Return False: reading goes on, since the rows behind them are judged."""
        return False

    def in_words(self) -> str:
        """Return words that count and name the rows; empty: there are none."""
        rows = (f"{where} ({what})" for where, what in self._rows.items())
        left_out = f"{number_of(len(self._rows), 'row')} left out, since they cannot be read"
        return f"{left_out}: {listed(rows, 5)}" if self._rows else ""


def build_prompt(rows: Sequence[Row], broken: Problems, draw: Draw) -> ChecklistPrompt | None:
    """Return the prompt of these rows, the first of which holds its text; None, with problems noted, if it has any."""
    where, place, values = rows[0]
    try:
        drawn = draw(rows)
        if fault := next(filter(None, map(id_fault, drawn.prompt_id.split("/"))), None):
            raise fault
        if not isinstance(drawn.category, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"category is {kind(drawn.category)}, must be text")
        if words := text_fault(values, drawn.key):
            raise ValueError(words)
        text, links = clean_text(values[drawn.key])
        written = read_checks(drawn.written)
        checks = tuple(each.check() for each in written)
        faults = list(check_faults(checks))
    except KeyError as error:
        faults = [f"key {error} is missing"]
    except ValueError as error:
        faults = [str(error)]
    except (TypeError, AttributeError) as error:
        faults = [f"a value is not of the type that rows of this set have ({error}): compare it with another row"]
    else:
        if not faults:
            notes = (*drawn.notes, *links_note(links, "prompt"))
            confirmed = sum(each.confirmed for each in written)
            drawn = drawn._replace(notes=notes, checks=checks, confirmed=confirmed)
            return drawn._replace(where=where, place=place, text=text)
    for fault in faults:
        broken.add(where, fault)
    return None


class WrittenCheck(BaseModel, extra="forbid", strict=True):
    """A check as a manifest has it."""

    id: str = Field(min_length=1)
    question: str
    expected: list[str] = []
    form: CheckForm = "yes_no"
    options: dict[str, str] = {}
    group: str = ""
    parents: list[str] = []
    weight: float = 1.0
    absence: bool | None = None
    confirmed: bool = False
    """True once a person agrees with a check that a model drafted; only counted."""

    @field_validator("expected", mode="before")
    @classmethod
    def _texts(cls, value: object) -> list[str]:
        answers = cast(list[object], value) if isinstance(value, list) else [value]
        if any(isinstance(answer, bool) or not isinstance(answer, str | int | float) for answer in answers):
            raise ValueError("must be text, a number or a list of these")
        return [
            str(int(answer)) if isinstance(answer, float) and answer.is_integer() else str(answer).strip()
            for answer in answers
        ]

    def check(self) -> Check:
        """Return the check; without `absence`, it has it if it expects no or 0 alone."""
        given = tuple(self.expected) or (_FULL if self.form == "ordinal" else ())
        expected = tuple(map(str.casefold, given)) if self.form == "yes_no" else given
        absence = {*expected} == {"no"} or all(as_number(answer) == 0 for answer in expected)
        made: dict[str, Any] = {
            "expected": expected,
            "options": tuple(sorted(self.options.items())),
            "parents": tuple(self.parents),
            "absence": absence if self.absence is None else self.absence,
        }
        return Check(self.id, **self.model_dump(exclude={"id", "confirmed"}) | made)


def read_checks(value: object) -> list[WrittenCheck]:
    """Return the checks in a manifest's column, a list of objects or its JSON text.

    Raises ValueError, with the check and the reason, if one cannot be read.
    """
    if isinstance(value, str):
        try:
            value = whole_texts(json.loads(value))
        except json.JSONDecodeError as error:
            raise ValueError(f"'checks' is no JSON: {json_fault(error)}") from error
        except RecursionError as error:
            raise ValueError("'checks' is nested too deeply") from error
    if not isinstance(value, list):
        raise ValueError(f"'checks' is {kind(value)}, must be a list of objects")
    found: list[WrittenCheck] = []
    for number, written in enumerate(cast(list[object], value), 1):
        try:
            if isinstance(written, dict):  # null means an absent key
                written = {key: each for key, each in cast(dict[str, object], written).items() if each is not None}
            found.append(WrittenCheck.model_validate(written))
        except ValidationError as error:
            raise ValueError(f"check {number}: {first_fault(error)}") from error
    return found


def written_check(check: Check) -> dict[str, object]:
    """Return a check as a manifest has it."""
    fields = asdict(check)
    return {"id": fields.pop("check_id"), **fields, "options": dict(check.options)}


def as_number(answer: str) -> float | None:
    """Return the number that an answer is, in digits or as an English word up to twenty; None for any other text."""
    word = answer.strip().casefold()
    try:
        number = float(NUMBERS.index(word)) if word in NUMBERS else float(word)
    except ValueError:
        return None
    return number if isfinite(number) else None


def values_of(check: Check) -> list[object]:
    """Return the values of a check in the order of its fields; `astuple` would copy each of them."""
    return [getattr(check, field.name) for field in fields(check)]


@lru_cache(maxsize=1_000)
def asked_keys(checks: tuple[Check, ...]) -> Mapping[str, str]:
    """Return check -> a hash of all that its score depends on: question, right answers, weight, group and parents.

    Parents come before their children.

    All images of a prompt have the same checks, so they are hashed once. Ids are no part of it; those of the parents
    stand for their hashes, so that an edited parent changes its child, too.
    """
    by_id, keys = {check.check_id: check for check in checks}, dict[str, str]()
    for check_id in TopologicalSorter({check.check_id: check.parents for check in checks}).static_order():
        parents = tuple(sorted(keys[parent] for parent in by_id[check_id].parents))
        about = values_of(replace(by_id[check_id], check_id="", absence=False, parents=parents))
        keys[check_id] = sha256(json.dumps(about).encode()).hexdigest()[:16]
    return keys


def check_faults(checks: Sequence[Check]) -> Iterator[str]:
    """Yield all that is wrong with the checks of one prompt."""
    if not checks:
        yield "has no checks"
    ids = Counter(check.check_id for check in checks)
    yield from (f"check {quoted(check_id)} is there {times} times" for check_id, times in ids.items() if times > 1)
    for check in checks:
        for fault in _faults(check, ids.keys()):
            yield f"check {quoted(check.check_id)}: {fault}"
    try:
        TopologicalSorter({check.check_id: check.parents for check in checks}).prepare()
    except CycleError as error:
        yield f"the parents of checks lead in a circle: {' to '.join(map(quoted, error.args[1]))}"


def _faults(check: Check, ids: Container[str]) -> Iterator[str]:
    if not check.question.strip():
        yield "question is empty, must be text"
    if not 0 < check.weight <= MOST_WEIGHT:
        yield f"weight is {check.weight:g}, must be a number above 0, at most {MOST_WEIGHT:,.0f}"
    for parent in check.parents:
        if parent not in ids:
            yield f"parent {quoted(parent)} is no check of this prompt"
    if check.form == "choice" and len(check.options) < 2:
        yield "has the form choice, and needs at least two options"
    for letter, words in check.options:
        if not (len(letter) == 1 and "A" <= letter <= "Z") or not words.strip():
            yield f"option {quoted(letter)} must be a letter from A to Z, with words"
    if check.form != "choice" and check.options:
        yield f"has options, and the form {check.form}; options need the form choice"
    yield from _expected_faults(check)


def _expected_faults(check: Check) -> Iterator[str]:
    if not check.expected:
        yield "expected is empty"
    if check.form == "ordinal" and check.expected != _FULL:
        found = listed(map(quoted, check.expected))
        yield f"expected is {found}, must be 2 or left out: an ordinal is worth half its value"
    if check.form == "number":
        for answer in check.expected:
            number = as_number(answer)
            if number is None or number < 0 or not number.is_integer():
                yield f"expected is {quoted(answer)}, must be a whole number, 0 or above"
    if check.form in ("yes_no", "choice"):
        allowed = _YES_NO if check.form == "yes_no" else tuple(letter for letter, _ in check.options)
        for answer in check.expected:
            if answer not in allowed:
                yield f"expected is {quoted(answer)}, allowed are {listed(allowed)}"
        if allowed and set(allowed) <= set(check.expected):
            yield "every answer is expected"
