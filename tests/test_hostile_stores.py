"""Stores and buckets of strangers: links in place of our files, rows of any form, objects of any size.

Commands change, send or print nothing behind a link, and no row keeps a command from finishing.
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
from factories import RUN, end, line, other_call, outcome, picture, start, write_run
from watched import ended
from written_history import whole_run

from flows.server.server import home, made_home, running
from tasks.batches.log import begin
from tasks.batches.results import remove
from tasks.errors import InputError
from tasks.files import is_store_name, remove_drafts, remove_file, remove_folder, write_at, write_file
from tasks.history.database import reading
from tasks.history.landing import land
from tasks.ledger import labels
from tasks.ledger.bucket import MOST_OBJECT
from tasks.ledger.labels import exchange_labels
from tasks.ledger.passports import PASSPORTS, StoppedExam, keep_exam
from tasks.ledger.remote import Remote
from tasks.ledger.removals import VARIABLE, cost_by_month, remove_old
from tasks.ledger.run_files import JUDGMENTS, OUTCOMES
from tasks.ledger.side_records import OTHER_CALLS, restart_baseline
from tasks.pages.site import send_pages
from tasks.pictures.thumbnails import make_waiting

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
STOPPING, READ = (".history", "ledger", "pages"), ("pictures", "labels", "label-pages", "alarms", "anchors", "batches")
"""Folders that stop a sync, or its pages, if they are links; folders that do not."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Another user's folder whose files and folders have the names of those in a store."""
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


def contents(place: Path) -> dict[str, tuple[int, float, str]]:
    """Return mode, time and text of everything in a folder."""
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


def check_nothing_is_changed(store: Path, outside: Path, folders: tuple[str, ...], *words: str) -> None:
    for folder in folders:
        link(store / folder, outside)
    before = contents(outside)
    _, printed = ended(*words, "--store", store)
    assert contents(outside) == before
    assert SECRET not in printed and "Traceback" not in printed and "a fault of" not in printed, printed


@pytest.mark.parametrize("folders", [*((each,) for each in STOPPING), READ], ids=str)
def test_sync_changes_nothing_behind_linked_folders(store: Path, outside: Path, folders: tuple[str, ...]) -> None:
    check_nothing_is_changed(store, outside, folders, "store", "sync")


@pytest.mark.parametrize("folder", [*STOPPING, *READ])
def test_forgetting_changes_nothing_behind_a_linked_folder(
    stored: Path, tmp_path: Path, outside: Path, folder: str
) -> None:
    store = Path(shutil.copytree(stored, tmp_path / "store"))
    check_nothing_is_changed(store, outside, (folder,), "store", "forget", "--run", RUN, "--yes")


@pytest.mark.parametrize("name", ["lock", "master.duckdb"])
def test_history_is_not_written_through_a_link(store: Path, tmp_path: Path, name: str) -> None:
    link(store / ".history" / name, tmp_path / "new")
    code, printed = ended("store", "sync", "--store", store)
    assert code == 2 and "is a link" in printed and not (tmp_path / "new").exists()


def test_writer_removes_only_leftovers_of_writers(store: Path) -> None:
    land(store)
    for name in ("notes", "scratch", "fresh.duckdb.wal"):
        (store / ".history" / name).mkdir()
    whole_run(store, "20261121T120000-diagram-0000aa")
    land(store)
    assert {"notes", "lock", "master.duckdb"} == {path.name for path in (store / ".history").iterdir()}


@pytest.mark.parametrize("name", ["", "server.json", "server.log", "auth", "prefect.db", "prefect.db-wal"])
def test_server_refuses_a_home_that_is_a_link(store: Path, outside: Path, name: str) -> None:
    link(home(store) / name, outside / name)
    before = contents(outside)
    with pytest.raises(InputError, match="refused: it is a link"):
        made_home(store)
    assert running(store) is None and contents(outside) == before


def test_server_note_that_is_a_pipe_is_ignored(store: Path) -> None:
    home(store).mkdir()
    os.mkfifo(home(store) / "server.json")
    assert running(store) is None


def test_reader_refuses_a_linked_history_folder(store: Path, outside: Path) -> None:
    (store / "history.duckdb").touch()
    link(store / ".history", outside)
    with pytest.raises(InputError, match="is a link"), reading(store):
        pass


# Sending to a bucket


def send_labels(_: Path, remote: Remote) -> None:
    exchange_labels(remote)


def send_runs(_: Path, remote: Remote) -> None:
    remote.send_all()


def sync_and_send_pages(_: Path, remote: Remote) -> None:
    ended("store", "sync", "--store", remote.folder)
    send_pages(remote, [remote.folder / "pages" / f"{RUN}.html"])


SENT: dict[str, tuple[str, str, Callable[[Path, Remote], None]]] = {
    "labels": ("labels/people/labels.jsonl", "labels.jsonl", send_labels),
    "all labels": ("labels", ".", send_labels),
    "a bridge": (f"bridges/{RUN}/bridge.jsonl", "labels.jsonl", lambda _, remote: remote.send_folder("bridges")),
    "judgments": (f"ledger/{RUN}/{JUDGMENTS}", JUDGMENTS, send_runs),
    "outcomes": (f"ledger/{RUN}/{OUTCOMES}", OUTCOMES, send_runs),
    "a run": (f"ledger/{RUN}", RUN, send_runs),
    "all runs": ("ledger", ".", send_runs),
    "a page": (f"pages/{RUN}.html", f"{RUN}.html", sync_and_send_pages),
}


@pytest.mark.parametrize(("name", "target", "send"), SENT.values(), ids=SENT)
def test_nothing_behind_a_link_is_sent(
    store: Path, outside: Path, tmp_path: Path, name: str, target: str, send: Callable[[Path, Remote], None]
) -> None:
    (tmp_path / "bucket").mkdir()
    link(store / name, outside / target)
    before = contents(outside)
    try:
        send(store, Remote(f"file://{tmp_path / 'bucket'}", store))
    except InputError as error:
        assert SECRET not in str(error)
    assert contents(outside) == before
    assert [path for path in (tmp_path / "bucket").rglob("*") if path.is_file() and SECRET in path.read_text()] == []


def test_oversized_object_is_not_loaded_into_memory(tmp_path: Path, store: Path) -> None:
    bucket = tmp_path / "bucket"
    other = Remote(f"file://{bucket}", tmp_path / "other")
    Remote(f"file://{bucket}", store).send_all()
    for name in (f"ledger/{RUN}/judgments-000000000002.jsonl", "alarms/told-x.json", "labels/people/label.json"):
        (bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (bucket / name).touch()
        os.truncate(bucket / name, MOST_OBJECT + 1)
    assert other.fetch() == [RUN]
    other.fetch_folder("alarms")
    exchange_labels(other)
    assert len(other.bucket.skipped) == 3
    assert not (other.folder / "alarms").exists() and not labels.label_folders(other.folder)


# Rows of strangers

NUMBERS: dict[str, Any] = {
    "text": "1.5", "a list": [1], "an object": {}, "not a number": float("nan"), "infinity": float("inf"),
    "an integer beyond floats": 10**400, "a negative amount": -1e300,
}  # fmt: skip
MOMENTS = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "noon", [], None, "2026-11-20T12:00:00")


@pytest.mark.parametrize("amount", NUMBERS.values(), ids=NUMBERS)
def test_invalid_amounts_cost_nothing(amount: Any) -> None:
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
def test_rows_of_any_form_do_not_stop_forgetting(store: Path, meant: tuple[str, str]) -> None:
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
def test_foreign_files_do_not_stop_removal_of_old_files(store: Path, page: str, monkeypatch: Any) -> None:
    monkeypatch.setenv(VARIABLE, "30")
    for name in (f"pages/{page}.html", "pages/20200101T000000-x.html", f"pictures/{SHA256}.jpg"):
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_text("a page")
    (store / "pictures" / f"{'cd' * 32}.jpg").symlink_to("nowhere")
    assert remove_old(store, now=datetime(2026, 12, 1, tzinfo=UTC)) == 1
    assert [path.stem for path in (store / "pages").iterdir()] == [page]


# Names and links that lead out of a store


WRONG = {
    "above the store": "../outside/run.json",
    "an absolute path": "/etc/hostname",
    "above the folder": f"pictures/../../outside/{SHA256}.jpg",
    "a path in place of a hash": "pictures/../../outside/x.jpg",
    "a picture name without a hash": "pictures/x.jpg",
    "dots in place of a run": "ledger/../run.json",
    "a dot in place of a run": "ledger/./run.json",
    "an unknown file of a ledger": f"ledger/{RUN}/notes.txt",
    "a folder": "pictures",
    "an empty path segment": f"pictures//{SHA256}.jpg",
    "a line break at the end": f"pictures/{SHA256}.jpg\n",
    "a hidden file": "pages/.bashrc.html",
    "backslashes": f"pictures\\..\\{SHA256}.jpg",
    "a NUL character": "pages/a\0.html",
    "900 characters": f"pages/{'a' * 900}.html",
    "300 bytes of 100 letters": f"pages/{'語' * 100}.html",
    "a file at the top": "history.duckdb",
    "an empty name": "",
}


@pytest.mark.parametrize("name", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("change", [remove_file, lambda *of: write_file(*of, b""), lambda *of: write_at(*of, 0, b"")])
def test_name_that_no_store_writes_is_refused(empty: Path, outside: Path, name: str, change: Any) -> None:
    before = contents(outside.parent)
    assert not is_store_name(name)
    with pytest.raises(InputError, match="no store of Image Jury has such a name"):
        change(empty, name)
    assert contents(outside.parent) == before


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
def test_linked_folders_are_not_followed(empty: Path, outside: Path, folder: str, name: str) -> None:
    link(empty / folder, outside)
    before = contents(outside)
    for change in (remove_file, lambda *of: write_file(*of, b"ours"), lambda *of: write_at(*of, 0, b"ours")):
        with pytest.raises(InputError, match="refused: it is a link"):
            change(empty, name)
    if folder.count("/") and not folder.startswith("pictures"):
        with pytest.raises(InputError, match="refused: it is a link"):
            remove_folder(empty, folder)
    assert contents(outside) == before


def test_linked_file_is_replaced_or_removed_without_its_target(empty: Path, outside: Path) -> None:
    before, name = contents(outside), f"ledger/{RUN}/run.json"
    link(empty / name, outside / "run.json")
    write_file(empty, name, b"ours")
    assert (empty / name).read_bytes() == b"ours" and not (empty / name).is_symlink()
    (empty / name).unlink()
    link(empty / name, outside / "run.json")
    with pytest.raises(InputError, match="refused: it is a link"):
        write_at(empty, name, 0, b"ours")
    remove_file(empty, name)
    assert not (empty / name).is_symlink() and contents(outside) == before


def test_folder_is_removed_except_for_foreign_files(empty: Path, outside: Path) -> None:
    names = ["run.json", "end.json", "judgments.jsonl", DRAFT]
    for name in (*names, "notes of mine"):
        (empty / "ledger" / RUN).mkdir(parents=True, exist_ok=True)
        (empty / "ledger" / RUN / name).write_text("")
    link(empty / "ledger" / RUN / "batches.jsonl", outside / "run.json")
    link(empty / "ledger" / RUN / "more", outside)
    before = contents(outside)
    remove_folder(empty, f"ledger/{RUN}", last="run.json")
    assert sorted(path.name for path in (empty / "ledger" / RUN).iterdir()) == ["more", "notes of mine"]
    for path in (empty / "ledger" / RUN).iterdir():
        path.unlink()
    remove_folder(empty, f"ledger/{RUN}")
    remove_folder(empty, f"ledger/{RUN}")
    assert not (empty / "ledger" / RUN).exists() and contents(outside) == before


def test_drafts_are_removed_only_inside_the_store(empty: Path, outside: Path) -> None:
    (empty / "labels" / "people").mkdir(parents=True)
    (empty / "labels" / "people" / DRAFT).write_text("half written")
    link(empty / "pages", outside)
    before = contents(outside)
    remove_drafts(empty)
    assert [*(empty / "labels" / "people").iterdir()] == [] and contents(outside) == before


@pytest.mark.parametrize(
    ("given", "private"), [(0o700, (0o700, 0o600)), (0o755, (0o700, 0o600)), (0o2770, (0o2770, 0o660))]
)
def test_written_files_are_private_or_the_groups(empty: Path, given: int, private: tuple[int, int]) -> None:
    empty.chmod(given)
    write_file(empty, f"pictures/{SHA256}.jpg", b"ours")
    write_at(empty, f"ledger/{RUN}/judgments.jsonl", 2, b"row")
    modes = [(path.parent.stat().st_mode & 0o7777, path.stat().st_mode & 0o777) for path in empty.rglob("*.j*")]
    assert modes == [private, private]
    assert (empty / "ledger" / RUN / "judgments.jsonl").read_bytes() == b"\0\0row"


# Removal and fetching behind links


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
    "an alarm": ("alarms", lambda store: restart_baseline(store, "diagram")),
    "calls": (OTHER_CALLS.folder, lambda store: OTHER_CALLS.keep(store, [other_call("mine", price=1.0)])),
    "an exam": (PASSPORTS, lambda store: keep_exam(store, "mine", StoppedExam(replies=()))),
}


@pytest.mark.parametrize(("name", "change"), LED.values(), ids=LED)
def test_nothing_behind_a_link_is_removed_fetched_or_written(
    empty: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Path], object]
) -> None:
    monkeypatch.setenv(VARIABLE, "30")
    if name == "labels/people":
        origin = {"source": "a.csv", "source_sha256": SHA256, "imported_at": "2026-11-20T12:00:00+00:00"}
        label_set = labels.LabelSet(name="people", flow="diagram", labels=1, annotators=(), **origin)
        row = labels.LabelRow(sample_id="s1", candidate="c", verdict="Model", annotator="")
        labels.keep_labels(empty, label_set, [row])
        shutil.copytree(empty / name, outside, dirs_exist_ok=True)
    link(empty / name, outside)
    before = contents(outside)
    with pytest.raises(InputError, match="refused: it is a link"):
        change(empty)
    assert contents(outside) == before


def test_nothing_behind_a_link_is_forgotten_or_made_a_thumbnail(empty: Path, outside: Path, jury: Any) -> None:
    (outside / "removed.json").unlink()  # with it, the run would count as forgotten
    link(empty / "ledger" / RUN, outside)
    link(empty / "pictures" / "waiting", outside)
    before = contents(outside)
    code, _, err = jury("store", "forget", "--run", RUN, "--yes", "--store", empty)
    assert code == 2 and "it is a link" in err and make_waiting(empty) == (0, 0)
    assert contents(outside) == before


def test_path_in_place_of_a_hash_removes_nothing(empty: Path, outside: Path, jury: Any) -> None:
    note = picture("s1m").model_copy(update={"source_sha256": "../../outside/x"})
    write_run(empty, start(RUN), [outcome(pictures={"model": note, "human": note})], end())
    (empty / "pictures").mkdir()
    shutil.copy(outside / "x.jpg", empty / "pictures" / "notes.jpg")
    before = contents(outside)
    assert jury("store", "forget", "--run", RUN, "--yes", "--store", empty)[0] == 0
    assert contents(outside) == before and (empty / "pictures" / "notes.jpg").exists()


# Privacy of a store


def entries_open_to_others(store: Path) -> list[str]:
    return [path.name for path in store.iterdir() if path.stat().st_mode & 0o077]


def files_open_to_others(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]


@pytest.mark.usefixtures("prefect_server")
def test_files_of_a_run_are_private(tmp_path: Path, jury: Any) -> None:
    store = tmp_path / "above" / "store"
    assert jury("run", "position", "--dataset", "samples", "--limit", 1, "--store", store)[0] == 0
    (store / "prefect").mkdir(exist_ok=True)
    (store / "prefect" / "prefect.db").touch(0o644)
    made_home(store)
    assert (store / "prefect" / "prefect.db").stat().st_mode & 0o777 == 0o600
    assert {"ledger", "pictures", "history.duckdb", home(store).name} <= {path.name for path in store.iterdir()}
    assert entries_open_to_others(store) == []
    assert files_open_to_others(store / "ledger") == files_open_to_others(store / "pictures") == []
    assert any((store / "pictures").glob("*.jpg")) and any((store / "ledger").glob("*/judgments.jsonl"))
    for mode in (0o700, 0o755):
        assert stat.S_IMODE(store.stat().st_mode) == 0o700
        store.chmod(mode)
        out = jury("status", "--store", store)[1]
        assert ("other users of this machine may enter it: chmod 700" in out) is (mode == 0o755)
    assert jury("store", "rebuild", "--store", store)[0] == 0
    assert entries_open_to_others(store) == [] and stat.S_IMODE(store.stat().st_mode) == 0o755
