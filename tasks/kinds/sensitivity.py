"""What an outcome depends on: its probabilities, given votes that differ, and the verdicts that would change it.

Both go through the tier rule of `aggregate` case by case, so that they are exact. How often they turn out how, over a
whole run, is for `rates`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

from tasks.kinds.tier_rule import Cast, overall, pairwise_prompts
from tasks.kinds.values import Chances
from tasks.records import TIE, Order
from tasks.rubrics.rubric import Rubric


def chances(cast: Cast, verdicts: Mapping[str, str | None], rubric: Rubric) -> Chances | None:
    """How likely each outcome is, had each dimension been asked once, in either order, of a judge that votes like this.

    Each dimension's verdict is drawn from its ok votes: first the order, all alike, then one of its votes, all alike.
    Dimensions are drawn independently. None where a verdict is missing that some draw of the others would need, so
    that an incomplete sample has none.

    Args:
        cast: the votes.
        verdicts: dimension -> what its votes come to, None where it is missing.
        rubric: as `aggregate.overall` takes it.
    """
    names = [name for name, verdict in verdicts.items() if verdict is not None]
    found: defaultdict[str | None, Fraction] = defaultdict(Fraction)
    for draw in product(*(_weights(cast[name]).items() for name in names)):
        drawn = dict(zip(names, (verdict for verdict, _ in draw), strict=True))
        found[overall({**verdicts, **drawn}, rubric).outcome] += prod(weight for _, weight in draw)
    return None if None in found else Chances(*(float(found[outcome]) for outcome in ("Model", TIE, "Human")))


def _weights(by_order: Mapping[Order, Sequence[str | None]]) -> Mapping[str, Fraction]:
    """Verdict -> probability that it is drawn from the votes of a dimension, every order of which has an ok vote."""
    weights: defaultdict[str, Fraction] = defaultdict(Fraction)
    for votes in by_order.values():
        ok = [vote for vote in votes if vote is not None]
        for vote in ok:
            weights[vote] += Fraction(1, len(ok) * len(by_order))
    return weights


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
