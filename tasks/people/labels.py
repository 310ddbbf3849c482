"""What people say of samples, kept as a ledger of its own beside those of the runs.

Owns `<store>/labels/<name>/` with `labels.jsonl` and `label.json`: written once, never changed, and the source of the
history's table `labels`. What the rows of an imported file must hold is left to `label_rows`, how labels are compared
to `agreement`.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import Field

from tasks import ledger
from tasks.files import write_whole
from tasks.people.label_rows import LabelRow, read_label_rows
from tasks.records import SCHEMA, Record

LABELS, ABOUT = "labels.jsonl", "label.json"

_NAME = re.compile(r"\w[\w.-]{0,99}")
_RUN = re.compile(r"\d{8}T\d{6}")
"""How ids of runs begin."""


class LabelSet(Record):
    """Where a set of labels comes from: `label.json`, written last, so that where it is, all is."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    name: str
    flow: str
    source: str
    """Name of the file that was imported."""
    source_sha256: str
    imported_at: str
    """UTC, ISO 8601."""
    labels: int
    annotators: tuple[str, ...]
    """Who is named in the file; empty: nobody."""


def import_labels(store: Path, file: Path, flow: str, name: str = "") -> LabelSet:
    """Keep the labels of a file (JSON Lines, JSON, CSV or Parquet) under `name`, or else the file's stem.

    The same file under the same name is kept once, and what was kept then is returned.

    Raises:
        ValueError: the name cannot be one or is that of other labels, or all that is wrong in the file, by row.
    """
    name = name or file.stem
    _check_name(name)
    if not file.is_file():
        raise ValueError(f"labels {file}: there is no such file")
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
    _keep(place, about, rows)
    return about


def _check_name(name: str) -> None:
    if not is_name(name):
        raise ValueError(
            f"labels cannot be called {name!r}: allowed are letters, digits, '_', '.' and '-', at most 100"
        )
    if _RUN.match(name):
        raise ValueError(
            f"labels cannot be called {name!r}: it begins like the id of a run, which it would be taken for; choose "
            "another name with --name"
        )


def _same(kept: LabelSet, flow: str, digest: str) -> LabelSet:
    if (kept.flow, kept.source_sha256) != (flow, digest):
        raise ValueError(
            f"other labels are called {kept.name!r} already ({kept.flow}, {kept.source}, {kept.imported_at[:10]}), and "
            "labels are never changed: choose another name with --name"
        )
    return kept


def _keep(place: Path, about: LabelSet, rows: Sequence[LabelRow]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    write_whole(place / LABELS, b"".join(row.model_dump_json().encode() + b"\n" for row in rows))
    write_whole(place / ABOUT, (about.model_dump_json(indent=1) + "\n").encode())


def is_name(text: str) -> bool:
    """Whether labels, and so their folder, can be called this."""
    return _NAME.fullmatch(text) is not None


def folder(store: Path, name: str) -> Path:
    """Where the labels of this name are kept."""
    return store / "labels" / name


def label_folders(store: Path) -> list[Path]:
    """Folders of all labels in the store, by name."""
    return sorted(path.parent for path in (store / "labels").glob(f"*/{ABOUT}"))


def read_label_set(place: Path) -> LabelSet:
    """Where the labels in a folder come from; ValueError when `label.json` is damaged or of a newer version."""
    return ledger.read_record(place / ABOUT, LabelSet)


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """The labels in a folder as rows of the history's table `labels`.

    Raises:
        ValueError: a row is damaged or of a newer version, or rows are missing.
    """
    about = read_label_set(place)
    rows = list(ledger.read_rows(place / LABELS))
    if len(rows) != about.labels:
        raise ValueError(f"{place / LABELS}: damaged: found {len(rows)} rows, {ABOUT} tells of {about.labels}")
    origin = {
        "name": about.name,
        "flow": about.flow,
        "source": about.source,
        "source_sha256": about.source_sha256,
        "imported_at": about.imported_at,
    }
    return ({**row, **origin} for row in rows)


def labels_words(labels: int, annotators: int) -> str:
    """How many labels there are, and of how many people; 0: the file does not tell."""
    people = {0: "people", 1: "1 person"}.get(annotators, f"{annotators:,} people")
    return f"1 label of {people}" if labels == 1 else f"{labels:,} labels of {people}"
