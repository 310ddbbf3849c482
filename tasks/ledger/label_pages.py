"""Records of the pages made for people: the sample behind each blind item.

`<store>/label-pages/<page_id>.json` is written before the page and never changed. The page names its items by random
tokens, which only this file resolves. `tasks.labels` draws the samples.
"""

import re
from pathlib import Path

from pydantic import Field

from tasks.errors import InputError
from tasks.files import private_folder
from tasks.ledger import reading as ledger
from tasks.ledger.writing import write_record
from tasks.records import SCHEMA, Record

FOLDER = "label-pages"
UNIFORM, DISAGREEMENTS = "uniform", "disagreements"
"""Methods of drawing: all samples with equal probability, or only samples on which judges or their votes differ."""

_PAGE_ID = re.compile("[0-9a-f]{16}")


class LabelItem(Record):
    """Blind item of a page, and its sample."""

    token: str
    """Name of the item on the page."""
    candidate: str
    sample_id: str
    tag: str
    """Tag of the image's prompt; empty for figures."""
    pictures: dict[str, str]
    """Role (human, model; image) -> SHA-256 of the picture's file."""
    left: str
    """Role of the picture on the left; empty: there is only one picture."""


class LabelPage(Record):
    """Page that was made for people."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    page_id: str
    of_run: str
    """Evaluation whose samples are shown."""
    flow: str
    dataset_key: str
    prompts_key: str
    """Hash of the evaluation's prompts, which define the meaning of the questions."""
    drawn: str
    """uniform or disagreements."""
    among: int
    """Samples that could have been drawn."""
    seed: int
    made_at: str
    """UTC, ISO 8601."""
    questions: dict[str, dict[str, tuple[str, ...]]]
    """Tag (empty for figures) -> question -> allowed answers."""
    items: tuple[LabelItem, ...]


def keep_page(store: Path, page: LabelPage) -> Path:
    """Write the record of a page; return the file."""
    place = _place(store, page.page_id)
    private_folder(place.parent)
    write_record(place, page)
    return place


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
    return store / FOLDER / f"{page_id}.json"
