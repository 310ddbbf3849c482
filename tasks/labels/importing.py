"""A file of labels taken into a store.

Owns the names that labels may have, and that the same file is kept once. What the rows must hold is left to
`label_rows`, where labels are kept to `ledger.label_sets`.
"""

import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from tasks.errors import InputError
from tasks.labels.label_rows import read_label_rows
from tasks.ledger.label_sets import ABOUT, LabelSet, folder, is_name, keep_labels, read_label_set

_RUN = re.compile(r"\d{8}T\d{6}")
"""How ids of runs begin."""


def import_labels(store: Path, file: Path, flow: str, name: str = "") -> LabelSet:
    """Keep the labels of a file (JSON Lines, JSON, CSV or Parquet) under `name`, or else the file's stem.

    The same file under the same name is kept once, and what was kept then is returned.

    Raises:
        InputError: the name cannot be one or is that of other labels, or all that is wrong in the file, by row.
    """
    name = name or file.stem
    _check_name(name)
    if not file.is_file():
        raise InputError(f"labels {file}: there is no such file")
    digest = sha256(file.read_bytes()).hexdigest()
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
