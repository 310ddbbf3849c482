"""Numbers and strangers' texts in words, the same on the terminal, in charts and in the Prefect UI."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from tasks.records.judge import EMBEDDED
from tasks.statistics.intervals import FEWEST
from tasks.statistics.scores import GradeRow, ScoreRow
from tasks.text import number_words, one_line

_MINUS = "−"
VS_BEST = "vs\nbest"
"""Header of the column of paired differences from the best candidate."""
LONGEST_NAME = 32
NOT_COVERED = "The intervals do not cover the judge's own bias."
PIXELS = "The embedded judge measures pixels and is no model: its scores are a floor for real judges."


Scored = ScoreRow | GradeRow
"""Mean with its interval and coverage, of figures (0-100) or of generated images (0-10)."""


def score_words(row: Scored) -> str:
    """Return the mean score, to one decimal of 100 or two of 10; a dash if missing, `n/a` if it cannot exist."""
    return "n/a" if row.inapplicable else number_words(row.score, row.decimals)


def interval_words(row: Scored) -> str:
    """Return the 95% interval of the mean score, or the reason for its lack; empty for a score that cannot exist."""
    if row.inapplicable:
        return ""
    if row.ci_low is None or row.ci_high is None:
        return f"none below {FEWEST}"
    return f"[{row.ci_low:.{row.decimals}f}, {row.ci_high:.{row.decimals}f}]"


def worst_case_words(row: Scored) -> str:
    """Return the range of the score over all values of the missing scores, `[38.2, 77.0]`; empty if few are missing."""
    if row.worst_low is None or row.worst_high is None:
        return ""
    return f"[{row.worst_low:.{row.decimals}f}, {row.worst_high:.{row.decimals}f}]"


def worst_case_notes(rows: Iterable[Scored]) -> list[str]:
    """Return a line for each candidate with many missing scores, over all samples: the range that they allow."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.measure == "score" and row.grouping in ("all", "aspect") and (words := worst_case_words(row)):
            found.setdefault(row.candidate, []).append(f"{row.dimension} {row.group_name}".rstrip() + f" {words}")
    return [
        f"Worst case of {one_line(candidate, 32)}, were all missing scores the lowest, or all the highest: "
        f"{', '.join(words)}."
        for candidate, words in found.items()
    ]


def score_with_interval(row: Scored) -> str:
    """Return score and interval: `62.5 [51.0, 74.0]`, `62.5 (no interval below 8)`, `nothing scored` or `n/a`."""
    if row.score is None:
        return "n/a" if row.inapplicable else "nothing scored"
    words = interval_words(row) if row.ci_low is not None else f"(no interval below {FEWEST})"
    return f"{score_words(row)} {words}"


def signed(value: float | None, decimals: int) -> str:
    """Return a change with its sign: `+6.2`, `−1.5`; a dash if there is none."""
    if value is None:
        return "–"
    rounded = round(value, decimals)
    return f"{rounded:+.{decimals}f}".replace("-", _MINUS) if rounded else f"{0:.{decimals}f}"


def change_words(value: float | None, low: float | None, high: float | None, decimals: int) -> str:
    """Return a change with its 95% interval: `+6.2 [+1.0, +11.4]`."""
    ends = "(no interval)" if low is None or high is None else f"[{signed(low, decimals)}, {signed(high, decimals)}]"
    return f"{signed(value, decimals)} {ends}"


def p_words(p: float | None) -> str:
    """Format a probability as usual: `0.04`, `0.004`, `<0.001`; a dash for None."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def pairs_words(n: int, of: int | None) -> str:
    """Return the number of pairs, and of how many if scores are missing: `36 of 60`."""
    return f"{n} of {of}" if of and of > n > 0 else f"{n}"


def worst_change_words(low: float | None, high: float | None, decimals: int) -> str:
    """Return the bounds that missing scores allow a change, `, worst case [−20.1, +8.4]`; empty if few are missing."""
    if low is None or high is None:
        return ""
    return f", worst case [{signed(low, decimals)}, {signed(high, decimals)}]"


def vs_best_words(row: Scored) -> str:
    """Return the paired difference from the best candidate, without its interval; empty if there is none."""
    return "" if row.vs_best is None else signed(row.vs_best, row.decimals)


def vs_best_notes(rows: Iterable[Scored]) -> list[str]:
    """Return a line for each score with a difference from the best candidate: its interval, number of pairs and p."""
    return [
        f"{one_line(row.candidate, LONGEST_NAME)} vs best, {row.dimension}: "
        f"{change_words(row.vs_best, row.vs_best_low, row.vs_best_high, row.decimals)}, "
        f"paired at n = {pairs_words(row.vs_best_n or 0, row.vs_best_of)}"
        + worst_change_words(row.vs_best_worst_low, row.vs_best_worst_high, row.decimals)
        + (f", p {p_words(row.vs_best_p)}" if row.vs_best_p is not None else "")
        + (f", adjusted for choosing among {among}" if (among := row.vs_best_among or 0) > 2 else "")
        for row in rows
        if row.vs_best is not None
    ]


def coverage_words(row: Scored) -> str:
    """Return samples scored of samples judged: `22/24`; empty for a score that cannot exist."""
    return "" if row.inapplicable else f"{row.scored}/{row.n}"


def judge_words(model: str, endpoint: str) -> str:
    """Return the judge's name and host. The rest of its address is left out: a path, too, may contain a secret."""
    if endpoint == EMBEDDED:
        return f"{model} (embedded)"
    parts = urlsplit(endpoint)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{model} at {host}:{parts.port}" if parts.port else f"{model} at {host}"


def judge_notes(endpoint: str) -> list[str]:
    """Return the notes on all scores and on those of the embedded judge, which has an address of its own."""
    return [NOT_COVERED, *[PIXELS] * (endpoint == EMBEDDED)]


_HEADS = re.compile(
    r"[\s;*_]{0,8}(?:\b[A-Za-z]+ of (?:the )?(Human|Model)|\b(Conclusion))\b[\s*_]*:[\s*_]*", re.IGNORECASE
)
_WANTED = ["Human", "Model", "Conclusion"]


def reasoning_parts(text: str) -> list[tuple[str, str]]:
    """Return (heading, text) of the three parts, or the whole text under no heading if it has other parts."""
    heads = list(_HEADS.finditer(text))
    found = [(head[1] or head[2]).capitalize() for head in heads]
    # A conclusion may name either side again, so all text after the first three heads belongs to it.
    if found[:3] != _WANTED or text[: heads[0].start()].strip():
        return [("", text)]
    begins = [head.end() for head in heads[:3]]
    ends = [heads[1].start(), heads[2].start(), len(text)]
    return [(name, text[begin:end].strip()) for name, begin, end in zip(_WANTED, begins, ends, strict=True)]
