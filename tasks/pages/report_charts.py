"""The charts of a report, as SVG within its page."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from tasks.comparing.trend import trend_chart
from tasks.pages.report_data import Evaluation
from tasks.presentation.chart_style import Chart
from tasks.presentation.drawing import svgs


class Drawings(NamedTuple):
    """The charts of one evaluation."""

    scores: dict[str, Markup]
    """By grouping: `all`, `category`, `difficulty`; nothing where nothing was judged."""
    trends: list[Markup]
    """In the order of the evaluation's trends."""


def draw(evaluations: Sequence[Evaluation]) -> list[Drawings]:
    """The charts of all evaluations of a page, drawn by one process.

    Raises:
        RuntimeError: a chart cannot be drawn.
    """
    scores = [_score_charts(one) for one in evaluations]
    trends = [[trend_chart([series]) for series in one.trends()] for one in evaluations]
    # An SVG of `svgs` is made of elements that draw, with its texts escaped.
    drawn = map(
        Markup, svgs([chart for two in zip(scores, trends, strict=True) for chart in (*two[0].values(), *two[1])])
    )
    return [
        Drawings({grouping: next(drawn) for grouping in by_grouping}, [next(drawn) for _ in series])
        for by_grouping, series in zip(scores, trends, strict=True)
    ]


def _score_charts(one: Evaluation) -> dict[str, Chart]:
    drawn = ("all", *one.groupings()) if one.scores else ()
    return {grouping: one.display.chart(one.scores, grouping) for grouping in drawn}
