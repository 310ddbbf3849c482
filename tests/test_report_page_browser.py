"""The report page and the index in a real browser without network: filters, keys, links, layout."""

from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from factories import outcome, score_rows
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import allowed_reply, error
from opened_page import Opened
from served import wait_for
from strangers import HOSTILE
from written_datasets import write_figures
from written_history import write_evaluations, written

from flows.cli import main
from tasks.pages.index_data import Card, Index, Line, Place
from tasks.pages.index_page import FIRST, index_page
from tasks.pages.page_names import page_name, page_of
from tasks.statistics.intervals import difference


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evaluations(tmp_path_factory.mktemp("page") / "store")


@pytest.fixture(scope="module")
def report(store: Path) -> Path:
    return written(store, store.parent / "report.html")


@pytest.fixture(scope="module")
def stopped(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Store of a run that its judge refused midway, and the judge's address; no run can begin beside a browser."""
    folder, judges = tmp_path_factory.mktemp("stopped"), allowed_reply()
    given = ["run", "diagram", *write_figures(folder / "data", 4), "--store", folder / "store"]
    with (
        LoopbackJudge(lambda seen: error(401, "Bad key.") if judge.count > 9 else judges(seen)) as judge,
        redirect_stdout(StringIO()) as out,
    ):
        assert main([*map(str, given), *judged_by(judge, **{"judge.concurrency": 1})]) == 2
    [run] = (folder / "store" / "ledger").iterdir()
    assert f"page {page_of(folder / 'store', run.name)}" in out.getvalue()
    return folder / "store", judge.base_url


@pytest.fixture(scope="module")
def tab(stopped: object, browser: Any) -> Opened:
    return Opened(browser)


@pytest.fixture
def opened(tab: Opened, report: Path) -> Iterator[Opened]:
    """The report, loaded anew."""
    tab.load(report)
    yield tab
    tab.check()


def test_filters_show_matching_samples(opened: Opened) -> None:
    page = opened.page
    for field, value, left in (
        ("verdict", "faithfulness: Model", ["s1", "s2"]),
        ("verdict", "overall: Human wins", ["s10"]),
        ("status", "incomplete", ["s3"]),
        ("status", "fragile", ["s10", "s12"]),
    ):
        page.select_option(f"[name={field}]", value)
        assert opened.shown() == left
        page.keyboard.press("Escape")
        assert len(opened.shown()) == 12
    assert not page.is_visible("[name=candidate]"), "the run has only one candidate"


def test_search_finds_ids_and_words_and_shows_the_count(opened: Opened) -> None:
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("S1")
    assert opened.shown() == ["s10", "s11", "s12", "s1"]
    assert opened.page.inner_text("output") == "4 of 12 samples, lowest first"
    opened.page.keyboard.press("Enter")
    assert opened.focused() == "s10"
    for word, left in (("bold", ["s1"]), ("vision", ["s4", "s5", "s6", "s7", "s8", "s9", "s2"])):
        opened.page.fill("[name=search]", word)
        assert opened.shown() == left


def test_keys_move_between_samples_and_update_the_address(opened: Opened) -> None:
    keys = (("j", "s10"), ("j", "s4"), ("ArrowRight", "s5"), ("k", "s4"), ("ArrowLeft", "s10"), ("k", "s10"))
    for key, at in keys:
        opened.page.keyboard.press(key)
        assert opened.focused() == at and opened.page.url.endswith(f"#sample={at}")
    opened.page.keyboard.press("Escape")
    assert not opened.page.is_visible("#opened") and "#" not in opened.page.url


def test_click_opens_a_sample_beside_the_grid(opened: Opened) -> None:
    page = opened.page
    page.click(".thumb >> text=s12")
    wait_for(lambda: opened.focused() == "s12")
    assert "Fragile: replies differ on aesthetics" in page.inner_text(".card ul.quiet")
    drawn = "one => [...one.querySelectorAll('img')].map(each => [each.alt, each.naturalWidth])"
    wait_for(lambda: page.eval_on_selector(".card", drawn) == [["Human picture", 320], ["Model picture", 320]])
    grid, panel = page.locator("#grid").bounding_box(), page.locator("#opened").bounding_box()
    assert grid and panel and grid["x"] + grid["width"] <= panel["x"] and 0 <= panel["y"] < 300
    page.click("[title='Next (j)']")
    assert opened.focused() == "s1"
    page.click(".thumb >> text='s2'")
    wait_for(lambda: opened.focused() == "s2")
    long = page.inner_text(".card")
    assert len(long) > 4 * 45_000 and "Conclusion: Model." in long, "a long reason is shown whole"


def test_notable_samples_are_on_the_first_screen_and_open(opened: Opened) -> None:
    opened.look("light", 1400)
    pictures = "all => all.map(one => [one.naturalWidth, one.getBoundingClientRect().bottom < innerHeight])"
    assert opened.page.eval_on_selector_all(".look img", pictures) == [[320, True]] * 8
    assert opened.page.eval_on_selector_all("details[open]", "all => all.length") == 0
    opened.page.click(".look >> text=s12")
    wait_for(lambda: opened.focused() == "s12")


def test_table_is_copied_as_markdown(opened: Opened) -> None:
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.click("summary >> text=Scores >> nth=0")
    copied = opened.page.locator("text=Copy as Markdown >> nth=0")
    copied.click()
    opened.page.locator("text=Copied").wait_for()
    lines = opened.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("|  | score | 95% interval |") and set(lines[1]) == set("| -")
    assert "| faithfulness | 54.5 | [38.6, 70.4] | 2 |" in lines[3]


def test_page_and_pictures_beside_it_can_be_moved_together(
    tab: Opened, browser: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.pages.report_data.EMBEDDED", 11)
    (tmp_path / "made").mkdir()
    written(store, tmp_path / "made" / "a#b.html")
    tab.load((tmp_path / "made").rename(tmp_path / "moved") / "a#b.html")
    tab.page.keyboard.press("j")
    loaded = "[...document.querySelectorAll('.look img, .card img')].map(one => one.naturalWidth)"
    wait_for(lambda: tab.page.evaluate(loaded) == [320] * 10)
    tab.check()
    (tmp_path / "moved" / "a#b.files").rename(tmp_path / "elsewhere")
    own = Opened(browser, tmp_path / "moved" / "a#b.html")  # what it misses is reported late, to the next test in `tab`
    wait_for(lambda: own.page.locator(".look .absent").all_inner_texts() == ["not beside this page"] * 8)
    own.context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 500)])
def test_charts_have_the_pages_colours_and_width_and_their_numbers_as_labels(
    opened: Opened, scheme: str, width: int
) -> None:
    opened.look(scheme, width)
    opened.page.click("summary >> text=Trend")
    fills = "all => [...new Set(all.map(one => getComputedStyle(one).fill))]"
    colours = opened.page.eval_on_selector_all("svg.chart text[fill=currentColor]", fills)
    assert colours == [opened.page.evaluate("getComputedStyle(document.body).color")]
    box = "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right, box.height])"
    charts = opened.page.eval_on_selector_all("svg.chart", box)
    assert len(charts) >= 3 and [chart for chart in charts if chart[0] < 0 or chart[1] > width or chart[2] < 50] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    labels = opened.page.eval_on_selector_all("svg.chart[role=img]", "all => all.map(one => one.ariaLabel)")
    assert any("alpha: overall: 2026-11-19 12:00 50.0 [" in words for words in labels)


def test_narrow_screen_shows_everything_readable(opened: Opened) -> None:
    opened.look("light", 390)
    page = opened.page
    page.keyboard.press("j")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.eval_on_selector_all(".card:focus .reason", "all => all.map(one => one.offsetWidth)")
    assert len(widths) == 4 and min(widths) > 300 and page.locator("#opened").bounding_box()["y"] == 0
    page.keyboard.press("Escape")
    page.eval_on_selector(".thumb b", "one => { one.textContent = 'figures/'.repeat(40); }")  # hides no verdict
    whole, verdict = (page.locator(each).first.bounding_box() for each in (".thumb", ".thumb .chip"))
    assert verdict["y"] + verdict["height"] < whole["y"] + whole["height"]
    page.click("summary >> text=Scores >> nth=0")
    page.click("summary >> text=Trend")
    # A wide table scrolls in its own box, with its row names fixed.
    moved = "one => { one.scrollLeft = 200; return one.querySelector('[scope=row]').getBoundingClientRect().left; }"
    assert page.eval_on_selector("#numbers .wide", moved) >= 0
    sizes = "all => all.map(one => one.getBoundingClientRect().height)"
    assert min(page.eval_on_selector_all("svg.chart text", sizes)) > 10
    controls = "all => all.filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect().height)"
    assert min(page.eval_on_selector_all("button, select, input, summary, .thumb", controls)) >= 24


def test_address_opens_a_sample(tab: Opened, report: Path, store: Path) -> None:
    tab.load(report, address="#sample=s10")
    wait_for(lambda: tab.focused() == "s10")
    assert len(tab.shown()) == 12 and not tab.page.is_visible("#missing")
    tab.page.click(".thumb >> text='s3'")
    wait_for(lambda: tab.focused() == "s3")
    assert tab.page.url.endswith("#sample=s3")
    tab.page.evaluate("location.hash = '#sample=s99'")
    wait_for(lambda: tab.page.is_visible("#missing"))
    assert tab.page.inner_text("#missing") == 'This page holds no sample "s99". Its samples follow.'
    tab.page.go_back()
    wait_for(lambda: tab.focused() == "s3")
    assert not tab.page.is_visible("#missing")
    tab.check()
    images = written(store, store.parent / "images.html", "--flow", "counting")
    tab.load(images, address="#sample=00000%2F0001")
    wait_for(lambda: tab.focused() == "00000/0001")
    assert tab.page.get_attribute(".card:focus a", "href") == "#sample=00000%2F0001"
    tab.check()
    tab.load(images, address="#sample=%E0%A4<b>")
    assert 'no sample "%E0%A4' in tab.page.inner_text("#missing")
    tab.check()


def test_stopped_run_has_a_page_that_says_so_first(stopped: tuple[Path, str], tab: Opened) -> None:
    store, address = stopped
    [run] = (store / "ledger").iterdir()
    page = page_of(store, run.name)
    words = (
        f"Stopped: The judge m at {address} refuses all calls (401: Bad key.); no key was sent: list its name with "
        f"JURY_ENDPOINTS={urlsplit(address).netloc}=KEY_NAME. 2 of 4 samples are not judged. "
        "All replies so far are kept: the same command asks for the rest."
    )
    tab.load(page, width=1400)
    first, then = tab.page.locator("main > *").all()[:2]
    assert first.inner_text() == f"{words} This run is compared with nothing and enters no trend."
    assert then.inner_text().startswith("results scores 100.0") and (then.bounding_box() or {})["y"] < 200
    assert "2 of 4 samples scored" in tab.page.inner_text("main") and len(tab.shown()) == 2
    tab.page.click("nav >> text=All evaluations")
    tab.page.wait_for_url("**/index.html")
    assert tab.page.inner_text("#unfinished p").endswith(f" UTC: {words}")
    assert tab.page.inner_text("#now") == "No evaluation has finished yet."
    assert tab.page.locator("[data-run]").count() == 0
    tab.page.click("#unfinished a")
    tab.page.wait_for_url(f"**/{page.name}")
    tab.check()
    page.unlink()
    assert main(["store", "sync", "--store", str(store)]) == 0 and page.exists(), "remade, as for a killed run"


# The index of a store: search, sort, compare, links

RUNS = 400
ALARM = "painter has dropped since 2026-11-18: −6.2 to 48.1 over 3 nights, from 54.3 (14 nights from 2026-11-01 on)"
OF_ALL = ("overall", "all", "score")
[OVERALL] = [row for row in score_rows([outcome()]) if (row.dimension, row.grouping, row.measure) == OF_ALL]
NAMES = ("painter", "it's $(touch harmed)", "منافس 2", "rival")

FIRST_LETTER = """small => {
    const letter = new Range();
    letter.setStart(small.firstChild, 0), letter.setEnd(small.firstChild, 1);
    return letter.getBoundingClientRect().left - small.getBoundingClientRect().left;
}"""
"""Distance of the first letter from the left."""


def line(number: int) -> Line:
    """Return an evaluation; number 0 is the newest."""
    name = NAMES[number % 4]
    row = OVERALL.model_copy(update={"candidate": name, "score": 50.0 + number % 13, "n": 292, "scored": 290})
    began = datetime(2026, 11, 22, 2, tzinfo=UTC) - timedelta(hours=6 * number)
    flow = ("diagram", "plot")[number % 8 == 3]
    return Line(
        run_id=f"{began:%Y%m%dT%H%M%S000}-{flow}-{number:06x}", started_at=began, flow=flow, dataset="paperbanana",
        candidate=name, name=name, dimension="overall", score=row, judge="gpt-x at judge.example",
        status=("✓ GREEN", "✗ RED")[number % 4 == 3], price=number / 100, cost=f"{number / 100:.4f} USD", measured=True,
        stopped=False, series=(flow, "paperbanana", "gpt-x", "default"), keys=("d", "p" if number < 40 else "q"),
    )  # fmt: skip


def place(newest: Line, lines: Sequence[Line]) -> Place:
    """Return a trend with one break, and a difference that is not significant."""
    found = difference([50.0] * 12, [100.0, 0.0, 0.0, 100.0, 100.0, 100.0] + [50.0] * 6)
    return Place(newest, [*lines], lines[-2].started_at, found)


def index_of(runs: int) -> str:
    lines = [line(number) for number in range(runs)]
    places = [place(lines[at], lines[at : at + 120 : 4][::-1]) for at in range(4)]
    reply = {"candidate": NAMES[0], "overall": "Human", "words": "Conclusion: the arrows are missing", "picture": None}
    worst = [{**reply, "sample_id": name} for name in ("s1", HOSTILE[1])]
    cards = [Card(lines[0], 292, places[:3], [HOSTILE[0]], [ALARM], worst), Card(lines[3], 292, places[3:], [], [], [])]
    return index_page(Index(cards, lines, runs, runs), {page_name(each.run_id) for each in lines})


@pytest.fixture(scope="module")
def index_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert len(index_of(1000).encode()) < 1_000_000
    file = tmp_path_factory.mktemp("pages") / "index.html"
    file.write_text(index_of(RUNS))
    return file


@pytest.fixture
def index(tab: Opened, index_file: Path) -> Iterator[Opened]:
    """The index, loaded anew."""
    tab.load(index_file)
    yield tab
    tab.check()


def cells(index: Opened, column: int) -> list[str]:
    """Return a column of the visible rows."""
    script = f"all => all.map(one => one.cells[{column}].textContent.trim())"
    return index.page.eval_on_selector_all("#evaluations tbody tr:not([hidden])", script)


def test_table_is_searched_and_sorted(index: Opened) -> None:
    page = index.page
    assert page.inner_text("output") == "400 of 400"
    page.fill("[name=search]", "plot")
    assert set(cells(index, 2)) == {"plot"} and page.inner_text("output") == "50 of 400"
    page.fill("[name=search]", "plot 2026-11-2")
    assert cells(index, 1) == ["2026-11-21 08:00"]
    page.fill("[name=search]", "red")
    assert set(cells(index, 8)) == {"✗ RED"}
    page.click("th >> text=cost")
    prices = [float(price.split()[0]) for price in cells(index, 9)]
    assert prices == sorted(prices, reverse=True) and page.get_attribute("th >> nth=9", "aria-sort") == "descending"
    page.focus("th >> nth=9 >> button")
    page.keyboard.press("Enter")
    assert [float(price.split()[0]) for price in cells(index, 9)] == prices[::-1]
    page.click("th >> text=begun")
    assert cells(index, 1)[0] > cells(index, 1)[-1]


def test_older_evaluations_are_shown_on_request(index: Opened) -> None:
    page = index.page
    assert len(cells(index, 1)) == FIRST and page.inner_text("#more") == "Show all 400"
    oldest = f"{line(RUNS - 1).started_at:%Y-%m-%d %H:%M}"
    page.click("th >> text=begun")
    assert cells(index, 1)[0] == oldest and len(cells(index, 1)) == FIRST
    page.fill("[name=search]", oldest)
    assert cells(index, 1) == [oldest] and not page.is_visible("#more")
    page.fill("[name=search]", "")
    page.focus("#more")
    page.keyboard.press("Enter")
    assert len(cells(index, 1)) == RUNS and not page.is_visible("#more")


def test_two_evaluations_chosen_by_keyboard_give_a_safely_quoted_command(index: Opened) -> None:
    page = index.page
    boxes = page.locator("#evaluations input")
    for at in (1, 4):
        boxes.nth(at).focus()
        page.keyboard.press("Space")
    older, newer = (line(number) for number in (4, 1))
    quoted = "'it'\\''s $(touch harmed)'"
    command = f"jury compare {older.run_id} {newer.run_id} --candidate painter --candidate {quoted}"
    assert page.inner_text("#compare code") == command
    assert boxes.nth(0).is_disabled()
    boxes.nth(1).uncheck()
    assert page.inner_text("#compare").startswith("Choose two") and boxes.nth(0).is_enabled()


def test_dates_link_to_evaluations_and_cards_to_samples(index: Opened) -> None:
    assert index.page.get_attribute("#evaluations tbody a", "href") == page_name(line(0).run_id)
    newest, red = (index.page.inner_text(f".flow >> nth={at}") for at in range(2))
    for words in (ALARM, HOSTILE[0], "GREEN, passed its controls", "Cost 0.0000 USD", "1 open alarm", "1 gap"):
        assert words in newest
    assert "Do not trust these scores" in red and "Do not trust" not in newest
    link = f"{page_name(line(0).run_id)}#sample="
    assert index.page.get_attribute(".worst a >> nth=0", "href") == f"{link}s1&candidate=painter"
    assert "Human wins: Conclusion: the arrows are missing" in newest
    assert index.page.evaluate("document.querySelector('.wide').scrollWidth") <= index.page.evaluate("innerWidth")
    dates = index.page.eval_on_selector_all(".dots span > small", f"all => all.map({FIRST_LETTER})")
    assert dates == [0, 0], "a name from right to left leaves the order of its date"
    index.page.set_viewport_size({"width": 390, "height": 900})
    lines = index.page.eval_on_selector_all(".dots strong", "all => all.map(one => one.parentElement.offsetHeight)")
    assert max(lines) < 60, "a long name leaves room for the scores"
    assert index.page.evaluate("document.querySelector('#evaluations td:nth-child(8)').offsetWidth") > 110
    index.page.set_viewport_size({"width": 794, "height": 1123})  # A4
    index.page.emulate_media(media="print")
    right = "document.querySelector('#evaluations td:last-child').getBoundingClientRect().right"
    assert index.page.evaluate(f"{right} <= innerWidth"), "a printed table has all its columns"
