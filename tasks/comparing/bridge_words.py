"""A bridge between two judges in words and as tables: the same for a terminal and a page."""

from collections.abc import Sequence

from tasks.comparing.wording import LONGEST_NAME, signed
from tasks.kinds import kind_of
from tasks.ledger.bridges import BridgeRow
from tasks.presentation.tables import Grid
from tasks.statistics.offsets import CONTINUED, WITH_OFFSET
from tasks.text import number_words, one_line


def sentences(row: BridgeRow) -> str:
    """Whether the history of a candidate may be continued with the new judge, and why."""
    decimals, units = kind_of(row.flow).decimals, kind_of(row.flow).unit
    whose = f"{row.flow}, {one_line(row.candidate, LONGEST_NAME)}"
    new, old = (one_line(name, LONGEST_NAME) for name in (row.new_model, row.old_model))
    shift, margin = f"{shift_words(row)} at n = {row.n} {units}", number_words(row.margin, decimals)
    if row.decision == CONTINUED:
        return f"{whose}: may be continued with {new}. The shift from {old} is {shift}, within ±{margin}."
    if row.decision == WITH_OFFSET:
        offset = signed(row.shift, decimals)
        return f"{whose}: may be continued with {new} with an offset of {offset}. The shift from {old} is {shift}."
    more = f"; about {row.enough:,} {units} would" if row.enough else ""
    return f"{whose}: cannot tell{more}. The shift from {old} to {new} is {shift}, too wide for ±{margin}."


def shift_words(row: BridgeRow) -> str:
    """The shift with its interval."""
    decimals = kind_of(row.flow).decimals
    if row.ci_low is None or row.ci_high is None:
        return f"{signed(row.shift, decimals)} (no interval)"
    return f"{signed(row.shift, decimals)} [{signed(row.ci_low, decimals)}, {signed(row.ci_high, decimals)}]"


def bridge_grid(rows: Sequence[BridgeRow]) -> Grid:
    """The rows of one candidate: scores by both judges, the shift, how far they agree, and what that allows."""
    header = ["", "old", "new", "shift", "n", "equal", "kappa", "history"]
    return Grid(header, [_line(row) for row in rows])


def _line(row: BridgeRow) -> list[str]:
    decimals = kind_of(row.flow).decimals
    return [
        row.dimension,
        number_words(row.old_score, decimals),
        number_words(row.new_score, decimals),
        shift_words(row),
        str(row.n),
        "–" if row.agreement is None else f"{row.agreement:.0%}",
        number_words(row.kappa),
        row.decision,
    ]


def confusion_grid(row: BridgeRow) -> Grid:
    """How often the old judge gave the answer of the row and the new one that of the column."""
    kind = kind_of(row.flow)
    met = {name for pair in row.confusion for name in pair.split(" > ")}
    names = sorted(met, key=lambda name: kind.category(float(name) if name.isdigit() else name))
    lines = [[old, *(str(row.confusion.get(f"{old} > {new}", 0)) for new in names)] for old in names]
    return Grid(["", *(name.replace("Both are ", "both\n") for name in names)], lines)
