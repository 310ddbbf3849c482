"""The table that a page of several evaluations begins with: what each came to, and whether its judge can be trusted.

Owns its lines; the evaluations themselves, beneath it, are for the template.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tasks.comparing.wording import decision_words
from tasks.controls.status import judge_status
from tasks.kinds import kind_of
from tasks.kinds.display import Headline
from tasks.pages.report_data import Evaluation
from tasks.presentation.wording import coverage_words, interval_words, score_words, signed

HEADER = ("evaluation", "flow", "candidate", "score", "95% interval", "scored", "change", "judge", "judge status")


class Line(NamedTuple):
    """One score of one evaluation."""

    run_id: str
    started_at: str
    cells: tuple[str, ...]
    """What stands below the header, after the evaluation."""


def newest_table(evaluations: Iterable[Evaluation]) -> Iterator[Line]:
    """A line for every score that an evaluation begins with, in the order of the page."""
    for one in evaluations:
        for headline in one.headline():
            yield Line(one.about["run_id"], one.about["started_at"], tuple(_cells(one, headline)))


def _cells(one: Evaluation, headline: Headline) -> Iterator[str]:
    score = headline.score
    yield from (one.flow, headline.name, score_words(score), interval_words(score), coverage_words(score))
    yield from (_change(one, headline), one.judge, judge_status(one.control_rates()))


def _change(one: Evaluation, headline: Headline) -> str:
    """How the score stands against the evaluation before that compares; empty where there is none."""
    if one.unmeasured:
        return "stopped at the budget" if one.about["stopped"] else "nothing measured"
    for found in one.comparisons:
        for row in found.rows if found.after.candidate == headline.score.candidate else ():
            if (row.dimension, row.measure) == (headline.score.dimension, "score"):
                return f"{signed(row.difference.change, kind_of(one.flow).decimals)} {decision_words(row.difference)}"
    return ""
