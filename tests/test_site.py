"""The store as a website: which pages are made and when, their completeness, and their copies in a bucket."""

import html
import re
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from answered_page import figures_store, make_page, prefer, save_answers
from factories import RUN, end, outcome, start, write_run
from loopback_judge import LoopbackJudge, judged_by
from PIL import Image
from png_files import file
from s3_server import S3Server, s3
from served import wait_for
from test_remote import read_object
from written_datasets import write_figures
from written_history import EARLIER, LATER, OF_COUNTING, figures, images, keep, keep_ledger, pair, write_evaluations

import tasks.report
from tasks.errors import InputError
from tasks.files import alone
from tasks.history.landing import land
from tasks.labels.labeling import import_labels
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.labels import remove_labels
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.ledger.removals import remove_old
from tasks.ledger.run_files import run_folders
from tasks.pages import index_data, site
from tasks.pages.background import renew_behind
from tasks.pages.index_data import Index, gather_index
from tasks.pages.index_page import index_page
from tasks.pages.page_names import is_address, page_name, page_of, since_name, where
from tasks.pages.report_page import LEFT_OUT
from tasks.pages.site import HTML, send_pages
from tasks.pictures.thumbnails import Thumbnails, waiting
from tasks.records import BudgetStop
from tasks.report import renewed

Jury = Callable[..., tuple[int, str, str]]
COUNTING = "20261118T120000-counting-0000cc"
NIGHT = "2026-11-19T12:00:00+00:00"
WINS, TIES, LOSES = ("MMMM", "Model"), ("GGGG", "Tie"), ("HHHH", "Human")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all its pages."""
    store = write_evaluations(tmp_path_factory.mktemp("site") / "store")
    site.renew(store, [LATER, EARLIER, COUNTING])
    return store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Stores of two machines, each with a run of its own and its page; tests copy them."""
    stores = [tmp_path_factory.mktemp("made") / str(number) for number in (1, 2)]
    for number, store in enumerate(stores, 1):
        site.renew(store, [write_landed_run(store, number)])
    return stores


def index_rows(store: Path) -> dict[str, list[str]]:
    """Return the cells of each run's first line in the index table, as a reader sees them."""
    found: dict[str, list[str]] = {}
    text = (store / "pages" / "index.html").read_text()
    for run, row in re.findall(r'<tr data-run="([^"]*)".*?>(.*?)</tr>', text, re.DOTALL):
        cells = re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)
        found.setdefault(html.unescape(run), [html.unescape(re.sub("<.*?>", "", cell)) for cell in cells])
    return found


def addresses(text: str) -> set[str]:
    return set(re.findall(r'<\w[^>]*\s(?:src|srcset|href|action|data)="([^"]*)"', text))


def write_small_run(store: Path, number: int, **changes: Any) -> str:
    """Write a finished evaluation of one sample, in the ledger only; return its id."""
    run_id = f"20261121T12{number:02}00-diagram-0000aa"
    moment = f"2026-11-21T12:{number:02}:00+00:00"
    write_run(store, start(run_id, samples=1, started_at=moment, **changes), [outcome()], end(run_id))
    return run_id


# The index


def test_index_shows_each_flow_candidate_and_evaluation(store: Path) -> None:
    lines = index_rows(store)
    assert [*lines] == [LATER, EARLIER, COUNTING]
    assert lines[LATER][1:] == [
        *("2026-11-20 12:00", "diagram", "alpha", "54.5", "[38.6, 70.4]", "11/12"),
        *("gpt-x at judge.example", "no controls", "12.0000 USD"),
    ]
    assert lines[COUNTING][3:5] == ["alpha, counting", "5.25"]
    text = (store / "pages" / "index.html").read_text()
    assert re.findall(r'<h2><a href="([^"]*)">', text) == [f"{LATER}.html", f"{COUNTING}.html"]
    assert verdicts(text) == [
        "alpha scores 54.5 [38.6, 70.4] of 100: no difference from the Human figures (50) shown (at n = 11)",
        "alpha scores 5.25 (no interval below 8) of 10",
    ]
    chips = re.findall(r'<li class="chip [^"]*">(.*?)</li>', text)
    judge, cost = "Judge gpt-x at judge.example: not checked", "Cost 12.0000 USD"
    assert chips == [judge, "11 of 12 scored", cost, judge, "Cost 0.5000 USD"]
    assert "2 evaluations: 50.00 on 2026-11-19 to 54.55 on 2026-11-20" in text and "1 gap" not in text
    change = "since 2026-11-19 12:00: +4.5 (no interval: 1 changed), no difference shown (at n = 11 of 12 samples)"
    assert change in text and "corrected" not in text
    lowest = [f"{LATER}.html#sample={name}" for name in ("s10", "s4", "s5")]
    links = {*lowest, f"{COUNTING}.html#sample=00000%2F0001", f"{COUNTING}.html#sample=00000%2F0000"}
    links |= {"#now", "#all", *(f"{run}.html" for run in lines)}
    assert {each for each in addresses(text) if not each.startswith("data:image/jpeg;base64,")} == links
    assert text.count("data:image/jpeg") == 5 and text.index(lowest[0]) < text.index(lowest[1])
    assert "The newest 3 of 5,000 evaluations" in index_page(gather_index(store)._replace(evaluations=5000), ())


def verdicts(text: str) -> list[str]:
    return [html.unescape(words) for words in re.findall(r'<p class="verdict">(.*?)</p>', text)]


def test_card_names_the_best_of_several_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    won = {"a": 20, "b": 19, "c": 4}
    rows = [
        outcome(f"s{number}", *(WINS if number < wins else LOSES), candidate=name)
        for name, wins in won.items()
        for number in range(20)
    ]
    write_run(tmp_path, start(samples=len(rows), candidates=(*won,)), rows, end())
    land(tmp_path)
    [words] = verdicts(index_page(gather_index(tmp_path), ()))
    others = "no difference shown between a and b (at n = 20)"
    assert words == f"a scores higher than c; {others}, adjusted for choosing among 3"
    monkeypatch.setattr("tasks.pages.index_data.MOST_PLACES", 1)
    assert "60 samples of mini" in index_page(gather_index(tmp_path), ())


def test_card_compares_only_equally_judged_evaluations(tmp_path: Path) -> None:
    for at, (name, wins, key) in enumerate((("old", 20, "e"), ("rival", 4, "d"), ("painter", 16, "d"))):
        rows = [row for number in range(20) for row in pair(f"s{number}", *(WINS if number < wins else LOSES))]
        rows = [row.model_copy(update={"candidate": name}) for row in rows]
        keep_ledger(tmp_path, f"2026112{at}T120000-diagram-0000aa", rows, candidates=(name,), dataset_key=key * 64,
                    started_at=f"2026-11-2{at}T12:00:00+00:00", samples=20)  # fmt: skip
    land(tmp_path)
    text = index_page(gather_index(tmp_path), ())
    assert verdicts(text)[0].startswith("painter scores higher than rival: 80.0 against 20.0 of 100")
    assert "Judged otherwise, so not compared: old" in text


def test_card_bounds_a_difference_between_runs_by_missing_scores(tmp_path: Path) -> None:
    """24 of the rival's 60 figures have no score: by the scored ones it is worse, but it may be better."""
    unscored = [outcome(f"s{number}", "----", None, status="incomplete") for number in range(36, 60)]
    lost = [outcome(f"s{number}", *(LOSES if number < 30 else TIES)) for number in range(36)]
    tied = [outcome(f"s{number}", *TIES) for number in range(60)]
    for day, name, rows in ((20, "painter", tied), (21, "rival", [*lost, *unscored])):
        rows = [row.model_copy(update={"candidate": name}) for row in rows]
        keep_ledger(tmp_path, f"202611{day}T120000-diagram-0000aa", rows, candidates=(name,), samples=60,
                    started_at=f"2026-11-{day}T12:00:00+00:00")  # fmt: skip
    land(tmp_path)
    [words] = verdicts(index_page(gather_index(tmp_path), ()))
    assert words.startswith("No difference shown between painter and rival (at n = 36 of 60)")


def test_change_has_a_paired_interval(tmp_path: Path) -> None:
    lost = [row for number in range(20) for row in pair(f"s{number}", *(WINS if number < 8 else LOSES))]
    keep_ledger(tmp_path, EARLIER, [row for number in range(20) for row in pair(f"s{number}", *WINS)], started_at=NIGHT)
    keep(tmp_path, LATER, lost)
    index = gather_index(tmp_path)
    [card] = index.cards
    found = card.places[0].change
    assert found and (found.n, found.change, found.decision) == (20, -60.0, "worse")
    ends = f"[−{abs(found.ci_low or 0):.1f}, −{abs(found.ci_high or 0):.1f}]"
    sentence = f"since 2026-11-19 12:00: −60.0 {ends}, worse at n = 20 samples"
    assert sentence in index_page(index, ())


def test_trend_is_of_one_judge_and_breaks_between_incomparable_evaluations(tmp_path: Path) -> None:
    store, other = tmp_path / "store", "20261118T120000-diagram-0000cc"
    keep_ledger(store, other, figures(later=False), samples=12, judge="gpt-a", started_at="2026-11-18T12:00:00+00:00",
                ended={"protocol_key": "a" * 64})  # fmt: skip
    protocol = {"model answered": "gpt-x-1", "prompt aesthetics": "a" * 64}
    keep_ledger(store, EARLIER, figures(later=False), samples=12, started_at=NIGHT, ended={"protocol": protocol})
    changed = {"model answered": "gpt-x-2", "prompt aesthetics": "b" * 64}
    ended = {"protocol_key": "f" * 64, "protocol": changed}
    keep(store, LATER, figures(later=True), samples=12, dataset_key="e" * 64, ended=ended)
    text = html.unescape(index_page(gather_index(store), ()))
    gap = "1 gap, the newest before 2026-11-20: another dataset"
    assert f"2 evaluations: 50.00 on 2026-11-19 to 54.55 on 2026-11-20; {gap}" in text and "since 2026" not in text
    assert len(re.findall('<path class="line" d="M[^L"]*M[^L"]*"/>', text)) == 1
    assert addresses(text) == {"#now", "#all"}, "no pages to link to"


def test_index_marks_evaluation_stopped_at_its_budget(tmp_path: Path) -> None:
    stop = BudgetStop(budget=1.0, spent=0.9, judged=1, samples=3)
    write_run(tmp_path, start(), [outcome()], end(stopped=stop))
    write_run(tmp_path, start("20261121T120000-diagram-0000bb", started_at="2026-11-21T12:00Z"), [], end(stopped=stop))
    land(tmp_path)
    index = gather_index(tmp_path)
    nothing, line = index.lines
    assert line.stopped and not line.measured and "Stopped at the budget" in index_page(index, ())
    assert index.cards[0].newest == line and (nothing.name, nothing.cost) == ("alpha", "nothing")


def test_evaluation_page_links_to_the_index_and_loads_nothing(store: Path) -> None:
    page = page_of(store, LATER)
    text = page.read_text()
    assert 'href="index.html"' in text and re.search(r"Made 20\d\d-\d\d-\d\d \d\d:\d\d UTC from the history", text)
    shown = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    other = {one for one in addresses(shown) if not one.startswith(("#", "data:image/"))}
    assert other == {"index.html", since_name(LATER, "alpha")}
    assert {stat.S_IMODE(each.stat().st_mode) for each in (page, page.with_name("index.html"))} == {0o600}
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700


def test_page_name_is_always_a_safe_file_name() -> None:
    assert page_name(LATER) == f"{LATER}.html"
    for name in ("../../x", "a/b", "index", ".hidden", "", "x" * 300, "a\nb", "é", "\ud800"):
        assert re.fullmatch(r"[0-9a-f]{64}\.html", page_name(name))


# Addresses of pages


def test_page_location_is_a_file_or_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JURY_PAGES", raising=False)
    page = page_of(tmp_path, LATER)
    assert where(page) == str(tmp_path / "pages" / f"{LATER}.html") and not is_address(where(page))
    monkeypatch.setenv("JURY_PAGES", "https://pages.example/jury/")
    assert where(page) == f"https://pages.example/jury/{LATER}.html" and is_address(where(page))
    for other in ("javascript:alert(1)", "https://x/) [y](http://evil.example", "pages.example", "https://x/?a=b"):
        monkeypatch.setenv("JURY_PAGES", other)
        assert where(page) == str(page)


def test_unknown_run_is_an_error_and_status_shows_the_pages(store: Path, tmp_path: Path, jury: Jury) -> None:
    unknown, absent = ("2020", "--store", store), ("--store", tmp_path / "none")
    for given, message in ((unknown, "no run is called '2020'"), (absent, "none")):
        code, _, err = jury("store", "pages", *given)
        assert code == 2 and message in err
    _, out, _ = jury("status", "--store", store)
    assert re.search(rf"^pages +{store}/pages/index.html \(made 20\d\d-\d\d-\d\d \d\d:\d\d UTC\)$", out, re.MULTILINE)
    _, out, _ = jury("status", "--store", f"file://{tmp_path}/none")
    assert "pages      none; a run, `jury store sync` or `jury store pages` makes them" in out
    assert f"store      file://{tmp_path}/none; its copy here is /" in out and "`jury store sync` fetches all" in out


# When pages are made


def test_index_is_written_by_one_process_at_a_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "LOCK_SECONDS", 0.0)
    before = (store / "pages" / "index.html").stat()
    with alone(store / "pages"), pytest.raises(TimeoutError, match="another process was alone with"):
        site.renew(store)
    assert (store / "pages" / "index.html").stat() == before


def test_history_is_read_under_the_lock_of_the_index(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gather_alone(asked: Path) -> Index:
        with pytest.raises(TimeoutError), alone(asked / "pages", 0.0):
            pass
        return gather_index(asked)

    monkeypatch.setattr(site, "gather_index", gather_alone)
    assert site.renew(store).evaluations == 3


def test_failed_index_leaves_the_old_one(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (store / "pages" / "index.html").read_bytes()
    monkeypatch.setattr(index_data, "unfinished", lambda _store: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        site.renew(store)
    assert (store / "pages" / "index.html").read_bytes() == before


def test_report_step_makes_the_runs_page_and_the_index_or_warns(tmp_path: Path) -> None:
    """After a warning, the next sync makes them, as `test_sync_makes_new_and_missing_pages_and_rebuild_none` has it."""
    store = tmp_path / "store"
    first, second = write_small_run(store, 1), write_small_run(store, 2)
    [warning] = renewed(str(store), second)
    for words in ("The store's pages do not show it yet", "no history yet", "`jury store sync` makes"):
        assert words in warning
    assert not (store / "pages").exists()
    land(store)
    assert renewed(str(store), second) == []
    since = since_name(second, "alpha")
    assert sorted(file.name for file in (store / "pages").iterdir()) == [f"{second}.html", "index.html", since]
    assert [*index_rows(store)] == [second, first]
    page = (store / "pages" / f"{second}.html").read_text()
    assert f'<a href="{since}">' in page and f"<code>jury compare {first} {second} --candidate alpha</code>" in page
    assert f'<a href="{second}.html">' in (store / "pages" / since).read_text()


def test_comparisons_with_the_previous_run_are_kept_for_newest_evaluations(
    tmp_path: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "KEPT", 1)
    runs = [write_small_run(tmp_path, number) for number in range(2)]
    land(tmp_path)
    assert jury("compare", *runs, "--store", tmp_path)[0] == 0
    [asked] = (tmp_path / "pages").glob("compare-*")
    site.renew(tmp_path, runs[::-1])
    [since] = (tmp_path / "pages").glob("since-*")
    assert since.name == since_name(runs[1], "alpha") and f'<a href="{page_name(runs[0])}">' in since.read_text()
    runs.append(write_small_run(tmp_path, 2))
    land(tmp_path)
    for made in (runs[2:], runs[:1]):
        site.renew(tmp_path, made)
    assert [file.name for file in (tmp_path / "pages").glob("since-*")] == [since_name(runs[2], "alpha")]
    assert asked.exists()
    assert jury("store", "forget", "--run", runs[0], "--yes", "--store", tmp_path)[0] == 0 and not asked.exists()


def test_sync_makes_new_and_missing_pages_and_rebuild_none(
    tmp_path: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "KEPT", 2)
    store = tmp_path / "store"
    runs = [write_small_run(store, number) for number in range(3)]
    assert jury("store", "sync")[0] == 0
    pages = {run: store / "pages" / f"{run}.html" for run in runs}
    assert [page.exists() for page in pages.values()] == [False, True, True]
    pages[runs[1]].write_text("old")
    pages[runs[2]].unlink()
    shutil.rmtree(store / "ledger" / runs[1])
    write_small_run(store, 1, dataset="renamed")
    assert jury("store", "sync")[0] == 0
    assert pages[runs[2]].exists() and "renamed" in pages[runs[1]].read_text()
    pages[runs[2]].write_text("as it was")
    assert jury("store", "rebuild")[0] == 0 and pages[runs[2]].read_text() == "as it was"


def test_labels_correct_the_index_and_the_pages_they_are_about(tmp_path: Path, jury: Jury) -> None:
    readers, other = ("reader-1", "reader-2"), write_small_run(tmp_path / "store", 1, flow="plot")
    store = figures_store(tmp_path / "store", 20)
    pages = {run: store / "pages" / f"{run}.html" for run in (RUN, other)}
    pages[other].parent.mkdir()
    pages[other].write_text("as it was")
    label_page = make_page(store, tmp_path / "label.html", "-n", "20")
    one, two = (save_answers(label_page, tmp_path / f"{name}.json", prefer("human"), name) for name in readers)
    import_labels(store, one, "", "")
    assert jury("labels", "import", two)[0] == 0
    corrected, text = "corrected by 20 labels of 2 people", html.unescape((store / "pages" / "index.html").read_text())
    assert corrected in pages[RUN].read_text()
    assert re.search(rf"{corrected}: \d+\.\d \[\d+\.\d, \d+\.\d\]", text)
    assert "people agree with each other on 100% [83, 100] of 20" in text
    cells = index_rows(store)[RUN]
    assert re.fullmatch(r"\d+\.\d \[.+\] \(20 labels of 2 people, 50% as the judge\)", cells[10])
    remove_labels(store, readers[0])
    assert jury("labels", "remove", readers[1])[0] == 0
    assert "corrected by 20 labels" not in pages[RUN].read_text() and "What people say" not in pages[RUN].read_text()
    assert pages[other].read_text() == "as it was"


@pytest.mark.usefixtures("prefect_server")
def test_page_of_a_large_run_is_made_in_the_background(
    tmp_path: Path, loopback: LoopbackJudge, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, left, made_in_run = tmp_path / "store", list[tuple[str, str]](), list[object]()
    monkeypatch.setattr(tasks.report, "renew_behind", lambda *given: left.append(given))
    monkeypatch.setattr(tasks.report, "renewed", lambda *given: made_in_run.append(given))
    monkeypatch.setattr(tasks.report, "LARGE", 1)
    code, _, err = jury("run", "diagram", *write_figures(tmp_path / "data", 2), *judged_by(loopback))
    assert code == 0 and not made_in_run, err
    [run] = (store / "ledger").iterdir()
    assert left == [(str(store), run.name)]
    with Thumbnails(store) as thumbnails:  # as of a killed run: no process makes it
        data = file(Image.new("RGB", (8, 8)), "PNG")
        thumbnails.put_by(sha256(data).hexdigest(), data)
    renew_behind(*left[0])
    page = store / "pages" / f"{run.name}.html"
    wait_for((page.parent / "index.html").exists, 240)  # at the lowest priority, beside all other tests
    assert page.read_text().count("/9j/") >= 4  # the beginning of a JPEG in base64, for each picture
    assert page.stem in (page.parent / "index.html").read_text()
    assert waiting(store) == []


# In a bucket


def write_landed_run(store: Path, number: int) -> str:
    """Write a finished evaluation of one sample to ledger and history; return its id."""
    run_id = write_small_run(store, number)
    land(store)
    return run_id


def copy_made(made: Path, remote: Remote) -> str:
    """Copy a store with one run and its page to a machine; return the id of the run."""
    shutil.copytree(made, remote.folder)
    [run] = run_folders(made)
    return run.name


def copy_and_send(made: Path, remote: Remote) -> str:
    run_id = copy_made(made, remote)
    send_pages(remote, [page_of(remote.folder, run_id)])
    return run_id


def runs_in(page: bytes) -> list[str]:
    return re.findall(r'<tr data-run="([^"]*)"', page.decode())


def read_index(url: str) -> bytes:
    return read_object(url, "pages/index.html")


def object_metadata(url: str, name: str) -> dict[str, Any]:
    where, _, prefix = url.removeprefix("s3://").partition("/")
    return s3().head_object(Bucket=where, Key=f"{prefix}/{name}")


def test_constant_writes_by_other_machines_are_an_error(
    made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_made(made[0], one := Remote(f"file://{tmp_path}/shared", tmp_path / "one"))
    monkeypatch.setattr(site, "TIMES", 2)
    monkeypatch.setattr(one, "fetch", lambda: ["a run that was sent meanwhile"])
    with pytest.raises(RemoteUnavailable, match="/pages is written by other machines all the time"):
        send_pages(one)


def test_run_sends_its_pages_or_warns_and_the_next_index_sends_them(
    made: list[Path], tmp_path: Path, server: S3Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "caches"))
    remote = Remote(url, local_cache(url))
    first = copy_made(made[0], remote)
    assert renewed(url, first) == [] and runs_in(read_index(url)) == [first]
    second = write_landed_run(remote.folder, 2)
    with server.failing(refuses=lambda request: request.startswith("PUT") and "/pages/" in request):
        [text] = renewed(url, second)
    assert "The store's pages do not show it yet" in text and url in text and "`jury store sync` makes them" in text
    assert page_of(remote.folder, second).exists(), "the local page is made"
    assert runs_in(read_index(url)) == [first]
    server.requests.clear()
    assert send_pages(remote) == (2, 2), "the page, and its comparison with the previous run"
    puts = [request.rpartition("/")[2] for request in server.requests if request.startswith("PUT")]
    assert puts == [f"{second}.html", since_name(second, "alpha"), "index.html"], "the index is sent last"
    index = read_index(url)
    assert runs_in(index) == [second, first]
    links = {*re.findall(r'href="([^"#]+)"', index.decode())}
    assert links == {f"{second}.html", f"{first}.html"}
    for name in (*links, "index.html"):
        assert object_metadata(url, f"pages/{name}")["ContentType"] == HTML
    page = read_object(url, f"pages/{first}.html")
    assert 'href="index.html"' in page.decode() and page == page_of(remote.folder, first).read_bytes()


def test_index_keeps_runs_sent_meanwhile_by_others(
    made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (Remote(f"file://{tmp_path}/shared", tmp_path / name) for name in ("one", "two"))
    first, second = copy_made(made[0], one), copy_made(made[1], two)
    late: list[str] = []

    def gather(store: Path) -> Any:
        found = gather_index(store)
        if store == one.folder and not late:
            late.append(second)
            send_pages(two)
        return found

    monkeypatch.setattr(site, "gather_index", gather)
    assert send_pages(one, [page_of(one.folder, first)])[1] == 2
    assert runs_in((tmp_path / "shared" / "pages" / "index.html").read_bytes()) == [second, first]


def test_pages_do_not_bring_back_forgotten_runs(
    made: list[Path], tmp_path: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, pages = f"file://{tmp_path}/shared", tmp_path / "shared" / "pages"

    def on(name: str) -> Remote:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / name))
        return Remote(shared, local_cache(shared))

    first = copy_and_send(made[0], one := on("one"))
    second = copy_and_send(made[1], two := on("two"))
    shutil.copy(page_of(one.folder, first), two.folder / "pages")
    on("one")
    assert jury("store", "forget", "--run", first, "--yes", "--store", shared)[0] == 0
    assert runs_in((pages / "index.html").read_bytes()) == [second]
    words = "something that was to be forgotten is still on this machine, and `jury store sync"
    with pytest.raises(InputError, match=words):
        send_pages(two)
    on("two")
    code, out, err = jury("store", "sync", "--store", shared)
    assert (code, err) == (0, "") and "the index of 1 evaluation sent to file://" in out
    assert {file.name for file in pages.iterdir()} == {f"{second}.html", "index.html"}


def test_pages_and_index_without_pictures_stay_without_them(
    tmp_path: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pictures of the larger page are beside it, and are transferred and removed with it."""
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tasks.pages.report_data.EMBEDDED", 2)
    shared, pages = f"file://{tmp_path}/shared", tmp_path / "shared" / "pages"
    folder = local_cache(shared)
    keep_ledger(folder, COUNTING, images(), started_at=NIGHT, **OF_COUNTING)
    keep(folder, LATER, [row for number in range(3) for row in pair(f"s{number}", *WINS)], samples=3)
    large, beside, small = (pages / name for name in (f"{LATER}.html", f"{LATER}.files", f"{COUNTING}.html"))
    index = folder / "pages" / "index.html"

    def command(*given: str) -> tuple[int, bool]:
        """Run a command; return how many pictures are beside the large page, and whether the small one holds any."""
        code, out, err = jury("store", *given, "--store", shared)
        assert (code, err) == (0, "")
        assert given != ("pages",) or f"{index}: the index of 2 evaluations and 2 pages made anew" in out
        return len([*beside.glob("*.jpg")]), 'src="data:image/jpeg' in small.read_text()

    assert command("pages") == (6, True)
    assert command("pages", LATER, COUNTING, "--no-pictures") == (0, False)
    assert not (folder / "pages" / beside.name).exists()
    # Pages sent later by other commands omit the pictures, too.
    assert command("sync") == (0, False)
    assert large.read_text().count(LEFT_OUT) == 1 and "data:image/jpeg" not in index.read_text()
    assert command("pages", LATER) == (6, False)
    assert index.read_text().count("data:image/jpeg") == 3
    remote = remote_of(shared)
    monkeypatch.setenv("JURY_KEEP_DAYS", "1")
    assert remote and remove_old(folder, remote.bucket, datetime(2027, 1, 1, tzinfo=UTC))
    assert not [*beside.glob("*.jpg")] and not (folder / "pages" / beside.name).exists()


def test_push_sends_pages_the_bucket_lacks(
    made: list[Path], tmp_path: Path, server: S3Server, url: str, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "caches"))
    run_id = copy_made(made[0], Remote(url, local_cache(url)))
    with server.failing(refuses=lambda _: True):
        code, _, err = jury("store", "push", "--store", url)
    assert code == 2 and url in err and "a fault of" not in err
    code, out, err = jury("store", "push", "--store", url)
    assert (code, out, err) == (0, f"1 page and the index of 1 evaluation sent to {url}/pages\n", "")
    assert runs_in(read_index(url)) == [run_id]
    assert jury("store", "push", "--store", url)[1] == f"0 pages and the index of 1 evaluation sent to {url}/pages\n"
    code, _, err = jury("store", "push", "--store", tmp_path)
    assert code == 2 and f"{tmp_path} is a folder: pages are sent to a remote store" in err
    monkeypatch.setenv("JURY_PAGES", "https://pages.example/jury")
    code, out, err = jury("store", "pages", "--store", url)
    assert (code, err) == (0, "") and out.startswith("https://pages.example/jury/index.html: the index of 1 evaluation")
    assert f"1 page and the index of 1 evaluation sent to {url}/pages" in out
