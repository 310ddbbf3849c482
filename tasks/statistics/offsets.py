"""Shift of one judge's scores from another's on the same samples, and the decision that it allows."""

from collections.abc import Sequence
from math import ceil, floor, log10

from tasks.records import Decision, Offset

MARGIN = 3.0
"""Points of a scale of 100 by which a history may be off if another judge continues it."""
TAIL = 0.02
"""Share that an interval leaves out at either end. An offset remains in a history, so its interval must hold 95% with
any judges: set to 96%, it holds 94-97% with all simulated ones (`tests/simulate_bridge.py`)."""
CONTINUED, WITH_OFFSET, CANNOT_TELL = "may be continued", "with an offset", "cannot tell"


def offset(old: Sequence[float], new: Sequence[float], highest: float = 100.0, margin: float = MARGIN) -> Offset:
    """Compare two judges by equally long rows of their scores of the same samples, between 0 and `highest`.

    The interval is that of `paired.difference`. If too few pairs differ for one, it is that of a level on the scale of
    differences, which is wider.

    Args:
        margin: points of a scale of 100.

    Raises:
        ValueError: the rows differ in length, or a score is off the scale.
    """
    # These load numpy, which readers of a bridge do without.
    from tasks.statistics.intervals import interval
    from tasks.statistics.paired import difference

    found = difference(old, new, highest, TAIL)
    low, high = found.ci_low, found.ci_high
    if low is None or high is None:
        changes = [after - before for before, after in zip(old, new, strict=True)]
        _, low, high, *_ = interval(changes, -highest, highest)
    allowed = margin * highest / 100
    return Offset(
        n=found.n,
        old_score=found.before,
        new_score=found.after,
        shift=found.change,
        ci_low=low,
        ci_high=high,
        margin=allowed,
        decision=decide(low, high, allowed),
        enough=samples_for(found.n, low, high, allowed),
    )


def decide(low: float | None, high: float | None, margin: float) -> Decision:
    """Return the decision that a shift's interval allows; without an interval, `CANNOT_TELL`."""
    if low is None or high is None:
        return CANNOT_TELL
    if -margin <= low and high <= margin:
        return CONTINUED
    return WITH_OFFSET if (high - low) / 2 <= margin else CANNOT_TELL


def samples_for(n: int, low: float | None, high: float | None, margin: float) -> int | None:
    """Return how many samples would narrow an interval to the margin on either side, rounded up to two digits.

    An interval narrows with the square root of their number. None: it is narrow enough, or there is none.
    """
    if low is None or high is None or (high - low) / 2 <= margin:
        return None
    needed = n * ((high - low) / 2 / margin) ** 2
    step = 10 ** max(0, floor(log10(needed)) - 1)
    return ceil(needed / step) * step
