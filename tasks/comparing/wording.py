"""Comparisons in words and tables."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from tasks.presentation.tables import Grid
from tasks.presentation.wording import p_words, pairs_words, signed, worst_change_words
from tasks.protocols import label_rules_of, protocol_of
from tasks.statistics.intervals import FEWEST, NO_DIFFERENCE, POWER, TAIL, Difference
from tasks.text import number_words, one_line

if TYPE_CHECKING:
    from tasks.comparing.comparison import Comparison, Row, Side


def layout_lines(protocol: Mapping[str, str], run_id: str) -> list[str]:
    """Return the line shown beside scores in another layout than the published one; empty for the published one."""
    command = f"`jury compare RUN {run_id} --across layout`, RUN in the published layout, measures the difference"
    return [f"layout shared, not the published one: {command}"] if "layout" in protocol else []


LONGEST_NAME = 40


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
    decimals, others = protocol_of(comparison.before.flow).decimals, comparison.rows[1:]
    moved = sorted((row for row in others if row.difference.change), key=lambda row: -abs(row.difference.change or 0))
    shown = [row for row in moved if row.p_holm is not None and row.p_holm < 2 * TAIL]
    words = [
        f"{_measure(row)} {signed(row.difference.change, decimals)} {change_interval(row.difference, decimals)}"
        f", adjusted p {_p_sign(row.p_holm)}"
        for row in shown or moved[:1]
    ]
    if not moved:
        return "nothing moved in any dimension"
    if not shown:
        return f"most in {words[0]}; no dimension passes p < {2 * TAIL:g}"
    return "; ".join([*words, *[f"no other dimension passes p < {2 * TAIL:g}"] * (len(shown) < len(others))])


def _measure(row: "Row") -> str:
    return row.dimension if row.measure == "score" else f"{row.dimension} {row.measure.replace('_', ' ')}"


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
    decimals = protocol_of(flow).decimals
    header = ["", "before", "after", "change", "95% interval", "n", "up/down", "p"]
    return Grid(header, [_line(row, decimals) for row in rows])


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
    return [
        "p: exact sign test; below the first row adjusted together (Holm).",
        *[f"Across: {', '.join(comparison.across)}."] * bool(comparison.across),
        *[f"{left_out_words(comparison)} and are left out."] * bool(comparison.left_out),
        *[f"Equal answers, both right or both wrong: {equal} (n = {comparison.equal_of:,} {parts})."] * bool(equal),
        *[f"Not paired: {missing}."] * bool(missing),
        *[f"Intervals of this pair alone, not adjusted for choosing among {among}."] * (among > 2),
        *[comparison.shared] * bool(comparison.shared),
        *sizes_words(comparison.sizes),
    ]


def left_out_words(comparison: "Comparison") -> str:
    """Count the questions that only one of the runs asks."""
    parts = label_rules_of(comparison.after.flow).pooled
    return f"{comparison.left_out:,} of {comparison.parts:,} {parts} differ"


def sizes_words(sizes: tuple[float, float]) -> list[str]:
    """Return a warning if the two sides have different numbers of images a prompt."""
    before, after = (f"{size:.2g}" for size in sizes)
    uneven = f"Images a prompt differ: {before} before, {after} after; the share of prompts with a good one grows so."
    return [uneven] * (before != after)


def side_words(side: "Side") -> str:
    """Name candidate, judge and run of a side; the run's id begins with its time."""
    return f"{one_line(side.candidate, LONGEST_NAME)} by {one_line(side.judge, LONGEST_NAME)}, run {side.run_id}"
