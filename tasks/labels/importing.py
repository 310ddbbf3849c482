"""Import of labels: a table of labels, or the file of blind answers that a page of `jury labels page` saved."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.datasets.cells import Cells
from tasks.datasets.rows import Columns, find_rows
from tasks.errors import InputError, Problems
from tasks.files import read_regular, real_place
from tasks.history.asking import query
from tasks.labels.prompts import known_questions
from tasks.ledger.label_pages import LabelItem, LabelPage, read_page
from tasks.ledger.label_sets import (
    ABOUT,
    LabelRow,
    LabelSet,
    folder,
    is_name,
    keep_labels,
    label_folders,
    read_label_set,
)
from tasks.parameters import FLOWS
from tasks.protocols import label_rules_of
from tasks.protocols.labels import UNANSWERED
from tasks.records import Record
from tasks.text import listed, one_line, quoted

FORMAT = "image-jury labels 1"
NO_ANSWER = "no answer"
"""Answer to a question that has only a comment."""
_RUN = re.compile(r"\d{8}T\d{6}")
_OF_PAGE = {"of_run", "dataset_key", "prompts_key", "drawn"}
LARGEST = 256_000_000


class Answer(Record, extra="ignore"):
    """One row of a saved file; pages of earlier versions saved more fields."""

    item: str
    question: str
    answer: str
    """Empty: there is only a comment."""
    comment: str


class Saved(NamedTuple):
    """A saved file, before its rows are checked."""

    page: str
    name: str
    """Name of the person: a pseudonym, or one that the person chose."""
    rows: Sequence[object]


def import_labels(store: Path, file: Path, flow: str = "", name: str = "") -> LabelSet:
    """Keep the labels of a table, or of a file that a page saved, under `name` or the file's stem; the same file once.

    Args:
        flow: flow whose samples a table is about; a page's file contains it.

    Raises:
        InputError: the name is taken or impossible, the file is too large, or rows are wrong; all of them are listed.
    """
    name = name or file.stem
    _check_name(name)
    if not file.is_file():
        raise InputError(f"labels {file}: there is no such file")
    data = read_regular(file, LARGEST, (real_place(file),))
    digest = sha256(data).hexdigest()
    place = folder(store, name)
    saved = _saved(file, data)
    page = read_page(store, saved.page) if saved else None
    flow = _flow(file, flow, page)
    if (place / ABOUT).exists():
        return _same(read_label_set(place), flow, digest)
    if saved and page:
        _check_new(store, saved)
        rows = labels_of(saved, page, file.name)
    else:
        rows = read_label_rows(file, flow, known_questions(store, flow))
    about = LabelSet(
        name=name,
        flow=flow,
        source=file.name,
        source_sha256=digest,
        imported_at=datetime.now(UTC).isoformat(),
        labels=len(rows),
        annotators=tuple(sorted({row.annotator for row in rows} - {""})),
    )
    if page:
        about = about.model_copy(update={**page.model_dump(include=_OF_PAGE), "page": page.page_id})
    keep_labels(place, about, rows)
    return about


def about_no_sample(store: Path, about: LabelSet) -> str:
    """Return a sentence about labels of a set that are about no sample of any run; empty if there are none."""
    sql = """SELECT sample_id, count(*) FROM labels l WHERE name = $1 AND NOT EXISTS (
        SELECT 1 FROM outcomes o WHERE o.flow = l.flow AND o.sample_id = l.sample_id
            AND coalesce(l.candidate, '') IN ('', o.candidate))
        GROUP BY sample_id ORDER BY min(l.rowid)"""
    found = query(store, sql, values=(about.name,)).rows
    if not found:
        return ""
    number, ids = sum(n for _, n in found), listed((one_line(str(name)) for name, _ in found), 5)
    verb, they = ("is", "it is") if number == 1 else ("are", "they are")
    whose = f"no sample of any {about.flow} run in the history"
    return (
        f"{number:,} of {about.labels:,} labels {verb} about {whose}; {they} kept, and count once a run has it: {ids}"
    )


def read_label_rows(file: Path, flow: str, questions: Mapping[str, Collection[str]]) -> list[LabelRow]:
    """Return the labels in a table, in its order (JSON Lines, JSON, CSV or Parquet, by its ending).

    The kind of judging defines the columns. All four verdicts are allowed on every dimension: the limits of a judge's
    answers do not bind people. Two answers of one annotator to the same question are a problem.

    Args:
        questions: see `known_questions`.

    Raises:
        InputError: rows are wrong; each is listed with the value found and the values allowed.
    """
    problems, rules = Problems(), label_rules_of(flow)
    columns = Columns(rules.required, rules.optional)
    first: dict[tuple[str, ...], str] = {}
    labels: list[LabelRow] = []
    for row in find_rows(file, problems):
        if not columns.meet(row, problems):
            continue
        label = rules.read_label(Cells(row, problems), questions)
        if label.sample_id and (known := first.setdefault(_question(label), row.where)) != row.where:
            problems.add(row.where, f"answers again what the same person answers in {known}")
        labels.append(label)
    columns.check(file.name, problems)
    problems.stop(f"labels {file}")
    return labels


def _saved(file: Path, data: bytes) -> Saved | None:
    if file.suffix.lower() != ".json":
        return None
    try:
        return saved_file(data)
    except InputError as error:
        raise InputError(f"labels {file}: {error}") from None


def _flow(file: Path, flow: str, page: LabelPage | None) -> str:
    if page and flow not in ("", page.flow):
        raise InputError(f"labels {file}: the page that saved it is about {page.flow}, not {flow}: leave out --flow")
    if not page and not flow:
        raise InputError(f"labels {file}: name the flow whose samples it is about: --flow {'|'.join(FLOWS)}")
    return page.flow if page else flow


def _check_new(store: Path, saved: Saved) -> None:
    """Check that a person answers a page once: a later save replaces an earlier one only after that is removed."""
    for place in label_folders(store):
        kept = read_label_set(place)
        if kept.page == saved.page and saved.name in kept.annotators:
            raise InputError(
                f"the answers of {saved.name!r} to this page are here already, as {kept.name!r}: if these are newer, "
                f"`jury labels remove {kept.name}` first"
            )


def _check_name(name: str) -> None:
    if not is_name(name):
        raise InputError(
            f"labels cannot be called {name!r}: allowed are letters, digits, '_', '.' and '-', at most 100"
        )
    if _RUN.match(name):
        raise InputError(
            f"labels cannot be called {name!r}: it begins like the id of a run, which it would be taken for; choose "
            "another name with --name"
        )


def _same(kept: LabelSet, flow: str, digest: str) -> LabelSet:
    if (kept.flow, kept.source_sha256) != (flow, digest):
        raise InputError(
            f"other labels are called {kept.name!r} already ({kept.flow}, {kept.source}, {kept.imported_at[:10]}), and "
            "labels are never changed: choose another name with --name"
        )
    return kept


def _question(label: LabelRow) -> tuple[str, ...]:
    return (label.candidate, label.sample_id, label.dimension, label.aspect, label.annotator, label.order)


def saved_file(data: bytes) -> Saved | None:
    """Read a file that a page saved; None if the data is no such file. Raises InputError if parts of it are missing."""
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
    """Return the labels in a saved file, bound to the samples of its page; raises InputError with all wrong rows."""
    problems = Problems()
    items = {item.token: item for item in page.items}
    labels: list[LabelRow] = []
    first: dict[tuple[str, str], str] = {}
    for where, row in _answers(saved, source, problems):
        if wrong := _wrong(row, page, items):
            problems.add(where, wrong)
        elif (known := first.setdefault((row.item, row.question), where)) != where:
            problems.add(where, f"answers again what {known} answers")
        else:
            labels.append(_label(row, saved, page, items[row.item]))
    if not saved.rows:
        problems.add(source, "holds no answer")
    problems.stop(f"labels {source}")
    return labels


def _answers(saved: Saved, source: str, problems: Problems) -> Iterator[tuple[str, Answer]]:
    for number, row in enumerate(saved.rows, 1):
        if problems.too_many:
            return
        where = f"{source}, answer {number}"
        try:
            yield where, Answer.model_validate(row, strict=True)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
            problems.add(where, f"{'.'.join(map(str, wrong['loc'])) or 'the row'}: {wrong['msg']}")


def _wrong(row: Answer, page: LabelPage, items: Mapping[str, LabelItem]) -> str:
    """Return the problem of a row by itself; empty: it has none."""
    if row.item not in items:
        return f"item {quoted(row.item)} is not on the page {page.page_id}"
    asked = page.questions.get(items[row.item].tag, {})
    if row.question not in asked:
        return f"question {quoted(row.question)} is not asked of this item, allowed are {listed(asked)}"
    if row.answer and row.answer not in asked[row.question]:
        return f"answer {quoted(row.answer)}, allowed are {listed(asked[row.question])}"
    return ""


def _label(row: Answer, saved: Saved, page: LabelPage, item: LabelItem) -> LabelRow:
    label = label_rules_of(page.flow).people_label(item, row.question, row.answer or NO_ANSWER)
    unanswered = row.answer if row.answer in UNANSWERED else "" if row.answer else NO_ANSWER
    given = {"annotator": saved.name, "comment": row.comment, "unanswered": unanswered, "pictures": item.pictures}
    return label.model_copy(update=given)
