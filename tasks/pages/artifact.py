"""Markdown artifact of a run in the Prefect UI."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tasks.judging.results import LowSample, red_words, status_lines
from tasks.pages.page_names import is_address, page_of, where
from tasks.pages.run_summary import Summary, cost_lines, defect_lines, failure_lines, verdict_of
from tasks.presentation.tables import NAME, bullets, markdown_grid, markdown_picture, markdown_table, plain_markdown
from tasks.presentation.wording import NOT_COVERED, coverage_words, judge_words, reasoning_parts, score_with_interval
from tasks.protocols.display import Display
from tasks.records import DimensionOutcome, Outcome
from tasks.text import bounded, number_of

MOST_LINES = 20
"""Most candidates, groups of samples or warnings shown; the others are counted. Keeps the artifact far below 1 MB."""
LONGEST = 1000
"""Longest alarm, in characters."""
THUMBNAIL_BYTES = 80_000
"""Most bytes of each picture; only noise has more, and loses pixels."""
EVERY_SAMPLE = "The page with every sample"


def markdown(summary: Summary, warnings: Sequence[str] = (), alarms: Sequence[str] = ()) -> str:
    """Return the whole artifact, less than 1 MB with its pictures.

    Args:
        warnings: further facts about the run for the reader, a sentence each.
        alarms: open alarms of a scheduled run, a sentence each.
    """
    from tasks.pages.page import fitted, thumbnails  # Jinja, which is not needed before the end of a run

    trouble = [*failure_lines(summary), *bounded(warnings[:MOST_LINES], len(warnings))]
    hashes = [note.source_sha256 for each in summary.lowest for note in each.outcome.pictures.values()]
    kept = dict(fitted(thumbnails(summary.store, hashes), THUMBNAIL_BYTES))
    parts = [
        *_heading(summary, alarms),
        *(part for each in summary.lowest for part in _sample(summary, each, kept)),
        *_scores(_best_of(summary), _facts(summary)),
        *(["## Failures and warnings", bullets(trouble)] if trouble else []),
    ]
    return "\n\n".join(parts) + "\n"


def _heading(summary: Summary, alarms: Sequence[str]) -> list[str]:
    """Return the verdict, warnings against it, and the way to the page; the pictures follow on the first screen."""
    start, stopped = summary.start, summary.stopped.sentence if summary.stopped else ""
    warned = filter(None, [red_words(summary.controls), stopped, *alarms[:MOST_LINES]])
    place = where(page_of(summary.store, start.run_id))
    return [
        f"# {start.flow}: {plain_markdown(' + '.join(start.candidates), NAME)}",
        f"**{plain_markdown(verdict_of(summary))}**",
        *(f"**{plain_markdown(words, LONGEST)}**" for words in warned),
        f"[{EVERY_SAMPLE}]({place})" if is_address(place) else plain_markdown(f"{EVERY_SAMPLE}: {place}"),
    ]


def _facts(summary: Summary) -> list[str]:
    start, found = summary.start, summary.display.headline(summary.scores)
    judge = judge_words(start.judge, start.endpoint)
    about = f"{number_of(start.samples, 'sample')} of {start.dataset}, judged by {judge}"
    began = f"{datetime.fromisoformat(start.started_at):%Y-%m-%d %H:%M} UTC" + ("" if summary.end else ", unfinished")
    words = [(each.name[:NAME], score_with_interval(each.score), coverage_words(each.score)) for each in found]
    scored = [f"{name}: score {score}, {covered} {summary.display.counted} scored" for name, score, covered in words]
    limits = summary.end.limits.in_words() if summary.end and summary.end.limits else ""
    beside = [*defect_lines(summary), *status_lines(summary.controls), *cost_lines(summary), limits]
    reused = "" if summary.stopped else summary.unmeasured
    return [
        plain_markdown(f"{about}, {began}. Run {start.run_id}."),
        bullets(filter(None, [*bounded(scored[:MOST_LINES], len(scored)), reused, *beside])),
        NOT_COVERED,
    ]


def _scores(shown: Summary, facts: Sequence[str]) -> Sequence[str]:
    if not shown.scores:
        return facts
    chart = markdown_picture("Scores", "svg+xml", shown.display.chart(shown.scores).as_file())
    notes = [note for note in shown.display.notes(shown.scores, shown.terms) if note != NOT_COVERED]  # among the facts
    return ["## Scores", chart, *facts, markdown_grid(shown.display.grid(shown.scores)), bullets(notes)]


def _best_of(summary: Summary) -> Summary:
    """Return the summary with only the candidates that there is room for."""
    ranked = dict.fromkeys(each.score.candidate for each in summary.display.headline(summary.scores))
    best = [*ranked][:MOST_LINES]
    scores = [row for row in summary.scores if row.candidate in best]
    return summary._replace(scores=scores, rates=[row for row in summary.rates if row.candidate in best])


def _sample(summary: Summary, sample: LowSample, kept: Mapping[str, bytes]) -> list[str]:
    """Lay out one sample: its pictures, the way to its outcome, and the judge's answers with their reasons."""
    outcome = sample.outcome
    candidate = f" of {outcome.candidate}" if len(summary.start.candidates) > 1 else ""
    path = f"{outcome.overall} ({outcome.tier_path})" if outcome.overall else outcome.tier_path
    lines = [list(map(plain_markdown, line)) for line in _answers(summary.display, sample)]
    return [
        f"## Lowest: {plain_markdown(f'{outcome.sample_id}{candidate}', NAME)}",
        *([f"Prompt: {plain_markdown(outcome.prompt)}"] if outcome.prompt else []),
        _pictures(summary.display.sides, outcome, kept),
        f"Outcome: {plain_markdown(path)}",
        markdown_table(["", "answer", "the judge's reasons"], lines, numbers=False),
        *([f"Caption: {plain_markdown(outcome.caption)}"] if outcome.caption else []),
    ]


def _answers(display: Display[Any], sample: LowSample) -> list[list[str]]:
    """Return question, answer and reason of each aspect or check, the wrong checks first; else of each dimension.

    Of a reason in three parts there is room for the conclusion.
    """
    outcome = sample.outcome
    if not outcome.aspects:
        reasons = {name: reasoning_parts(text)[-1][1] for name, text in sample.reasons.items()}
        return [[each.dimension, _verdict(each), reasons.get(each.dimension, "")] for each in outcome.dimensions]
    aspects = sorted(outcome.aspects, key=lambda one: one.score if one.question and one.score is not None else math.inf)
    return [[each.question or each.aspect, display.aspect_words(each.score), each.explanation] for each in aspects]


def _verdict(dimension: DimensionOutcome) -> str:
    words = dimension.verdict or "missing"
    if not dimension.order_flip:
        return words
    return f"{words} (Human first: {dimension.human_first}; Model first: {dimension.model_first})"


def _pictures(sides: Sequence[str], outcome: Outcome, kept: Mapping[str, bytes]) -> str:
    """Return the picture of a sample, or its pictures side by side."""
    shown: list[str] = []
    for side in sides:
        note = outcome.pictures.get(side.lower())
        data = kept.get(note.source_sha256) if note else None
        none = "picture not kept" if note else "no picture"
        shown.append(markdown_picture(side, "jpeg", data) if data else none)
    return markdown_table(sides, [shown], numbers=False) if len(shown) > 1 else shown[0]
