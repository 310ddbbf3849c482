"""Labels that people gave to samples, kept as a ledger beside those of the runs.

`<store>/labels/<name>/` has `labels.jsonl` and `label.json`, written once, never changed, and the source of the
history's table `labels`. A removal leaves a mark without any of their content. `tasks.labels` checks the rows of an
imported file and compares labels.
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
"""Folder of marks, `<name>/<source_sha256>.json`; every machine of a remote store removes the marked labels."""

_ORIGIN = {
    *("name", "flow", "source", "source_sha256", "imported_at"),
    *("page", "of_run", "dataset_key", "prompts_key", "drawn"),
}
"""Fields of the label set that every row of the history's table repeats."""
_NAME = re.compile(r"\w[\w.-]{0,99}")


class LabelRow(HistoryRecord):
    """Label of one person for one sample: a row of `labels.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    sample_id: str
    """Sample that the label is about."""
    candidate: str
    """Candidate whose figure or image it is; empty: not given, the only candidate."""
    dimension: str = ""
    """Dimension, or `overall`; empty for generated images."""
    tag: str = ""
    """Tag of the image's prompt; empty: not given, and for figures."""
    aspect: str = ""
    """Aspect of a generated image, or `overall_score`; empty for figures."""
    verdict: str | None = None
    """Model, Human, Both are good or Both are bad, overall Model, Human or Tie; None for generated images."""
    score: float | None = None
    """0-10; None for figures."""
    annotator: str
    """Person who gave the label; empty: not given."""
    order: str = ""
    """Figure that this person was shown first: human_first or model_first; empty: not given."""
    unanswered: str = ""
    """Reason for a missing verdict and score: cannot tell, does not apply, no answer; empty: none is missing."""
    comment: str = ""
    """Text that the person wrote beside the answer."""
    pictures: dict[str, str] = Field(default_factory=dict)
    """Role (human, model; image) -> SHA-256 of the picture that was shown; empty: not given."""


class LabelSet(HistoryRecord):
    """Origin of a set of labels: `label.json`, written last, so that its presence means a complete set."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    name: str
    """Name of the labels: all rows of one imported file."""
    flow: str
    """Flow of the samples with these labels."""
    source: str
    """Name of the file that was imported."""
    source_sha256: str
    """SHA-256 of that file."""
    imported_at: str
    """Time of the import, UTC, ISO 8601."""
    labels: int
    annotators: tuple[str, ...]
    """Persons named in the file; empty: nobody."""
    page: str = ""
    """Page of `jury labels page` on which people gave them; empty: the file has another origin."""
    of_run: str = ""
    """Evaluation whose samples that page showed; empty: there was no page."""
    dataset_key: str = ""
    """Dataset key of that evaluation: labels apply only to its samples; empty: there was no page."""
    prompts_key: str = ""
    """Hash of that evaluation's prompts: labels answer the questions in these prompts; empty: there was no page."""
    drawn: str = ""
    """Method of drawing its samples: uniform, or disagreements; empty: not given."""


def keep_labels(place: Path, about: LabelSet, rows: Sequence[LabelRow]) -> None:
    """Write the labels of a set, then `label.json`, each whole or not at all."""
    private_folder(place)
    write_whole(place / LABELS, b"".join(line_of(row) for row in rows), private=True)
    write_record(place / ABOUT, about)


def remove_labels(store: Path, name: str) -> LabelSet:
    """Remove the labels with this name from the ledger permanently.

    Raises:
        InputError: there are no labels with this name.
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
    """Return name and SHA-256 of the source of all labels that were removed, here or on another machine."""
    return {(mark.parent.name, mark.stem) for mark in (store / REMOVED).glob("*/*.json")}


def drop_removed(store: Path) -> None:
    """Remove the labels that another machine removed."""
    gone = removed_labels(store)
    for place in label_folders(store):
        if (place.name, read_label_set(place).source_sha256) in gone:
            remove_set(store, place.name)


def remove_set(store: Path, name: str) -> None:
    """Remove a set, its description first: while that exists, the labels are complete."""
    remove_file(store, f"labels/{name}/{ABOUT}")
    remove_folder(store, f"labels/{name}")


def is_name(text: str) -> bool:
    """Return whether labels, and so their folder, can have this name."""
    return _NAME.fullmatch(text) is not None and fits(text)


def folder(store: Path, name: str) -> Path:
    """Return the folder of the labels with this name."""
    return store / "labels" / name


def label_folders(store: Path) -> list[Path]:
    """Return the folders of all labels in the store, by name."""
    return sorted(path.parent for path in (store / "labels").glob(f"*/{ABOUT}"))


def read_label_set(place: Path) -> LabelSet:
    """Return the origin of the labels in a folder; InputError if `label.json` is damaged or of a newer version."""
    return ledger.read_record(place / ABOUT, LabelSet)


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """Return the labels in a folder as rows of the history's table `labels`.

    Raises:
        InputError: a row is damaged or of a newer version, or rows are missing.
    """
    about = read_label_set(place)
    rows = list(ledger.read_rows(place / LABELS))
    if len(rows) != about.labels:
        raise InputError(f"{place / LABELS}: damaged: found {len(rows)} rows, {ABOUT} counts {about.labels}")
    origin = about.model_dump(mode="json", include=_ORIGIN)
    return ({**row, **origin} for row in rows)


def labels_words(labels: int, annotators: int) -> str:
    """Return the numbers of labels and people in words; 0 people: the file names none."""
    people = {0: "people", 1: "1 person"}.get(annotators, f"{annotators:,} people")
    return f"1 label of {people}" if labels == 1 else f"{labels:,} labels of {people}"
