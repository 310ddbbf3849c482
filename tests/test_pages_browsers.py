"""Every kind of page in both browsers: strangers' texts do nothing, it fits the screen, and everybody can use it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from accessibility import faults, script
from foreign_page import foreign_page
from hostile_store import NAME, SAMPLE, write_hostile, write_pages
from opened_page import AS_IT_IS, Opened
from served import free_port, wait_for
from written_history import EARLIER, LATER, SCRIPT

from flows.runtime.pages_server import serving_pages

KINDS = ("index", "run", "run of images", "run without pictures", "comparison", "labels", "labels of images")
LOOKS = (("light", 1400), ("dark", 390))
SHOWN = """() => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    document.querySelectorAll(".card").forEach((one) => one.scrollIntoView({ behavior: "instant" }));
    scrollTo({ top: 0, behavior: "instant" });
    return [document.title, document.body.textContent, document.documentElement.scrollWidth];
}"""
"""All that can be folded out is, and what is filled when it comes near has been near."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pages(write_hostile(tmp_path_factory.mktemp("hostile") / "store"))


class Look(NamedTuple):
    """What there is to see of a page."""

    trouble: list[str]
    title: str
    text: str
    width: int
    faults: list[str]


@pytest.fixture(scope="module")
def looked(either: Any, pages: dict[str, Path]) -> Callable[[str, str, int], Look]:
    """Each page is opened once for each look; several tests go by what is seen then."""
    seen: dict[tuple[str, str, int], Look] = {}

    def look(kind: str, scheme: str, width: int) -> Look:
        if (kind, scheme, width) not in seen:
            opened = Opened(either, pages[kind], scheme, width=width, script=script())
            page = opened.page
            page.evaluate(SHOWN)
            page.wait_for_function("[...document.querySelectorAll('.card')].every((one) => one.children.length > 1)")
            seen[kind, scheme, width] = Look(opened.trouble, *page.evaluate(SHOWN), faults(page))
            opened.context.close()
        return seen[kind, scheme, width]

    return look


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("kind", KINDS)
def test_strangers_texts_are_shown_and_do_nothing(
    looked: Callable[[str, str, int], Look], kind: str, scheme: str, width: int
) -> None:
    look = looked(kind, scheme, width)
    assert look.trouble == [] and look.title != "harmed"
    expected = SCRIPT if kind.startswith(("run", "labels")) else NAME[:20]
    assert expected in look.text


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_wider_than_the_screen(
    looked: Callable[[str, str, int], Look], kind: str, scheme: str, width: int
) -> None:
    assert looked(kind, scheme, width).width == width


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_no_fault(looked: Callable[[str, str, int], Look], kind: str, scheme: str, width: int) -> None:
    assert looked(kind, scheme, width).faults == []


def test_a_page_of_another_address_gets_nothing_of_them(either: Any, pages: dict[str, Path]) -> None:
    store = pages["index"].parents[1]
    with serving_pages(store, free_port(), "") as address, foreign_page() as foreign:
        page = either.new_page(**AS_IT_IS)
        page.goto(foreign)
        assert page.evaluate("(address) => ask(address)", f"{address}/") == "nothing"
        page.goto(address)
        assert page.title() == "Image Jury: all evaluations"
        page.context.close()


# By keyboard alone


class Keys:
    """Somebody who has a keyboard and no mouse."""

    def __init__(self, browser: Any, file: Path, address: str = "") -> None:
        self.opened = Opened(browser, file, address=address)
        self.page = self.opened.page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def until(self, is_there: str, key: str = "Tab", most: int = 60) -> None:
        """Press the key until the focus is on what this selector finds, and see that it shows where it is."""
        for _ in range(most):
            self.press(key)
            if self.page.evaluate("(wanted) => document.activeElement.matches(wanted)", is_there):
                assert self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                return
        raise AssertionError(f"{most} times {key}, and no {is_there} has the focus")

    def close(self) -> None:
        self.opened.close()


def test_the_index_is_used_by_keyboard(either: Any, pages: dict[str, Path]) -> None:
    keys = Keys(either, pages["index"])
    page = keys.page
    keys.until("#theme")
    keys.press("/")
    page.keyboard.type("counting")
    assert page.inner_text("output") == "1 of 3"
    keys.press("Escape")
    assert page.inner_text("output") == "3 of 3"
    keys.until("th:nth-child(4) button")  # the third column after the ticks
    keys.press("Enter")
    assert page.get_attribute("th:nth-child(4)", "aria-sort") == "ascending"
    for _ in range(2):
        keys.until(f"[data-run$='{LATER[-6:]}'] input, [data-run$='{EARLIER[-6:]}'] input", most=20)
        keys.press("Space")
    assert page.inner_text("#compare code").startswith(f"jury compare {EARLIER} {LATER}")
    keys.press("Enter")
    page.wait_for_function("/Copied|Selected/.test(document.querySelector('#compare button').textContent)")
    keys.press("Escape")
    assert page.locator("#evaluations input:checked").count() == 0
    keys.until("#evaluations tbody a", "Shift+Tab")
    keys.press("Enter")
    page.wait_for_url(f"**/{LATER}.html")
    keys.close()


def test_a_run_and_a_sample_in_it_are_read_by_keyboard(either: Any, pages: dict[str, Path]) -> None:
    keys = Keys(either, pages["run"], f"#sample={quote(SAMPLE, safe='')}")
    page = keys.page
    wait_for(lambda: keys.opened.focused() == SAMPLE, 10)
    keys.until(".pictures button")
    keys.press("Enter")
    assert page.locator(".pictures.large").count() == 1
    keys.press("Escape")
    assert page.locator(".pictures.large").count() == 0
    assert page.evaluate("document.activeElement.matches('.pictures button')")
    keys.until(".earlier summary")
    keys.press("Enter")
    page.wait_for_selector(".earlier tbody tr a")
    keys.press("j")
    assert keys.opened.focused() not in ("", SAMPLE)
    keys.until("[name=candidate], [name=category], [name=status], [name=only]", "Shift+Tab")
    keys.press("Escape", "/")
    page.keyboard.type("s1")
    assert len(keys.opened.shown()) < 12
    keys.press("Escape")
    assert len(keys.opened.shown()) == 12
    keys.until("nav a")
    keys.press("Enter")
    page.wait_for_url("**/index.html")
    page.go_back()
    page.wait_for_url(f"**/{LATER}.html*")
    keys.close()


def test_a_table_that_is_wider_than_the_screen_is_moved_by_keys(either: Any, pages: dict[str, Path]) -> None:
    opened = Opened(either, pages["run"], width=390)
    page = opened.page
    page.wait_for_selector(".wide[tabindex='0']")
    page.focus(".wide[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector(\".wide[tabindex='0']\").scrollLeft > 0")
    assert opened.focused() == ""  # no sample was gone to
    opened.close()


def test_pictures_are_looked_at_larger_and_left_by_keyboard(either: Any, pages: dict[str, Path]) -> None:
    keys = Keys(either, pages["labels"])
    page = keys.page
    keys.until("#pictures button")
    keys.press("Enter")
    assert page.locator("#large img").count() == 2 and page.is_visible("#large")
    keys.press("Tab", "Tab", "Tab")
    assert page.evaluate("document.activeElement.matches('#large, #large *, body')")  # nothing behind it is gone to
    keys.press("Escape")
    assert not page.is_visible("#large") and page.evaluate("document.activeElement.matches('#pictures button')")
    keys.press("z", "1")
    assert not page.is_visible("#large") and page.inner_text("#progress") == "1 of 4 answered"
    keys.press("m")
    page.keyboard.type("why")
    keys.press("Escape", "u")
    assert page.inner_text("#progress") == "0 of 4 answered"
    keys.close()


def test_a_comparison_leads_to_its_samples_by_keyboard(either: Any, pages: dict[str, Path]) -> None:
    keys = Keys(either, pages["comparison"])
    keys.until(".changes a")
    keys.press("Enter")
    keys.page.wait_for_url(f"**/{LATER}.html#sample=*")
    wait_for(lambda: keys.opened.focused() != "", 10)
    keys.close()
