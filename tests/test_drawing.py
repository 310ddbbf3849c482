"""Charts drawn by a process of their own: what comes back, what of it a page keeps, what is told when nothing can."""

import io
import os
import re
import subprocess
import sys
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

import pytest
from factories import outcome, score_rows
from PIL import Image
from strangers import HOSTILE

from tasks.comparing.trend import Point, trend_chart
from tasks.presentation import charts
from tasks.protocols import display_of
from tasks.protocols.display import Terms

BARS: dict[str, Any] = {
    "data": {"values": [{"name": "a", "n": 3}, {"name": "b", "n": 1}]},
    "mark": {"type": "bar", "color": "#ff0000"},
    "encoding": {"x": {"field": "n", "type": "quantitative"}, "y": {"field": "name", "type": "nominal"}},
    "width": 200,
}


def test_a_chart_is_drawn_with_twice_the_pixels_and_a_palette() -> None:
    image = Image.open(io.BytesIO(charts.png(BARS)))
    assert (image.format, image.mode) == ("PNG", "P")
    assert image.width > 400
    red = sum(n for n, color in image.convert("RGB").getcolors(1 << 20) or [] if color == (255, 0, 0))
    assert red > 400 * 20


def test_a_process_started_ahead_draws_the_next_chart_and_no_other() -> None:
    charts.warm_up()
    first = charts.png(BARS)
    assert charts.png(BARS) == first


def test_where_no_process_can_be_started_only_who_draws_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process() -> None:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(charts, "_start", no_process)
    monkeypatch.setattr(charts, "_waiting", [])
    charts.warm_up()
    words = "the chart could not be drawn: no process for it could be started: Cannot allocate memory"
    with pytest.raises(RuntimeError, match=f"^{words}$"):
        charts.png(BARS)


def test_a_chart_that_cannot_be_drawn_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"^the chart could not be drawn: .*TypeError.*$"):
        charts.png({"data": {"values": []}, "mark": "nonsense"})


def test_all_drawings_of_a_page_come_from_one_process_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    start = charts._start  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(charts, "_start", lambda: started.append(1) or start())
    drawn = charts.svgs([{**BARS, "description": f"chart {number}"} for number in range(3)])
    assert [re.search('aria-label="(.*?)"', svg)[1] for svg in drawn] == ["chart 0", "chart 1", "chart 2"]  # type: ignore
    assert len(started) == 1
    assert charts.svgs([]) == [] and len(started) == 1


def test_a_chart_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "PATIENCE_SECONDS", 1e-5)
    with pytest.raises(RuntimeError, match="the chart was not drawn within 1e-05 seconds"):
        charts.png(BARS)


def test_a_chart_loads_nothing() -> None:
    with pytest.raises(RuntimeError, match="could not be drawn"):
        charts.svgs([{**BARS, "data": {"url": "http://127.0.0.1:9/data.json"}}])


def test_a_process_that_is_never_needed_ends_with_its_parent() -> None:
    ahead = "from tasks.presentation import charts; charts.warm_up(); print(charts._waiting[0].pid)"
    done = subprocess.run([sys.executable, "-c", ahead], capture_output=True, text=True, timeout=60, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""


# Drawings in a page

CHART, NOTED = display_of("diagram").chart, Terms("diagram", "", 0.0)
DRAWS = {"svg", "g", "path", "line", "text", "tspan", "title"}
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9">'


def kept(inner: str) -> str:
    return charts.inline_svg(f"{HEAD}{inner}</svg>", "words")


@pytest.mark.parametrize(
    "inner",
    [
        "<script>alert(1)</script>",
        "<style>*{}</style>",
        "<foreignObject><b>x</b></foreignObject>",
        '<image xlink:href="http://x"/>',
        '<a href="javascript:alert(1)"><path d="M0,0" fill="red"/></a>',
        '<path d="M0,0h0v0h0Z"/>',
        '<path d="" fill="red"/>',
        '<g><path d="M0,0" fill="red" display="none"/></g>',
    ],
)
def test_what_does_not_draw_is_left_out(inner: str) -> None:
    assert kept(inner) == '<svg width="9" height="9" class="chart" role="img" aria-label="words" />'


@pytest.mark.parametrize(
    "attribute",
    [
        'onclick="alert(1)"', 'style="fill: red"', 'class="x"', 'id="x"', 'href="#x"', 'xlink:href="#x"',
        'stroke="url(#x)"', 'stroke="expression(&quot;x&quot;)"', 'font-family="x"',
    ],
)  # fmt: skip
def test_attributes_that_do_more_than_draw_are_left_out(attribute: str) -> None:
    assert '<path d="M0,0h9" fill="red" />' in kept(f'<path d="M0,0h9" fill="red" {attribute}/>')


def test_numbers_are_rounded_and_a_marks_words_become_its_tooltip() -> None:
    found = kept('<path d="M0,3.59999h18.0001" transform="translate(0.5,16.26)" fill="red" aria-label="a &lt;b>"/>')
    assert '<path d="M0,3.6h18" transform="translate(0.5,16.3)" fill="red"><title>a &lt;b&gt;</title></path>' in found


@pytest.mark.parametrize("drawn", ["", "no XML", "<html/>"])
def test_what_is_no_svg_is_a_fault(drawn: str) -> None:
    with pytest.raises(RuntimeError, match="the engine drew"):
        charts.inline_svg(drawn, "")


@pytest.mark.usefixtures("drawn_here")
def test_hostile_names_are_only_text() -> None:
    names = [*HOSTILE[-4:], "a'b\"\\n<svg onload=alert(1)>]]>{{x}} datum.y | 図", "\x00\x1b\ud800"]
    rows = score_rows(outcome("s", category=name, candidate=name) for name in names)
    moments = [datetime.fromisoformat(f"2026-09-0{day}") for day in (1, 2)]
    series = [[Point(name, "overall", moment, name, 50.0, 1, 99, name) for moment in moments] for name in names]
    drawn = charts.svgs([CHART(rows), CHART(rows, "category", NOTED), trend_chart(series)])
    for svg in drawn:
        root = ElementTree.fromstring(svg)
        assert {element.tag for element in root.iter()} <= DRAWS
        assert not {name for element in root.iter() for name in element.attrib if name.startswith(("on", "style"))}
        assert root.get("role") == "img" and len(root.get("aria-label", "")) > 30
        assert len(svg) < 60_000


@pytest.mark.usefixtures("drawn_here")
def test_neutral_parts_have_the_colour_of_the_text_around_them() -> None:
    [svg] = charts.svgs([CHART(score_rows([outcome("s1"), outcome("s2", "-MMM", None)]), terms=NOTED)])
    root = ElementTree.fromstring(svg)
    written = [element.get("fill") for element in root.iter("text")]
    assert "currentColor" in written and {*written} <= {"currentColor", "white", "black"}
    assert 'fill="#fff' not in svg.lower()
