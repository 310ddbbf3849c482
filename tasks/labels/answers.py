"""The file that a page for people saves, read back: blind answers become labels of samples.

Owns the file's form and what can be wrong with its rows. What the page's items are is kept by `ledger.label_pages`;
how labels are kept is for `ledger.label_sets`. The check of each row tells what was changed after the page saved it; it
is no signature, for the page that makes it is open to whoever has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast
from zlib import crc32

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.errors import InputError, Problems
from tasks.kinds import kind_of
from tasks.kinds.values import UNANSWERED
from tasks.ledger.label_pages import LabelItem, LabelPage
from tasks.ledger.label_sets import LabelRow
from tasks.records import Record
from tasks.text import listed, quoted

FORMAT = "image-jury labels 1"
NO_ANSWER = "no answer"
"""Of a question beside which there is only a comment."""
_BETWEEN = "\x1f"


class Answer(Record):
    """One row of a saved file."""

    item: str
    question: str
    answer: str
    """Empty: there is only a comment."""
    comment: str
    check: str
    """CRC-32 over page, name and the texts above."""


class Saved(NamedTuple):
    """A saved file, before its rows are checked."""

    page: str
    name: str
    """Who answered: a pseudonym, or the name that a person chose."""
    rows: Sequence[object]


def saved_file(data: bytes) -> Saved | None:
    """What a page saved; None where this is no such file.

    Raises:
        InputError: it is one, but has not the parts of one.
    """
    try:
        found = from_json(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or "format" not in found:
        return None
    parts = cast("dict[str, Any]", found)
    if parts["format"] != FORMAT:
        raise InputError(f"format is {quoted(str(parts['format']))}, known here is {FORMAT!r}: upgrade Image Jury")
    page, name, rows = parts.get("page"), parts.get("name"), parts.get("answers")
    if not isinstance(page, str) or not isinstance(name, str) or not name.strip() or not isinstance(rows, list):
        raise InputError("it has not the page, the name and the list of answers that a page saves: save it again")
    return Saved(page, name, cast("list[object]", rows))


def labels_of(saved: Saved, page: LabelPage, source: str) -> list[LabelRow]:
    """The labels in a saved file, bound to the samples and pictures that its page showed.

    Raises:
        InputError: all that is wrong with its rows: changed, doubled, or of another page.
    """
    problems = Problems()
    items = {item.token: item for item in page.items}
    labels: list[LabelRow] = []
    first: dict[tuple[str, str], str] = {}
    for where, row in _rows(saved, source, problems):
        if wrong := _wrong(row, saved, page, items):
            problems.add(where, wrong)
        elif (known := first.setdefault((row.item, row.question), where)) != where:
            problems.add(where, f"answers again what {known} answers")
        else:
            labels.append(_label(row, saved, page, items[row.item]))
    if not saved.rows:
        problems.add(source, "holds no answer")
    problems.stop(f"labels {source}")
    return labels


def check_of(page: str, name: str, *texts: str) -> str:
    """The check of a row, as `label.js` makes it: CRC-32, in hex, over these texts in UTF-8, with separators."""
    return f"{crc32(_BETWEEN.join((page, name, *texts)).encode('utf-8', 'replace')):08x}"


def _rows(saved: Saved, source: str, problems: Problems) -> Iterator[tuple[str, Answer]]:
    for number, row in enumerate(saved.rows, 1):
        if problems.too_many:
            return
        where = f"{source}, answer {number}"
        try:
            yield where, Answer.model_validate(row, strict=True)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
            problems.add(where, f"{'.'.join(map(str, wrong['loc'])) or 'the row'}: {wrong['msg']}")


def _wrong(row: Answer, saved: Saved, page: LabelPage, items: Mapping[str, LabelItem]) -> str:
    """What is wrong with a row by itself; empty: nothing."""
    if row.item not in items:
        return f"item {quoted(row.item)} is not on the page {page.page_id}"
    asked = page.questions.get(items[row.item].tag, {})
    if row.question not in asked:
        return f"question {quoted(row.question)} is not asked of this item, allowed are {listed(asked)}"
    if row.answer and row.answer not in asked[row.question]:
        return f"answer {quoted(row.answer)}, allowed are {listed(asked[row.question])}"
    if row.check != check_of(page.page_id, saved.name, row.item, row.question, row.answer, row.comment):
        return "was changed after the page saved it: load the file into the page, look at it, and save it again"
    return ""


def _label(row: Answer, saved: Saved, page: LabelPage, item: LabelItem) -> LabelRow:
    label = kind_of(page.flow).people_label(item, row.question, row.answer or NO_ANSWER)
    unanswered = row.answer if row.answer in UNANSWERED else "" if row.answer else NO_ANSWER
    given = {"annotator": saved.name, "comment": row.comment, "unanswered": unanswered, "pictures": item.pictures}
    return label.model_copy(update=given)
