"""The fence around what a run may read and write: the folders and buckets that `JURY_ROOTS` lists, where it is set.

Whoever can start a run fills in paths, and the worker opens them. Owns which parameters name places, and when a place
is inside; what paths stand for, and when they are asked, is for `paths`. The worker's own places, its default store and
its copies of buckets, need no permission.
"""

import os
from glob import has_magic
from pathlib import Path
from urllib.parse import unquote

from tasks.errors import InputError
from tasks.ledger.remote import is_remote
from tasks.parameters import DEFAULT_STORE, default_store
from tasks.rubrics.rubric import prompt_sets
from tasks.synthetic.samples import DRAWN
from tasks.text import one_line

ROOTS = "JURY_ROOTS"
"""Environment variable of the worker: folders and URLs such as s3://bucket/prefix, with commas between them."""
FENCED = ("dataset", "results", "images", "metadata", "export", "store", "prompt_set", "follow_links")
"""Parameters that name a place, or several."""


def check_place(field: str, place: str) -> None:
    """Check that a parameter of this name may name this place, as it is written and where its links lead.

    Raises:
        InputError: it is outside of `JURY_ROOTS`.
    """
    listed = os.environ.get(ROOTS, "")
    roots = [root for each in listed.split(",") if (root := each.strip())]
    if roots and place and place not in _own(field) and not any(_is_inside(place, root) for root in roots):
        raise InputError(f"{one_line(place)!r} leads outside of {listed}, which is what {ROOTS} allows here")


def _own(field: str) -> list[str]:
    """What stands for a place of the worker's or the program's own."""
    return {"dataset": [DRAWN], "prompt_set": prompt_sets(), "store": [DEFAULT_STORE, default_store()]}.get(field, [])


def _is_inside(place: str, root: str) -> bool:
    if is_remote(place) or is_remote(root):
        return ".." not in unquote(place).split("/") and f"{place.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")
    if has_magic(place) and ".." in Path(place).parts:  # what it leads to is only known once it was looked for
        return False
    try:
        return Path(place).expanduser().resolve().is_relative_to(Path(root).expanduser().resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, no such user, NUL
        return False
