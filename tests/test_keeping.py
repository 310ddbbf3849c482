"""`JURY_KEEP_DAYS`: old pictures and pages are removed, and pages made later say so."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from factories import picture
from written_history import EARLIER, LATER, write_evaluations, written

from tasks import report
from tasks.history.queries import query
from tasks.ledger import removals
from tasks.ledger.bucket import Bucket
from tasks.ledger.removals import VARIABLE, keep_days, remove_old
from tasks.pages import site
from tasks.pictures.thumbnails import Thumbnails, place_of

RENEWED = report.renewed
"""What makes the pages of a run; runs of the fixture `jury` make none."""


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = write_evaluations(tmp_path_factory.mktemp("keeping") / "store")
    for name in ("index", EARLIER, LATER, "compare-0123456789abcdef"):
        (store / "pages").mkdir(exist_ok=True)
        (store / "pages" / f"{name}.html").write_text("a page")
    (store / "pages" / f"{EARLIER}.files").mkdir()
    (store / "pages" / f"{EARLIER}.files" / "0123456789abcdef.jpg").write_text("a picture")
    return store


@pytest.fixture
def store(evaluations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, "30")
    return Path(shutil.copytree(evaluations, tmp_path / "store", copy_function=shutil.copy))


def page_names(store: Path) -> set[str]:
    return {page.stem for page in (store / "pages").glob("*.html")}


@pytest.mark.parametrize("text", ["-1", "ninety", "1.5", "1e3", "999999"])
def test_invalid_days_are_an_error(text: str, tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    code, _, err = jury("store", "sync", "--store", tmp_path)
    assert code == 2 and f"JURY_KEEP_DAYS is '{text}': allowed is a number of whole days, such as 90; 0 or unset" in err


def test_unset_and_zero_keep_everything(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "0"):
        monkeypatch.setenv(VARIABLE, text)
        assert keep_days() == 0 == remove_old(store, now=datetime(2100, 1, 1, tzinfo=UTC))


def test_old_pictures_and_pages_are_removed_and_later_pages_say_so(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = picture("s2m").source_sha256
    now = datetime.now(UTC) + timedelta(days=31)
    moment = (now - timedelta(days=29)).timestamp()
    os.utime(place_of(store, kept), (moment, moment))
    assert remove_old(store, now=now) > 20
    assert [file.stem for file in (store / "pictures").glob("*.jpg")] == [kept]
    assert page_names(store) == {"index"} and not (store / "pages" / f"{EARLIER}.files").exists()
    monkeypatch.setattr(removals, "oldest_kept", lambda: now - timedelta(days=30))
    text = written(store, tmp_path / "report.html", LATER).read_text()
    assert "Pictures that were last judged more than 30 days ago are removed from this store (JURY_KEEP_DAYS)." in text
    assert text.count('type="text/plain"') == 1
    assert query(store, "SELECT sum(n) FROM coverage").rows == [(26,)], "scores stay"


def test_page_has_the_age_of_its_evaluation_and_is_not_rebuilt(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 19, 18, tzinfo=UTC) + timedelta(days=30)
    pictures = store / "pages" / f"{EARLIER}.files"
    (pictures / "notes.txt").touch()
    remove_old(store, now=now)
    assert {EARLIER} & page_names(store) == set() and LATER in page_names(store)
    assert [*pictures.iterdir()] == [pictures / "notes.txt"], "files with other names stay"
    monkeypatch.setattr(site, "oldest_kept", lambda: now - timedelta(days=30))
    assert site.due(store) == [] and site.due(store, [LATER, EARLIER]) == [LATER]


@pytest.mark.usefixtures("prefect_server")
def test_index_of_the_run_that_removes_a_page_does_not_link_it(
    store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "renewed", RENEWED)
    monkeypatch.setenv(VARIABLE, "1")
    assert jury("run", "diagram", "--dataset", "samples", "--limit", 1, "--store", store)[0] == 0
    [made] = [name for name in page_names(store) if name.startswith("20")]
    index = (store / "pages" / "index.html").read_text()
    assert made > LATER and f"{made}.html" in index and f"{LATER}.html" not in index


def test_picture_judged_again_gets_a_new_date(store: Path) -> None:
    sha256 = picture("s2m").source_sha256
    os.utime(place_of(store, sha256), (1.0, 1.0))
    with Thumbnails(store) as thumbnails:
        thumbnails.put_by(sha256, b"no picture: one of it is kept")
    assert place_of(store, sha256).stat().st_mtime > 1e9 and not (store / "pictures" / "waiting").exists()


def test_old_pictures_and_pages_of_other_machines_leave_the_bucket(store: Path, tmp_path: Path) -> None:
    bucket, sha256 = Bucket(f"file://{tmp_path / 'bucket'}"), picture("s2m").source_sha256
    os.utime(place_of(store, sha256), (1.0, 1.0))
    shutil.rmtree(store / "pages")
    names = [
        f"pictures/{sha256}.jpg",
        f"pages/{EARLIER}.html",
        f"pages/{EARLIER}.files/0123456789abcdef.jpg",
        f"pages/{LATER}.html",
    ]
    others = ["pages/index.html", "pages/compare-0123456789abcdef.html", f"pages/{EARLIER}.txt"]
    bucket.put({name: b"a page" for name in [*names, *others]})
    remove_old(store, bucket, now=datetime(2026, 11, 19, 18, tzinfo=UTC) + timedelta(days=30))
    assert {*bucket.sizes("")} == {f"pages/{LATER}.html", *others}
