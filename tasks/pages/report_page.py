"""Page of an evaluation: one HTML file that opens anywhere, with no server and no network."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from tasks.comparing import wording as comparison_words
from tasks.comparing.trend import breaks, shared_scales, trend_chart
from tasks.files import drafted, rewrite_file
from tasks.judging.results import status_lines
from tasks.ledger.removals import why_missing
from tasks.pages.page import SITE_STYLE, embedded, pieces, stamp, thumbnails
from tasks.pages.page_names import FOLDER, since_name
from tasks.pages.report_data import MOST_CHANGES, Evaluation
from tasks.pages.run_summary import rate_grid, rate_notes
from tasks.passport.lines import MATCHED
from tasks.presentation import wording

LEFT_OUT = "Pictures are left out of this page (--no-pictures)."


def write_page(
    store: Path, evaluation: Evaluation, target: Path, in_site: bool = False, with_pictures: bool = True
) -> int:
    """Write the page of an evaluation, with the pictures that the store keeps.

    Args:
        in_site: whether it is the store's, beside its other pages and as private as they are.
        with_pictures: whether it may hold any; a page without pictures reports that.

    Returns:
        Size of the file in bytes.

    Raises:
        InputError: the page is the store's, and the folder of pages is a link.
        OSError: the file cannot be written.
    """
    hashes = evaluation.pictures if with_pictures else set[str]()
    kept = thumbnails(store, hashes)
    lacks = "" if with_pictures else LEFT_OUT
    if len(kept) < len(hashes):
        lacks = why_missing(datetime.fromisoformat(evaluation.about["started_at"]).replace(tzinfo=UTC))
    data = (piece.encode("utf-8", "replace") for piece in page(evaluation, embedded(kept), in_site, lacks))
    if in_site:
        rewrite_file(store, f"{FOLDER}/{target.name}", data)
        return target.stat().st_size
    with drafted(target) as draft, draft.open("wb") as file:
        file.writelines(data)
    return target.stat().st_size


def page(
    evaluation: Evaluation, pictures: Iterable[tuple[str, str]] = (), in_site: bool = False, lacks: str = ""
) -> Iterator[str]:
    """Yield the page as HTML, piece after piece.

    Args:
        pictures: SHA-256 and a JPEG in base64, each.
        in_site: whether it lies beside the store's other pages, and may link to them.
        lacks: sentence on content that the page lacks; empty: it lacks nothing.
    """
    return pieces(
        "report.html.j2",
        "report.js",
        {
            "title": f"{evaluation.flow}: {' + '.join(evaluation.about['candidates'])}",
            "shows": stamp(),
            "in_site": in_site,
            "lacks": lacks,
            "one": evaluation,
            "drawings": _draw(evaluation),
            "samples": evaluation.samples,
            "pictures": pictures,
            **_HELPERS,
        },
        [SITE_STYLE, "report.css"],
    )


def _draw(one: Evaluation) -> dict[str, object]:
    """Draw all charts of the page: `scores` by grouping, `trends` in the order of the evaluation's."""
    series = one.trends()
    groupings = ("all", *one.groupings()) if one.scores else ()
    # The page puts trends beside each other as far as there is room, so all have the same scales.
    scales = shared_scales(series, one.display.level) if series else None
    return {
        "scores": {each: one.display.chart(one.scores, each).on_page() for each in groupings},
        "trends": [trend_chart([each], scales=scales).on_page() for each in series],
    }


def _when(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}"


def _cell(value: object, decimals: int = 2) -> str:
    """Format a number or word of a table; a dash for None."""
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
    "since_name": since_name,
    "matched": MATCHED,
    "status_lines": status_lines,
    "rate_grid": rate_grid,
    "rate_notes": rate_notes,
    "most_changes": MOST_CHANGES,
    "when": _when,
    "cell": _cell,
}
"""Functions and values that the template uses."""
