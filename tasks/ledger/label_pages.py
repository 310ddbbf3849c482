"""What the store keeps of each page that was made for people: which sample each of its blind items is.

Owns `<store>/label-pages/<page_id>.json`, written before the page is, and never changed. The page itself names its
items by tokens drawn at random, which nothing but this file resolves. Which samples are drawn is for `tasks.labels`.
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
"""How the items were drawn: each sample as likely as any other, or only those on which judges or their votes differ."""

_PAGE_ID = re.compile("[0-9a-f]{16}")


class LabelItem(Record):
    """One blind item of a page, and the sample that it is."""

    token: str
    """What the page calls it."""
    candidate: str
    sample_id: str
    tag: str
    """Tag of the image's prompt; empty for figures."""
    pictures: dict[str, str]
    """Role (human, model; image) -> SHA-256 of the picture's file."""
    left: str
    """Role of the picture on the left; empty: there is one."""


class LabelPage(Record):
    """One page that was made for people."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    page_id: str
    of_run: str
    """Evaluation whose samples are shown."""
    flow: str
    dataset_key: str
    prompts_key: str
    """Hash of the prompts that the evaluation asked with: the questions mean what these say."""
    drawn: str
    """uniform or disagreements."""
    among: int
    """Samples that could have been drawn."""
    seed: int
    made_at: str
    """UTC, ISO 8601."""
    questions: dict[str, dict[str, tuple[str, ...]]]
    """Tag (empty for figures) -> question -> the answers that are allowed to it."""
    items: tuple[LabelItem, ...]


def keep_page(store: Path, page: LabelPage) -> Path:
    """Write what is kept of a page; returns the file."""
    place = _place(store, page.page_id)
    private_folder(place.parent)
    write_record(place, page)
    return place


def read_page(store: Path, page_id: str) -> LabelPage:
    """What is kept of a page.

    Raises:
        InputError: the store knows no such page, or what it keeps of it is damaged.
    """
    if not _PAGE_ID.fullmatch(page_id) or not _place(store, page_id).exists():
        raise InputError(
            f"{store} has made no page {page_id[:40]!r}: import the file into the store whose `jury label` made it"
        )
    return ledger.read_record(_place(store, page_id), LabelPage)


def _place(store: Path, page_id: str) -> Path:
    return store / FOLDER / f"{page_id}.json"
