"""Labels in a remote store: every machine gets those of all others; `label.json` is written last."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from tasks.errors import InputError
from tasks.ledger.bucket import MOST_OBJECT, Bucket, fetch_folder, send_folder
from tasks.ledger.label_sets import (
    ABOUT,
    LABELS,
    REMOVED,
    drop_removed,
    folder,
    is_name,
    label_folders,
    read_label_set,
    remove_set,
    removed_labels,
)
from tasks.store_files import read_file, write_file


class _About(BaseModel):
    """Field of `label.json` that is compared; a newer version may write others, too."""

    source_sha256: str


class Exchanged(NamedTuple):
    """Names of the labels that were copied, and of those that could not be."""

    sent: list[str]
    fetched: list[str]
    clashing: list[str]
    """Names whose labels here and in the bucket differ."""


def exchange_labels(bucket: Bucket, store: Path) -> Exchanged:
    """Send the labels that the bucket lacks, fetch those that the cache lacks, and follow removals on other machines.

    Raises:
        InputError: labels of the local cache or of the bucket are damaged.
        RemoteUnavailable: the network or the store fails; changes made until then remain.
    """
    for share in (send_folder, fetch_folder):
        share(bucket, store, REMOVED)
    drop_removed(store)
    sizes = bucket.sizes("labels", MOST_OBJECT)
    parts = (path.split("/") for path in sizes)
    there = {name for _, name, *file in parts if file == [ABOUT] and is_name(name)}
    there -= _follow_forgetting(bucket, store, sizes, there)
    there -= _drop_removed_there(bucket, store, there)
    here = {place.name for place in label_folders(store)}
    sent, fetched = sorted(here - there), sorted(there - here)
    for name in sent:
        for file in (LABELS, ABOUT):
            bucket.put({_object(name, file): read_file(store, _object(name, file))})
    found = bucket.get([_object(name, file) for name in fetched for file in (LABELS, ABOUT)])
    for name in fetched:
        _keep(store, name, found)
    return Exchanged(sent, fetched, _clashing(bucket, store, sorted(here & there)))


def _follow_forgetting(bucket: Bucket, store: Path, sizes: Mapping[str, int], there: set[str]) -> set[str]:
    """Remove rows that another machine has forgotten, and return the names of sets that it has forgotten whole."""
    gone = {name for name in there if not sizes[_object(name, ABOUT)]}
    for folder_name in [place.name for place in label_folders(store)]:
        if folder_name in gone:
            remove_set(store, folder_name)
        elif folder_name in there and _has_changed(store, folder_name, sizes):
            found = bucket.get([_object(folder_name, file) for file in (LABELS, ABOUT)])
            ours = read_label_set(folder(store, folder_name)).source_sha256
            if _source_sha256(_object(folder_name, ABOUT), found) == ours:
                _keep(store, folder_name, found)
    return gone


def _has_changed(store: Path, name: str, sizes: Mapping[str, int]) -> bool:
    files = {_object(name, file): folder(store, name) / file for file in (LABELS, ABOUT)}
    return any(sizes.get(each) != file.stat().st_size for each, file in files.items() if file.exists())


def _drop_removed_there(bucket: Bucket, store: Path, there: set[str]) -> set[str]:
    """Remove from the bucket the labels that were removed here, or on another machine, and return their names."""
    gone = removed_labels(store)
    doubtful = sorted(there & {name for name, _ in gone})
    found = bucket.get([_object(name, ABOUT) for name in doubtful])
    names = {name for name in doubtful if (name, _source_sha256(_object(name, ABOUT), found)) in gone}
    bucket.remove([_object(name, file) for file in (ABOUT, LABELS) for name in sorted(names)])
    return names


def _object(name: str, file: str) -> str:
    return f"labels/{name}/{file}"


def _keep(store: Path, name: str, found: Mapping[str, bytes]) -> None:
    for file in (LABELS, ABOUT):
        write_file(store, _object(name, file), found[_object(name, file)])


def _clashing(bucket: Bucket, store: Path, names: list[str]) -> list[str]:
    found = bucket.get([_object(name, ABOUT) for name in names])
    ours = {name: read_label_set(folder(store, name)).source_sha256 for name in names}
    return [name for name in names if _source_sha256(_object(name, ABOUT), found) != ours[name]]


def _source_sha256(name: str, found: Mapping[str, bytes]) -> str:
    try:
        return _About.model_validate_json(found[name]).source_sha256
    except ValidationError as error:
        raise InputError(f"{name} in the bucket is no description of labels: {error}") from error
