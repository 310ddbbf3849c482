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
from tasks.kinds import kind_of
from tasks.ledger.label_sets import ABOUT, LabelRow, LabelSet, folder, is_name, keep_labels, read_label_set
from tasks.rubrics.rubric import load_rubric

_RUN = re.compile(r"\d{8}T\d{6}")
"""How ids of runs begin."""
LARGEST = 256_000_000
"""Bytes of a file of labels."""


def import_labels(store: Path, file: Path, flow: str, name: str = "") -> LabelSet:
    """Keep the labels of a file (JSON Lines, JSON, CSV or Parquet) under `name`, or else the file's stem.

    The same file under the same name is kept once, and what was kept then is returned.

    Raises:
        InputError: the name cannot be one or is that of other labels, the file is too large, or all that is wrong in
            it, by row.
    """
    name = name or file.stem
    _check_name(name)
    if not file.is_file():
        raise InputError(f"labels {file}: there is no such file")
    digest = sha256(read_regular(file, LARGEST, follow_link=True)).hexdigest()
    place = folder(store, name)
    if (place / ABOUT).exists():
        return _same(read_label_set(place), flow, digest)
    rows = read_label_rows(file, flow)
    about = LabelSet(
        name=name,
        flow=flow,
        source=file.name,
        source_sha256=digest,
        imported_at=datetime.now(UTC).isoformat(),
        labels=len(rows),
        annotators=tuple(sorted({row.annotator for row in rows} - {""})),
    )
    keep_labels(place, about, rows)
    return about


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
