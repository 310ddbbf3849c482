"""Page of a comparison of two evaluations, or of two candidates of one: the samples that changed, with pictures."""

import os
import shlex
from collections import Counter
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from tasks.comparing.comparison import Change, Comparison, Side
from tasks.comparing.verdict import difference_grid, notes, verdict_words, where_words
from tasks.files import write_file
from tasks.history.queries import as_json_rows, one_opening, query
from tasks.judging.results import control_rate, judge_status, red_words
from tasks.ledger.removals import why_missing
from tasks.pages.cards import LONGEST_TEXT, Card, Context, cards, cut, reasons_by_question
from tasks.pages.page import SITE_STYLE, embedded, rendered, stamp, thumbnails
from tasks.pages.page_names import FOLDER, comparison_name, folder_of, page_files, page_name
from tasks.pages.queries import ask, question
from tasks.presentation.wording import signed
from tasks.protocols import display_of, protocol_of
from tasks.text import counted, number_words, one_line

LONGEST_NAME, LONGEST_LABEL = 120, 40
LONGEST_REASON = 500
"""Longest reason of the judge and longest caption, in bytes."""
OTHER_ANSWERS = "same score, other answers"
SIDE = 320
"""Pixels of the longest side of a picture."""
_PAIRS = """
    WITH judged AS (
        SELECT evaluation_id, candidate, coalesce(nullif(prompt_id, ''), sample_id) AS unit, sample_id, score
        FROM outcomes JOIN shard_runs USING (run_id)
    )
    SELECT unit, b.sample_id, a.sample_id FROM judged b JOIN judged a USING (unit)
    WHERE b.evaluation_id = $1 AND b.candidate = $2 AND a.evaluation_id = $3 AND a.candidate = $4
        AND list_contains($5, unit)
    QUALIFY row_number() OVER (PARTITION BY unit ORDER BY a.sample_id = b.sample_id DESC,
        abs(a.score - b.score) DESC NULLS LAST, b.sample_id, a.sample_id) = 1"""
"""Query for a sample of either side for each unit; of a prompt with several images, the one that changed most."""


class Half(NamedTuple):
    """One side of the comparison on its page."""

    name: str
    side: Side
    page: str
    """Address of its evaluation's page; empty: there is none."""
    lacks: str
    """Reason why a picture of it is missing."""
    status: str
    """Worst status of its control samples."""
    red: str
    """Reason not to trust its scores; empty: there is none."""


class Changed(NamedTuple):
    """A changed sample, or one of a changed prompt, on both sides."""

    change: Change
    before: Card
    after: Card

    @property
    def has_same_picture(self) -> bool:
        """Return whether both sides are of one picture, so that only answers of the judge differ."""
        return own_picture(self.before) == own_picture(self.after) != ""

    @property
    def differing(self) -> dict[str, tuple[str, str]]:
        """Return dimension, tag or aspect -> the answers before and after, where they differ; most changed first."""
        before, after = answers(self.before), answers(self.after)
        names = [name for name in before if name in after and before[name][0] != after[name][0]]
        names.sort(key=lambda name: -abs(self.change.moved.get(name, 0)))
        return {name: (before[name][0], after[name][0]) for name in names}

    @property
    def most(self) -> str:
        """Return the dimension, tag or aspect whose answer changed most."""
        return next(iter(self.differing or answers(self.after)), "")


def direction(change: Change) -> str:
    """Return better, worse, or other answers: then the score is the same."""
    moved = change.after - change.before
    return "better" if moved > 0 else "worse" if moved < 0 else OTHER_ANSWERS


def own_picture(card: Card) -> str:
    """Return the SHA-256 of the candidate's picture; empty: it delivered none."""
    return [*card.pictures.values()][-1]


def answers(card: Card) -> dict[str, tuple[str, str]]:
    """Return dimension, tag or aspect -> the judge's answer and its conclusion."""
    found = {each.name: (each.verdict, cut(each.conclusion, LONGEST_REASON)) for each in card.questions}
    aspects = {
        each.name.replace("_", " "): (each.score, cut(each.explanation, LONGEST_REASON)) for each in card.aspects
    }
    return found | aspects


def write_comparison(store: Path, found: Comparison, name: str = "", with_pictures: bool = True) -> Path:
    """Write the page of a comparison over an earlier page of the same sides, and return its path.

    Args:
        name: file name; empty: that of a comparison that a person asked for.

    Raises:
        InputError: the folder of pages is a link, or the history cannot be queried.
        OSError: the page cannot be written.
    """
    sides = (found.before, found.after)
    name = name or comparison_name(*(text for side in sides for text in (side.run_id, side.candidate)))
    write_file(store, f"{FOLDER}/{name}", comparison_page(store, found, with_pictures).encode("utf-8", "replace"))
    # Retention goes by this time: the page is as old as its oldest pictures.
    began = min(side.started_at for side in sides).replace(tzinfo=UTC).timestamp()
    os.utime(folder_of(store) / name, (began, began), follow_symlinks=False)
    return folder_of(store) / name


@one_opening
def comparison_page(store: Path, found: Comparison, with_pictures: bool = True) -> str:
    """Return the comparison as HTML."""
    flow, first = found.before.flow, found.rows[0].difference
    halves, shown = _halves(store, found, with_pictures), _changed(store, found)
    hashes = {sha256 for each in shown for card in (each.before, each.after) for sha256 in card.pictures.values()}
    pictures = dict(embedded(thumbnails(store, hashes if with_pictures else ()), side=SIDE))
    names = dict.fromkeys(one_line(half.side.candidate, LONGEST_NAME) for half in halves[::-1])
    return rendered(
        "comparison.html.j2",
        "comparison.js",
        {
            "title": f"{flow}: {' against '.join(names)}",
            "shows": stamp(),
            "command": command_of(found),
            "unit": protocol_of(flow).unit,
            "warnings": [*found.partial, *found.unmeasured],
            "verdict": verdict_words(found),
            "where": where_words(found),
            "causes": _causes(shown),
            "line": partial(one_line, longest=LONGEST_NAME),
            "counts": {"better": first.higher, "worse": first.lower, OTHER_ANSWERS: found.differing - first.differing},
            "changed": found.differing,
            "unchanged": first.n - found.differing,
            "more": found.differing - len(shown),
            "samples": shown,
            "halves": halves,
            "pictures": pictures,
            "direction": direction,
            "quote": partial(quote, safe=""),
            "own_picture": own_picture,
            "answers": answers,
            "signed": partial(signed, decimals=protocol_of(flow).decimals),
            "number": partial(number_words, decimals=protocol_of(flow).decimals),
            "table": difference_grid(found.rows, flow),
            "notes": notes(found),
        },
        [SITE_STYLE, "comparison.css"],
    )


def command_of(found: Comparison) -> str:
    """Return the command that makes the page, as a person types it."""
    sides = (found.before, found.after)
    given = [*dict.fromkeys(side.run_id for side in sides)]
    given += [part for name in dict.fromkeys(side.candidate for side in sides) for part in ("--candidate", name)]
    given += [part for name in found.across for part in ("--across", name)]
    return f"jury compare {shlex.join(map(one_line, given))}"


def _halves(store: Path, found: Comparison, with_pictures: bool) -> list[Half]:
    """Return both sides; those of one run have the names of their candidates."""
    made = page_files(store)
    halves: list[Half] = []
    for name, side in (("before", found.before), ("after", found.after)):
        label = one_line(side.candidate, LONGEST_LABEL) if found.before.run_id == found.after.run_id else name
        page = page_name(side.run_id)
        removed = why_missing(side.started_at.replace(tzinfo=UTC))
        lacks = "removed by retention (JURY_KEEP_DAYS)" if removed else "not in this store"
        lacks = lacks if with_pictures else "left out (--no-pictures)"
        rates = [control_rate(**row) for row in ask(store, "controls", run=side.run_id)]
        place = quote(page) if page in made else ""
        halves.append(Half(label, side, place, f"picture {lacks}", judge_status(rates), red_words(rates)))
    return halves


def _changed(store: Path, found: Comparison) -> list[Changed]:
    """Return the changed samples, those that changed most first."""
    units = [change.sample_id for change in found.changed]
    sides = (found.before, found.after)
    values = (*(text for side in sides for text in (side.run_id, side.candidate)), units)
    pairs = {unit: (before, after) for unit, before, after in query(store, _PAIRS, values=values).rows}
    before, after = (_cards(store, side, [pair[at] for pair in pairs.values()]) for at, side in enumerate(sides))
    return [
        Changed(change, before[pairs[change.sample_id][0]], after[pairs[change.sample_id][1]])
        for change in found.changed
    ]


def _cards(store: Path, side: Side, ids: list[str]) -> dict[str, Card]:
    samples, replies = (
        query(
            store,
            f"SELECT * FROM ({question(name, run=side.run_id)}) WHERE candidate = $1 AND list_contains($2, sample_id)",
            values=(side.candidate, ids),
        )
        for name in ("samples", "reasons")
    )
    context = Context(
        reasons_by_question(as_json_rows(replies), LONGEST_TEXT), 0.0, display_of(side.flow), LONGEST_TEXT
    )
    return {card.id: card for card in cards(samples, context)}


def _causes(shown: list[Changed]) -> str:
    """Count the samples by what differs: the picture, or only the answers of the judge."""
    found = Counter(
        "with the same picture and other answers of the judge"
        if each.has_same_picture
        else "with another picture"
        if own_picture(each.before) and own_picture(each.after)
        else "with a missing output"
        for each in shown
    )
    return counted(found)
