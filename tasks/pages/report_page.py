"""Evaluations as one HTML file that opens anywhere, with no server and no network.

Owns its charts, drawn as SVG within it; that it is safe is for `self_contained`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, cast

from markupsafe import Markup

from tasks.comparing import wording as comparison_words
from tasks.comparing.trend import breaks, joints, judge_changes, shared_scales, trend_chart
from tasks.controls.status import status_lines
from tasks.files import write_whole
from tasks.forgetting.keeping import why_missing
from tasks.pages.newest_table import HEADER, newest_table
from tasks.pages.rate_tables import EXPLAINED, published_words, rate_grid
from tasks.pages.report_data import MOST_CHANGES, Evaluation
from tasks.pages.report_pictures import thumbnails
from tasks.pages.self_contained import rendered, stamp
from tasks.pages.without_pictures import LEFT_OUT, NEVER, may_have_pictures
from tasks.passport.wording import MATCHED
from tasks.presentation import wording
from tasks.presentation.chart_style import Chart
from tasks.presentation.drawing import svgs


class Drawings(NamedTuple):
    """The charts of one evaluation."""

    scores: dict[str, Markup]
    """By grouping: `all`, `category`, `difficulty`; nothing where nothing was judged."""
    trends: list[Markup]
    """In the order of the evaluation's trends."""


def write_page(
    store: Path, evaluations: Sequence[Evaluation], target: Path, in_site: bool = False, with_pictures: bool = True
) -> int:
    """Write the report of these evaluations, at least one, with the pictures that the store keeps.

    Args:
        in_site: it is the store's, beside its other pages and as private as they are.
        with_pictures: whether it may hold any, if any page may; a page without says so.

    Returns:
        The bytes of the file.

    Raises:
        InputError: what `may_have_pictures` raises.
        OSError: the file cannot be written.
        RuntimeError: a chart cannot be drawn.
    """
    left_out = LEFT_OUT if not with_pictures else "" if may_have_pictures() else NEVER
    cards = () if left_out else (card for one in evaluations for card in one.cards)
    hashes = [sha256 for card in cards for sha256 in card.pictures.values() if sha256]
    found = thumbnails(store, hashes)
    began = datetime.fromisoformat(evaluations[-1].about["started_at"]).replace(tzinfo=UTC)
    removed = why_missing(store, began) if len(found) < len({*hashes}) else ""
    data = page(evaluations, found, in_site, left_out or removed).encode("utf-8", "replace")
    write_whole(target, data, private=in_site)
    return len(data)


def page(evaluations: Sequence[Evaluation], pictures: dict[str, str], in_site: bool = False, lacks: str = "") -> str:
    """The report as HTML.

    Args:
        evaluations: the newest first; the others stand folded up beneath it, and a table of all above it.
        pictures: SHA-256 -> a JPEG in base64.
        in_site: whether it stands beside the store's other pages, and may lead to them.
        lacks: what the page says that it does not hold, a sentence; empty: nothing.
    """
    first = evaluations[0]
    return rendered(
        "template.html.j2",
        "page.js",
        {
            "title": f"{first.flow}: {' + '.join(first.about['candidates'])}",
            "shows": stamp(),
            "in_site": in_site,
            "lacks": lacks,
            "evaluations": list(zip(evaluations, _draw(evaluations), strict=True)),
            "newest": [*newest_table(evaluations)] if len(evaluations) > 1 else [],
            "before": [[each.model_dump() for each in one.before] for one in evaluations],
            "samples": [card.model_dump(exclude_defaults=True) for one in evaluations for card in one.cards],
            "pictures": pictures,
            **_HELPERS,
        },
    )


def _draw(evaluations: Sequence[Evaluation]) -> list[Drawings]:
    """The charts of all evaluations of a page, drawn by one process.

    Raises:
        RuntimeError: a chart cannot be drawn.
    """
    scores = [_score_charts(one) for one in evaluations]
    trends = [_trend_charts(one) for one in evaluations]
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


def _trend_charts(one: Evaluation) -> list[Chart]:
    """A chart each, which the page puts beside each other as far as there is room, so all have the same scales."""
    series = one.trends()
    scales = shared_scales(series, one.display.level) if series else None
    return [trend_chart([each], scales=scales) for each in series]


def _when(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}"


def _cell(value: object, decimals: int = 2) -> str:
    """A number or word of a table; a dash where there is none."""
    match value:
        case None:
            return "–"
        case float():
            return f"{value:,.{decimals}f}"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{name} {_cell(each)}" for name, each in cast(dict[str, object], value).items())
        case _:
            return str(value)


_HELPERS: dict[str, object] = {
    "words": wording,
    "compared": comparison_words,
    "breaks": breaks,
    "joints": joints,
    "judge_changes": judge_changes,
    "matched": MATCHED,
    "status_lines": status_lines,
    "rate_grid": rate_grid,
    "published_words": published_words,
    "explained": EXPLAINED,
    "most_changes": MOST_CHANGES,
    "newest_header": HEADER,
    "when": _when,
    "cell": _cell,
}
"""What the template asks of Python."""
