"""All kinds of pages in a browser: untrusted texts have no effect, the page fits the screen and is accessible.

Here in Chromium; `make bench-firefox` runs the same tests in Firefox.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from accessibility import faults
from firefox import started_firefox
from foreign_page import foreign_page
from hostile_store import NAME, SAMPLE, write_hostile, write_pages
from opened_page import Visit, installed
from served import free_port
from written_history import EARLIER, LATER, SCRIPT

from flows.server.pages import serving_pages

KINDS = ("index", "run", "run of images", "run without pictures", "comparison", "labels", "labels of images")
SCREENS = (("light", 1400), ("dark", 1400), ("dark", 390))
"""In the order of one visit. Colors do not depend on the width."""
BACKGROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}
UNFOLD = """async () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    dispatchEvent(new Event("beforeprint"));
    document.querySelector(".thumb")?.click();
    await new Promise((done) => setTimeout(done, 300));
}"""
"""Unfold everything, load the thumbnails as for print, and open a sample."""
READ_SCREEN = """async () => {
    for (let turn = 0; turn < 2; turn++) await new Promise(requestAnimationFrame);
    const { scrollWidth, clientWidth } = document.documentElement;
    const ground = getComputedStyle(document.body).backgroundColor;
    return [document.title, document.body.textContent, scrollWidth - clientWidth, innerWidth, ground];
}"""
"""After layout is done."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pages(write_hostile(tmp_path_factory.mktemp("hostile") / "store"))


@pytest.fixture(scope="module")
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the browser that `--browser` names."""
    if request.config.getoption("browser") == "chromium":
        yield request.getfixturevalue("browser")
    else:
        with started_firefox(installed("firefox-esr"), tmp_path_factory.mktemp("firefox")) as browser:
            yield browser


@pytest.fixture(scope="module")
def visit(either: Any) -> Visit:
    return Visit(either)


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_safe_fits_the_screen_and_is_accessible(visit: Visit, pages: dict[str, Path], kind: str) -> None:
    visit.load(pages[kind].as_uri(), *SCREENS[0])
    visit.evaluate(UNFOLD)
    for scheme, width in SCREENS:
        visit.look(scheme, width)
        title, text, hidden, *seen = visit.evaluate(READ_SCREEN)
        assert visit.trouble == [] and title != "harmed"
        assert (SCRIPT if kind.startswith(("run", "labels")) else NAME[:20]) in text
        assert (hidden, seen) == (0, [width, BACKGROUND[scheme]]), "the page must not scroll sideways"
        assert faults(visit.evaluate) == [], f"{scheme}, {width} pixels wide"
    visit.check()


def test_foreign_page_cannot_read_served_pages(visit: Visit, pages: dict[str, Path]) -> None:
    store = pages["index"].parents[1]
    with serving_pages(store, free_port(), "") as address, foreign_page() as foreign:
        visit.load(foreign)
        assert visit.evaluate(f"ask('{address}/', {{}})") == "nothing"
        visit.evaluate(f"location.assign('{address}/')")
        visit.wait("document.title === 'Image Jury: all evaluations'")


def test_evaluations_selected_in_the_served_index_are_compared(visit: Visit, pages: dict[str, Path]) -> None:
    with serving_pages(pages["index"].parents[1], free_port(), "") as address:
        visit.load(address)
        for run in (LATER, EARLIER):
            visit.evaluate(f"""document.querySelector("[data-run='{run}'] input").click()""")
        visit.until("#compare form button", "Shift+Tab")
        visit.press("Enter")
        visit.wait(f"location.pathname === '/{pages['comparison'].name}'")
        assert visit.count("img") and visit.count(".changed") == 6
        visit.evaluate("document.querySelector('.changed').dataset.direction = 'better'")
        visit.until("[data-shows='worse']")
        visit.press("Enter")
        assert visit.count(".changed") == 5


# By keyboard only


def test_index_works_by_keyboard(visit: Visit, pages: dict[str, Path]) -> None:
    visit.load(pages["index"].as_uri())
    visit.press("/", *"counting")
    assert visit.text("output") == "1 of 3"
    visit.press("Escape")
    assert visit.text("output") == "3 of 3"
    visit.until("th:nth-child(2) button")
    visit.press("Enter")
    assert visit.evaluate("document.querySelector('th:nth-child(2)').ariaSort") == "ascending"
    for run in (EARLIER, LATER):
        visit.until(f"[data-run='{run}'] input")
        visit.press("Space")
    assert visit.text("#compare code").startswith(f"jury compare {EARLIER} {LATER}")
    visit.press("Enter")
    visit.wait("/Copied|Selected/.test(document.querySelector('#compare button').textContent)")
    visit.press("Escape")
    assert visit.count("#evaluations input:checked") == 0
    visit.until("#evaluations tbody a")
    visit.press("Enter")
    visit.wait(f"location.pathname.endsWith('/{LATER}.html')")
    visit.check()


def test_run_page_and_samples_work_by_keyboard(visit: Visit, pages: dict[str, Path]) -> None:
    focused = "document.activeElement.querySelector('h3 a')?.textContent"
    visit.load(pages["run"].as_uri() + f"#sample={quote(SAMPLE, safe='')}")
    visit.wait(f"{focused} === {SAMPLE!r}")
    visit.until(".pictures button")
    visit.press("Enter")
    assert visit.count(".pictures.large") == 1
    visit.press("Escape")
    assert visit.count(".pictures.large") == 0 and visit.has_focus(".pictures button")
    visit.press("J")
    assert visit.evaluate(f"{focused} !== {SAMPLE!r} && document.activeElement.matches('.card')")
    visit.press("Escape", "/", *"s2")
    assert visit.text("output") == "1 of 12 samples, lowest first"
    visit.press("Escape")
    assert visit.text("output") == "12 of 12 samples, lowest first"
    visit.press("/")
    visit.until("form select")
    visit.until("nav a", "Shift+Tab", 200)
    visit.press("Enter")
    visit.wait("/index.html$|#list$|#numbers$/.test(location.href)")
    visit.check()


def test_wide_table_scrolls_by_keyboard(visit: Visit, pages: dict[str, Path]) -> None:
    visit.load(pages["run"].as_uri(), width=390)
    visit.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide = "document.querySelector('.wide[tabindex=\"0\"]')"
    visit.wait(wide)
    visit.evaluate(f"{wide}.focus()")
    visit.press("ArrowRight")
    visit.wait(f"{wide}.scrollLeft > 0")
    assert visit.has_focus(".wide")  # the key did not move to another sample
    visit.check()


def test_pictures_zoom_and_pan_by_keyboard(visit: Visit, pages: dict[str, Path]) -> None:
    visit.load(pages["labels"].as_uri())
    visit.until("#pictures button")
    visit.wait("document.querySelectorAll('.view img')[1].naturalWidth")
    visit.press("Enter")
    assert visit.count(".zoomed") == 1
    corner = (
        "[...document.querySelectorAll('.view img')].map((one) => [one.style.width, one.style.left, one.style.top])"
    )
    before = visit.evaluate(corner)
    assert [each[0] for each in before] == ["3000px"] * 2
    visit.press("ArrowRight", "ArrowDown")
    after = visit.evaluate(corner)
    assert after[0] == after[1] and float(after[0][1][:-2]) < float(before[0][1][:-2])
    visit.press("Escape")
    assert visit.count(".zoomed") == 0 and visit.has_focus("#pictures button")
    visit.press("Z", "1")
    assert visit.count(".zoomed") == 0 and visit.text("#progress") == "1 of 4 answered"
    visit.press("m", *"why", "Escape", "u")
    assert visit.text("#progress") == "0 of 4 answered"
    visit.check()


def test_comparison_opens_samples_by_keyboard(visit: Visit, pages: dict[str, Path]) -> None:
    visit.load(pages["comparison"].as_uri())
    visit.until("figure ~ figure a")
    visit.press("Enter")
    visit.wait(f"location.pathname.endsWith('/{LATER}.html') && document.activeElement.matches('.card')")
    visit.check()
