"""How far two layouts agree, in words and as a table: the same for a terminal, an artifact and a page."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from tasks.endpoint.known import known_at
from tasks.ledger.layout_checks import LayoutRow
from tasks.presentation.tables import Grid
from tasks.records import OVERALL
from tasks.statistics.concordance import FEWEST
from tasks.text import number_words

MEASURE = "`jury layout check {run}` measures it"
OWN = {"run": "by another run", "votes": "by two votes"}
TOGETHER = "all candidates together"
EXPLAINED = "itself: the published layout when it is asked again, as far as the store knows"


def layout_lines(
    protocol: Mapping[str, str], run_id: str, tokens_in: int, tokens_cached: int, rows: Sequence[LayoutRow]
) -> list[str]:
    """What stands beside the scores of a run in the shared layout; nothing of another one.

    Args:
        tokens_in: of the calls that were made, of which so many were read from a cache.
        rows: of the newest check of this protocol; empty: there is none.
    """
    if "layout" not in protocol:
        return []
    cached = cached_words(tokens_in, tokens_cached, protocol.get("endpoint", ""))
    return [f"layout shared: {cached}", f"layout shared: {_agreed(rows, run_id)}"]


def cached_words(tokens_in: int, tokens_cached: int, endpoint: str) -> str:
    """How much of the input the judge read from its cache; where it was nothing, what the endpoint caches."""
    if not tokens_in:
        return "no input tokens were told"
    if not tokens_cached:
        known = known_at(endpoint)
        rule = f" ({known.title}: {known.caching})" if known and known.caching else ""
        return f"the judge told of none of {tokens_in:,} input tokens that it read from a cache{rule}"
    share = tokens_cached / tokens_in
    return f"{share:.0%} of {tokens_in:,} input tokens were read from the judge's cache"


def _agreed(rows: Sequence[LayoutRow], run_id: str) -> str:
    """How far its verdicts are those of the published layout."""
    of_each = {row.candidate: row for row in reversed(rows) if row.candidate}  # the first row of each is its overall
    rows = [row for row in rows if not row.candidate]
    if not rows:
        return f"its agreement with the published layout is not measured; {MEASURE.format(run=run_id)}"
    first = next((row for row in rows if row.dimension == OVERALL), rows[0])
    others = sorted((row for row in rows if row is not first), key=lambda row: row.agreement or 0)
    ends = "".join(f", {row.dimension} {equal_words(row)}" for row in (*others[:1], *others[1:][-1:]))
    return (
        f"{first.dimension} as in the published layout in {equal_words(first)}, kappa {kappa_words(first)}{ends}"
        f"{_by_candidate(of_each)}{_own_words(rows)} (measured {first.made_at[:10]} on {first.dataset})"
    )


def _by_candidate(of_each: Mapping[str, LayoutRow]) -> str:
    """The least and the most of several candidates, so that a line stays one, however many there are."""
    found = sorted(of_each.values(), key=lambda row: (row.agreement or 0, row.candidate))
    if not found:
        return ""
    return "; of the candidates " + ", ".join(f"{row.candidate} {equal_words(row)}" for row in (found[0], found[-1]))


def _own_words(rows: Sequence[LayoutRow]) -> str:
    itself = [row.own_agreement for row in rows if row.own_agreement is not None]
    if not itself:
        return ""
    ends = dict.fromkeys(f"{end:.0%}" for end in (min(itself), max(itself)))
    return f"; the published layout with itself {' to '.join(ends)}"


def equal_words(row: LayoutRow) -> str:
    """How often both say the same: below 50 samples as a count, else as a share with its interval."""
    if row.agreement is None:
        return "none"
    if row.n < FEWEST:
        return f"{round(row.agreement * row.n)} of {row.n}"
    if row.agreement_low is None or row.agreement_high is None:
        return f"{row.agreement:.0%}"
    return f"{row.agreement:.0%} [{row.agreement_low:.0%}, {row.agreement_high:.0%}]"


def kappa_words(row: LayoutRow) -> str:
    """Kappa with its interval, as far as there are such."""
    if row.kappa_low is None or row.kappa_high is None:
        return number_words(row.kappa)
    return f"{number_words(row.kappa)} [{number_words(row.kappa_low)}, {number_words(row.kappa_high)}]"


def check_grid(rows: Sequence[LayoutRow]) -> Grid:
    """A check as a table; where there are several candidates, all together first, and then each by itself."""
    header = ["", "n", "equal", "kappa", "itself", "kappa"]
    several = any(row.candidate for row in rows)
    lines: list[list[str]] = []
    for candidate, its in groupby(rows, key=lambda row: row.candidate):
        lines += [[candidate or TOGETHER]] if several else []
        lines += map(_line, its)
    return Grid(header, lines)


def _line(row: LayoutRow) -> list[str]:
    itself = "–" if row.own_agreement is None else f"{row.own_agreement:.0%}, {OWN[row.own_by]} (n = {row.own_n})"
    return [
        row.dimension,
        str(row.n),
        equal_words(row),
        kappa_words(row),
        itself,
        number_words(row.own_kappa),
    ]
