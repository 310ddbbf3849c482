"""The index page of a store in a real browser: search, sort, compare, links."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from factories import outcome, score_rows
from opened_page import Opened
from strangers import HOSTILE

from tasks.pages.index_data import Card, Index, Line, Place
from tasks.pages.index_page import FIRST, index_page
from tasks.pages.page_names import page_name
from tasks.statistics.intervals import difference

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
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert len(index_of(1000).encode()) < 1_000_000
    file = tmp_path_factory.mktemp("pages") / "index.html"
    file.write_text(index_of(RUNS))
    return file


@pytest.fixture(scope="module")
def tab(browser: Any) -> Opened:
    return Opened(browser)


@pytest.fixture
def opened(tab: Opened, index: Path) -> Iterator[Opened]:
    tab.load(index)
    yield tab
    tab.check()


def cells(opened: Opened, column: int) -> list[str]:
    """Return a column of the visible rows."""
    script = f"all => all.map(one => one.cells[{column}].textContent.trim())"
    return opened.page.eval_on_selector_all("#evaluations tbody tr:not([hidden])", script)


def test_table_is_searched_and_sorted(opened: Opened) -> None:
    page = opened.page
    assert page.inner_text("output") == "400 of 400"
    page.fill("[name=search]", "plot")
    assert set(cells(opened, 2)) == {"plot"} and page.inner_text("output") == "50 of 400"
    page.fill("[name=search]", "plot 2026-11-2")
    assert cells(opened, 1) == ["2026-11-21 08:00"]
    page.fill("[name=search]", "red")
    assert set(cells(opened, 8)) == {"✗ RED"}
    page.click("th >> text=cost")
    prices = [float(price.split()[0]) for price in cells(opened, 9)]
    assert prices == sorted(prices, reverse=True) and page.get_attribute("th >> nth=9", "aria-sort") == "descending"
    page.focus("th >> nth=9 >> button")
    page.keyboard.press("Enter")
    assert [float(price.split()[0]) for price in cells(opened, 9)] == prices[::-1]
    page.click("th >> text=begun")
    assert cells(opened, 1)[0] > cells(opened, 1)[-1]


def test_older_evaluations_are_shown_on_request(opened: Opened) -> None:
    page = opened.page
    assert len(cells(opened, 1)) == FIRST and page.inner_text("#more") == "Show all 400"
    oldest = f"{line(RUNS - 1).started_at:%Y-%m-%d %H:%M}"
    page.click("th >> text=begun")
    assert cells(opened, 1)[0] == oldest and len(cells(opened, 1)) == FIRST
    page.fill("[name=search]", oldest)
    assert cells(opened, 1) == [oldest] and not page.is_visible("#more")
    page.fill("[name=search]", "")
    page.focus("#more")
    page.keyboard.press("Enter")
    assert len(cells(opened, 1)) == RUNS and not page.is_visible("#more")


def test_two_evaluations_chosen_by_keyboard_give_a_safely_quoted_command(opened: Opened) -> None:
    page = opened.page
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


def test_dates_link_to_evaluations_and_cards_to_samples(opened: Opened) -> None:
    assert opened.page.get_attribute("#evaluations tbody a", "href") == page_name(line(0).run_id)
    newest, red = (opened.page.inner_text(f".flow >> nth={at}") for at in range(2))
    for words in (ALARM, HOSTILE[0], "GREEN, passed its controls", "Cost 0.0000 USD", "1 open alarm", "1 gap"):
        assert words in newest
    assert "Do not trust these scores" in red and "Do not trust" not in newest
    link = f"{page_name(line(0).run_id)}#sample="
    assert opened.page.get_attribute(".worst a >> nth=0", "href") == f"{link}s1&candidate=painter"
    assert "Human wins: Conclusion: the arrows are missing" in newest
    assert opened.page.evaluate("document.querySelector('.wide').scrollWidth") <= opened.page.evaluate("innerWidth")
    dates = opened.page.eval_on_selector_all(".dots span > small", f"all => all.map({FIRST_LETTER})")
    assert dates == [0, 0], "a name from right to left leaves the order of its date"
    opened.page.set_viewport_size({"width": 390, "height": 900})
    lines = opened.page.eval_on_selector_all(".dots strong", "all => all.map(one => one.parentElement.offsetHeight)")
    assert max(lines) < 60, "a long name leaves room for the scores"
    assert opened.page.evaluate("document.querySelector('#evaluations td:nth-child(8)').offsetWidth") > 110
    opened.page.set_viewport_size({"width": 794, "height": 1123})  # A4
    opened.page.emulate_media(media="print")
    right = "document.querySelector('#evaluations td:last-child').getBoundingClientRect().right"
    assert opened.page.evaluate(f"{right} <= innerWidth"), "a printed table has all its columns"
