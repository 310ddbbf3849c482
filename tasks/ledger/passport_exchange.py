"""Passports in a remote store: every machine gets those of all others, so that a judge is tested once for all of them.

Owns how they are copied between the local cache of a remote store and its bucket. They are small and never change, so
whole files are copied; `card.json` goes last, so that where it is, all is.
"""

import re
from pathlib import Path

from tasks.files import private_folder, write_whole
from tasks.ledger.bucket import Bucket
from tasks.ledger.passports import CARD, PASSPORT, REPLIES, folder, passport_folders

_FILES = (PASSPORT, REPLIES, CARD)
_ID = re.compile(r"\d{8}T\d{9}-passport-[0-9a-f]{6}")
"""Of a passport: a bucket may hold names that lead elsewhere."""


def exchange_passports(bucket: Bucket, store: Path) -> tuple[list[str], list[str]]:
    """Send the finished passports that the bucket lacks and fetch those that the local cache lacks; returns their ids.

    Raises:
        RemoteUnavailable: the network or the store fails; what was done until then stays done.
    """
    parts = (path.split("/") for path in bucket.sizes("passports"))
    there = {name for _, name, *file in parts if file == [CARD] and _ID.fullmatch(name)}
    here = {place.name for place in passport_folders(store)}
    sent, fetched = sorted(here - there), sorted(there - here)
    for name in sent:
        for file in _FILES:
            bucket.put({_object(name, file): (folder(store, name) / file).read_bytes()})
    found = bucket.get([_object(name, file) for name in fetched for file in _FILES])
    for name in fetched:
        private_folder(folder(store, name))
        for file in _FILES:
            write_whole(folder(store, name) / file, found.get(_object(name, file), b""))
    return sent, fetched


def _object(name: str, file: str) -> str:
    return f"passports/{name}/{file}"
