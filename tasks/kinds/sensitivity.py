"""What an outcome depends on: its probabilities, given votes that differ, and the verdicts that would change it.

Both go through the tier rule of `aggregate` case by case, so that they are exact. How often they turn out how, over a
whole run, is for `rates`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

from tasks.kinds.tier_rule import Cast, overall, pairwise_prompts
from tasks.kinds.values import Chances
from tasks.records import TIE, Order
from tasks.rubrics.rubric import Rubric


def chances(cast: Cast, verdicts: Mapping[str, str | None], rubric: Rubric) -> Chances | None:
    """How likely each outcome is, had each dimension been asked once, in one order, of a judge that votes like this.

    First an order is drawn for all dimensions, all alike, then in it an ok vote of each dimension, all alike and
    independently: a judge that prefers the figure shown first does so on every dimension, and dimensions in different
    orders would cancel that out. None where a verdict is missing that some draw of the others would need, so that an
    incomplete sample has none.

    Args:
        cast: the votes; all dimensions were asked in the same orders.
        verdicts: dimension -> what its votes come to, None where it is missing.
        rubric: as `aggregate.overall` takes it.
    """
    names = [name for name, verdict in verdicts.items() if verdict is not None]
    orders: list[Order] = list(dict.fromkeys(order for by_order in cast.values() for order in by_order))
    found: defaultdict[str | None, Fraction] = defaultdict(Fraction)
    for order in orders:
        for draw in product(*(_weights(cast[name][order]).items() for name in names)):
            drawn = dict(zip(names, (verdict for verdict, _ in draw), strict=True))
            weight = prod((weight for _, weight in draw), start=Fraction(1, len(orders)))
            found[overall({**verdicts, **drawn}, rubric).outcome] += weight
    return None if None in found else Chances(*(float(found[outcome]) for outcome in ("Model", TIE, "Human")))


def _weights(votes: Sequence[str | None]) -> Mapping[str, Fraction]:
    """Verdict -> probability that it is drawn from the votes of one order, at least one of which is ok."""
    ok = Counter(vote for vote in votes if vote is not None)
    return {verdict: Fraction(n, ok.total()) for verdict, n in ok.items()}


def pivotal(verdicts: Mapping[str, str | None], rubric: Rubric) -> tuple[str, ...]:
    """Dimensions of which another allowed verdict, alone, would have changed the outcome, or left it undecided.

    None of them where there is no outcome. `Mixed` is no answer that a judge may give: in its place every allowed one
    is tried.
    """
    outcome = overall(verdicts, rubric).outcome
    if outcome is None:
        return ()
    return tuple(
        prompt.dimension
        for prompt in pairwise_prompts(rubric)
        if any(overall({**verdicts, prompt.dimension: other}, rubric).outcome != outcome for other in prompt.verdicts)
    )
