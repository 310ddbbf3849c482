"""`JURY_KEEP_DAYS`: pictures and pages that are older than so many days go from a store; verdicts and scores stay.

Owns the rule, and what is noted of it in `pictures/removed.json`, by which a page says why its pictures are missing. A
picture is as old as its last judgment, a page as the evaluation that it shows.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tasks.errors import InputError
from tasks.files import write_whole
from tasks.forgetting.place import Place
from tasks.ledger.bucket import Bucket
from tasks.ledger.reading import moment_of
from tasks.ledger.remote_pictures import PICTURES
from tasks.records import Record

VARIABLE = "JURY_KEEP_DAYS"
NOTE = "pictures/removed.json"
PAGES = "pages"
_BEGUN = re.compile(r"\d{8}T\d{6}")
"""How the name of a page begins that shows one evaluation: with its time."""


class Removal(Record):
    """What the rule has done so far: `pictures/removed.json`."""

    days: int
    before: str
    """Pictures whose last judgment was before it are gone; UTC, ISO 8601."""


def keep_days() -> int:
    """Days that pictures and pages are kept; 0: for ever.

    Raises:
        InputError: the environment says something else than a number of days.
    """
    text = os.environ.get(VARIABLE, "").strip() or "0"
    if not re.fullmatch("[0-9]{1,5}", text):
        raise InputError(f"{VARIABLE} is {text!r}: allowed is a number of whole days, such as 90; 0 or unset keeps all")
    return int(text)


def oldest_kept(now: datetime | None = None) -> datetime | None:
    """The moment before which pictures and pages go; None: all are kept.

    Raises:
        InputError: what `keep_days` raises.
    """
    days = keep_days()
    return (now or datetime.now(UTC)) - timedelta(days=days) if days else None


def remove_old(store: Path, bucket: Bucket | None = None, now: datetime | None = None) -> int:
    """Remove what the rule of this process's environment does not keep; returns how many files that were.

    Raises:
        InputError: what `keep_days` raises.
        OSError: the disk, or the remote store (RemoteUnavailable), fails.
    """
    before = oldest_kept(now)
    old = [*_old(store, before)] if before else []
    if not before or not old:
        return 0
    told = Removal(days=keep_days(), before=before.isoformat())
    if (store / "pictures").is_dir():
        write_whole(store / NOTE, told.model_dump_json().encode(), private=True)
    Place(store, bucket).remove(old)
    note = store / PICTURES
    if note.exists():
        gone = {*old}
        kept = [name for name in note.read_text(encoding="utf-8").splitlines() if name not in gone]
        write_whole(note, "".join(f"{name}\n" for name in kept).encode(), private=True)
    return len(old)


def _old(store: Path, before: datetime) -> Iterator[str]:
    for file in [*(store / "pictures").glob("*.jpg"), *(store / "pictures" / "waiting").glob("*")]:
        if file.stat().st_mtime < before.timestamp():
            yield file.relative_to(store).as_posix()
    for page in (store / PAGES).glob("*.html"):
        if page.name != "index.html" and _shows(page) < before.timestamp():
            yield page.relative_to(store).as_posix()


def _shows(page: Path) -> float:
    """When what a page shows was judged, by its name; of a comparison, when it was made."""
    begun = _BEGUN.match(page.name)
    if not begun:
        return page.stat().st_mtime
    return datetime.strptime(begun[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()


def why_missing(store: Path, began: datetime) -> str:
    """Why pictures of an evaluation that began then may be missing, a sentence; "": not by this rule."""
    try:
        told = Removal.model_validate_json((store / NOTE).read_bytes())
    except (OSError, ValueError):
        return ""
    before = moment_of(told.before)
    if not before or began >= before:
        return ""
    return f"Pictures that were last judged more than {told.days:,} days ago are removed from this store ({VARIABLE})."
