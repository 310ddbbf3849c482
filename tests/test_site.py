"""The store as a website: which pages are made anew when, and that each is whole."""

import html
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from answered_page import figures_store, made_page, prefer, saved
from factories import RUN, end, outcome, start, write_run
from strangers import HOSTILE
from test_bridge import told
from written_history import EARLIER, LATER, figures, keep, pair, write_evaluations

from flows.cli import main
from tasks.errors import HistoryLocked
from tasks.files import alone
from tasks.history import asking
from tasks.history.database import HISTORY, attach, reading, staging
from tasks.history.loading import store_run, sync
from tasks.ledger.bridges import BRIDGES
from tasks.pages import index_data, queries, site
from tasks.pages.index_data import Index, gather_index
from tasks.pages.index_page import index_page
from tasks.pages.page_names import is_address, page_name, page_of, where
from tasks.pages.report_page import write_page
from tasks.pictures.thumbnails import LOWEST_PRIORITY
from tasks.records import BudgetStop
from tasks.report import renewed

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out")
Jury = Callable[..., tuple[int, str, str]]
COUNTING = "20261118T120000-counting-0000cc"
NIGHT = "2026-11-19T12:00:00+00:00"
WINS, LOSES = ("MMMM", "Model"), ("HHHH", "Human")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evaluations(tmp_path_factory.mktemp("site") / "store")


def listed(store: Path) -> dict[str, list[str]]:
    """Run -> the cells of its first line in the table of the index, as a reader sees them."""
    found: dict[str, list[str]] = {}
    text = (store / "pages" / "index.html").read_text()
    for run, row in re.findall(r'<tr data-run="([^"]*)".*?>(.*?)</tr>', text, re.DOTALL):
        cells = re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)
        found.setdefault(html.unescape(run), [html.unescape(re.sub("<.*?>", "", cell)) for cell in cells])
    return found


def addresses(text: str) -> set[str]:
    return set(re.findall(r'<\w[^>]*\s(?:src|srcset|href|action|data)="([^"]*)"', text))


def small(store: Path, number: int, **changes: Any) -> str:
    """A finished evaluation of one sample, in the ledger alone."""
    run_id = f"20261121T12{number:02}00-diagram-0000aa"
    moment = f"2026-11-21T12:{number:02}:00+00:00"
    write_run(store, start(run_id, samples=1, started_at=moment, **changes), [outcome()], end(run_id))
    return run_id


# The index


def test_the_index_has_every_flow_and_candidate_as_it_is_and_every_evaluation(store: Path, jury: Jury) -> None:
    code, out, err = jury("pages", "--store", store)
    assert (code, err) == (0, "")
    assert f"{store / 'pages' / 'index.html'}: the index of 3 evaluations and 3 pages made anew" in out
    lines = listed(store)
    assert [*lines] == [LATER, EARLIER, COUNTING]
    assert lines[LATER][1:] == [
        *("2026-11-20 12:00", "diagram", "alpha", "54.5", "[38.6, 70.4]", "", "11/12"),
        *("gpt-x at judge.example", "no controls", "12.0000"),
    ]
    assert lines[COUNTING][3:5] == ["alpha, counting", "5.25"]
    text = (store / "pages" / "index.html").read_text()
    assert re.findall(r"<h3>(.*?)</h3>", text) == ["counting: alpha, counting", "diagram: alpha"]
    change = "since 2026-11-19 12:00: +4.5 (no interval: 1 changed), no difference shown (at n = 11 samples)"
    assert '<p class="big">54.5 <small>of 100; Human is 50</small></p>' in text
    assert '<p class="big">5.25 <small>of 10</small></p>' in text
    assert " · no controls · " in text and "controls: no controls" not in text and "1 evaluations" not in text
    assert change in text and "<p>no earlier evaluation compares</p>" in text
    assert addresses(text) == {"#now", "#all", *(f"{run}.html" for run in lines)}


def test_pages_without_pictures(store: Path, jury: Jury) -> None:
    assert jury("pages", LATER, "--no-pictures", "--store", store)[0] == 0
    text = page_of(store, LATER).read_text()
    assert "Pictures are left out of this page" in text and 'type="text/plain"' not in text
    assert jury("pages", LATER, "--store", store)[0] == 0
    assert 'type="text/plain"' in page_of(store, LATER).read_text()


def test_a_change_has_its_interval_sample_by_sample(tmp_path: Path) -> None:
    lost = [row for number in range(20) for row in pair(f"s{number}", *(WINS if number < 8 else LOSES))]
    keep(tmp_path, EARLIER, [row for number in range(20) for row in pair(f"s{number}", *WINS)], started_at=NIGHT)
    keep(tmp_path, LATER, lost)
    [place] = gather_index(tmp_path).places
    found = place.past.change and place.past.change.found
    assert found and (found.n, found.change, found.decision) == (20, -60.0, "worse")
    ends = f"[−{abs(found.ci_low or 0):.1f}, −{abs(found.ci_high or 0):.1f}]"
    said = f"since 2026-11-19 12:00: −60.0 {ends}, worse at n = 20 samples"
    assert said in index_page(gather_index(tmp_path), ())


def test_a_trend_is_broken_where_evaluations_do_not_compare_and_says_what_differs(tmp_path: Path) -> None:
    store = tmp_path / "store"
    protocol = {"model answered": "gpt-x-1", "prompt aesthetics": "a" * 64}
    keep(store, EARLIER, figures(later=False), samples=12, started_at=NIGHT, ended={"protocol": protocol})
    changed = {"model answered": "gpt-x-2", "prompt aesthetics": "b" * 64}
    ended = {"protocol_key": "f" * 64, "protocol": changed}
    keep(store, LATER, figures(later=True), samples=12, dataset_key="e" * 64, ended=ended)
    text = html.unescape(index_page(gather_index(store), ()))
    assert "2 evaluations: 50.0 on 2026-11-19 to 54.5 on 2026-11-20, broken 1 time" in text
    differs = "dataset, model answered (gpt-x-1 → gpt-x-2), prompt aesthetics"
    assert f"gap before 2026-11-20: {differs}" in text
    assert f"no earlier evaluation compares; the last one differs in {differs}" in text
    assert text.count('class="break"') == 1 and 'class="joint"' not in text
    assert addresses(text) == {"#now", "#all"}, "no page lies beside it"


def test_a_bridge_joins_the_trends_of_two_judges(tmp_path: Path) -> None:
    for run_id, model, moment in ((EARLIER, "gpt-a", NIGHT), (LATER, "gpt-b", "2026-11-20T12:00:00+00:00")):
        judged = {"model": model, "started_at": moment, "samples": 12}
        keep(tmp_path, run_id, figures(later=False), **judged, ended={"protocol_key": model[-1] * 64})
    [place] = gather_index(tmp_path).places
    assert len(place.past.trend) == 1, "another judge's scores are no part of it"
    BRIDGES.keep(tmp_path, [told()])
    sync(tmp_path)
    [place] = gather_index(tmp_path).places
    assert [(point.run_id, point.score) for point in place.past.trend] == [(EARLIER, 60.0), (LATER, 50.0)]
    text = html.unescape(index_page(gather_index(tmp_path), ()))
    assert "joined by a bridge on 2026-11-20: +10.0 → gpt-b (gpt-a in its units)" in text
    assert text.count('class="joint"') == 1 and 'class="break"' not in text


def test_people_s_scores_stand_beside_the_raw_ones_with_how_far_all_agree(tmp_path: Path) -> None:
    store = figures_store(tmp_path / "store")
    page = made_page(store, tmp_path / "label.html", "-n", "40")
    for name, role in (("reader-1", "human"), ("reader-2", "model")):
        file = saved(page, tmp_path / f"{name}.json", prefer(role), name)
        assert main(["labels", "import", str(file), "--store", str(store)]) == 0
    [line] = gather_index(store).lines
    assert line.people and line.people["labels"] == 40
    text = html.unescape((store / "pages" / "index.html").read_text())
    assert re.search(r"corrected by 40 labels of 2 people: 50\.0 \[\d\d\.\d, \d\d\.\d\]", text)
    assert "people agree with each other on 0% of 40, which can mean 0-9%" in text
    [cells] = listed(store).values()
    assert re.fullmatch(r"50\.0 \[.+\]", cells[6])


def test_an_evaluation_that_stopped_at_its_budget_is_told_as_such(tmp_path: Path) -> None:
    stop = BudgetStop(budget=1.0, spent=0.9, judged=1, samples=3)
    write_run(tmp_path, start(), [outcome()], end(stopped=stop))
    sync(tmp_path)
    [line] = gather_index(tmp_path).lines
    assert line.stopped and not line.measured
    assert "stopped at the budget" in index_page(gather_index(tmp_path), ())


def test_the_page_of_an_evaluation_leads_to_the_index_and_loads_nothing(store: Path, jury: Jury) -> None:
    jury("pages", LATER, "--store", store)
    page = store / "pages" / f"{LATER}.html"
    text = page.read_text()
    assert 'href="index.html"' in text and re.search(r"Made 20\d\d-\d\d-\d\d \d\d:\d\d UTC from the history", text)
    assert {one for one in addresses(re.sub(r"<script.*?</script>", "", text, flags=re.S)) if one[0] != "#"} == {
        "index.html"
    }
    assert {stat.S_IMODE(each.stat().st_mode) for each in (page, page.with_name("index.html"))} == {0o600}
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700


def test_names_of_strangers_are_names_and_no_markup(tmp_path: Path) -> None:
    names = (*HOSTILE, "long " * 10_000)
    rows = [outcome(candidate=name) for name in names]
    write_run(tmp_path / "store", start(candidates=names), rows, end())
    sync(tmp_path / "store")
    text = index_page(gather_index(tmp_path / "store"), ())
    assert len(text) < 100_000
    assert addresses(text) == {"#now", "#all"}
    assert len(re.findall("<script>", text)) == 1 and "<img" not in text


def test_an_evaluations_page_has_a_name_that_leads_nowhere_else() -> None:
    assert page_name(LATER) == f"{LATER}.html"
    for name in ("../../x", "a/b", "index", ".hidden", "", "x" * 300, "a\nb", "é", "\ud800"):
        assert re.fullmatch(r"[0-9a-f]{64}\.html", page_name(name))


def test_more_evaluations_than_the_index_lists_are_counted(store: Path) -> None:
    index = gather_index(store)
    assert "The newest 3 of 5,000 evaluations" in index_page(index._replace(evaluations=5000), ())


def test_verdicts_of_fourteen_evaluations_before_are_shown_and_told_where_they_do_not_compare(tmp_path: Path) -> None:
    runs = [small(tmp_path / "store", number, dataset_key="ef"[number > 4] * 64) for number in range(17)]
    small(tmp_path / "store", 17, dataset="other")
    sync(tmp_path / "store")
    rows = queries.ask(tmp_path / "store", "earlier", run=runs[16]).rows
    assert [row["run_id"] for row in rows] == runs[15:1:-1]
    assert [row["comparable"] for row in rows] == [True] * 11 + [False] * 3


# Where people find them


def test_a_page_is_a_file_or_stands_under_the_address_that_it_is_served_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JURY_PAGES", raising=False)
    page = page_of(tmp_path, LATER)
    assert where(page) == str(tmp_path / "pages" / f"{LATER}.html") and not is_address(where(page))
    monkeypatch.setenv("JURY_PAGES", "https://pages.example/jury/")
    assert where(page) == f"https://pages.example/jury/{LATER}.html" and is_address(where(page))
    for other in ("javascript:alert(1)", "https://x/) [y](http://evil.example", "pages.example", "https://x/?a=b"):
        monkeypatch.setenv("JURY_PAGES", other)
        assert where(page) == str(page)


def test_status_says_where_the_pages_are_and_of_when(store: Path, tmp_path: Path, jury: Jury) -> None:
    site.renew(store)
    _, out, _ = jury("status", "--store", store)
    assert re.search(rf"^pages +{store}/pages/index.html \(made 20\d\d-\d\d-\d\d \d\d:\d\d UTC\)$", out, re.MULTILINE)
    _, out, _ = jury("status", "--store", tmp_path / "none")
    assert "pages      none; a run, `jury sync` or `jury pages` makes them" in out


# Which pages are made anew, and when


def test_the_index_is_made_by_one_process_at_a_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "LOCK_SECONDS", 0.0)
    site.renew(store)
    before = (store / "pages" / "index.html").stat()
    with alone(store / "pages"), pytest.raises(TimeoutError, match="another process was alone with"):
        site.renew(store)
    assert (store / "pages" / "index.html").stat() == before


def test_whoever_makes_the_index_reads_the_history_when_nobody_else_makes_it(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So of several that end at once the last one reads what all have loaded."""

    def gather_alone(asked: Path) -> Index:
        with pytest.raises(TimeoutError), alone(asked / "pages", 0.0):
            pass
        return gather_index(asked)

    monkeypatch.setattr(site, "gather_index", gather_alone)
    assert site.renew(store).evaluations == 3


def test_six_that_end_at_once_leave_the_index_of_all_six(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has read a history of its own run alone, and writes its index when the others are through, or wait."""
    runs = [small(tmp_path, number) for number in range(6)]
    has_read, ready, ended = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def gather_and_wait(store: Path) -> Index:
        found = gather_index(store)
        if not has_read.is_set():
            has_read.set()
            assert all(ready.acquire(timeout=60) for _ in runs[1:])
            any(not ended.acquire(timeout=1) for _ in runs[1:])
        return found

    def alone_in_turn(*given: Any) -> Any:
        if has_read.is_set():
            ready.release()
        return alone(*given)

    def end(run_id: str) -> list[str]:
        assert run_id == runs[0] or has_read.wait(60)
        store_run(tmp_path, run_id, wait_seconds=60)
        said = renewed(str(tmp_path), run_id)
        ended.release()
        return said

    monkeypatch.setattr(site, "WAIT_SECONDS", 60.0)  # the six hold each other up, the longer the busier the machine
    monkeypatch.setattr(site, "gather_index", gather_and_wait)
    monkeypatch.setattr(site, "alone", alone_in_turn)
    monkeypatch.setattr(site, "warm_up", lambda: None)
    monkeypatch.setattr(site, "write_page", lambda *given, **_: given[2].write_text("a page"))
    with ThreadPoolExecutor(6) as six:
        assert [*six.map(end, runs)] == [[]] * 6
    assert [*listed(tmp_path)] == runs[::-1]
    assert {f"{run}.html" for run in runs} <= addresses((tmp_path / "pages" / "index.html").read_text())


def test_a_page_that_cannot_be_made_leaves_the_old_one(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.renew(store)
    before = (store / "pages" / "index.html").read_bytes()
    monkeypatch.setattr(index_data, "alarms", lambda _store: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        site.renew(store)
    assert (store / "pages" / "index.html").read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_who_makes_pages_gently_asks_the_history_as_quickly_as_others_and_draws_at_the_lowest_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the lowest priority the history would be held, and others kept out, for as long as the machine is busy."""
    run_id, other = small(tmp_path, 1), small(tmp_path, 2)
    store_run(tmp_path, run_id)
    asked: list[int] = []
    drawn: list[int] = []

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def noted(*given: Any) -> Any:
        asked.append(priority())
        return reading(*given)

    def write(*given: Any, **options: Any) -> int:
        drawn.append(priority())
        before = [*asked]
        store_run(tmp_path, other, wait_seconds=0)
        asked[:] = before  # without what loading asked: that is somebody else's here
        return write_page(*given, **options)

    monkeypatch.setattr(asking, "reading", noted)
    monkeypatch.setattr(site, "write_page", write)
    usual = priority()
    made = site.renew(tmp_path, [run_id], gently=True)
    assert [page.stem for page in made.pages] == [run_id] and made.evaluations == 2
    assert {*asked} == {usual} == {priority()} and drawn == [LOWEST_PRIORITY]


def test_a_locked_history_is_said_and_the_next_sync_makes_the_pages(
    tmp_path: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    run_id = small(store, 1)
    store_run(store, run_id)
    monkeypatch.setattr(site, "WAIT_SECONDS", 0.0)
    with staging() as db:
        attach(db, store / HISTORY, 0)
        with pytest.raises(HistoryLocked):
            site.renew(store)
        [said] = renewed(str(store), run_id)
    assert "The store's pages do not show it yet" in said and "in use" in said and "`jury sync` makes them" in said
    assert not (store / "pages").exists()
    code, _, err = jury("sync")
    assert (code, err) == (0, "")
    assert [*listed(store)] == [run_id] and (store / "pages" / f"{run_id}.html").exists()


def test_the_report_step_makes_the_page_of_its_run_and_the_index(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first, second = small(store, 1), small(store, 2)
    sync(store)
    assert renewed(str(store), second) == []
    assert sorted(file.name for file in (store / "pages").iterdir()) == [f"{second}.html", "index.html"]
    assert [*listed(store)] == [second, first]


def test_sync_makes_what_it_loaded_and_what_is_missing_of_the_newest(
    tmp_path: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "KEPT", 2)
    store = tmp_path / "store"
    runs = [small(store, number) for number in range(3)]
    assert jury("sync")[0] == 0
    pages = {run: store / "pages" / f"{run}.html" for run in runs}
    assert [page.exists() for page in pages.values()] == [False, True, True]
    pages[runs[1]].write_text("old")
    pages[runs[2]].unlink()
    shutil.rmtree(store / "ledger" / runs[1])
    small(store, 1, dataset="renamed")
    assert jury("sync")[0] == 0
    assert pages[runs[2]].exists() and "renamed" in pages[runs[1]].read_text()


def test_a_rebuilt_history_makes_no_page_anew_that_is_there(tmp_path: Path, jury: Jury) -> None:
    page = tmp_path / "store" / "pages" / f"{small(tmp_path / 'store', 1)}.html"
    jury("sync")
    page.write_text("as it was")
    assert jury("sync", "--rebuild")[0] == 0
    assert page.read_text() == "as it was"


def test_imported_labels_make_the_index_anew(store: Path, jury: Jury) -> None:
    (store / "pages" / "index.html").unlink(missing_ok=True)
    people = store.parent / "people.csv"
    people.write_text("id,candidate,dimension,verdict,annotator\ns1,alpha,overall,Model,ann\n")
    code, _, err = jury("labels", "import", people, "--flow", "diagram", "--store", store)
    assert (code, err) == (0, "")
    assert LATER in listed(store)


def test_labels_make_the_pages_anew_of_the_evaluations_that_they_correct_when_they_come_and_when_they_go(
    tmp_path: Path, jury: Jury
) -> None:
    store = figures_store(tmp_path / "store", 20)
    other = small(store, 1, flow="plot")
    jury("sync")
    pages = {run: store / "pages" / f"{run}.html" for run in (RUN, other)}
    pages[other].write_text("as it was")
    label_page = made_page(store, tmp_path / "label.html", "-n", "20")
    jury("labels", "import", saved(label_page, tmp_path / "reader-1.json", prefer("human")))
    assert "corrected by 20 labels of 1 person" in pages[RUN].read_text()
    jury("labels", "remove", "reader-1")
    assert "corrected by 20 labels" not in pages[RUN].read_text() and "What people say" not in pages[RUN].read_text()
    assert pages[other].read_text() == "as it was"


def test_what_cannot_be_shown_is_said(tmp_path: Path, store: Path, jury: Jury) -> None:
    code, _, err = jury("pages", "2020", "--store", store)
    assert code == 2 and "no run is called '2020'" in err
    code, _, err = jury("pages", "--store", tmp_path / "none")
    assert code == 2 and "none" in err
