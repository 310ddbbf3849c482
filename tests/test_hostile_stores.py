"""Stores and buckets of strangers: links in the places of our files, rows of any form, objects of any size.

Nothing behind a link is changed, sent or quoted, and nothing that a row says keeps a command from its end.
"""

import json
import os
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from factories import RUN, end, line, outcome, picture, start, write_run
from watched import ended
from written_history import whole_run

from flows.server.server import home, made_home, running
from tasks.batches.log import begin
from tasks.batches.results import remove
from tasks.errors import InputError
from tasks.files import is_store_name, remove_drafts, remove_file, remove_folder, write_at, write_file
from tasks.history.database import reading
from tasks.ledger import labels
from tasks.ledger.bucket import MOST_OBJECT
from tasks.ledger.labels import exchange_labels
from tasks.ledger.remote import Remote
from tasks.ledger.removals import VARIABLE, cost_by_month, remove_old
from tasks.ledger.run_files import JUDGMENTS, OUTCOMES
from tasks.pages.site import send_pages
from tasks.pictures.thumbnails import Thumbnails, make_waiting

SHA256 = "ab" * 32
SECRET = "not ours, and secret"
DRAFT = f".run.json.{'0' * 32}.draft"
NAMES = (
    *("run.json", "judgments.jsonl", "outcomes.jsonl", "end.json", "removed.json", "batches.jsonl"),
    *("index.html", f"{RUN}.html", ".served.json", f"{SHA256}.jpg", SHA256, "lock", "master.duckdb", "history.duckdb"),
    *("prefect.db", "server.log", "server.json", "auth", "labels.jsonl", "label.json", "scratch/x", "read-1/x"),
    *(DRAFT, "card.json", "x.jpg", f"waiting/{SHA256}", "theirs/x", "people/label.json", "people/labels.jsonl"),
    *(f"{RUN}/run.json", f"{RUN}/bridge.jsonl"),
)
FOLDERS = (".history", "pages", "pictures", "ledger", "labels", "label-pages", "alarms", "anchors", "batches")
COMMANDS = (["store", "sync"], ["alarms", "restart", "diagram"], ["store", "forget", "--run", RUN, "--yes"])


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else, with files and folders called as those of a store are."""
    place = tmp_path / "outside"
    for name in NAMES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(SECRET)
        (place / name).chmod(0o644)
        os.utime(place / name, (1.0, 1.0))
    place.chmod(0o755)
    return place


@pytest.fixture
def store(tmp_path: Path) -> Path:
    whole_run(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def seen(place: Path) -> dict[str, tuple[int, float, str]]:
    """Mode, time and text of all that is in a folder."""
    found: dict[str, tuple[int, float, str]] = {}
    for path in (place, *place.rglob("*")):
        status, text = path.stat(), path.read_text() if path.is_file() else ""
        found[str(path.relative_to(place))] = stat.S_IMODE(status.st_mode), status.st_mtime if text else 0, text
    return found


def link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(place.with_name("was"))
    place.symlink_to(target)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.usefixtures("laid_out")
def test_nothing_behind_a_folder_that_is_a_link_is_changed(store: Path, outside: Path, folder: str) -> None:
    link(store / folder, outside)
    before = seen(outside)
    for words in COMMANDS:
        _, printed = ended(*words, "--store", store)
        assert seen(outside) == before, words
        assert SECRET not in printed and "Traceback" not in printed and "a fault of" not in printed, printed


@pytest.mark.parametrize("name", ["lock", "master.duckdb"])
def test_no_file_of_the_history_is_written_through_a_link(store: Path, tmp_path: Path, name: str) -> None:
    link(store / ".history" / name, tmp_path / "new")
    code, printed = ended("store", "sync", "--store", store)
    assert code == 2 and "is a link" in printed and not (tmp_path / "new").exists()


@pytest.mark.usefixtures("laid_out")
def test_a_writer_removes_only_what_a_writer_leaves(store: Path) -> None:
    assert ended("store", "sync", "--store", store)[0] == 0
    for name in ("notes", "scratch", "fresh.duckdb.wal"):
        (store / ".history" / name).mkdir()
    whole_run(store, "20261121T120000-diagram-0000aa")
    assert ended("store", "sync", "--store", store)[0] == 0
    assert {"notes", "lock", "master.duckdb"} == {path.name for path in (store / ".history").iterdir()}


@pytest.mark.parametrize("name", ["", "server.json", "server.log", "auth", "prefect.db", "prefect.db-wal"])
def test_no_server_writes_into_a_home_that_leads_elsewhere(store: Path, outside: Path, name: str) -> None:
    link(home(store) / name, outside / name)
    before = seen(outside)
    with pytest.raises(InputError, match="refused: it is a link"):
        made_home(store)
    assert running(store) is None and seen(outside) == before


def test_a_note_of_a_server_that_is_a_pipe_is_none(store: Path) -> None:
    home(store).mkdir()
    os.mkfifo(home(store) / "server.json")
    assert running(store) is None


@pytest.mark.parametrize("folder", ["pictures", "pictures/waiting"])
def test_no_run_begins_whose_pictures_would_lie_elsewhere(store: Path, outside: Path, folder: str) -> None:
    link(store / folder, outside)
    with pytest.raises(InputError, match="refused: it is a link"):
        Thumbnails(store)


def test_no_reader_uses_a_folder_of_the_history_that_is_a_link(store: Path, outside: Path) -> None:
    (store / "history.duckdb").touch()
    link(store / ".history", outside)
    with pytest.raises(InputError, match="is a link"), reading(store):
        pass


# What is sent to a bucket


def sends_labels(store: Path, remote: Remote) -> None:
    exchange_labels(remote.bucket, store)


def sends_folder(name: str) -> Callable[[Path, Remote], None]:
    return lambda _, remote: remote.send_folder(name)


def sends_runs(_: Path, remote: Remote) -> None:
    remote.send_all()


def sends_pages(_: Path, remote: Remote) -> None:
    ended("store", "sync", "--store", remote.folder)
    send_pages(remote, [remote.folder / "pages" / f"{RUN}.html"])


SENT: dict[str, tuple[str, str, Callable[[Path, Remote], None]]] = {
    "labels": ("labels/people/labels.jsonl", "labels.jsonl", sends_labels),
    "all labels": ("labels", ".", sends_labels),
    "a bridge": (f"bridges/{RUN}/bridge.jsonl", "labels.jsonl", sends_folder("bridges")),
    "judgments": (f"ledger/{RUN}/{JUDGMENTS}", JUDGMENTS, sends_runs),
    "outcomes": (f"ledger/{RUN}/{OUTCOMES}", OUTCOMES, sends_runs),
    "a run": (f"ledger/{RUN}", RUN, sends_runs),
    "all runs": ("ledger", ".", sends_runs),
    "a page": (f"pages/{RUN}.html", f"{RUN}.html", sends_pages),
}


@pytest.mark.parametrize(("name", "target", "send"), SENT.values(), ids=SENT)
@pytest.mark.usefixtures("laid_out")
def test_nothing_behind_a_link_is_sent(
    store: Path, outside: Path, tmp_path: Path, name: str, target: str, send: Callable[[Path, Remote], None]
) -> None:
    (tmp_path / "bucket").mkdir()
    link(store / name, outside / target)
    before = seen(outside)
    try:
        send(store, Remote(f"file://{tmp_path / 'bucket'}", store))
    except InputError as error:
        assert SECRET not in str(error)
    assert seen(outside) == before
    assert [path for path in (tmp_path / "bucket").rglob("*") if path.is_file() and SECRET in path.read_text()] == []


def test_an_object_that_no_machine_of_ours_has_sent_is_not_taken_into_the_memory(tmp_path: Path, store: Path) -> None:
    bucket = tmp_path / "bucket"
    other = Remote(f"file://{bucket}", tmp_path / "other")
    Remote(f"file://{bucket}", store).send_all()
    for name in (f"ledger/{RUN}/judgments-000000000002.jsonl", "alarms/told-x.json", "labels/people/label.json"):
        (bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (bucket / name).touch()
        os.truncate(bucket / name, MOST_OBJECT + 1)
    assert other.fetch() == [RUN]
    other.fetch_folder("alarms")
    exchange_labels(other.bucket, other.folder)
    assert len(other.bucket.skipped) == 3
    assert not (other.folder / "alarms").exists() and not labels.label_folders(other.folder)


# What rows of strangers say

NUMBERS: dict[str, Any] = {
    "a text": "1.5", "a list": [1], "an object": {}, "no number": float("nan"), "infinity": float("inf"),
    "more digits than a number has": 10**400, "more than a call can cost": -1e300,
}  # fmt: skip
MOMENTS = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "noon", [], None, "2026-11-20T12:00:00")


@pytest.mark.parametrize("amount", NUMBERS.values(), ids=NUMBERS)
def test_what_is_no_amount_costs_nothing(amount: Any) -> None:
    good = {"judged_at": "2026-11-20T12:00:00+00:00", "price": 0.5, "estimated": 1}
    rows = [good, good | {"price": amount, "estimated": 0.0}, good | {"estimated": amount, "price": None}]
    rows += [good | {"judged_at": moment} for moment in MOMENTS]
    assert cost_by_month(rows, {}) == {"2026-11": 1.5}


ODD: tuple[dict[str, Any], ...] = (
    {"sample_id": [], "candidate": {}, "control": [], "status": {}, "vote": [1], "order": {}},
    {"price": "much", "judged_at": "0001-01-01T00:00:00+14:00", "pictures": [], "reused_from": {}},
    {"price": 1e308, "estimated": 1e308, "pictures": {"model": [], "human": {"source_sha256": ["x"]}}},
    {"of_run": [], "old_run": {}, "new_run": 1, "night": None, "flow": [], "pictures": {"model": {}}},
)


@pytest.mark.parametrize("meant", [("--sample", "s1"), ("--candidate", "alpha"), ("--run", RUN)])
@pytest.mark.usefixtures("laid_out")
def test_rows_of_any_form_are_no_obstacle_to_forgetting(store: Path, meant: tuple[str, str]) -> None:
    write_run(store, start("20261121T120000-diagram-0000aa", candidates=("alpha", "b")), [outcome("s9")], end())
    odd = "".join(f"{json.dumps(row)}\n" for row in ODD) + "[1]\nnull\n{\n"
    for path in (store / "ledger").glob("*/*s.jsonl"):
        path.write_text(path.read_text() + odd)
    for name in (f"bridges/{RUN}/bridge.jsonl", "alarms/told-x.json", "alarms/restart-x.json"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text(odd)
    code, printed = ended("store", "forget", *meant, "--yes", "--store", store)
    assert (code, "Traceback" in printed) == (0, False), printed
    assert line(outcome("s1")) not in "".join(path.read_text() for path in store.glob(f"ledger/{RUN}/*.jsonl"))
    assert not (store / "forgetting.json").exists()


@pytest.mark.parametrize("page", ["99999999T999999-x", "20261320T120000", "٢٠٢٦١١٢٠T١٢٠٠٠٠-x", "00000000T000000"])
def test_what_strangers_left_keeps_nobody_from_removing_old_files(store: Path, page: str, monkeypatch: Any) -> None:
    monkeypatch.setenv(VARIABLE, "30")
    for name in (f"pages/{page}.html", "pages/20200101T000000-x.html", f"pictures/{SHA256}.jpg"):
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_text("a page")
    (store / "pictures" / f"{'cd' * 32}.jpg").symlink_to("nowhere")
    assert remove_old(store, now=datetime(2026, 12, 1, tzinfo=UTC)) == 1
    assert [path.stem for path in (store / "pages").iterdir()] == [page]


# What strangers name or link is never removed, written or rewritten outside of a store


WRONG = {
    "above the store": "../outside/run.json",
    "an absolute path": "/etc/hostname",
    "above a folder": f"pictures/../../outside/{SHA256}.jpg",
    "a hash that leads elsewhere": "pictures/../../outside/x.jpg",
    "a picture that is no hash": "pictures/x.jpg",
    "a run above the ledger": "ledger/../run.json",
    "a run that is this folder": "ledger/./run.json",
    "a file that no ledger has": f"ledger/{RUN}/notes.txt",
    "a folder's own name": "pictures",
    "an empty part": f"pictures//{SHA256}.jpg",
    "a line break at the end": f"pictures/{SHA256}.jpg\n",
    "a hidden file": "pages/.bashrc.html",
    "backslashes": f"pictures\\..\\{SHA256}.jpg",
    "an end of a text of C": "pages/a\0.html",
    "900 characters": f"pages/{'a' * 900}.html",
    "300 bytes of 100 letters": f"pages/{'語' * 100}.html",
    "a file at the top": "history.duckdb",
    "nothing": "",
}


@pytest.mark.parametrize("name", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("change", [remove_file, lambda *of: write_file(*of, b""), lambda *of: write_at(*of, 0, b"")])
def test_a_name_that_no_store_writes_is_refused(empty: Path, outside: Path, name: str, change: Any) -> None:
    before = seen(outside.parent)
    assert not is_store_name(name)
    with pytest.raises(InputError, match="no store of Image Jury has such a name"):
        change(empty, name)
    assert seen(outside.parent) == before


FILES = {
    "pictures": f"pictures/{SHA256}.jpg",
    "pictures/waiting": f"pictures/waiting/{SHA256}",
    "pages": f"pages/{RUN}.html",
    "ledger": f"ledger/{RUN}/run.json",
    f"ledger/{RUN}": f"ledger/{RUN}/judgments.jsonl",
    "labels/people": "labels/people/label.json",
    f"batches/{RUN}": f"batches/{RUN}/lock",
    "passports/mine": "passports/mine/card.json",
    "anchors/diagram/set/pictures": f"anchors/diagram/set/pictures/{SHA256}",
}


@pytest.mark.parametrize(("folder", "name"), FILES.items(), ids=FILES)
def test_no_folder_is_followed_that_is_a_link(empty: Path, outside: Path, folder: str, name: str) -> None:
    link(empty / folder, outside)
    before = seen(outside)
    for change in (remove_file, lambda *of: write_file(*of, b"ours"), lambda *of: write_at(*of, 0, b"ours")):
        with pytest.raises(InputError, match="refused: it is a link"):
            change(empty, name)
    if folder.count("/") and not folder.startswith("pictures"):
        with pytest.raises(InputError, match="refused: it is a link"):
            remove_folder(empty, folder)
    assert seen(outside) == before


def test_of_a_file_that_is_a_link_the_link_is_removed_or_replaced(empty: Path, outside: Path) -> None:
    before, name = seen(outside), f"ledger/{RUN}/run.json"
    link(empty / name, outside / "run.json")
    write_file(empty, name, b"ours")
    assert (empty / name).read_bytes() == b"ours" and not (empty / name).is_symlink()
    (empty / name).unlink()
    link(empty / name, outside / "run.json")
    with pytest.raises(InputError, match="refused: it is a link"):
        write_at(empty, name, 0, b"ours")
    remove_file(empty, name)
    assert not (empty / name).is_symlink() and seen(outside) == before


def test_a_folder_goes_with_all_of_ours_and_stays_with_what_is_not(empty: Path, outside: Path) -> None:
    names = ["run.json", "end.json", "judgments.jsonl", DRAFT]
    for name in (*names, "notes of mine"):
        (empty / "ledger" / RUN).mkdir(parents=True, exist_ok=True)
        (empty / "ledger" / RUN / name).write_text("")
    link(empty / "ledger" / RUN / "batches.jsonl", outside / "run.json")
    link(empty / "ledger" / RUN / "more", outside)
    before = seen(outside)
    remove_folder(empty, f"ledger/{RUN}", last="run.json")
    assert sorted(path.name for path in (empty / "ledger" / RUN).iterdir()) == ["more", "notes of mine"]
    for path in (empty / "ledger" / RUN).iterdir():
        path.unlink()
    remove_folder(empty, f"ledger/{RUN}")
    remove_folder(empty, f"ledger/{RUN}")
    assert not (empty / "ledger" / RUN).exists() and seen(outside) == before


def test_drafts_go_from_the_store_and_from_nowhere_else(empty: Path, outside: Path) -> None:
    (empty / "labels" / "people").mkdir(parents=True)
    (empty / "labels" / "people" / DRAFT).write_text("half written")
    link(empty / "pages", outside)
    before = seen(outside)
    remove_drafts(empty)
    assert [*(empty / "labels" / "people").iterdir()] == [] and seen(outside) == before


@pytest.mark.parametrize(("given", "private"), [(0o700, (0o700, 0o600)), (0o2770, (0o2770, 0o660))])
def test_what_is_written_is_private_or_the_group_s(empty: Path, given: int, private: tuple[int, int]) -> None:
    empty.chmod(given)
    write_file(empty, f"pictures/{SHA256}.jpg", b"ours")
    write_at(empty, f"ledger/{RUN}/judgments.jsonl", 2, b"row")
    modes = [(path.parent.stat().st_mode & 0o7777, path.stat().st_mode & 0o777) for path in empty.rglob("*.j*")]
    assert modes == [private, private]
    assert (empty / "ledger" / RUN / "judgments.jsonl").read_bytes() == b"\0\0row"


# What removed what it was led to


def remove_old_files(store: Path) -> None:
    remove_old(store, now=datetime.now(UTC) + timedelta(days=31))


def fetch(store: Path) -> None:
    url = f"file://{store.parent / 'bucket'}"
    other = whole_run(store.parent / "other", "20261121T120000-diagram-0000aa").parents[1]
    Remote(url, other).send_all()
    Remote(url, store).fetch()


LED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "old pictures": ("pictures", remove_old_files),
    "old pages": ("pages", remove_old_files),
    "labels": ("labels/people", lambda store: labels.remove_labels(store, "people")),
    "a batch": (f"batches/{RUN}", lambda store: remove(begin(store, RUN))),
    "a ledger from a bucket": ("ledger", fetch),
}


@pytest.mark.parametrize(("name", "change"), LED.values(), ids=LED)
def test_nothing_that_is_removed_or_fetched_lies_behind_a_link(
    empty: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Path], object]
) -> None:
    monkeypatch.setenv(VARIABLE, "30")
    if name == "labels/people":
        origin = {"source": "a.csv", "source_sha256": SHA256, "imported_at": "2026-11-20T12:00:00+00:00"}
        told = labels.LabelSet(name="people", flow="diagram", labels=1, annotators=(), **origin)
        row = labels.LabelRow(sample_id="s1", candidate="c", verdict="Model", annotator="")
        labels.keep_labels(outside, told, [row])
    link(empty / name, outside)
    before = seen(outside)
    with pytest.raises(InputError, match="refused: it is a link"):
        change(empty)
    assert seen(outside) == before


@pytest.mark.usefixtures("laid_out")
def test_no_run_is_forgotten_and_no_thumbnail_made_behind_a_link(empty: Path, outside: Path, jury: Any) -> None:
    (outside / "removed.json").unlink()  # which would say that the run is forgotten already
    link(empty / "ledger" / RUN, outside)
    link(empty / "pictures" / "waiting", outside)
    before = seen(outside)
    code, _, err = jury("store", "forget", "--run", RUN, "--yes", "--store", empty)
    assert code == 2 and "it is a link" in err and make_waiting(empty) == (0, 0)
    assert seen(outside) == before


@pytest.mark.usefixtures("laid_out")
def test_a_hash_in_a_row_that_leads_elsewhere_removes_nothing(empty: Path, outside: Path, jury: Any) -> None:
    told = picture("s1m").model_copy(update={"source_sha256": "../../outside/x"})
    write_run(empty, start(RUN), [outcome(pictures={"model": told, "human": told})], end())
    (empty / "pictures").mkdir()
    shutil.copy(outside / "x.jpg", empty / "pictures" / "notes.jpg")
    before = seen(outside)
    assert jury("store", "forget", "--run", RUN, "--yes", "--store", empty)[0] == 0
    assert seen(outside) == before and (empty / "pictures" / "notes.jpg").exists()


# What a store holds is for its user alone


def open_to_others(store: Path) -> list[str]:
    return [path.name for path in store.iterdir() if path.stat().st_mode & 0o077]


def read_by_others(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("by_hand", [True, False])
def test_nobody_else_reads_what_a_run_leaves(tmp_path: Path, jury: Any, by_hand: bool) -> None:
    store = tmp_path / "above" / "store"
    if by_hand:
        store.mkdir(parents=True)
        store.chmod(0o755)
    assert jury("run", "position", "--dataset", "samples", "--limit", 1, "--store", store)[0] == 0
    (store / "prefect").mkdir(exist_ok=True)
    (store / "prefect" / "prefect.db").touch(0o644)
    made_home(store)
    assert (store / "prefect" / "prefect.db").stat().st_mode & 0o777 == 0o600
    assert {"ledger", "pictures", "history.duckdb", home(store).name} <= {path.name for path in store.iterdir()}
    assert open_to_others(store) == []
    assert read_by_others(store / "ledger") == read_by_others(store / "pictures") == []
    assert any((store / "pictures").glob("*.jpg")) and any((store / "ledger").glob("*/judgments.jsonl"))
    assert stat.S_IMODE(store.stat().st_mode) == (0o755 if by_hand else 0o700)
    told = jury("status", "--store", store)[1]
    assert ("other users of this machine may enter it: chmod 700" in told) is by_hand
    assert jury("store", "rebuild", "--store", store)[0] == 0
    assert open_to_others(store) == []
