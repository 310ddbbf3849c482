"""How numbers and strangers' texts are put into words, the same on the terminal, in charts and in the Prefect UI.

Owns phrases and nothing else: what a run came to stands in `summary`.
"""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from tasks.numbers.grades import GradeRow
from tasks.numbers.intervals import FEWEST
from tasks.numbers.scores import ScoreRow
from tasks.parameters import EMBEDDED

HUMAN_IS_50 = "Human is 50 by definition: Model 100, a neutral verdict or a tie 50, Human 0."
PLOT_CEILING = "Plot faithfulness cannot exceed 50: the judge may answer only Human or Both are good there."
SCALE_0_10 = "Scores are 0-10: the judge's overall score, averaged over prompts. GenEval's own score is a detector's."
PIXELS = "The embedded judge measures pixels and is no model: its scores are a floor for real judges."


def well_formed(text: str) -> str:
    """The text without lone surrogates, which no file and no request can hold."""
    return text.encode("utf-8", "replace").decode()


def one_line(text: str, longest: int = 160) -> str:
    """A stranger's text as one printable line of at most `longest` characters.

    Line breaks, control characters (they may command a terminal) and invisible ones (they may reverse the direction of
    writing) become spaces.
    """
    start = text[: 4 * longest]
    line = " ".join("".join(char if char.isprintable() else " " for char in start).split())
    return line if len(line) <= longest and start == text else line[: longest - 1].rstrip() + "…"


def counted(counts: Mapping[str, int]) -> str:
    """Counts in words, the largest first: `93 ok, 2 invalid`."""
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in found if n) or "none"


Scored = ScoreRow | GradeRow
"""A mean with its interval and coverage, of figures (0-100) or of generated images (0-10)."""


def score_words(row: Scored) -> str:
    """The mean score, to one decimal of 100 or two of 10; a dash where it is missing, `n/a` where it cannot be."""
    return "n/a" if _inapplicable(row) else number_words(row.score, _decimals(row))


def number_words(value: float | None, decimals: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{decimals}f}"


def _decimals(row: Scored) -> int:
    return 2 if isinstance(row, GradeRow) else 1


def _inapplicable(row: Scored) -> bool:
    return isinstance(row, GradeRow) and row.inapplicable


def interval_words(row: Scored) -> str:
    """The 95% interval of the mean score, or why there is none; nothing for a score that cannot be."""
    if _inapplicable(row):
        return ""
    if row.ci_low is None or row.ci_high is None:
        return f"none below {FEWEST}"
    return f"[{row.ci_low:.{_decimals(row)}f}, {row.ci_high:.{_decimals(row)}f}]"


def score_with_interval(row: Scored) -> str:
    """Score and interval together: `62.5 [51.0, 74.0]`, `62.5 (no interval below 8)`, `nothing scored` or `n/a`."""
    if row.score is None:
        return "n/a" if _inapplicable(row) else "nothing scored"
    words = interval_words(row) if row.ci_low is not None else f"(no interval below {FEWEST})"
    return f"{score_words(row)} {words}"


def coverage_words(row: Scored) -> str:
    """Samples scored of samples judged: `22/24`; nothing for a score that cannot be."""
    return "" if _inapplicable(row) else f"{row.scored}/{row.n}"


def judge_words(model: str, endpoint: str) -> str:
    """The judge's name and host. The rest of its address is left out: a path, too, may hold a secret."""
    if endpoint == EMBEDDED:
        return f"{model} (embedded)"
    parts = urlsplit(endpoint)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{model} at {host}:{parts.port}" if parts.port else f"{model} at {host}"


def score_notes(flow: str, rows: Iterable[ScoreRow], endpoint: str = "") -> list[str]:
    """What must be known to read these scores of a run; `endpoint` is its judge's address."""
    ceiling = flow == "plot" and any(row.dimension == "faithfulness" for row in rows)
    return [HUMAN_IS_50, *[PLOT_CEILING] * ceiling, *[PIXELS] * (endpoint == EMBEDDED)]


def bounded(first: Sequence[str], total: int) -> list[str]:
    """The first of `total` lines, and how many more there are."""
    more = total - len(first)
    return [*first, f"and {more:,} more"] if more > 0 else list(first)
