"""Verdict on the candidates of an evaluation, in a sentence."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tasks.presentation.wording import Scored, change_words, pairs_words, score_with_interval, score_words
from tasks.protocols.display import Display
from tasks.statistics.intervals import FEWEST, NO_DIFFERENCE
from tasks.text import enumerated, one_line

LONGEST_NAME = 40
MOST_NAMED = 3
"""Most candidates named on either side of a comparison."""
DISTRUST = "Do not trust this score"


def verdict(display: Display[Any], scores: Sequence[Scored], is_red: bool) -> str:
    """Return the verdict on the candidates, a clause for each score at the top of a report.

    `painter scores 39.2 [30.0, 49.4] of 100, below the Human figures (50)`

    Args:
        is_red: whether the controls show that the judge does not look.
    """
    found = defaultdict[str, list[Scored]](list)
    for _, row in display.headline(scores):
        found[row.dimension].append(row)
    clauses = [f"{name}: " * (len(found) > 1) + rank_candidates(display, rows) for name, rows in found.items()]
    words = "; ".join(clauses) or "Nothing is scored"
    return f"{DISTRUST}: {words}" if is_red else words


def rank_candidates(display: Display[Any], rows: Sequence[Scored]) -> str:
    """Return which candidate scores higher, or the score of the only one.

    `flux scores higher than sdxl: 7.20 against 6.10 of 10, difference +1.10 [+0.40, +1.80]`

    Args:
        rows: a score of each candidate, the best first, with its paired difference from the best.
    """
    scored = [row for row in rows if row.score is not None]
    if not scored:
        return f"Nothing is scored: 0 of {sum(row.n for row in rows):,} {display.counted}"
    if len(scored) == 1:
        return _alone(display, scored[0])
    best, *others = sorted(scored, key=lambda row: row.vs_best is not None)
    if sum(row.vs_best is None for row in scored) > 1:
        return f"{_names(scored)} are not compared: `jury compare` says why"
    means = ""
    if len(others) == 1:
        means = f": {_means(display, best, others[0])}"
    return f"{_ranking(best, others)}{means}"


def _means(display: Display[Any], best: Scored, other: Scored) -> str:
    """Return both scores and their paired difference, the higher candidate first."""
    ahead, behind = (other, best) if (other.vs_best or 0.0) > 0 else (best, other)
    change, low, high = other.vs_best, *_ends(other)
    if ahead is best:
        change, low, high = (None if each is None else -each for each in (change, high, low))
    means = f"{score_words(ahead)} against {score_words(behind)} {display.scale}"
    return f"{means}, difference {change_words(change, low, high, best.decimals)}"


def _ranking(best: Scored, others: Sequence[Scored]) -> str:
    lower = [row for row in others if (high := _ends(row)[1]) is not None and high < 0]
    # Means over all samples and the differences of pairs may disagree, where many scores are missing.
    higher = [row for row in others if (low := _ends(row)[0]) is not None and low > 0]
    alike = [row for row in others if row not in lower and row not in higher]
    found = [f"{_names([best])} scores higher than {_names(lower)}"] * bool(lower)
    found += [f"{_names([row])} scores higher than {_names([best])}" for row in higher]
    if alike:
        n, of = min(((row.vs_best_n or 0, row.vs_best_of) for row in alike), key=lambda each: each[0])
        few = ", too few to tell" if n < FEWEST else ""
        shown = NO_DIFFERENCE if found else NO_DIFFERENCE.capitalize()
        found.append(f"{shown} between {_names([best, *alike])} (at n = {pairs_words(n, of)}{few})")
    return "; ".join(found) + f", adjusted for choosing among {others[-1].vs_best_among}" * (len(others) > 1)


def _ends(row: Scored) -> tuple[float | None, float | None]:
    """Return the interval of the difference from the best; missing scores widen it to its bounds."""
    if row.vs_best_worst_low is not None:
        return row.vs_best_worst_low, row.vs_best_worst_high
    return row.vs_best_low, row.vs_best_high


def _names(rows: Sequence[Scored]) -> str:
    names = [one_line(row.candidate, LONGEST_NAME) for row in rows[:MOST_NAMED]]
    return enumerated([*names, *[f"{len(rows) - MOST_NAMED} more"] * (len(rows) > MOST_NAMED)])


def _alone(display: Display[Any], row: Scored) -> str:
    """Return the score of the only candidate, beside the reference score of its kind of judging if there is one."""
    words = f"{_names([row])} scores {score_with_interval(row)} {display.scale}"
    low, high = (row.ci_low, row.ci_high) if row.worst_low is None else (row.worst_low, row.worst_high)
    if not display.level or low is None or high is None:
        return words
    figures, level = f"the {display.level.name} figures", display.level.score
    if low <= level <= high:
        return f"{words}: no difference from {figures} ({level:g}) shown (at n = {row.scored})"
    return f"{words}, {'below' if high < level else 'above'} {figures} ({level:g})"
