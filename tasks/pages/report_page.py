"""Page of an evaluation: one HTML file that opens anywhere, with no server and no network."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from urllib.parse import quote

from tasks.comparing import verdict as verdicts
from tasks.comparing.trend import breaks, trend_charts
from tasks.errors import InputError
from tasks.files import drafted, read_file, remove_folder, rewrite_file
from tasks.judging.results import status_lines
from tasks.ledger.removals import beside, why_missing
from tasks.pages import report_facts as facts
from tasks.pages import run_summary
from tasks.pages.comparison_page import command_of
from tasks.pages.page import BESIDE, SITE_STYLE, WITHIN, embedded, fitted, pieces, stamp, thumbnails
from tasks.pages.page_names import FOLDER, page_name, since_name
from tasks.pages.report_data import Evaluation
from tasks.presentation import wording
from tasks.text import number_of, number_words

LEFT_OUT = "Pictures are left out of this page (--no-pictures)."


def leaves_out_pictures(store: Path, run_id: str) -> bool:
    """Return whether the page of an evaluation leaves pictures out; InputError or OSError: it has no page."""
    return f">{LEFT_OUT}<".encode() in read_file(store, f"{FOLDER}/{page_name(run_id)}")


def write_page(
    store: Path, evaluation: Evaluation, target: Path, in_site: bool = False, with_pictures: bool = True
) -> int:
    """Write the page of an evaluation, with the pictures that the store keeps; those of a large one lie beside it.

    Args:
        in_site: whether it is the store's, beside its other pages and as private as they are.
        with_pictures: whether it may hold any; a page without pictures reports that.

    Returns:
        Size of the file in bytes.

    Raises:
        InputError: the page is the store's, and the folder of pages is a link; or the folder of pictures is one.
        OSError: the file cannot be written.
    """
    hashes = evaluation.pictures if with_pictures else set[str]()
    kept = thumbnails(store, hashes)
    lacks = "" if with_pictures else LEFT_OUT
    if len(kept) < len(hashes):
        lacks = why_missing(datetime.fromisoformat(evaluation.about["started_at"]).replace(tzinfo=UTC))
    folder = beside(target.name) if evaluation.beside and kept else ""

    def write(name: str, pieces: Iterable[bytes]) -> None:
        if in_site:
            rewrite_file(store, f"{FOLDER}/{name}", pieces)
            return
        with drafted(target.parent / name) as draft, draft.open("wb") as file:
            file.writelines(pieces)

    if in_site:
        remove_folder(store, f"{FOLDER}/{beside(target.name)}")
    elif folder:
        if (target.parent / folder).is_symlink():
            raise InputError(f"{target.parent / folder}: refused: it is a link; nothing behind it is changed")
        (target.parent / folder).mkdir(exist_ok=True)
    for sha256, data in fitted(kept) if folder else ():
        write(f"{folder}/{sha256}.jpg", [data])
    first = evaluation.first_pictures
    kept = dict(sorted(kept.items(), key=lambda each: each[0] not in first))
    if folder:
        pictures = ((sha256, f"{quote(folder)}/{sha256}.jpg") for sha256 in kept)
    else:
        pictures = ((sha256, f"data:image/jpeg;base64,{data}") for sha256, data in embedded(kept))
    whole = page(evaluation, pictures, in_site, lacks, folder)
    write(target.name, (piece.encode("utf-8", "replace") for piece in whole))
    return target.stat().st_size


def page(
    evaluation: Evaluation,
    pictures: Iterable[tuple[str, str]] = (),
    in_site: bool = False,
    lacks: str = "",
    folder: str = "",
) -> Iterator[str]:
    """Yield the page as HTML, piece after piece.

    Args:
        pictures: SHA-256 and address of each; those that the page shows first come first.
        in_site: whether it lies beside the store's other pages, and may link to them.
        lacks: sentence on content that the page lacks; empty: it lacks nothing.
        folder: name of the folder beside the page with its pictures; empty: the page holds them.
    """
    one, rest = evaluation, iter(pictures)
    groupings = {row.grouping for row in one.scores}
    taken = dict(islice(rest, len(one.first_pictures)))
    first = {sha256: address for sha256, address in taken.items() if sha256 in one.first_pictures}
    others = chain(((sha256, address) for sha256, address in taken.items() if sha256 not in first), rest)
    return pieces(
        "report.html.j2",
        "report.js",
        {
            "title": f"{one.flow}: {' + '.join(one.about['candidates'])}",
            "shows": stamp(),
            "in_site": in_site,
            "lacks": lacks,
            "beside": quote(folder),
            "one": one,
            "notices": one.notices or facts.unscored_notice(one.scores, one.answers["statuses"]),
            "groupings": [each for each in ("category", "difficulty") if each in groupings],
            "verdict": verdicts.verdict(one.display, one.scores, one.red),
            "chips": facts.chips(one.display, one.scores, one.controls, one.about, one.answers["cost"]),
            "first": first,
            "trends": [*zip(one.trends, trend_charts(one.trends, one.display.level), strict=True)],
            "samples": one.samples,
            "pictures": () if folder else others,
            **_HELPERS,
        },
        [SITE_STYLE, "report.css"],
        pictures=BESIDE if folder else WITHIN,
    )


def _when(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}"


_HELPERS: dict[str, object] = {
    "words": wording,
    "call_lines": facts.call_lines,
    "dimension_words": facts.dimension_words,
    "group_words": facts.group_words,
    "rate_facts": facts.rate_facts,
    "status_words": facts.status_words,
    "summary": run_summary,
    "command_of": command_of,
    "compared": verdicts,
    "number_of": number_of,
    "number_words": number_words,
    "quote": partial(quote, safe=""),
    "breaks": breaks,
    "since_name": since_name,
    "status_lines": status_lines,
    "when": _when,
}
"""Functions that the template uses, and modules of such."""
