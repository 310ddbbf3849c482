"""What a run came to, in a sentence and in lines; tables and charts of its scores are its kind's."""

from collections.abc import Sequence
from itertools import islice

from tasks.comparing.layout_words import layout_lines
from tasks.controls.status import red_words
from tasks.judging.tallies import SHOWN, Failure
from tasks.ledger.layout_checks import newest_check
from tasks.pages.run_summary import Summary
from tasks.presentation.tables import LONGEST_NAME
from tasks.spending.money import in_currency, money
from tasks.text import bounded, counted, one_line


def sentence(summary: Summary) -> str:
    """The run in one sentence: scores, coverage, counts by status; before it what forbids to take it for a result."""
    found = summary.display.in_words(summary.scores)
    scores = bounded([f"{one_line(candidate, 40)} {words}" for candidate, words in found[:3]], len(found))
    before = [red_words(summary.controls), summary.unmeasured]
    return " ".join(filter(None, [*before, f"{'; '.join(scores)}. {status_counts(summary)}"]))


def status_counts(summary: Summary) -> str:
    """The judgments and the outcomes by status."""
    return f"Judgments: {counted(summary.judgments.statuses())}. Outcomes: {counted(summary.outcomes.statuses)}."


def cost_lines(summary: Summary) -> list[str]:
    """Calls, tokens and price."""
    asked = summary.judgments
    cached = f"{asked.tokens_cached:,} of them cached" + _some(asked.tokens_written, "written to a cache")
    reasoned = f" ({asked.tokens_reasoning:,} of them reasoning)" if asked.tokens_reasoning else ""
    return [
        f"{asked.calls:,} calls made, {asked.reused:,} replies taken from earlier runs",
        f"{asked.tokens_in:,} tokens in ({cached}), {asked.tokens_out:,} out{reasoned}",
        *price_lines(summary),
    ]


def price_lines(summary: Summary) -> list[str]:
    """The price, what may come to it, and what was saved; the first line alone where that is all."""
    asked = summary.judgments
    lines = [f"price: {in_currency(asked.price, asked.places)}"]
    if asked.estimated != 0:
        lines.append(
            f"calls that timed out may have cost, besides: {money(asked.estimated)}"
            + (", an estimate" if asked.estimated else "")
        )
    saved = [f"{money(amount)} by {what}" for what, amount in asked.saved.items() if round(amount, 4)]
    return [*lines, f"saved: {', '.join(saved)}"] if saved else lines


def _some(count: int, words: str) -> str:
    return f", {count:,} {words}" if count else ""


def beside_layout(summary: Summary) -> list[str]:
    """What stands beside scores in another layout than the published one: how much of the input was read from a cache,
    and how far the layouts agree; nothing of other runs."""
    end, asked = summary.end, summary.judgments
    if end is None:
        return []
    rows = newest_check(summary.store, end.protocol_key)
    return layout_lines(end.protocol, end.run_id, asked.tokens_in, asked.tokens_cached, rows)


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
        lines.append(f"{summary.display.false_findings}: {false} of {judged}")
    return lines


def failure_lines(summary: Summary) -> list[str]:
    """Judgments that are not ok and outcomes that are not complete: counts, then the first of each; nothing if none.

    Pictures that are missing in the dataset are counted only: the run's warnings name them.
    """
    judgments, outcomes = summary.judgments, summary.outcomes
    lines: list[str] = []
    if judgments.not_ok:
        first = [_failure_line(summary, failure) for failure in islice(judgments.not_ok.values(), SHOWN)]
        lines += [f"judgments: {counted(judgments.statuses())}", *_indented(first, len(judgments.not_ok))]
    if total := outcomes.statuses.total() - outcomes.statuses["complete"]:
        first = [_failure_line(summary, failure) for failure in outcomes.not_complete]
        lines += [f"outcomes: {counted(outcomes.statuses)}", *_indented(first, total - outcomes.told_before)]
    return lines


def _failure_line(summary: Summary, failure: Failure) -> str:
    candidate = f" of {one_line(failure.candidate, LONGEST_NAME)}" if len(summary.start.candidates) > 1 else ""
    dimension = f", {failure.dimension}" if failure.dimension else ""
    status = failure.status.replace("_", " ")
    return f"{one_line(failure.sample_id, LONGEST_NAME)}{candidate}{dimension}: {status}: {failure.words}"


def _indented(first: Sequence[str], total: int) -> list[str]:
    return [f"  {line}" for line in bounded(first, total)]
