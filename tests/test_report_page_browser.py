"""The report page in a real browser without network: filters, keys, links, layout."""

from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import allowed_reply, error
from opened_page import Opened
from served import wait_for
from written_datasets import write_figures
from written_history import LATER, write_evaluations, written

from flows.cli import main
from tasks.pages.page_names import page_of
from tasks.pages.site import renew


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
    assert stopped
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


def test_long_reasoning_is_shown_whole(opened: Opened) -> None:
    page = opened.page
    page.click(".thumb >> text='s2'")
    wait_for(lambda: opened.focused() == "s2")
    long = page.inner_text(".card")
    assert len(long) > 4 * 45_000 and "Conclusion: Model." in long


def test_page_and_pictures_beside_it_can_be_moved_together(
    tab: Opened, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    tab.load(tmp_path / "moved" / "a#b.html")
    wait_for(lambda: tab.page.locator(".look .absent").all_inner_texts() == ["not beside this page"] * 8)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 500)])
def test_charts_have_the_pages_colours_and_width(opened: Opened, scheme: str, width: int) -> None:
    opened.look(scheme, width)
    opened.page.click("summary >> text=Trend")
    fills = "all => [...new Set(all.map(one => getComputedStyle(one).fill))]"
    colours = opened.page.eval_on_selector_all("svg.chart text[fill=currentColor]", fills)
    assert colours == [opened.page.evaluate("getComputedStyle(document.body).color")]
    box = "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right, box.height])"
    charts = opened.page.eval_on_selector_all("svg.chart", box)
    assert len(charts) >= 3 and [chart for chart in charts if chart[0] < 0 or chart[1] > width or chart[2] < 50] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width


def test_chart_has_its_numbers_as_an_accessible_label(opened: Opened) -> None:
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


def test_pages_link_to_each_other(tab: Opened, store: Path) -> None:
    tab.load(renew(store, [LATER]).pages[0])
    tab.page.click("nav >> text=All evaluations")
    tab.page.wait_for_url("**/index.html")
    tab.page.click("#evaluations tbody a >> nth=0")
    tab.page.wait_for_url(f"**/{LATER}.html")
    tab.check()


def test_stopped_run_has_a_page_that_says_so_first(stopped: tuple[Path, str], tab: Opened) -> None:
    store, address = stopped
    [run] = (store / "ledger").iterdir()
    page = page_of(store, run.name)
    words = (
        f"Stopped: The judge m at {address} refuses all calls (401: Bad key.). 2 of 4 samples are not judged. "
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
