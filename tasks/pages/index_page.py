"""The index of a store as one HTML page: a card for every flow as it is now, and a table of all evaluations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from tasks.comparing.trend import Point, breaks
from tasks.comparing.wording import in_brief
from tasks.pages.cards import split
from tasks.pages.index_data import Card, Index, Line, Place, Worst
from tasks.pages.page import SITE_STYLE, rendered, stamp
from tasks.pages.page_names import page_name
from tasks.pages.queries import corrected_words, people_in_brief
from tasks.presentation import wording
from tasks.presentation.wording import Scored, coverage_words, interval_words, score_words
from tasks.protocols import display_of
from tasks.statistics.intervals import FEWEST
from tasks.statistics.scores import HIGHEST, HIGHEST_GRADE, ScoreRow
from tasks.text import bounded, enumerated, number_of, number_words, one_line

LONGEST_NAME = 60
"""Longest name shown, in characters; the evaluation's page has a longer one whole."""
LONGEST_ALARM = 400
FIRST = 300
"""Number of evaluations that the table lays out at once; a button shows the others, and search finds them."""
LONGEST_REASON = 120
MOST_NAMED = 3
"""Most candidates named in a sentence."""
WIDTH, HEIGHT, EDGE = 120, 24, 4
"""Size of a trend in units of its SVG, and distance of the outermost points from its edges."""
COLUMNS = ("begun (UTC)", "flow", "candidate", "score", "95% interval", "scored", "judge", "judge status", "cost")
CORRECTED = "corrected by people"
"""Last column, where people have corrected any score."""
TRUST = {"GREEN": "passed its controls", "AMBER": "its controls leave doubts", "RED": "failed its controls"}


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
    judged = sum(each.line.score.n for each in card.places if each.line.score)
    return {
        "flow": newest.flow,
        "page": page,
        "when": f"{newest.started_at:%Y-%m-%d %H:%M} UTC",
        "about": f"{one_line(newest.dataset, LONGEST_NAME)}, {judged:,} {display.counted}",
        "is_red": "RED" in newest.status,
        "verdicts": [tag + _verdict([place.line for place in its]) for tag, its in groups],
        "facts": [*_facts(card)],
        "alarms": [one_line(words, LONGEST_ALARM) for words in card.alarms],
        "level": display.level,
        "scale": display.scale.partition(";")[0],
        "groups": [(tag, [_row(each, newest) for each in its]) for tag, its in groups],
        "notes": [*_notes(card.places)],
        "others": ", ".join(bounded(names[:MOST_NAMED], len(names))),
        "worst": [_worst(each, page, several, pictures) for each in card.worst],
    }


def _verdict(lines: Sequence[Line]) -> str:
    """Return a sentence: which candidate scores higher, or how the only one does."""
    rows = [line.score for line in lines if line.score and line.score.score is not None]
    if len(rows) < 2:
        return _alone(rows[0], lines[0].flow) if rows else "Nothing is scored"
    best = [row for row in rows if row.vs_best is None]
    if len(best) > 1:
        return f"{_named(rows)} are not compared: `jury compare` says why"
    lower = [row for row in rows if row.vs_best_high is not None and row.vs_best_high < 0]
    higher = [row for row in rows if row.vs_best_low is not None and row.vs_best_low > 0]
    rest = [row for row in rows if row not in (*best, *lower, *higher)]
    found = [f"{_named(best)} scores higher than {_named(lower)}: {_differences(lower, -1)}"] * bool(lower)
    found += [f"{_named([row])} scores higher than {_named(best)}: {_differences([row], 1)}" for row in higher]
    if rest:
        n, of = min((row.vs_best_n or 0, row.vs_best_of) for row in rest)
        few = ", too few to tell" if n < FEWEST else ""
        words = f"o difference shown between {_named([*best, *rest])} (at n = {wording.pairs_words(n, of)}{few})"
        found.append(("n" if found else "N") + words)
    return "; ".join(found) + f" (adjusted for choosing among {rows[-1].vs_best_among})" * (len(rows) > 2)


def _named(rows: Sequence[Scored]) -> str:
    names = [one_line(row.candidate, LONGEST_NAME) for row in rows[:MOST_NAMED]]
    return enumerated([*names, *[f"{len(rows) - MOST_NAMED} more"] * (len(rows) > MOST_NAMED)])


def _differences(rows: Sequence[Scored], sign: int) -> str:
    """Return the differences from the best, or with the sign -1 of the best from these, each with its interval."""
    found: list[str] = []
    for row in rows[:MOST_NAMED]:
        ends = (row.vs_best_low or 0.0, row.vs_best_high or 0.0)
        low, high = sorted(sign * end for end in ends)
        found.append(wording.change_words(sign * (row.vs_best or 0.0), low, high, row.decimals))
    return enumerated(found)


def _alone(row: Scored, flow: str) -> str:
    """Describe the only candidate: against the reference score, if its kind of judging has one."""
    name, level = one_line(row.candidate, LONGEST_NAME), display_of(flow).level
    if not level:
        return f"{name} scores {score_words(row)} {display_of(flow).scale}"
    if row.ci_low is None or row.ci_high is None:
        return f"Too few samples to tell {name} from the {level.name} figures (at n = {row.scored})"
    if row.ci_low <= level.score <= row.ci_high:
        return f"No difference shown between {name} and the {level.name} figures (at n = {row.scored})"
    side, score = "above" if row.ci_low > level.score else "below", wording.score_in_full(row)
    return f"{name} scores {side} the {level.name} figures: {score}, where {level.name} is {level.score:g}"


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


def _row(place: Place, newest: Line) -> dict[str, Any]:
    """Return a candidate for the template, with its score and interval in percent of the axis."""
    line, row = place.line, place.line.score
    top = HIGHEST if isinstance(row, ScoreRow) else HIGHEST_GRADE
    ends = (row.score, row.ci_low, row.ci_high) if row else (None,) * 3
    return {
        "name": one_line(line.candidate, LONGEST_NAME),
        "since": f"{line.started_at:%Y-%m-%d}" if line.run_id != newest.run_id else "",
        "score": score_words(row) if row else "nothing scored",
        "interval": interval_words(row) if row else "",
        "places": [None if end is None else round(100 * end / top, 1) for end in ends],
    }


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


def _worst(one: Worst, page: str, several: bool, pictures: Mapping[str, str]) -> dict[str, str]:
    """Return a sample for the template, with the judge's conclusion."""
    of = f"&candidate={quote(one.candidate, safe='')}" if several and len(one.candidate) <= LONGEST_NAME else ""
    wins = f"{one.overall} wins: " if one.overall in ("Model", "Human") else ""
    return {
        "name": one_line(one.sample_id, LONGEST_NAME),
        "of": f" of {one_line(one.candidate, LONGEST_NAME)}" if several else "",
        "words": one_line(wins + split(one.words)[-1][1], LONGEST_REASON),
        "href": f"{page}#sample={quote(one.sample_id[:LONGEST_REASON], safe='')}{of}" if page else "",
        "picture": pictures.get(one.picture or "", ""),
    }


def sparkline(points: Sequence[Point]) -> Markup:
    """Draw a trend as a small line of SVG without axes; empty if it has fewer than two points.

    Args:
        points: scored ones, oldest first. The line has a gap where evaluations do not compare.
    """
    if len(points) < 2:
        return Markup("")
    scores = [point.score or 0.0 for point in points]
    low, reach = min(scores), (max(scores) - min(scores)) or 1.0
    step = (WIDTH - 2 * EDGE) / (len(points) - 1)
    places = [
        (round(EDGE + at * step, 1), round(HEIGHT - EDGE - (score - low) / reach * (HEIGHT - 2 * EDGE), 1))
        for at, score in enumerate(scores)
    ]
    begins = [not at or point.break_reason is not None for at, point in enumerate(points)]
    line = " ".join(f"{'M' if begin else 'L'}{x} {y}" for begin, (x, y) in zip(begins, places, strict=True))
    x, y = places[-1]
    shape = f'class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true"'
    return Markup(f'<svg {shape}><path class="line" d="{line}"/><path class="dot" d="M{x} {y}h0"/></svg>')


def _trend_words(points: Sequence[Point]) -> str:
    """Describe the line: its first and last score, and its newest gap."""
    ends = " to ".join(f"{number_words(each.score)} on {each.started_at:%Y-%m-%d}" for each in (points[0], points[-1]))
    gap = ""
    if gaps := breaks(points):
        why = one_line(gaps[-1].break_reason or "", LONGEST_REASON)
        gap = f"; {number_of(len(gaps), 'gap')}, the newest before {gaps[-1].started_at:%Y-%m-%d} ({why})"
    return f"{len(points)} evaluations: {ends}{gap}"
