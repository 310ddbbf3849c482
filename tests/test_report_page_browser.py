"""The report page in a real browser without a network: what a reader can do with it, and what strangers cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opened_page import Opened
from served import wait_for
from written_history import LATER, write_evaluations, written

from tasks.pages.site import renew


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evaluations(tmp_path_factory.mktemp("page") / "store")


@pytest.fixture(scope="module")
def report(store: Path) -> Path:
    return written(store, store.parent / "report.html")


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Opened]:
    found = Opened(browser, report)
    yield found
    found.close()


def test_filters_leave_what_was_asked_for(opened: Opened) -> None:
    page = opened.page
    page.select_option("[name=dimension]", "faithfulness")
    page.select_option("[name=verdict]", "Model")
    assert opened.shown() == ["s1", "s2"]
    page.select_option("[name=category]", "vision")
    assert opened.shown() == ["s2"]
    page.keyboard.press("Escape")
    assert len(opened.shown()) == 12
    for field, value, left in (
        ("status", "incomplete", ["s3"]),
        ("only", "orders name different winners", ["s12"]),
        ("only", "changed since the run before", ["s2", "s11"]),
    ):
        page.select_option(f"[name={field}]", value)
        assert opened.shown() == left
        page.keyboard.press("Escape")
    page.select_option("[name=order]", "most changed first")
    assert opened.shown()[:2] == ["s2", "s11"]


def test_search_finds_ids_and_words_and_says_how_many(opened: Opened) -> None:
    opened.page.keyboard.press("/")
    opened.page.keyboard.type("S1")
    assert opened.shown() == ["s1", "s10", "s11", "s12"] and opened.page.inner_text("output") == "4 of 12 samples"
    opened.page.keyboard.press("Enter")
    assert opened.focused() == "s1"
    opened.page.keyboard.press("Escape")
    opened.page.fill("[name=search]", "bold")
    assert opened.shown() == ["s1"]


def test_keys_move_from_sample_to_sample(opened: Opened) -> None:
    for key, at in (("j", "s1"), ("j", "s2"), ("ArrowRight", "s3"), ("k", "s2"), ("ArrowLeft", "s1"), ("k", "s1")):
        opened.page.keyboard.press(key)
        assert opened.focused() == at
    top = opened.page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert 0 <= top < 300


def test_a_card_says_its_tier_once_and_draws_its_pictures_side_by_side(opened: Opened) -> None:
    opened.page.keyboard.press("j")
    notes = opened.page.locator("article.card:focus ul.quiet")
    notes.wait_for()
    assert notes.inner_text().count("tier 1") == 1 and "Decided by" not in notes.inner_text()
    drawn = "one => [...one.querySelectorAll('img')].map(each => [each.alt, each.naturalWidth])"
    wait_for(lambda: opened.page.evaluate("document.activeElement.querySelectorAll('img')[1]?.naturalWidth > 0"))
    assert opened.page.eval_on_selector(".card", drawn) == [["Human picture", 320], ["Model picture", 320]]


def test_a_changed_sample_is_found_from_the_figures(opened: Opened) -> None:
    opened.page.click("[data-find=s11]")
    assert opened.shown() == ["s11"] and opened.focused() == "s11"
    assert "Since the run before: faithfulness: Both are bad" in opened.page.inner_text(".card")


def test_the_sql_is_copied_by_a_button(opened: Opened) -> None:
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.click("details.sql >> nth=0")
    opened.page.click("[data-copy] >> nth=0")
    wait_for(lambda: opened.page.evaluate("document.querySelector('[data-copy]').textContent === 'Copied'"))
    assert LATER in opened.page.evaluate("navigator.clipboard.readText()")


def test_long_reasons_are_whole_and_scroll_in_their_own_box(opened: Opened) -> None:
    page = opened.page
    for card in ("s1", "s2"):
        page.keyboard.press("j")
        assert opened.focused() == card
    long = page.eval_on_selector_all(".card", "all => all[1].textContent")
    assert len(long) > 4 * 45_000 and "Conclusion: Model." in long
    assert page.evaluate("document.querySelectorAll('.card')[1].offsetHeight") < 4000
    page.mouse.wheel(0, 3000)
    wait_for(lambda: page.evaluate("scrollY > 0"))


@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_have_the_colours_and_the_width_of_the_page(browser: Any, report: Path, scheme: str, width: int) -> None:
    opened = Opened(browser, report, scheme)
    opened.page.set_viewport_size({"width": width, "height": 900})
    fills = "all => [...new Set(all.map(one => getComputedStyle(one).fill))]"
    colours = opened.page.eval_on_selector_all("svg.chart text[fill=currentColor]", fills)
    assert colours == [opened.page.evaluate("getComputedStyle(document.body).color")]
    box = "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right, box.height])"
    charts = opened.page.eval_on_selector_all("svg.chart", box)
    assert len(charts) >= 3 and [chart for chart in charts if chart[0] < 0 or chart[1] > width or chart[2] < 50] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    opened.close()


def test_a_chart_is_one_picture_to_a_screen_reader_and_says_its_numbers(opened: Opened) -> None:
    said = opened.page.eval_on_selector_all("svg.chart[role=img]", "all => all.map(one => one.ariaLabel)")
    assert "alpha, faithfulness: Model 2, both good 8, Human 1, not scored 1; 54.5 [" in said[0]
    assert any("alpha: overall: 2026-11-19 12:00 50.0 [" in words for words in said)


def test_on_a_narrow_screen_all_is_there_to_be_read(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, width=390)
    page = opened.page
    page.keyboard.press("j")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.eval_on_selector_all(".card:focus .reason", "all => all.map(one => one.offsetWidth)")
    assert len(widths) == 4 and min(widths) > 300
    # What is too wide for the screen is moved in its own box, with the names of its lines in place.
    moved = "one => { one.scrollLeft = 200; return one.querySelector('[scope=row]').getBoundingClientRect().left; }"
    assert page.eval_on_selector("#scores article .wide", moved) >= 0
    sizes = "all => all.map(one => one.getBoundingClientRect().height)"
    assert min(page.eval_on_selector_all("article .drawing svg.chart text", sizes)) > 10
    opened.close()


def test_a_sample_has_an_address(browser: Any, report: Path, store: Path) -> None:
    opened = Opened(browser, report, address="#sample=s10")
    wait_for(lambda: opened.focused() == "s10")
    assert len(opened.shown()) == 12 and not opened.page.is_visible("#missing")
    opened.page.click(".card h3 a >> text=s3")
    wait_for(lambda: opened.focused() == "s3")
    assert opened.page.url.endswith("#sample=s3")
    opened.page.evaluate("location.hash = '#sample=s99'")
    wait_for(lambda: opened.page.is_visible("#missing"))
    assert opened.page.inner_text("#missing") == 'This page holds no sample "s99". Its samples follow.'
    opened.page.go_back()
    wait_for(lambda: opened.focused() == "s3")
    assert not opened.page.is_visible("#missing")
    opened.close()
    images = written(store, store.parent / "images.html", "--flow", "counting")
    opened = Opened(browser, images, address="#sample=00000%2F0001")
    wait_for(lambda: opened.focused() == "00000/0001")
    assert opened.page.get_attribute(".card:focus a", "href") == "#sample=00000%2F0001"
    opened.close()
    broken = Opened(browser, images, address="#sample=%E0%A4<b>")
    assert 'no sample "%E0%A4' in broken.page.inner_text("#missing")
    broken.close()


def test_pages_lead_to_each_other(browser: Any, store: Path) -> None:
    opened = Opened(browser, renew(store, [LATER]).pages[0])
    opened.page.click("nav >> text=All evaluations")
    opened.page.wait_for_url("**/index.html")
    opened.page.click("#evaluations tbody a >> nth=0")
    opened.page.wait_for_url(f"**/{LATER}.html")
    opened.close()
