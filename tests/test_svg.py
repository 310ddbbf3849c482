"""Drawings in a page: what is kept of what the engine writes, and that no name in a chart becomes markup."""

from datetime import datetime
from xml.etree import ElementTree

import pytest
from factories import outcome, score_rows
from strangers import HOSTILE

from tasks.comparing.trend import Point, trend_chart
from tasks.kinds.verdict_chart import verdict_chart
from tasks.presentation.drawing import svgs
from tasks.presentation.svg import inline_svg

DRAWS = {"svg", "g", "path", "line", "text", "tspan", "title"}
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9">'

pytestmark = pytest.mark.usefixtures("drawn_here")


def kept(inner: str) -> str:
    return inline_svg(f"{HEAD}{inner}</svg>", "words")


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


@pytest.mark.parametrize("drawing", ["", "no XML", "<html/>"])
def test_what_is_no_svg_is_a_fault(drawing: str) -> None:
    with pytest.raises(RuntimeError, match="the engine drew"):
        inline_svg(drawing, "")


def test_hostile_names_are_only_text() -> None:
    names = [*HOSTILE[-4:], "a'b\"\\n<svg onload=alert(1)>]]>{{x}} datum.y | 図", "\x00\x1b\ud800"]
    rows = score_rows(outcome("s", category=name, candidate=name) for name in names)
    moments = [datetime.fromisoformat(f"2026-09-0{day}") for day in (1, 2)]
    series = [[Point(name, "overall", moment, name, 50.0, 1, 99, name) for moment in moments] for name in names]
    drawn = svgs([verdict_chart(rows), verdict_chart(rows, ["a note"], "category"), trend_chart(series)])
    for drawing in drawn:
        root = ElementTree.fromstring(drawing)
        assert {element.tag for element in root.iter()} <= DRAWS
        assert not {name for element in root.iter() for name in element.attrib if name.startswith(("on", "style"))}
        assert root.get("role") == "img" and len(root.get("aria-label", "")) > 30
        assert len(drawing) < 60_000


def test_neutral_parts_have_the_colour_of_the_text_around_them() -> None:
    [drawing] = svgs([verdict_chart(score_rows([outcome("s1"), outcome("s2", "-MMM", None)]), ["a note"])])
    root = ElementTree.fromstring(drawing)
    written = [element.get("fill") for element in root.iter("text")]
    assert "currentColor" in written and {*written} <= {"currentColor", "white", "black"}
    assert 'fill="#fff' not in drawing.lower()
