"""What a judge's answers to one question tell when it was asked more than once, in another order or again.

Owns the measures of a single question and of a single sample. What they come to over a run is for `rates`, what the
votes come to for `kinds`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, combinations, pairwise
from statistics import fmean

from tasks.records import OVERALL_SCORE, WINNERS, Judgment, Order

SHOWN_FIRST: dict[Order, str] = {"human_first": "Human", "model_first": "Model"}

Answer = str | float
"""The verdict on a pair of figures, or the overall score of an image, 0-10."""
Asked = Mapping[Order, Sequence[Answer]]
"""Order -> the ok answers that one question got in it."""


def answer(judgment: Judgment) -> Answer | None:
    """What a judgment says; None unless it is ok."""
    if judgment.status != "ok":
        return None
    return judgment.verdict or next(each.score for each in judgment.scores if each.aspect == OVERALL_SCORE)


def first_position(asked: Asked) -> float | None:
    """Share of the decisive verdicts, Model or Human, that name the figure shown first.

    Both orders count alike, so that the better figure favours neither: a judge that does not mind the order comes to
    0.5 on average. None unless both orders were answered, and where no verdict is decisive.
    """
    shares = [
        fmean(verdict == SHOWN_FIRST[order] for verdict in decisive)
        for order, verdicts in asked.items()
        if (decisive := [verdict for verdict in verdicts if verdict in WINNERS])
    ]
    return fmean(shares) if len(asked) == len(SHOWN_FIRST) and shares else None


def agreement(asked: Asked) -> float | None:
    """Share of the pairs of verdicts in the same order that agree; None where there is no pair."""
    same = [one == other for order in SHOWN_FIRST for one, other in combinations(asked.get(order, ()), 2)]
    return fmean(same) if same else None


def chance_agreement(votes: Mapping[Order, Counter[Answer]]) -> float:
    """How often two votes in the same order would agree if each were drawn from all there are in that order.

    Args:
        votes: order -> answer -> how often it was given, at least once.
    """
    return fmean(sum((n / given.total()) ** 2 for n in given.values()) for given in votes.values())


def chance_difference(votes: Mapping[Order, Counter[Answer]]) -> float:
    """How far two scores would be apart on average, 0-10, if each were drawn from all there are (Gini's mean
    difference).

    Args:
        votes: the only order of images -> score -> how often it was given, at least once.
    """
    [given] = votes.values()
    scores = sorted((float(score), n) for score, n in given.items())
    below = (n / given.total() for n in accumulate(n for _, n in scores))
    steps = (upper - lower for (lower, _), (upper, _) in pairwise(scores))
    return sum(2 * share * (1 - share) * step for share, step in zip(below, steps, strict=False))


def difference(asked: Asked) -> float | None:
    """Mean absolute difference of the pairs of scores of one image, 0-10; None where there is no pair."""
    apart = [abs(float(one) - float(other)) for one, other in combinations(asked.get("single", ()), 2)]
    return fmean(apart) if apart else None
