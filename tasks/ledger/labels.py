"""Labels that people gave to samples, the pages made for them, and their exchange through a bucket."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from tasks.errors import InputError
from tasks.files import fits, is_store_name, read_file, remove_file, remove_folder, write_file
from tasks.ledger import run_files as ledger
from tasks.ledger.bucket import MOST_OBJECT, Bucket, slices
from tasks.ledger.run_files import SOURCE, line_of, record_bytes
from tasks.records import LedgerRecord, Record
from tasks.text import listed

if TYPE_CHECKING:
    from tasks.ledger.remote import Remote  # Pillow, which readers of labels do without

LABEL_PAGES = "label-pages"
UNIFORM = "uniform"
"""Method of drawing: all samples with equal probability. Only labels of such samples can correct a score."""

_PAGE_ID = re.compile("[0-9a-f]{16}")


class LabelItem(Record):
    """Blind item of a page, and its sample."""

    token: str
    """Name of the item on the page."""
    candidate: str
    sample_id: str
    tag: str
    """Key of its questions: the tag of the image's prompt; the token, if the question is its own; empty for figures."""
    pictures: dict[str, str]
    """Role (human, model; image) -> SHA-256 of the picture's file."""
    left: str
    """Role of the picture on the left; empty: there is only one picture."""
    lost: str = ""
    """Reason why it is not on the page, and counts as answered `cannot be shown`; empty: it is."""
    question: str = ""
    """Question that is its own (a check), which the page does not name; empty: it shares its questions."""
    scores: dict[str, float] = Field(default_factory=dict)
    """Answer to that question -> its score; any other number scores 0."""


class LabelPage(LedgerRecord):
    """Page that was made for people."""

    page_id: str
    of_run: str
    """Evaluation whose samples are shown."""
    flow: str
    dataset_key: str
    prompts_key: str
    """Hash of the evaluation's prompts, which define the meaning of the questions."""
    drawn: str
    """Method of drawing: uniform."""
    among: int
    """Samples that could have been drawn."""
    seed: int
    made_at: str
    """UTC, ISO 8601."""
    questions: dict[str, dict[str, tuple[str, ...]]]
    """Tag of items -> question -> allowed answers."""
    items: tuple[LabelItem, ...]
    forgotten: tuple[str, ...] = ()
    """Tokens of items whose samples were forgotten: answers to them are no labels."""
    file: str = ""
    """Place where the page was written, on the machine that made it."""


def keep_page(store: Path, page: LabelPage) -> None:
    """Write the record of a page."""
    write_file(store, f"{LABEL_PAGES}/{page.page_id}.json", record_bytes(page))


def read_page(store: Path, page_id: str) -> LabelPage:
    """Return the record of a page.

    Raises:
        InputError: the store has no such page, or its record is damaged.
    """
    if not _PAGE_ID.fullmatch(page_id) or not _place(store, page_id).exists():
        raise InputError(
            f"{store} has made no page {page_id[:40]!r}: import the file into the store whose `jury labels page` "
            "made it"
        )
    return ledger.read_record(_place(store, page_id), LabelPage)


def _place(store: Path, page_id: str) -> Path:
    return store / LABEL_PAGES / f"{page_id}.json"


LABELS, ABOUT = "labels.jsonl", "label.json"
REMOVED = "labels-removed"
"""Folder of marks, `<name>/<source_sha256>.json`; every machine of a remote store removes the marked labels."""
MARK = b"{}\n"

_ORIGIN = {
    *("name", "flow", "source", "source_sha256", "imported_at"),
    *("page", "of_run", "dataset_key", "prompts_key", "drawn"),
}
"""Fields of the label set that every row of the history's table repeats."""
_NAME = re.compile(r"\w[\w.-]{0,99}")


class LabelRow(LedgerRecord):
    """Label of one person for one sample: a row of `labels.jsonl`."""

    sample_id: str
    """Sample that the label is about."""
    candidate: str
    """Candidate whose figure or image it is; empty: not given, the only candidate."""
    dimension: str = ""
    """Dimension, or `overall`; empty for generated images."""
    tag: str = ""
    """Tag of the image's prompt; empty: not given, and for figures."""
    aspect: str = ""
    """Aspect of a generated image, or `overall_score`; check of a picture; empty for figures."""
    verdict: str | None = None
    """Model, Human, Both are good or Both are bad, overall Model, Human or Tie; None for generated images."""
    score: float | None = None
    """0-10, of a check 0-100; None for figures."""
    annotator: str
    """Person who gave the label; empty: not given."""
    order: str = ""
    """Figure that this person was shown first: human_first or model_first; empty: not given."""
    unanswered: str = ""
    """Reason for a missing verdict and score: cannot tell, does not apply, no answer, cannot be shown; empty: none is
    missing."""
    comment: str = ""
    """Text that the person wrote beside the answer."""
    pictures: dict[str, str] = Field(default_factory=dict)
    """Role (human, model; image) -> SHA-256 of the picture that was shown; empty: not given."""


class LabelSet(LedgerRecord):
    """Origin of a set of labels: `label.json`, written last, so that its presence means a complete set."""

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
    """Method of drawing its samples: uniform; empty: not given."""


def keep_labels(store: Path, about: LabelSet, rows: Sequence[LabelRow]) -> None:
    """Write the labels of a set, then `label.json`, each whole or not at all."""
    write_file(store, f"labels/{about.name}/{LABELS}", b"".join(line_of(row) for row in rows))
    write_file(store, f"labels/{about.name}/{ABOUT}", record_bytes(about))


def remove_labels(store: Path, name: str) -> LabelSet:
    """Remove the labels with this name from the ledger permanently.

    Raises:
        InputError: there are no labels with this name.
    """
    place = label_folder(store, name)
    if not is_label_name(name) or not (place / ABOUT).exists():
        names = [each.name for each in label_folders(store)]
        raise InputError(f"no labels are called {name!r}; there are {listed(names)}")
    about = read_label_set(place)
    write_file(store, mark_of(name, about.source_sha256), MARK)
    remove_set(store, name)
    return about


def mark_of(name: str, source: str) -> str:
    """Return the file that marks labels as removed; other labels of this name are none of them."""
    return f"{REMOVED}/{name}/{source}.json"


def removed_labels(store: Path) -> set[tuple[str, str]]:
    """Return name and SHA-256 of the source of all labels that were removed, here or on another machine."""
    return {(mark.parent.name, mark.stem) for mark in (store / REMOVED).glob("*/*.json")}


def remove_set(store: Path, name: str) -> None:
    """Remove a set, its description first: while that exists, the labels are complete."""
    remove_file(store, f"labels/{name}/{ABOUT}")
    remove_folder(store, f"labels/{name}")


def is_label_name(text: str) -> bool:
    """Return whether labels, and so their folder, can have this name."""
    return _NAME.fullmatch(text) is not None and fits(text)


def label_folder(store: Path, name: str) -> Path:
    """Return the folder of the labels with this name."""
    return store / "labels" / name


def label_folders(store: Path) -> list[Path]:
    """Return the folders of all labels in the store, by name."""
    return ledger.folders_with(store, "labels", ABOUT)


def read_label_set(place: Path) -> LabelSet:
    """Return the origin of the labels in a folder; InputError if `label.json` is damaged or of a newer version."""
    return ledger.read_record(place / ABOUT, LabelSet)


def label_sets(store: Path, damaged: dict[str, str]) -> dict[str, LabelSet]:
    """Return the sets of labels in a store by name; add the reason to `damaged` for those that cannot be read."""
    found = dict[str, LabelSet]()
    for place in label_folders(store):
        try:
            found[place.name] = read_label_set(place)
        except InputError as error:
            damaged[place.name] = str(error)
    return found


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


class Exchanged(NamedTuple):
    """Names of the labels that were copied, and of those that could not be."""

    sent: list[str]
    fetched: list[str]
    clashing: list[str]
    """Names whose labels here and in the bucket differ."""


def exchange_labels(remote: "Remote") -> Exchanged:
    """Send the labels that the bucket lacks, fetch those that the cache lacks, and follow removals on other machines.

    A set with a damaged description is not copied.

    Raises:
        InputError: a link leads out of the store.
        RemoteUnavailable: the network or the store fails; changes made until then remain.
    """
    bucket, store = remote.bucket, remote.folder
    remote.share_folder(REMOVED)
    gone = removed_labels(store)
    here = {place.name: read_file(store, _object(place.name, ABOUT)) for place in label_folders(store)}
    there = _descriptions(bucket)
    for name, about in [*there.items()]:
        if (name, _source(about)) in gone:
            bucket.remove([_object(name, file) for file in (ABOUT, LABELS)])
            del there[name]
    for name, about in [*here.items()]:
        if (name, _source(about)) in gone:
            remove_set(store, name)
            del here[name]
    sent = sorted(name for name in here.keys() - there.keys() if _source(here[name]))
    for name in sent:
        for file in (LABELS, ABOUT):
            bucket.put({_object(name, file): read_file(store, _object(name, file))})
    theirs = {name: _source(about) for name, about in sorted(there.items()) if about != here.get(name, b"")}
    clashing = [name for name, source in theirs.items() if name in here and source != _source(here[name])]
    whole = (name for name, source in theirs.items() if source and name not in clashing)
    fetched = [name for name in whole if _fetch(bucket, store, name)]  # also sets with rows forgotten elsewhere
    return Exchanged(sent, [name for name in fetched if name not in here], clashing)


def _descriptions(bucket: Bucket) -> dict[str, bytes]:
    """Return the descriptions of the sets of a bucket by name; an empty one is left of a set that was forgotten."""
    found = bucket.sizes("labels", MOST_OBJECT)
    told = [each for each, size in found.items() if size and is_store_name(each) and each.endswith(f"/{ABOUT}")]
    return {each.split("/")[1]: data for some in slices(told) for each, data in bucket.get(some).items()}


def _source(about: bytes) -> str:
    """Return the SHA-256 of the source in the description of a set; empty if it is damaged."""
    found = SOURCE.search(about)
    return found[1].decode() if found else ""


def _fetch(bucket: Bucket, store: Path, name: str) -> bool:
    """Fetch a set; return whether the bucket has all of it."""
    objects = [_object(name, file) for file in (LABELS, ABOUT)]
    found = bucket.get(objects)
    if len(found) < len(objects):
        return False
    for each in objects:
        write_file(store, each, found[each])
    return True


def _object(name: str, file: str) -> str:
    return f"labels/{name}/{file}"
