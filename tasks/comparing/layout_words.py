"""Notes on a run in the shared layout, and the agreement of two layouts, in words and as a table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.endpoint.known import known_at
from tasks.presentation.tables import Grid

if TYPE_CHECKING:
    from tasks.labels.agreement import Agreed, Agreement

COMPARE = "`jury compare RUN {run} --across layout`, RUN in the published layout, shows how far both layouts agree"


def layout_lines(protocol: Mapping[str, str], run_id: str, tokens_in: int, tokens_cached: int) -> list[str]:
    """Return lines shown beside the scores of a run in the shared layout; empty for another layout.

    Args:
        tokens_in: input tokens of the calls made; `tokens_cached` of them were read from a cache.
    """
    if "layout" not in protocol:
        return []
    cached = cached_words(tokens_in, tokens_cached, protocol.get("endpoint", ""))
    return [f"layout shared: {cached}", f"layout shared: {COMPARE.format(run=run_id)}"]


def cached_words(tokens_in: int, tokens_cached: int, endpoint: str) -> str:
    """Describe the share of the input that the judge read from its cache; for none, add the endpoint's rule."""
    if not tokens_in:
        return "no input tokens were reported"
    if not tokens_cached:
        known = known_at(endpoint)
        rule = f" ({known.title}: {known.caching})" if known and known.caching else ""
        return f"the judge reported none of {tokens_in:,} input tokens as read from a cache{rule}"
    share = tokens_cached / tokens_in
    return f"{share:.0%} of {tokens_in:,} input tokens were read from the judge's cache"


def layouts_grid(found: "Sequence[Agreement]") -> Grid:
    """Tabulate the agreement of two layouts, beside that of the published one with itself.

    Args:
        found: agreement of the layouts, then that of two runs in the published one, if there is any.
    """
    both, *twice = [{each.question: each for each in one.questions} for one in found]
    header = ["", "n", "equal", "kappa", *["n", "published\ntwice", "kappa"] * bool(twice)]
    lines = [
        [question, *(words for side in (both, *twice) for words in _cells(side.get(question)))] for question in both
    ]
    return Grid(header, lines)


def _cells(each: "Agreed | None") -> list[str]:
    return [str(each.n), each.equal_words, each.kappa_words] if each else ["0", "–", "–"]


def agreement_notes(found: "Sequence[Agreement]") -> list[str]:
    """Return notes on reading the table of agreement; empty if there is none."""
    if not found:
        return []
    others = [f"Published twice: {one.a.name} and {one.b.name}." for one in found[1:]]
    alone = "A second run in the published layout (`--reuse-hours 0`) would show how far that agrees with itself."
    return ["Agreement: the same answers, all candidates together.", *(others or [alone])]
