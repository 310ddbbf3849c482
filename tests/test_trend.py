"""Trends: the points of a run's series, breaks with their reasons, and the chart."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from factories import WON, figures, finished, image, page_trend

from tasks.comparing.trend import BREAK, Point, breaks, series_of, trend_charts
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.protocols.display import Level
from tasks.records import RunStart

NIGHT = datetime(2026, 9, 1, 3, tzinfo=UTC).replace(tzinfo=None)  # naive, as returned by the history
PROTOCOL = {"temperature": "1", "prompt aesthetics": "a", "model asked": "x", "model answered": "x-1"}


def night(store: Path, day: int, protocol: Any = None, **changes: Any) -> RunStart:
    """Write a finished run of eight won samples; its protocol key depends on its protocol."""
    followed = {**PROTOCOL, **(protocol or {})}
    names = changes.get("candidates", ["alpha"])
    rows = [row for name in names for row in figures(*[WON] * 8, candidate=name)]
    if changes.get("flow") == "colors":
        rows = [image(f"{tag}{number}/0", tag=tag) for tag in changes["dimensions"] for number in range(8)]
    key = "".join(followed[name][:1] for name in sorted(followed) if name != "model asked").ljust(64, "0")
    ended = {"protocol": followed, "protocol_key": key}
    return finished(store, f"202611{day}T030000000-diagram-0000{day}", rows, ended=ended, **changes)


def test_break_names_the_difference_from_the_previous_run(tmp_path: Path) -> None:
    night(tmp_path, 10)
    night(tmp_path, 11, {"model asked": "y"})
    night(tmp_path, 12, {"prompt aesthetics": "b"})
    night(tmp_path, 13, {"prompt aesthetics": "b", "temperature": "0", "not sent": "detail"}, dataset_key="e" * 64)
    night(tmp_path, 14, {"prompt aesthetics": "c"}, calls=0)
    night(tmp_path, 15, {"prompt aesthetics": "b", "temperature": "0", "not sent": "detail"}, dataset_key="e" * 64)
    land(tmp_path)
    found = query(tmp_path, "SELECT day(started_at), comparable, break_reason FROM trend WHERE dimension = 'overall'")
    assert found.rows == [
        (10, None, None), (11, True, None), (12, False, "prompt aesthetics"),
        (13, False, "dataset, not sent, temperature"), (15, True, None),
    ]  # fmt: skip


def test_series_joins_equal_flow_dataset_judge_prompt_set_and_candidates(tmp_path: Path) -> None:
    night(tmp_path, 10)
    for day, other in enumerate(({"dataset": "o"}, {"judge": "o"}, {"prompt_set": "o"}, {"candidates": ("o",)}), 11):
        night(tmp_path, day, **other)  # pyright: ignore
    last = night(tmp_path, 20, {"temperature": "0"})
    land(tmp_path)
    found = page_trend(tmp_path, last.run_id, "overall")
    points = [(point.started_at.day, point.dimension, point.score, point.break_reason) for point in found]
    assert points == [(10, "overall", 100.0, None), (20, "overall", 100.0, "temperature")]


def test_image_flow_has_a_series_for_each_tag(tmp_path: Path) -> None:
    tags = {"flow": "colors", "dimensions": ("colors", "color_attr"), "parameters": {"threshold": 7.0}}
    night(tmp_path, 10, **tags)
    last = night(tmp_path, 11, **tags)
    land(tmp_path)
    found = page_trend(tmp_path, last.run_id, "colors", "color_attr")
    assert [point.dimension for point in found] == ["colors"] * 2 + ["color_attr"] * 2


def series(*scores: float, broken: int = 0, candidate: str = "alpha", reason: str = "prompt aesthetics") -> list[Point]:
    points = [(NIGHT + timedelta(days=day), f"run{day}", score) for day, score in enumerate(scores, 1)]
    ends = [(score - 5, score + 5, reason if day == broken else None) for day, score in enumerate(scores, 1)]
    return [Point(candidate, "overall", *point, *end) for point, end in zip(points, ends, strict=True)]


def test_chart_breaks_between_incomparable_evaluations_with_the_reason() -> None:
    points = series(*[50.0] * 6, broken=3)
    points[3] = points[3]._replace(score=None, break_reason="temperature")
    points[4] = points[4]._replace(score=None, break_reason="prompt aesthetics")
    [found] = series_of(points)
    [chart] = trend_charts([found])
    lines = [line for line in marks(chart, "path") if line.get("fill") == "none"]
    assert [line.get("d", "").count("L") for line in lines] == [1, 0, 0], "two points joined, two single ones"
    assert [point.break_reason for point in breaks(found)] == ["prompt aesthetics", "temperature, prompt aesthetics"]
    dots = [float(dot.get("cx", "")) for dot in marks(chart, "circle")]
    dashed = [float(line.get("x1", "")) for line in marks(chart, "line") if line.get("stroke") == BREAK]
    assert dashed == pytest.approx([(dots[1] + dots[2]) / 2, (dots[2] + dots[3]) / 2], abs=0.1)
    assert series_of(points[:1]) == []


def marks(chart: str, kind: str) -> list[ElementTree.Element]:
    return [*ElementTree.fromstring(chart).iter(kind)]


def texts(chart: str) -> list[str]:
    return [each.text or "" for each in marks(chart, "text")]


def test_panels_share_a_scale_with_the_human_level() -> None:
    two = [series(20.0, 22.0), series(35.0, 30.0, 31.0, candidate="beta")]
    charts = trend_charts(two, Level("Human", 50.0))
    axes = [[words for words in texts(chart) if "overall" not in words] for chart in charts]
    times = ["09-02 03:00", "09-02 19:00", "09-03 11:00", "09-04 03:00"]
    assert axes[0] == axes[1] == ["10", "20", "30", "40", "50", *times, "Human 50"]
    alone = [texts(*trend_charts([each])) for each in two]
    assert alone[0][1:] != alone[1][1:] and "Human 50" not in alone[0]


def test_chart_has_its_numbers_as_text_and_shows_the_date_of_a_break() -> None:
    [chart] = trend_charts([series(50.0, 60.0, broken=2)])
    assert "2026-09-03 prompt aesthetics" in texts(chart)
    assert ElementTree.fromstring(chart).get("aria-label") == (
        "Score over time (UTC), with its 95% interval. alpha: overall: 2026-09-02 03:00 50.0 [45.0, 55.0]; "
        "broken by another prompt aesthetics, 2026-09-03 03:00 60.0 [55.0, 65.0]."
    )


def test_chart_marks_a_drop_below_the_baseline() -> None:
    points = [point._replace(baseline_score=52.0, dropped=day > 2) for day, point in enumerate(series(*[50.0] * 4), 1)]
    chart, quiet = trend_charts([points, [point._replace(dropped=False) for point in points]])
    assert BREAK in chart and BREAK not in quiet
    assert "50.0 [45.0, 55.0] dropped from 52.0" in chart
