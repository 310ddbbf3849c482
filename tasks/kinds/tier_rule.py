"""Two-tier rule of the PaperBanana protocol, from votes to outcomes, and the factors that change an outcome.

A missing verdict never counts as a neutral one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple

from tasks.kinds.values import Chances, Decided, Lack, last_attempts
from tasks.records import MIXED, TIE, WINNERS, DimensionOutcome, Judgment, Order
from tasks.rubrics.pairwise_prompt import PairwisePrompt
from tasks.rubrics.rubric import Rubric
from tasks.statistics.scores import verdict_score

AGGREGATION = "1"
"""Version of the rules below; part of the protocol key."""


Cast = Mapping[str, Mapping[Order, Sequence[str | None]]]
"""Dimension -> order -> its votes, the first one first; None: a vote that is not ok."""


def merge_votes(votes: Sequence[str | None]) -> str | None:
    """Merge the votes of one order into a verdict; None is a vote that is not ok.

    The verdict with more than half of the ok votes wins; else the one of Model, Human and neutral with the most votes.
    Among neutrals the one with more votes wins, or `Mixed` if they are level. If the sides are level, the result is
    `Mixed`. It is None if fewer than half of the votes are ok.
    """
    ok = [vote for vote in votes if vote is not None]
    if 2 * len(ok) < len(votes) or not ok:
        return None
    counts = Counter(ok)
    first, most = counts.most_common(1)[0]
    if 2 * most > len(ok):
        return first
    (side, lead), *others = Counter(vote if vote in WINNERS else MIXED for vote in ok).most_common()
    if others and others[0][1] == lead:
        return MIXED
    return side if side in WINNERS else _leading({vote: n for vote, n in counts.items() if vote not in WINNERS})


def _leading(counts: Mapping[str, int]) -> str:
    (first, most), *others = Counter(counts).most_common()
    return MIXED if others and others[0][1] == most else first


class MergedOrders(NamedTuple):
    """Merged result of the orders of one dimension."""

    verdict: str | None
    order_flip: bool | None
    reversal: bool | None


def merge_orders(by_order: Mapping[Order, str | None]) -> MergedOrders:
    """Merge the verdicts of the orders: equal ones agree, different ones give `Mixed`, a missing one gives None.

    `order_flip` and `reversal` (Model in one order, Human in the other) are None unless both orders gave a verdict.
    """
    found = list(by_order.values())
    if None in found:
        return MergedOrders(None, None, None)
    if len(found) == 1:
        return MergedOrders(found[0], None, None)
    flip = found[0] != found[1]
    return MergedOrders(MIXED if flip else found[0], flip, set(found) >= WINNERS)


def pairwise_prompts(rubric: Rubric) -> tuple[PairwisePrompt, ...]:
    """Return the prompts of a pairwise flow; another flow has none."""
    return tuple(prompt for prompt in rubric.prompts if isinstance(prompt, PairwisePrompt))


def tier(first: str, second: str) -> str:
    """Apply the rule of one tier: the winner that both name, or that one names beside a neutral; otherwise Tie."""
    winners = {first, second} & WINNERS
    return winners.pop() if len(winners) == 1 else TIE


class Overall(NamedTuple):
    """Outcome of the two tiers, the tier that decided, and the path in words."""

    outcome: str | None
    tier: str
    path: str


def overall(verdicts: Mapping[str, str | None], rubric: Rubric) -> Overall:
    """Combine one verdict a dimension by the two-tier rule.

    Args:
        verdicts: dimension -> verdict, None if it is missing.
        rubric: defines the two dimensions of each tier and the allowed verdicts of each dimension.

    Returns:
        Outcome (Model, Human, Tie). With missing verdicts it is None, unless all their allowed values give the same
        outcome. The tier is `either` if the missing values would decide it.
    """
    given = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    missing = [prompt for prompt in pairwise_prompts(rubric) if prompt.dimension not in given]
    names = [prompt.dimension for prompt in missing]
    possible = [
        _two_tiers({**given, **dict(zip(names, values, strict=True))}, rubric)
        for values in product(*(prompt.verdicts for prompt in missing))
    ]
    if not missing:
        return possible[0]
    outcomes = sorted({result.outcome for result in possible if result.outcome})
    if len(outcomes) > 1:
        return Overall(None, "", f"{' and '.join(names)} missing: the outcome could be {' or '.join(outcomes)}")
    tiers = {result.tier for result in possible}
    said = ", ".join(f"{name} {verdict}" for name, verdict in given.items())
    path = f"{said}; {' and '.join(names)} missing, but every allowed answer leads to {outcomes[0]}"
    return Overall(outcomes[0], tiers.pop() if len(tiers) == 1 else "either", path)


def _two_tiers(verdicts: Mapping[str, str], rubric: Rubric) -> Overall:
    first, first_words = _one_tier(1, verdicts, rubric)
    if first != TIE:
        return Overall(first, "tier 1", first_words)
    second, second_words = _one_tier(2, verdicts, rubric)
    return Overall(second, "tier 2", f"{first_words}; {second_words}")


def _one_tier(number: int, verdicts: Mapping[str, str], rubric: Rubric) -> tuple[str, str]:
    one, other = (prompt.dimension for prompt in pairwise_prompts(rubric) if prompt.tier == number)
    result = tier(verdicts[one], verdicts[other])
    return result, f"tier {number}: {one} {verdicts[one]}, {other} {verdicts[other]} -> {result}"


def decide(judgments: Iterable[Judgment], rubric: Rubric, orders: Sequence[Order], votes: int) -> Decided:
    """Decide a sample whose pictures were judged, from its judgments: all attempts, in any order."""
    cast = _cast(last_attempts(judgments), rubric, orders, votes)
    dimensions = tuple(_dimension(dimension, by_order) for dimension, by_order in cast.items())
    verdicts = {each.dimension: each.verdict for each in dimensions}
    result = overall(verdicts, rubric)
    return Decided(
        status="complete" if result.outcome else "incomplete",
        overall=result.outcome,
        score=verdict_score(result.outcome),
        published=overall({each.dimension: each.published for each in dimensions}, rubric).outcome,
        chances=chances(cast, verdicts, rubric) if result.outcome else None,
        pivotal=pivotal(verdicts, rubric),
        tier=result.tier,
        path=result.path,
        dimensions=dimensions,
    )


def undecided(lack: Lack, rubric: Rubric) -> Decided:
    """Decide a sample that lacks a picture: a forfeit scores 0 on everything, the other statuses have no score."""
    score = 0.0 if lack.status == "forfeit" else None
    dimensions = tuple(DimensionOutcome(dimension=p.dimension, verdict=None, score=score) for p in rubric.prompts)
    return Decided(lack.status, score, f"{lack.status.replace('_', ' ')}: {lack.problem}", dimensions)


def _cast(
    latest: Mapping[tuple[str, Order, int], Judgment], rubric: Rubric, orders: Sequence[Order], votes: int
) -> Cast:
    def vote(dimension: str, order: Order, number: int) -> str | None:
        row = latest.get((dimension, order, number))
        return row.verdict if row else None

    return {
        prompt.dimension: {order: [vote(prompt.dimension, order, n) for n in range(1, votes + 1)] for order in orders}
        for prompt in rubric.prompts
    }


def _dimension(dimension: str, cast: Mapping[Order, Sequence[str | None]]) -> DimensionOutcome:
    by_order: dict[Order, str | None] = {order: merge_votes(votes) for order, votes in cast.items()}
    merged = merge_orders(by_order)
    votes = [vote for each in cast.values() for vote in each]
    return DimensionOutcome(
        dimension=dimension,
        verdict=merged.verdict,
        score=verdict_score(merged.verdict),
        human_first=by_order.get("human_first"),
        model_first=by_order.get("model_first"),
        published=cast["human_first"][0] if "human_first" in cast else None,
        votes=len(votes),
        ok_votes=sum(vote is not None for vote in votes),
        order_flip=merged.order_flip,
        reversal=merged.reversal,
    )


def chances(cast: Cast, verdicts: Mapping[str, str | None], rubric: Rubric) -> Chances | None:
    """Return the probability of each outcome if a judge with these votes were asked each dimension once, in one order.

    First an order is drawn for all dimensions, with equal probabilities. Then an ok vote of each dimension is drawn in
    it, independently and with equal probabilities. A judge that prefers the figure shown first does so on every
    dimension, and different orders would cancel that out. None: some draw needs a missing verdict, so that an
    incomplete sample has no chances.

    Args:
        cast: the votes; all dimensions were asked in the same orders.
        verdicts: dimension -> merged verdict of its votes, None if it is missing.
        rubric: see `overall`.
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
    """Return verdict -> probability of drawing it from the votes of one order, at least one of which is ok."""
    ok = Counter(vote for vote in votes if vote is not None)
    return {verdict: Fraction(n, ok.total()) for verdict, n in ok.items()}


def pivotal(verdicts: Mapping[str, str | None], rubric: Rubric) -> tuple[str, ...]:
    """Return the dimensions on which another allowed verdict alone would change the outcome or leave it undecided.

    Empty if there is no outcome. A judge may not answer `Mixed`: all allowed verdicts are tried in its place.
    """
    outcome = overall(verdicts, rubric).outcome
    if outcome is None:
        return ()
    return tuple(
        prompt.dimension
        for prompt in pairwise_prompts(rubric)
        if any(overall({**verdicts, prompt.dimension: other}, rubric).outcome != outcome for other in prompt.verdicts)
    )
