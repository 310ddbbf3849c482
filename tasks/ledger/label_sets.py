"""What people say of samples, kept as a ledger of its own beside those of the runs.

Owns `<store>/labels/<name>/` with `labels.jsonl` and `label.json`: written once, never changed, and the source of the
history's table `labels`; and how they are removed, which leaves a mark without any of their content. What the rows of
an imported file must hold, and how labels are compared, is left to `tasks.labels`.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tasks.errors import InputError
from tasks.files import private_folder, write_whole
from tasks.ledger import reading as ledger
from tasks.ledger.writing import line_of, write_record
from tasks.records import SCHEMA, HistoryRecord
from tasks.store_files import fits, remove_file, remove_folder, write_file
from tasks.text import listed

LABELS, ABOUT = "labels.jsonl", "label.json"
REMOVED = "labels-removed"
"""Folder of marks, `<name>/<source_sha256>.json`, by which every machine of a remote store removes those labels."""

_ORIGIN = {
    *("name", "flow", "source", "source_sha256", "imported_at"),
    *("page", "of_run", "dataset_key", "prompts_key", "drawn"),
}
"""What every row of the history's table tells of its file."""
_NAME = re.compile(r"\w[\w.-]{0,99}")


class LabelRow(HistoryRecord):
    """What one person says of one sample. Rows of `labels.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    sample_id: str
    """Sample that the label is about."""
    candidate: str
    """Whose figure or image it is; empty: not told, that of the only candidate."""
    dimension: str = ""
    """Dimension, or `overall`; empty for generated images."""
    tag: str = ""
    """Tag of the image's prompt; empty: not told, and for figures."""
    aspect: str = ""
    """Aspect of a generated image, or `overall_score`; empty for figures."""
    verdict: str | None = None
    """Model, Human, Both are good or Both are bad, overall Model, Human or Tie; None for generated images."""
    score: float | None = None
    """0-10; None for figures."""
    annotator: str
    """Who says so; empty: not told."""
    order: str = ""
    """Which figure this person was shown first: human_first or model_first; empty: not told."""
    unanswered: str = ""
    """Why there is neither verdict nor score: cannot tell, does not apply, no answer; empty: there is one."""
    comment: str = ""
    """What the person wrote beside the answer."""
    pictures: dict[str, str] = Field(default_factory=dict)
    """Role (human, model; image) -> SHA-256 of the picture that was shown; empty: not told."""


class LabelSet(HistoryRecord):
    """Where a set of labels comes from: `label.json`, written last, so that where it is, all is."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    name: str
    """Name of the labels: all rows of one imported file."""
    flow: str
    """Flow whose samples they are about."""
    source: str
    """Name of the file that was imported."""
    source_sha256: str
    """SHA-256 of that file."""
    imported_at: str
    """When it was imported, UTC, ISO 8601."""
    labels: int
    annotators: tuple[str, ...]
    """Who is named in the file; empty: nobody."""
    page: str = ""
    """Page of `jury label` on which they were given; empty: a file of another making."""
    of_run: str = ""
    """Evaluation whose samples that page showed; empty: there was no page."""
    dataset_key: str = ""
    """Dataset key of that evaluation: labels belong to its samples alone; empty: there was no page."""
    prompts_key: str = ""
    """Hash of the prompts of that evaluation: labels answer the questions that these put; empty: there was no page."""
    drawn: str = ""
    """How its samples were drawn: uniform, or disagreements; empty: not told."""


def keep_labels(place: Path, about: LabelSet, rows: Sequence[LabelRow]) -> None:
    """Write the labels of a set, then `label.json`, each whole or not at all."""
    private_folder(place)
    write_whole(place / LABELS, b"".join(line_of(row) for row in rows), private=True)
    write_record(place / ABOUT, about)


def remove_labels(store: Path, name: str) -> LabelSet:
    """Remove the labels of a name from the ledger, for good.

    Raises:
        InputError: there are none of that name.
    """
    place = folder(store, name)
    if not is_name(name) or not (place / ABOUT).exists():
        names = [each.name for each in label_folders(store)]
        raise InputError(f"no labels are called {name!r}; there are {listed(names)}")
    about = read_label_set(place)
    write_file(store, f"{REMOVED}/{name}/{about.source_sha256}.json", b"{}\n")
    remove_set(store, name)
    return about


def removed_labels(store: Path) -> set[tuple[str, str]]:
    """Name and SHA-256 of the source of all labels that were removed, here or on another machine."""
    return {(mark.parent.name, mark.stem) for mark in (store / REMOVED).glob("*/*.json")}


def drop_removed(store: Path) -> None:
    """Remove the labels that another machine removed."""
    gone = removed_labels(store)
    for place in label_folders(store):
        if (place.name, read_label_set(place).source_sha256) in gone:
            remove_set(store, place.name)


def remove_set(store: Path, name: str) -> None:
    """Remove a set, its description first: where that is, the labels are complete."""
    remove_file(store, f"labels/{name}/{ABOUT}")
    remove_folder(store, f"labels/{name}")


def is_name(text: str) -> bool:
    """Whether labels, and so their folder, can be called this."""
    return _NAME.fullmatch(text) is not None and fits(text)


def folder(store: Path, name: str) -> Path:
    """Where the labels of this name are kept."""
    return store / "labels" / name


def label_folders(store: Path) -> list[Path]:
    """Folders of all labels in the store, by name."""
    return sorted(path.parent for path in (store / "labels").glob(f"*/{ABOUT}"))


def read_label_set(place: Path) -> LabelSet:
    """Where the labels in a folder come from; InputError when `label.json` is damaged or of a newer version."""
    return ledger.read_record(place / ABOUT, LabelSet)


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """The labels in a folder as rows of the history's table `labels`.

    Raises:
        InputError: a row is damaged or of a newer version, or rows are missing.
    """
    about = read_label_set(place)
    rows = list(ledger.read_rows(place / LABELS))
    if len(rows) != about.labels:
        raise InputError(f"{place / LABELS}: damaged: found {len(rows)} rows, {ABOUT} tells of {about.labels}")
    origin = about.model_dump(mode="json", include=_ORIGIN)
    return ({**row, **origin} for row in rows)


def labels_words(labels: int, annotators: int) -> str:
    """How many labels there are, and of how many people; 0: the file does not tell."""
    people = {0: "people", 1: "1 person"}.get(annotators, f"{annotators:,} people")
    return f"1 label of {people}" if labels == 1 else f"{labels:,} labels of {people}"
