"""The index of a store as one HTML page: a card for every flow as it is now, and a table of all evaluations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from tasks.comparing.verdict import in_brief, rank_candidates
from tasks.errors import InputError
from tasks.judging.results import TRUST
from tasks.pages.index_data import Card, Index, Line, Place
from tasks.pages.page import SITE_STYLE, embedded, rendered, stamp, thumbnails
from tasks.pages.page_names import page_name
from tasks.pages.queries import corrected_words, people_in_brief
from tasks.pages.report_page import leaves_out_pictures
from tasks.pages.unfinished import LONGEST_NAME, unfinished_part
from tasks.presentation import wording
from tasks.presentation.wording import coverage_words, interval_words, reasoning_parts, score_words
from tasks.protocols import display_of, protocol_of
from tasks.text import listed, number_of, number_words, one_line

LONGEST_ALARM = 400
FIRST = 300
"""Number of evaluations that the table lays out at once; a button shows the others, and search finds them."""
LONGEST_REASON = 120
CARD_PICTURE = 8_000
"""Most bytes of each picture on the index: about 300 pixels of a figure."""
WIDTH, HEIGHT, EDGE = 120, 24, 4
"""Size of a trend in units of its SVG, and distance of the outermost points from its edges."""
COLUMNS = ("begun (UTC)", "flow", "candidate", "score", "95% interval", "scored", "judge", "judge status", "cost")
CORRECTED = "corrected by people"
"""Last column, where people have corrected any score."""


def card_pictures(store: Path, index: Index) -> dict[str, str]:
    """Return the pictures of the cards by SHA-256, as far as the evaluation has a page that may show them, too."""
    hashes: set[str] = set()
    for card in index.cards:
        with suppress(InputError, OSError):
            if not leaves_out_pictures(store, card.newest.run_id):
                hashes |= {row["picture"] for row in card.worst if row["picture"]}
    return dict(embedded(thumbnails(store, hashes), CARD_PICTURE))


def index_page(index: Index, pages: Collection[str], pictures: Mapping[str, str] | None = None) -> str:
    """Return the index as HTML.

    Args:
        pages: names of the files beside the page.
        pictures: SHA-256 of a picture -> a small JPEG of it in base64; those of other samples are not shown.
    """
    corrects = any(line.people and corrected_words(line.people) for line in index.lines)
    return rendered(
        "index.html.j2",
        "index.js",
        {
            "shows": stamp(),
            "words": wording,
            "name": partial(one_line, longest=LONGEST_NAME),
            "unfinished": unfinished_part(index.unfinished, pages),
            "cards": [_card(card, pages, pictures or {}) for card in index.cards],
            "lines": [_cells(line, pages, corrects) for line in index.lines],
            "columns": [*COLUMNS, *[CORRECTED] * corrects],
            "first": FIRST,
            "shown": index.shown,
            "evaluations": index.evaluations,
        },
        [SITE_STYLE, "index.css"],
    )


def _cells(line: Line, pages: Collection[str], corrects: bool) -> dict[str, Any]:
    """Return a line of the table for the template; `numbers` maps a place in `words` to a sort key."""
    score, corrected = line.score, line.people["corrected"] if line.people else None
    return {
        "run_id": line.run_id,
        "page": _address(line, pages),
        # Identifies one of the evaluation's candidates in a command, where it is short enough for one.
        "candidate": line.candidate if len(line.candidate) <= LONGEST_NAME else "",
        "when": f"{line.started_at:%Y-%m-%d %H:%M}",
        "words": (
            *(line.flow, one_line(line.name, LONGEST_NAME)),
            *((score_words(score), interval_words(score), coverage_words(score)) if score else ("–", "", "")),
            *(one_line(line.judge, LONGEST_NAME), line.status, line.cost),
            *[corrected_words(line.people) if line.people else ""] * corrects,
        ),
        "numbers": {2: _sorted_by(line.value), 7: _sorted_by(line.price), 8: _sorted_by(corrected)},
    }


def _address(line: Line, pages: Collection[str]) -> str:
    """Return the address of an evaluation's page; empty if it is not there."""
    name = page_name(line.run_id)
    return quote(name) if name in pages else ""


def _sorted_by(value: float | None) -> str:
    return "-1" if value is None else f"{value:.6g}"


# Cards


def _card(card: Card, pages: Collection[str], pictures: Mapping[str, str]) -> dict[str, Any]:
    """Return a flow for the template."""
    newest, page, display = card.newest, _address(card.newest, pages), display_of(card.newest.flow)
    groups = [(f"{tag}: ", [*its]) for tag, its in groupby(card.places, key=lambda place: place.line.dimension)]
    groups = groups if len(groups) > 1 else [("", card.places)]
    several = len({each.line.candidate for each in card.places}) > 1
    names = [one_line(name, LONGEST_NAME) for name in card.others]
    return {
        "flow": newest.flow,
        "page": page,
        "when": f"{newest.started_at:%Y-%m-%d %H:%M} UTC",
        "about": f"{card.judged:,} {display.counted} of {one_line(newest.dataset, LONGEST_NAME)}",
        "is_red": "RED" in newest.status,
        "verdicts": [
            tag + rank_candidates(display, [place.line.score for place in its if place.line.score])
            for tag, its in groups
        ],
        "facts": [*_facts(card)],
        "alarms": [one_line(words, LONGEST_ALARM) for words in card.alarms],
        "level": display.level,
        "scale": display.scale,
        "highest": protocol_of(newest.flow).highest,
        "groups": [(tag, [place.line for place in its]) for tag, its in groups],
        "newest": newest,
        "notes": [*_notes(card.places)],
        "others": listed(names, 3) if names else "",
        "worst": [_worst(each, page, several, pictures) for each in card.worst],
    }


def _facts(card: Card) -> Iterator[tuple[str, str]]:
    """Yield class and words of each chip."""
    newest, rows = card.newest, [each.line.score for each in card.places if each.line.score]
    colour = newest.status.split()[-1]
    trust = f"{colour}, {TRUST[colour]}" if colour in TRUST else "not checked"
    yield colour, f"Judge {one_line(newest.judge, LONGEST_NAME)}: {trust}"
    scored, n = sum(row.scored for row in rows), sum(row.n for row in rows)
    if scored < n:
        yield "AMBER", f"{scored:,} of {n:,} scored"
    if not newest.measured:
        yield "AMBER", "Stopped at the budget" if newest.stopped else "Measured nothing new"
    yield "", f"Cost {newest.cost}"
    if card.alarms:
        yield "RED", number_of(len(card.alarms), "open alarm")


def _notes(places: Sequence[Place]) -> Iterator[dict[str, Any]]:
    """Yield the trend of each candidate, its change, and its score as corrected by people, as far as there are any."""
    for line, trend, since, change in places:
        said = [_trend_words(trend)] if len(trend) > 1 else []
        if since and change:
            said.append(f"since {since:%Y-%m-%d %H:%M}: {in_brief(change, line.flow)}")
        if line.people and (words := people_in_brief(line.people)):
            said.append(words)
        if said:
            yield {"name": one_line(line.name, LONGEST_NAME), "drawing": sparkline(trend), "said": said}


def _worst(row: Mapping[str, Any], page: str, several: bool, pictures: Mapping[str, str]) -> dict[str, str]:
    """Return a sample for the template, with the judge's conclusion."""
    candidate, sample_id = row["candidate"], row["sample_id"]
    of = f"&candidate={quote(candidate, safe='')}" if several and len(candidate) <= LONGEST_NAME else ""
    wins = f"{row['overall']} wins: " if row["overall"] in ("Model", "Human") else ""
    return {
        "name": sample_id + f" of {candidate}" * several,
        "words": one_line(wins + reasoning_parts(row["words"])[-1][1], LONGEST_REASON),
        "href": f"{page}#sample={quote(sample_id[:LONGEST_REASON], safe='')}{of}" if page else "",
        "picture": pictures.get(row["picture"], ""),
    }


def sparkline(lines: Sequence[Line]) -> Markup:
    """Draw a trend as a small line of SVG with a gap where evaluations do not compare; empty for fewer than two."""
    if len(lines) < 2:
        return Markup("")
    scores = [line.value or 0.0 for line in lines]
    low, reach = min(scores), (max(scores) - min(scores)) or 1.0
    step = (WIDTH - 2 * EDGE) / (len(lines) - 1)
    path, last = "", ""
    for at, (line, score) in enumerate(zip(lines, scores, strict=True)):
        last = f"{EDGE + at * step:.1f} {HEIGHT - EDGE - (score - low) / reach * (HEIGHT - 2 * EDGE):.1f}"
        path += f"{'L' if at and line.keys == lines[at - 1].keys else 'M'}{last}"
    shape = f'class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true"'
    return Markup(f'<svg {shape}><path class="line" d="{path}"/><path class="dot" d="M{last}h0"/></svg>')


def _trend_words(lines: Sequence[Line]) -> str:
    """Describe the line: its first and last score, and its newest gap."""
    first, *_, last = (f"{number_words(line.value)} on {line.started_at:%Y-%m-%d}" for line in lines)
    gaps = [(one, other) for one, other in pairwise(lines) if one.keys != other.keys]
    words = f"{len(lines)} evaluations: {first} to {last}"
    for one, other in gaps[-1:]:
        differs = "dataset" if one.keys[0] != other.keys[0] else "protocol"
        words += f"; {number_of(len(gaps), 'gap')}, the newest before {other.started_at:%Y-%m-%d}: another {differs}"
    return words
