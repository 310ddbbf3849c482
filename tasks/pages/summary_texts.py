"""What a run came to, in a sentence, in lines, as a table and as a chart.

The one place where what is shown of pairwise runs and of text-to-image runs differs; `tables` and `verdict_chart` draw
the one, `image_tables` and `image_chart` the other.
"""

from collections.abc import Sequence
from itertools import islice

from tasks.controls.status import red_words
from tasks.judging.tallies import SHOWN, Failure
from tasks.pages.run_summary import Summary
from tasks.parameters import EMBEDDED
from tasks.presentation.chart_style import Chart
from tasks.presentation.image_chart import image_chart
from tasks.presentation.image_tables import gradeboard, ranked
from tasks.presentation.tables import LONGEST_NAME, Grid, leaderboard
from tasks.presentation.verdict_chart import verdict_chart
from tasks.presentation.wording import PIXELS, SCALE_0_10, coverage_words, score_notes, score_with_interval
from tasks.statistics.scores import ranking
from tasks.text import bounded, counted, number_words, one_line


def candidate_scores(summary: Summary) -> list[tuple[str, str]]:
    """Each candidate, the best first, with its score in words."""
    if not summary.grades:
        return [
            (row.candidate, f"{score_with_interval(row)}, {coverage_words(row)} samples scored")
            for row in ranking(summary.rows)
        ]
    return [
        (
            candidate,
            ", ".join(f"{row.dimension} {score_with_interval(row)} ({coverage_words(row)} images)" for row in rows),
        )
        for candidate, rows in ranked(summary.grades)
    ]


def sentence(summary: Summary) -> str:
    """The run in one sentence: scores, coverage and the counts by status; and a second where the judge is at fault."""
    found = candidate_scores(summary)
    scores = bounded([f"{one_line(candidate, 40)} {words}" for candidate, words in found[:3]], len(found))
    return " ".join(filter(None, [f"{'; '.join(scores)}. {status_counts(summary)}", red_words(summary.controls)]))


def status_counts(summary: Summary) -> str:
    """The judgments and the outcomes by status."""
    return f"Judgments: {counted(summary.judgments.statuses())}. Outcomes: {counted(summary.outcomes.statuses)}."


def grid(summary: Summary) -> Grid:
    """Scores and counts of all candidates."""
    return gradeboard(summary.grades) if summary.grades else leaderboard(summary.rows)


def notes(summary: Summary) -> list[str]:
    """What must be known to read these scores."""
    start = summary.start
    if not summary.grades:
        return score_notes(start.flow, summary.rows, start.endpoint)
    means = "By image: the mean over images. Aspects: their mean."
    good = f"Good: prompts with an image of {number_words(summary.outcomes.good_from, 1)} or more."
    return [SCALE_0_10, f"{means} {good}", *[PIXELS] * (start.endpoint == EMBEDDED)]


def chart(summary: Summary) -> Chart:
    """The scores as a chart, with what must be known to read them."""
    if summary.grades:
        return image_chart(summary.grades, notes(summary))
    return verdict_chart(summary.rows, score_notes(summary.start.flow, summary.rows))


_FALSE_FINDINGS = {False: "false preferences on clean pairs", True: "false alarms on clean images"}


def defect_lines(summary: Summary) -> list[str]:
    """How many injected defects the judge caught, in all and by kind; nothing when none is known."""
    counts = summary.outcomes.defects()
    defective = [count for count in counts if not count.clean]
    clean = [count for count in counts if count.clean]
    lines: list[str] = []
    if defective:
        missing = sum(count.unjudged for count in defective)
        known, caught = sum(count.known for count in defective), sum(count.caught for count in defective)
        lines.append(f"caught {caught} of {known} injected defects" + (f", {missing} not judged" if missing else ""))
        lines += [f"  {one_line(count.kind, LONGEST_NAME)} {count.caught}/{count.known}" for count in defective]
    if clean:
        judged = sum(count.known - count.unjudged for count in clean)
        false = judged - sum(count.caught for count in clean)
        lines.append(f"{_FALSE_FINDINGS[bool(summary.grades)]}: {false} of {judged}")
    return lines


def failure_lines(summary: Summary) -> list[str]:
    """Judgments that are not ok and outcomes that are not complete: counts, then the first of each; nothing if none."""
    judgments, outcomes = summary.judgments, summary.outcomes
    lines: list[str] = []
    if judgments.not_ok:
        first = [_failure_line(summary, failure) for failure in islice(judgments.not_ok.values(), SHOWN)]
        lines += [f"judgments: {counted(judgments.statuses())}", *_indented(first, len(judgments.not_ok))]
    if outcomes.not_complete:
        first = [_failure_line(summary, failure) for failure in outcomes.not_complete]
        total = outcomes.statuses.total() - outcomes.statuses["complete"]
        lines += [f"outcomes: {counted(outcomes.statuses)}", *_indented(first, total)]
    return lines


def _failure_line(summary: Summary, failure: Failure) -> str:
    candidate = f" of {one_line(failure.candidate, LONGEST_NAME)}" if len(summary.start.candidates) > 1 else ""
    dimension = f", {failure.dimension}" if failure.dimension else ""
    status = failure.status.replace("_", " ")
    return f"{one_line(failure.sample_id, LONGEST_NAME)}{candidate}{dimension}: {status}: {failure.words}"


def _indented(first: Sequence[str], total: int) -> list[str]:
    return [f"  {line}" for line in bounded(first, total)]
