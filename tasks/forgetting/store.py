"""Everything that a store's marks mean, removed from all of it but the history and the pages, which are made anew.

Owns the order, which lets a kill at any point be followed by the same again, and what is noted of it: that it has begun
and not ended (`.unfinished`), and what a store looked like when nothing was left to be removed (`.done`).
"""

from hashlib import sha256
from itertools import chain
from pathlib import Path

from tasks.errors import InputError
from tasks.files import private_folder, write_whole
from tasks.forgetting.beside import ALL
from tasks.forgetting.found import Found, find
from tasks.forgetting.ledgers import is_busy, ledgers
from tasks.forgetting.place import Place
from tasks.ledger.bucket import Bucket
from tasks.ledger.forgotten import FOLDER, Mark, marks
from tasks.ledger.meant import Meant, started
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN, is_waiting, run_folders
from tasks.ledger.remote_folders import fetch_folder, send_folder

UNFINISHED, DONE = ".unfinished", ".done"
BESIDE = ("labels", "label-pages", "bridges", "layouts", "alarms", "anchors")


def exchange_marks(bucket: Bucket, store: Path) -> None:
    """Bring the marks of a remote store and its local cache together.

    Raises:
        RemoteUnavailable: the network or the store fails.
    """
    send_folder(bucket, store, FOLDER)
    fetch_folder(bucket, store, FOLDER)


def check_idle(store: Path) -> None:
    """Raise InputError where a run is being written or waits: it may show a picture of which no row tells yet."""
    for run in run_folders(store):
        if is_waiting(run):
            raise InputError(
                f"run {run.name} waits for its batches: `jury collect` takes its replies in, `jury collect --cancel "
                f"{run.name}` stops it; the same command forgets then"
            )
        if is_busy(run):
            raise InputError(
                f"run {run.name} is being written: wait for its end, or stop it (Ctrl-C); the same command forgets then"
            )


def what_goes(store: Path, also: Mark | None = None) -> tuple[Found, list[str]]:
    """What would go by the marks of a store and one more, and a sentence for each place that it would go from."""
    found = find(store, Meant([*marks(store), *([also] if also else [])]))
    return found, _from_everywhere(Place(store, is_dry=True), found)


def remove(store: Path, bucket: Bucket | None, found: Found, is_there: bool) -> bool:
    """Remove what the marks of a store mean; whether there was anything, now or before a kill.

    The history and the pages are the caller's, who says by `finish` that they are made anew.

    Args:
        found: what `what_goes` told of those marks.
        is_there: whether it told of any place.

    Raises:
        InputError: a record beside the ledgers is damaged.
        OSError: the disk, or the remote store (RemoteUnavailable), fails: the same again does the rest.
    """
    if not is_there and not (store / FOLDER / UNFINISHED).exists():
        finish(store)
        return False
    private_folder(store / FOLDER)
    (store / FOLDER / UNFINISHED).touch()
    _from_everywhere(Place(store, bucket), found)
    return True


def _from_everywhere(place: Place, found: Found) -> list[str]:
    """A sentence for each place; the ledgers are the last, for their rows tell what is meant."""
    return [*chain.from_iterable(each(place, found) for each in ALL), *ledgers(place, found)]


def finish(store: Path) -> None:
    """Note that nothing is left to be done."""
    write_whole(store / FOLDER / DONE, _state(store).encode(), private=True)
    (store / FOLDER / UNFINISHED).unlink(missing_ok=True)


def is_due(store: Path) -> bool:
    """Whether marks may mean something that is in the store: they are new, or what they mean came back."""
    return is_begun(store) or (bool(marks(store)) and _done(store) != _state(store))


def is_begun(store: Path) -> bool:
    """Whether something was asked for, here or on another machine, and this store is not known to have lost it.

    Raises:
        InputError: a mark is damaged.
    """
    known = _done(store).splitlines()
    return (store / FOLDER / UNFINISHED).exists() or any(mark.mark_id not in known for mark in marks(store))


def _done(store: Path) -> str:
    place = store / FOLDER / DONE
    return place.read_text(encoding="utf-8") if place.exists() else ""


def _state(store: Path) -> str:
    """A hash of the names and sizes of all files that marks may concern, and then the ids of the marks, a line each."""
    known = marks(store)
    newest = max((mark.forgotten_at for mark in known), default="")
    begun = [run for run in run_folders(store) if not (start := started(run)) or start.started_at <= newest]
    files = [run / name for run in begun for name in (RUN, JUDGMENTS, OUTCOMES, END)]
    files += [file for name in BESIDE for file in sorted((store / name).rglob("*"))]
    told = [f"{file.relative_to(store)} {file.stat().st_size}" for file in files if file.is_file()]
    return "\n".join([sha256("\n".join(told).encode()).hexdigest(), *(mark.mark_id for mark in known)])
