"""The store's pages in a bucket: what lies there, in which form, and that no machine's index loses another's runs."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import end, outcome, start, write_run
from test_remote import S3Server, in_bucket, s3, server, url, versions  # noqa: F401
from written_history import EARLIER, LATER, write_evaluations

from tasks.errors import InputError
from tasks.history.loading import sync
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.remote import Remote, local_cache
from tasks.pages import sent_pages, thinning
from tasks.pages.index_data import gather_index
from tasks.pages.page_names import page_of
from tasks.pages.sent_pages import HTML, renew_and_send, send_pages
from tasks.pages.site import renew
from tasks.pages.without_pictures import NEVER, VARIABLE, may_have_pictures
from tasks.report import renewed

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out")
Machine = Callable[[str], Remote]


@pytest.fixture
def machine(tmp_path: Path, url: str) -> Machine:  # noqa: F811
    return lambda name: Remote(url, tmp_path / name)


def judged(remote: Remote, number: int) -> str:
    """A finished evaluation of one sample, in ledger and history of a machine."""
    run_id = f"20261121T12{number:02}00-diagram-0000aa"
    moment = f"2026-11-21T12:{number:02}:00+00:00"
    write_run(remote.folder, start(run_id, samples=1, started_at=moment), [outcome()], end(run_id))
    sync(remote.folder)
    return run_id


def made_and_sent(remote: Remote, number: int) -> str:
    run_id = judged(remote, number)
    send_pages(remote, renew(remote.folder, [run_id]).pages)
    return run_id


def listed(page: bytes) -> list[str]:
    return re.findall(r'<tr data-run="([^"]*)"', page.decode())


def index_in(url: str) -> bytes:  # noqa: F811
    return in_bucket(url, "pages/index.html")


def described(url: str, name: str) -> dict[str, Any]:  # noqa: F811
    where, _, prefix = url.removeprefix("s3://").partition("/")
    return s3().head_object(Bucket=where, Key=f"{prefix}/{name}")


def test_pages_are_sent_as_pages_and_the_index_leads_to_all_that_lie_there(machine: Machine, url: str) -> None:  # noqa: F811
    first, second = made_and_sent(machine("one"), 1), made_and_sent(machine("two"), 2)
    index = index_in(url)
    assert listed(index) == [second, first]
    leads = {*re.findall(r'href="([^"#]+)"', index.decode())}
    assert leads == {f"{second}.html", f"{first}.html"}
    for name in (*leads, "index.html"):
        assert described(url, f"pages/{name}")["ContentType"] == HTML
    assert 'href="index.html"' in in_bucket(url, f"pages/{first}.html").decode()
    assert in_bucket(url, f"pages/{first}.html") == (machine("one").folder / "pages" / f"{first}.html").read_bytes()


def test_an_index_that_another_machine_wrote_meanwhile_is_made_anew(
    machine: Machine,
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = machine("one"), machine("two")
    first = judged(one, 1)
    made = renew(one.folder, [first]).pages
    others: list[str] = []

    def gather(store: Path) -> Any:
        found = gather_index(store)
        if store == one.folder and not others:
            others.append(judged(two, 2))
            send_pages(two, renew(two.folder, others).pages)
        return found

    monkeypatch.setattr(sent_pages, "gather_index", gather)
    assert send_pages(one, made).evaluations == 2
    assert listed(index_in(url)) == [others[0], first]
    assert len(versions(url)["pages/index.html"]) == 2, "what was refused was not written"


def test_machines_that_write_it_all_the_time_are_told_of(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one = machine("one")
    judged(one, 1)
    monkeypatch.setattr(sent_pages, "TIMES", 2)
    monkeypatch.setattr(one.bucket, "put_if", lambda *_: False)
    with pytest.raises(RemoteUnavailable, match="/pages is written by other machines all the time"):
        send_pages(one)


def test_a_page_that_cannot_be_sent_keeps_the_index_and_goes_with_the_next(
    machine: Machine,
    server: S3Server,  # noqa: F811
    url: str,  # noqa: F811
) -> None:
    one = machine("one")
    first = made_and_sent(one, 1)
    second = judged(one, 2)
    renew(one.folder, [second])
    server.refuses = lambda request: request.startswith("PUT") and "/pages/" in request
    try:
        with pytest.raises(RemoteUnavailable):
            send_pages(one)
    finally:
        server.refuses = lambda _: False
    assert listed(index_in(url)) == [first]
    server.requests.clear()
    assert send_pages(one) == (1, 2)
    puts = [request.rpartition("/")[2] for request in server.requests if request.startswith("PUT")]
    assert puts == [f"{second}.html", "index.html"], "the index is the last"
    assert listed(index_in(url)) == [second, first]


def test_a_run_makes_and_sends_its_pages_and_says_where_it_cannot(
    tmp_path: Path,
    server: S3Server,  # noqa: F811
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "caches"))
    remote = Remote(url, local_cache(url))
    first = judged(remote, 1)
    assert renewed(url, first) == [] and listed(index_in(url)) == [first]
    second = judged(remote, 2)
    server.refuses = lambda _: True
    try:
        [said] = renewed(url, second)
    finally:
        server.refuses = lambda _: False
    assert "The store's pages do not show it yet" in said and url in said and "`jury sync` makes them" in said
    assert (remote.folder / "pages" / f"{second}.html").exists(), "on this machine they do"


def test_a_folder_that_machines_share_loses_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no conditions: whoever wrote the index looks again for runs that it lacks."""
    shared = f"file://{tmp_path}/shared"
    one, two = (Remote(shared, tmp_path / name) for name in ("one", "two"))
    first, second = judged(one, 1), judged(two, 2)
    late: list[str] = []

    def gather(store: Path) -> Any:
        found = gather_index(store)
        if store == one.folder and not late:
            late.append(second)
            send_pages(two)
        return found

    monkeypatch.setattr(sent_pages, "gather_index", gather)
    made = renew(one.folder, [first]).pages
    assert send_pages(one, made).evaluations == 2
    assert listed((tmp_path / "shared" / "pages" / "index.html").read_bytes()) == [second, first]


def test_where_something_is_to_be_forgotten_no_page_brings_it_back(
    tmp_path: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, pages = f"file://{tmp_path}/shared", tmp_path / "shared" / "pages"

    def on(name: str) -> Remote:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / name))
        return Remote(shared, local_cache(shared))

    first = made_and_sent(on("one"), 1)
    second = made_and_sent(two := on("two"), 2)
    renew(two.folder, [first])
    on("one")
    assert jury("forget", "--run", first, "--yes", "--store", shared)[0] == 0
    assert listed((pages / "index.html").read_bytes()) == [second]
    with pytest.raises(InputError, match="something that was to be forgotten is still on this machine, and `jury sync"):
        send_pages(two)
    on("two")
    code, out, err = jury("sync", "--store", shared)
    assert (code, err) == (0, "") and "the index of 1 evaluation sent to file://" in out
    assert {file.name for file in pages.iterdir()} == {f"{second}.html", "index.html"}


def test_a_page_that_is_made_small_is_sent_again(
    machine: Machine,
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = machine("one")
    monkeypatch.setattr(sent_pages, "local_cache", lambda _: one.folder)
    first = judged(one, 1)
    assert renewed(url, first) == [] and b"data-thinned" not in in_bucket(url, f"pages/{first}.html")
    page = one.folder / "pages" / f"{first}.html"
    moment = page.stat().st_mtime - 31 * 86_400
    os.utime(page, (moment, moment))
    monkeypatch.setattr(thinning, "STAGES", (thinning.STAGES[0]._replace(newest=1), thinning.STAGES[1]))
    second = judged(one, 2)
    assert renewed(url, second) == []
    assert b'data-thinned="1"' in in_bucket(url, f"pages/{first}.html")[:100]
    assert len(versions(url)[f"pages/{first}.html"]) == 2
    assert listed(index_in(url)) == [second, first]


def test_where_pages_may_have_no_pictures_none_is_made_or_sent_with_any(
    tmp_path: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a run, nor by any command, nor of a page that was made before that was said."""
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "cache"))
    shared, pages = f"file://{tmp_path}/shared", tmp_path / "shared" / "pages"
    folder = write_evaluations(local_cache(shared))
    renew(folder, [EARLIER])
    assert holds_pictures(page_of(folder, EARLIER))
    monkeypatch.setenv(VARIABLE, "no")
    assert renewed(shared, LATER) == []
    assert jury("sync", "--store", shared)[0] == 0 == jury("pages", LATER, "--store", shared)[0]
    names = {file.name for file in pages.iterdir()}
    assert {f"{EARLIER}.html", f"{LATER}.html", "index.html"} < names
    for name in names - {"index.html"}:
        assert not holds_pictures(pages / name) and (pages / name).read_text().count(NEVER) == 1, name
    assert jury("report", LATER, "-o", tmp_path / "report.html", "--store", shared)[0] == 0
    assert not holds_pictures(tmp_path / "report.html")


def holds_pictures(page: Path) -> bool:
    return '<script type="text/plain" id="p-' in page.read_text()


@pytest.mark.parametrize("text", ["0", "No", "none"])
def test_what_is_neither_yes_nor_no_is_told_first(
    text: str, tmp_path: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    code, _, err = jury("sync", "--store", tmp_path)
    assert (
        code == 2 and f"JURY_PAGES_PICTURES is '{text}': allowed is no, by which no page holds a picture; yes or" in err
    )
    monkeypatch.setenv(VARIABLE, "yes")
    assert may_have_pictures()


def test_jury_pages_says_what_it_sent(
    tmp_path: Path,
    url: str,  # noqa: F811
    jury: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "caches"))
    monkeypatch.setenv("JURY_PAGES", "https://pages.example/jury")
    run_id = judged(Remote(url, local_cache(url)), 1)
    code, out, err = jury("pages", "--store", url)
    assert (code, err) == (0, "") and out.startswith("https://pages.example/jury/index.html: the index of 1 evaluation")
    assert f"1 page and the index of 1 evaluation sent to {url}/pages" in out
    assert listed(index_in(url)) == [run_id]


def test_a_local_store_sends_nothing(tmp_path: Path) -> None:
    remote = Remote(f"file://{tmp_path}/shared", tmp_path / "store")
    run_id = judged(remote, 1)
    renew_and_send(str(remote.folder), [run_id])
    assert (remote.folder / "pages" / "index.html").exists() and not (tmp_path / "shared").exists()
