"""Charts as SVG, for a page and as a file, with any names in them."""

from datetime import datetime
from xml.etree import ElementTree

import pytest
from factories import outcome, score_rows
from strangers import HOSTILE

from tasks.comparing.trend import Point, trend_charts
from tasks.presentation import charts
from tasks.protocols import display_of

ELEMENTS = {"svg", "g", "path", "line", "rect", "circle", "text", "title"}
NAMESPACE = "{http://www.w3.org/2000/svg}"


def test_hostile_names_become_text_only() -> None:
    names = [*HOSTILE[-4:], "a'b\"\\n<svg onload=alert(1)>]]>{{x}} datum.y | 図", "\x00\x1b\ud800"]
    rows = score_rows(outcome("s", category=name, candidate=name) for name in names)
    moments = [datetime.fromisoformat(f"2026-09-0{day}") for day in (1, 2)]
    series = [[Point(name, "overall", moment, name, 50.0, 1, 99, name) for moment in moments] for name in names]
    file = display_of("diagram").chart(rows).as_file()
    assert len(file) < 60_000
    for drawn in (file, *trend_charts(series)):
        root = ElementTree.fromstring(drawn)
        assert {element.tag.removeprefix(NAMESPACE) for element in root.iter()} <= ELEMENTS
        assert not {name for element in root.iter() for name in element.attrib if name.startswith(("on", "style"))}
        assert drawn == file or (root.get("role") == "img" and len(root.get("aria-label", "")) > 30)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (45, 55, [44, 46, 48, 50, 52, 54, 56]),
        (15, 50, [10, 20, 30, 40, 50]),
        (50, 50, [50, 50.2, 50.4, 50.6, 50.8, 51]),
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (8.21, 8.25, [8.21, 8.22, 8.23, 8.24, 8.25]),
    ],
)
def test_axis_ticks_are_round_and_enclose_the_data(low: float, high: float, found: list[float]) -> None:
    assert charts.round_ticks(low, high) == pytest.approx(found)
