"""`JURY_KEEP_DAYS`: pictures and pages older than this number of days are removed; verdicts and scores are kept.

`pictures/removed.json` records the rule, so that a page can explain missing pictures. A picture is as old as its last
judgment, a page as old as its evaluation.
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
"""Length of the time at the beginning of a page's name, if the page shows one evaluation."""


class Removal(Record):
    """Record of the rule's last removal: `pictures/removed.json`."""

    days: int
    before: str
    """Limit, UTC, ISO 8601: pictures that were last judged before it are removed."""


def keep_days() -> int:
    """Return the number of days that pictures and pages are kept; 0: forever.

    Raises:
        InputError: the environment variable is not a number of days.
    """
    text = os.environ.get(VARIABLE, "").strip() or "0"
    if not re.fullmatch("[0-9]{1,5}", text):
        raise InputError(f"{VARIABLE} is {text!r}: allowed is a number of whole days, such as 90; 0 or unset keeps all")
    return int(text)


def oldest_kept(now: datetime | None = None) -> datetime | None:
    """Return the time before which pictures and pages are removed; None: all are kept.

    Raises:
        InputError: as in `keep_days`.
    """
    days = keep_days()
    return (now or datetime.now(UTC)) - timedelta(days=days) if days else None


def remove_old(store: Path, bucket: Bucket | None = None, now: datetime | None = None) -> int:
    """Remove the files that the rule of this process's environment does not keep; return their number.

    Raises:
        InputError: as in `keep_days`; or the folder of pictures or pages is a link.
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
    """Return the time of a page's evaluation, from the page's name; for a comparison the time of its making."""
    with suppress(ValueError):
        return datetime.strptime(page.name[:_LENGTH], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
    return page.lstat().st_mtime


def why_missing(store: Path, began: datetime) -> str:
    """Return a sentence why pictures of an evaluation begun then may be missing; "": not because of this rule."""
    try:
        told = Removal.model_validate_json(read_file(store, NOTE))
    except (OSError, ValueError):
        return ""
    before = moment_of(told.before)
    if not before or began >= before:
        return ""
    return f"Pictures that were last judged more than {told.days:,} days ago are removed from this store ({VARIABLE})."
