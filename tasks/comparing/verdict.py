"""Verdicts on candidates and on comparisons, in words and tables."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tasks.presentation.tables import Grid
from tasks.presentation.wording import (
    Scored,
    change_words,
    p_words,
    pairs_words,
    score_with_interval,
    score_words,
    signed,
    worst_change_words,
)
from tasks.protocols import label_rules_of, protocol_of
from tasks.protocols.display import Display
from tasks.statistics.intervals import FEWEST, NO_DIFFERENCE, POWER, TAIL, Difference
from tasks.text import enumerated, number_words, one_line

if TYPE_CHECKING:
    from tasks.comparing.comparison import Comparison, Row, Side


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


def outcome_words(comparison: "Comparison") -> str:
    """Return the decision and the smallest change found, unless one of the runs measured nothing."""
    smallest = _smallest(comparison.rows[0].difference, protocol_of(comparison.before.flow).decimals)
    found = " ".join(comparison.unmeasured) or verdict_words(comparison) + smallest
    return " ".join([*comparison.partial, found])


def verdict_words(comparison: "Comparison") -> str:
    """Return the decision in one sentence for the top of a page, with both means, the difference and its interval."""
    found, before, after = comparison.rows[0].difference, comparison.before, comparison.after
    decimals, units = protocol_of(after.flow).decimals, protocol_of(after.flow).unit
    if found.change is None:
        return f"Nothing to compare: no {units} with a score on both sides"
    name, n = one_line(after.candidate, LONGEST_NAME), f"n = {pairs_words(found.n, found.of)} {units}"
    same = before.candidate == after.candidate
    other = f"its run of {before.started_at:%Y-%m-%d %H:%M}" if same else one_line(before.candidate, LONGEST_NAME)
    both = f"{name} since {other}" if same else f"{name} and {other}"
    told = {
        "better": f"{name} scores higher than {'in ' * same}{other}",
        "worse": f"{name} scores lower than {'in ' * same}{other}",
        "too few": f"Too few {units} to tell {name} from {other}",
    }
    means = f"{number_words(found.after, decimals)} against {number_words(found.before, decimals)}"
    worst = worst_change_words(found.worst_low, found.worst_high, decimals)
    change = f"{signed(found.change, decimals)} {change_interval(found, decimals)}{worst}"
    decided = told.get(found.decision, f"No difference shown {'for' if same else 'between'} {both}")
    return f"{decided} (at {n}): {means}, difference {change}"


def where_words(comparison: "Comparison") -> str:
    """Name the dimensions or measures with a difference (p adjusted by Holm), or the one that moved most."""
    flow, others = comparison.before.flow, comparison.rows[1:]
    moved = sorted((row for row in others if row.difference.change), key=lambda row: -abs(row.difference.change or 0))
    shown = [row for row in moved if row.p_holm is not None and row.p_holm < 2 * TAIL]
    words = [f"{_measure(row)} {_moved(row, flow)}, adjusted p {_p_sign(row.p_holm)}" for row in shown or moved[:1]]
    if not moved:
        return "nothing moved in any dimension"
    if not shown:
        return f"most in {words[0]}; no dimension passes p < {2 * TAIL:g}"
    return "; ".join([*words, *[f"no other dimension passes p < {2 * TAIL:g}"] * (len(shown) < len(others))])


def _measure(row: "Row") -> str:
    return row.dimension if row.measure == "score" else f"{row.dimension} {row.measure.replace('_', ' ')}"


def _moved(row: "Row", flow: str) -> str:
    decimals = _decimals(row, flow)
    return f"{signed(row.difference.change, decimals)} {change_interval(row.difference, decimals)}"


def _decimals(row: "Row", flow: str) -> int:
    """Return the decimals of a measure: those of the flow's scores, but two of a share between 0 and 1."""
    return 2 if row.measure == "satisfied" else protocol_of(flow).decimals


def in_brief(found: Difference, flow: str) -> str:
    """Describe a difference in few words: the change, its interval, and the decision at this n."""
    decimals = protocol_of(flow).decimals
    n = f"n = {pairs_words(found.n, found.of)} {protocol_of(flow).unit}"
    if found.change is None:
        return f"nothing to compare: no {protocol_of(flow).unit} with a score on both sides"
    none = f"{NO_DIFFERENCE} (at {n})"
    words = {"few differ": none, NO_DIFFERENCE: none, "too few": f"too few to tell ({n})"}
    said = words.get(found.decision, f"{found.decision} at {n}")
    worst = worst_change_words(found.worst_low, found.worst_high, decimals)
    return f"{signed(found.change, decimals)} {change_interval(found, decimals)}{worst}, {said}"


def _smallest(found: Difference, decimals: int) -> str:
    if found.smallest is None:
        return ""
    least = number_words(found.smallest, decimals)
    if found.decision == NO_DIFFERENCE:
        return f"; a difference of {least} would have shown ({POWER:.0%} power)"
    times, tries = Fraction(str(POWER)).as_integer_ratio()
    return f"; changes of {least} or more are found {times} times in {tries}"


def change_interval(found: Difference, decimals: int) -> str:
    """Format the interval of a change, or the reason why there is none."""
    if found.ci_low is None or found.ci_high is None:
        return f"(no interval{_why_none(found)})"
    return f"[{signed(found.ci_low, decimals)}, {signed(found.ci_high, decimals)}]"


def _why_none(found: Difference) -> str:
    return f": {found.differing} changed" if found.decision == "few differ" else f" below {FEWEST}"


def _p_sign(p: float | None) -> str:
    words = p_words(p)
    return f"< {words[1:]}" if words.startswith("<") else f"= {words}"


def difference_grid(rows: "Iterable[Row]", flow: str) -> Grid:
    """Tabulate the differences: the headline, then the dimensions, each with its own number of pairs."""
    header = ["", "before", "after", "change", "95% interval", "n", "up/down", "p"]
    return Grid(header, [_line(row, _decimals(row, flow)) for row in rows])


def _line(row: "Row", decimals: int) -> list[str]:
    found = row.difference
    return [
        row.dimension if row.measure == "score" else f"  {row.measure.replace('_', ' ')}",  # beneath its tag
        number_words(found.before, decimals),
        number_words(found.after, decimals),
        signed(found.change, decimals),
        change_interval(found, decimals) if found.ci_low is not None else f"none{_why_none(found)}",
        pairs_words(found.n, found.of),
        f"{found.higher}/{found.lower}",
        p_words(found.p if row.p_holm is None else row.p_holm),
    ]


def notes(comparison: "Comparison") -> list[str]:
    """Return notes on reading the table, and on samples in no pair."""
    missing = ", ".join(f"{n} {why}" for why, n in sorted(comparison.not_paired.items()))
    among, parts = comparison.among, label_rules_of(comparison.after.flow).pooled
    equal = comparison.equal and comparison.equal.share_words(comparison.equal_of)
    before, later = (f"{size:.2g}" for size in comparison.sizes)
    uneven = f"Images a prompt differ: {before} before, {later} after; the share of prompts with a good one grows so."
    return [
        "p: exact sign test; below the first row adjusted together (Holm).",
        *[f"Across: {', '.join(comparison.across)}."] * bool(comparison.across),
        *[f"{left_out_words(comparison)} and are left out."] * bool(comparison.left_out),
        *[f"Equal answers, both right or both wrong: {equal} (n = {comparison.equal_of:,} {parts})."] * bool(equal),
        *[f"Not paired: {missing}."] * bool(missing),
        *[f"Intervals of this pair alone, not adjusted for choosing among {among}."] * (among > 2),
        *[comparison.shared] * bool(comparison.shared),
        *[uneven] * (before != later),
    ]


def left_out_words(comparison: "Comparison") -> str:
    """Count the questions that only one of the runs asks."""
    parts = label_rules_of(comparison.after.flow).pooled
    return f"{comparison.left_out:,} of {comparison.parts:,} {parts} differ"


def side_words(side: "Side") -> str:
    """Name candidate, judge and run of a side; the run's id begins with its time."""
    return f"{one_line(side.candidate, LONGEST_NAME)} by {one_line(side.judge, LONGEST_NAME)}, run {side.run_id}"
