"""`JURY_KEEP_DAYS`: pictures and pages that are older than so many days go from a store; verdicts and scores stay.

Owns the rule, and what is noted of it in `pictures/removed.json`, by which a page says why its pictures are missing. A
picture is as old as its last judgment, a page as the evaluation that it shows.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tasks.errors import InputError
from tasks.ledger.bucket import Bucket
from tasks.ledger.reading import moment_of
from tasks.records import Record
from tasks.store_files import is_store_name, read_file, remove_file, write_file

VARIABLE = "JURY_KEEP_DAYS"
NOTE = "pictures/removed.json"
PAGES = "pages"
_LENGTH = len("20261120T120000")
"""Characters of the time with which the name of a page begins that shows one evaluation."""


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
        InputError: what `keep_days` raises; or the folder of pictures or pages is a link.
        OSError: the disk, or the remote store (RemoteUnavailable), fails.
    """
    before = oldest_kept(now)
    old = [name for name in _old(store, before) if is_store_name(name)] if before else []
    if not before or not old:
        return 0
    told = Removal(days=keep_days(), before=before.isoformat())
    if (store / "pictures").is_dir():
        write_file(store, NOTE, told.model_dump_json().encode())
    if bucket:
        there = bucket.sizes("")
        bucket.remove([name for name in old if name in there])
    for name in old:
        remove_file(store, name)
    return len(old)


def _old(store: Path, before: datetime) -> Iterator[str]:
    for file in [*(store / "pictures").glob("*.jpg"), *(store / "pictures" / "waiting").glob("*")]:
        if file.lstat().st_mtime < before.timestamp():
            yield file.relative_to(store).as_posix()
    for page in (store / PAGES).glob("*.html"):
        if page.name != "index.html" and _shows(page) < before.timestamp():
            yield page.relative_to(store).as_posix()


def _shows(page: Path) -> float:
    """When what a page shows was judged, by its name; of a comparison, when it was made."""
    with suppress(ValueError):
        return datetime.strptime(page.name[:_LENGTH], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
    return page.lstat().st_mtime


def why_missing(store: Path, began: datetime) -> str:
    """Why pictures of an evaluation that began then may be missing, a sentence; "": not by this rule."""
    try:
        told = Removal.model_validate_json(read_file(store, NOTE))
    except (OSError, ValueError):
        return ""
    before = moment_of(told.before)
    if not before or began >= before:
        return ""
    return f"Pictures that were last judged more than {told.days:,} days ago are removed from this store ({VARIABLE})."
