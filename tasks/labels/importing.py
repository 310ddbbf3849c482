"""A file of labels taken into a store.

Owns the names that labels may have, that the same file is kept once, and that one person answers a question once. What
a row must hold is the kind of judging's, where labels are kept is left to `ledger.label_sets`.
"""

import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from tasks.datasets.cells import Cells
from tasks.datasets.rows import find_rows
from tasks.errors import InputError, Problems
from tasks.files import read_regular
from tasks.history.asking import query
from tasks.kinds import kind_of
from tasks.labels.answers import Saved, labels_of, saved_file
from tasks.ledger.label_pages import LabelPage, read_page
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
from tasks.rubrics.rubric import load_rubric
from tasks.text import listed, one_line

_RUN = re.compile(r"\d{8}T\d{6}")
"""How ids of runs begin."""
_OF_PAGE = {"of_run", "dataset_key", "prompts_key", "drawn"}
"""What labels take over from their page."""
LARGEST = 256_000_000
"""Bytes of a file of labels."""


def import_labels(store: Path, file: Path, flow: str = "", name: str = "") -> LabelSet:
    """Keep the labels of a file under `name`, or else the file's stem: a table (JSON Lines, JSON, CSV or Parquet), or
    what a page of `jury label` saved.

    The same file under the same name is kept once, and what was kept then is returned.

    Args:
        flow: whose samples a table is about; a page's file tells that itself.

    Raises:
        InputError: the name cannot be one or is that of other labels, the file is too large, or all that is wrong in
            it, by row; or it is of a page that this store did not make, or its answers are here already.
    """
    name = name or file.stem
    _check_name(name)
    if not file.is_file():
        raise InputError(f"labels {file}: there is no such file")
    data = read_regular(file, LARGEST, follow_link=True)
    digest = sha256(data).hexdigest()
    place = folder(store, name)
    saved = _saved(file, data)
    page = read_page(store, saved.page) if saved else None
    flow = _flow(file, flow, page)
    if (place / ABOUT).exists():
        return _same(read_label_set(place), flow, digest)
    if saved and page:
        _check_new(store, saved)
    rows = labels_of(saved, page, file.name) if saved and page else read_label_rows(file, flow)
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
    """A sentence about the labels of a set that are about no sample of any run; nothing where there are none.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: it cannot be asked.
    """
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


def read_label_rows(file: Path, flow: str) -> list[LabelRow]:
    """The labels in a file, in its order (JSON Lines, JSON, CSV or Parquet, by its ending).

    Figures: `id`, `dimension` (or `overall`) and `verdict`, and where known `candidate`, `annotator` and `order`. The
    four verdicts are allowed on every dimension: people are not bound by what a judge may answer. Generated images:
    `id` (or `image` or `filename`) and `score`, and where known `aspect` (otherwise it is the overall score), `tag`,
    `candidate` and `annotator`. Two answers of one annotator to the same question are a problem.

    Raises:
        InputError: all that is wrong, by row: what was found, what is allowed.
    """
    problems, rubric, kind = Problems(), load_rubric(flow), kind_of(flow)
    columns = kind.label_columns()
    first: dict[tuple[str, ...], str] = {}
    labels: list[LabelRow] = []
    for row in find_rows(file, problems):
        if not columns.meet(row, problems):
            continue
        label = kind.read_label(Cells(row, problems), rubric)
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
    """One person answers a page once: a later save takes the place of an earlier one only where that is removed."""
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
