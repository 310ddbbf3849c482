"""Names and addresses of the pages of a store."""

import hashlib
import json
import os
import platform
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tasks.files import is_locked, read_regular

FOLDER = "pages"
"""Folder of the pages within a store."""
LARGE = 16
"""Number of samples above which the pages of a run get a process of their own, which takes a second to start."""
INDEX = "index.html"
COMPARE, SINCE = "compare-", "since-"
"""Beginnings of the names of comparisons: of those that a person asked for, and with the last comparable evaluation."""
VARIABLE = "JURY_PAGES"
"""Environment variable: the address under which somebody serves the pages of the store."""
NOTE = ".served.json"
"""File in the folder of the pages with the address at which `jury up` serves them; it locks the file meanwhile."""
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]+(/[\w./~%-]*)?", re.ASCII)
_PLAIN = re.compile(r"(?!index$)[\w][\w.-]{0,150}", re.ASCII)


def page_name(run_id: str) -> str:
    """Return the file name of an evaluation's page: its id, or the id's hash if it makes no file name.

    Another program may have chosen the id.
    """
    name = run_id if _PLAIN.fullmatch(run_id) else hashlib.sha256(run_id.encode("utf-8", "replace")).hexdigest()
    return f"{name}.html"


def comparison_name(*sides: str) -> str:
    """Return the file name of a comparison that a person asked for, from runs and candidates."""
    return f"{COMPARE}{_digest(*sides)}.html"


def since_name(run_id: str, candidate: str = "") -> str:
    """Return the file name of the comparison with the last comparable evaluation; no candidate: its beginning."""
    return f"{SINCE}{page_name(run_id).removesuffix('.html')}-" + (f"{_digest(candidate)}.html" if candidate else "")


def _digest(*names: str) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "replace")).hexdigest()[:16]


def folder_of(store: Path) -> Path:
    """Return the folder of a store's pages."""
    return store / FOLDER


def page_files(store: Path) -> set[str]:
    """Return the file names of the pages of a store."""
    return {file.name for file in folder_of(store).glob("*.html")}


def page_of(store: Path, run_id: str) -> Path:
    """Return the path of an evaluation's page, made or not."""
    return folder_of(store) / page_name(run_id)


def where(page: Path) -> str:
    """Return the address at which people open a page: the served one, else its path on the disk."""
    named = os.environ.get(VARIABLE, "")
    served = named if is_address(named) else served_at(page.parent)
    return f"{served.rstrip('/')}/{quote(page.name)}" if served else str(page.absolute())


def served_at(folder: Path) -> str:
    """Return the address at which `jury up` serves these pages, from its note; "" if it does not."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        note: Any = json.loads(read_regular(folder / NOTE, 1000))
        is_here = note["machine"] == platform.node() and is_locked(folder / NOTE)
        return note["address"] if is_here and is_address(note["address"]) else ""
    return ""


def is_address(place: str) -> bool:
    """Return whether a link may lead to this place: from a served page, a browser follows no link to a file."""
    return _ADDRESS.fullmatch(place) is not None
