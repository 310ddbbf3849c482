"""Rates of a run with their intervals: the judge's agreement with itself, and verdicts that outcomes depend on."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations, pairwise
from statistics import fmean
from typing import Literal

from tasks.records import OVERALL, OVERALL_SCORE, WINNERS, HistoryRecord, Judgment, Order, Outcome, RunStart
from tasks.statistics.intervals import Interval, interval
from tasks.statistics.scores import HIGHEST_GRADE

SHOWN_FIRST: dict[Order, str] = {"human_first": "Human", "model_first": "Model"}

Answer = str | float
"""The verdict on a pair of figures, or the overall score of an image, 0-10."""
Asked = Mapping[Order, Sequence[Answer]]
"""Order -> the ok answers to one question in that order."""

Measure = Literal[
    "order_flip",
    "reversal",
    "first_position",
    "repeat_agreement",
    "chance_agreement",
    "tier_1",
    "pivotal",
    "p_model",
    "p_tie",
    "p_human",
    "repeat_difference",
    "chance_difference",
]


class RateRow(HistoryRecord):
    """One measure of one candidate on one dimension or tag.

    The dimension `overall` has, for orders and votes, the measures of all dimensions together: of each sample the mean.
    """

    candidate: str
    """System whose figures or images were judged."""
    dimension: str
    """A dimension or tag; overall: all dimensions together (of each sample the mean), and measures of outcomes."""
    measure: Measure
    """Name of the measure. Of both orders: order_flip (share of questions on which they differ) and reversal (Model in
    one, Human in the other). Also first_position: the share of the verdicts Model or Human that name the figure shown
    first, both orders alike; 0.5 is no bias. Of several votes: repeat_agreement (share of pairs in the same order that
    agree). If each vote were drawn from all votes on the dimension in that order, it would be chance_agreement. Of
    votes on generated images: repeat_difference (mean distance of two scores of an image, 0-10). If each score were
    drawn from all scores of the tag, it would be chance_difference. Of outcomes: tier_1 (share that tier 1 decided),
    p_model, p_tie and p_human (mean chances). Also pivotal: the share that another verdict, alone, would have changed;
    of a dimension, another verdict of its own."""
    n: int
    """Samples (of generated images: prompts) with a value of the measure, which the interval resamples."""
    value: float | None
    """Mean over them: a share, 0-1; of repeat_difference and chance_difference 0-10."""
    ci_low: float | None
    """Lower end of the 95% interval; None below n = 8."""
    ci_high: float | None
    """Upper end of the 95% interval; None below n = 8."""
    method: str
    """Method of the interval: bayesian bootstrap, binomial (all values equal) or none."""


def repeated(start: RunStart) -> bool:
    """Return whether a run asks any question more than once, in both orders or with several votes."""
    return start.parameters.get("orders") == "both" or start.parameters.get("votes", 1) != 1


_Place = tuple[str, str, Measure]
"""Candidate, dimension and measure."""
_Found = Iterator[tuple[str, Measure, float]]
"""Dimension, measure and value of one sample."""


@dataclass
class RateTally:
    """Rates of a run while its rows are read, outcomes and judgments in any order."""

    _values: defaultdict[_Place, list[float]] = field(default_factory=lambda: defaultdict(list))
    _units: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """(Candidate, image) -> its prompt, resampled as a whole because its images are alike. Figures have none."""
    _said: defaultdict[tuple[str, str], dict[tuple[str, Order, int], Answer | None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """(Candidate, sample) -> answer in the last attempt of each of its calls."""

    def decide(self, outcome: Outcome) -> None:
        """Add the outcome of a real sample."""
        if outcome.prompt_id:
            self._units[outcome.candidate, outcome.sample_id] = outcome.prompt_id
        for dimension, measure, value in _decided(outcome):
            self._values[outcome.candidate, dimension, measure].append(value)

    def with_judgments(self, judgments: Iterable[Judgment]) -> "RateTally":
        """Return a tally of the same outcomes with these judgments, in the order of the ledger."""
        other = replace(self, _said=defaultdict(dict))
        for judgment in judgments:
            other.hear(judgment)
        return other

    def hear(self, judgment: Judgment) -> None:
        """Add a judgment, unless it is about a control; a later attempt of the same call replaces it."""
        if not judgment.control:
            call = judgment.dimension, judgment.order, judgment.vote
            self._said[judgment.candidate, judgment.sample_id][call] = answer(judgment)

    def rows(self) -> list[RateRow]:
        """Return a row for every rate with at least one value."""
        units: defaultdict[_Place, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (candidate, sample_id), said in self._said.items():
            unit = self._units.get((candidate, sample_id), sample_id)
            for dimension, measure, value in _heard(said):
                units[candidate, dimension, measure][unit].append(value)
        heard = {place: [fmean(values) for values in found.values()] for place, found in units.items()}
        agreed = {place: len(values) for place, values in heard.items() if place[2] in _CHANCE}
        return [
            *(_row(*place, values) for place, values in {**self._values, **heard}.items()),
            *_by_chance(self._said, agreed),
        ]


def _decided(outcome: Outcome) -> _Found:
    flips = {each.dimension: each.order_flip for each in outcome.dimensions if each.order_flip is not None}
    yield from _with_overall("order_flip", flips)
    reversals = {each.dimension: each.reversal for each in outcome.dimensions if each.reversal is not None}
    yield from _with_overall("reversal", reversals)
    if not _says_what_decided(outcome):
        return
    for each in outcome.dimensions:
        yield each.dimension, "pivotal", each.dimension in outcome.pivotal
    yield OVERALL, "pivotal", bool(outcome.pivotal)
    if outcome.tier != "either":
        yield OVERALL, "tier_1", outcome.tier == "tier 1"
    # A missing verdict that cannot change the outcome leaves the outcome, but not the chances.
    if outcome.p_model is not None and outcome.p_tie is not None and outcome.p_human is not None:
        yield OVERALL, "p_model", outcome.p_model
        yield OVERALL, "p_tie", outcome.p_tie
        yield OVERALL, "p_human", outcome.p_human


def _says_what_decided(outcome: Outcome) -> bool:
    """Return whether this is a decided pair, in a row that has the verdicts it depends on."""
    voted = any(each.published is not None for each in outcome.dimensions)
    return outcome.status == "complete" and (outcome.p_model is not None or bool(outcome.pivotal) or voted)


def _heard(said: Mapping[tuple[str, Order, int], Answer | None]) -> _Found:
    questions: defaultdict[str, defaultdict[Order, list[Answer]]] = defaultdict(lambda: defaultdict(list))
    for (dimension, order, _), words in said.items():
        if words is not None:
            questions[dimension][order].append(words)
    yield from _with_overall("first_position", _known(questions, first_position))
    yield from _with_overall("repeat_agreement", _known(questions, agreement))
    for tag, value in _known(questions, difference).items():
        yield tag, "repeat_difference", value


def _by_chance(
    said: Mapping[tuple[str, str], Mapping[tuple[str, Order, int], Answer | None]], agreed: Mapping[_Place, int]
) -> Iterator[RateRow]:
    """Yield rates by chance, for each agreement or distance of votes; they have no error."""
    votes: defaultdict[tuple[str, str], defaultdict[Order, Counter[Answer]]] = defaultdict(lambda: defaultdict(Counter))
    for (candidate, _), answers in said.items():
        for (dimension, order, _), words in answers.items():
            if words is not None:
                votes[candidate, dimension][order][words] += 1
    for (candidate, dimension, measured), n in agreed.items():
        measure, by_chance = _CHANCE[measured]
        own = [
            by_chance(found)
            for (whose, of), found in votes.items()
            if whose == candidate and dimension in (of, OVERALL)
        ]
        yield RateRow(
            candidate=candidate,
            dimension=dimension,
            measure=measure,
            n=n,
            **Interval(fmean(own), None, None, "none")._asdict(),
        )


def _known(questions: Mapping[str, Asked], of: Callable[[Asked], float | None]) -> dict[str, float]:
    return {dimension: value for dimension, asked in questions.items() if (value := of(asked)) is not None}


def _with_overall(measure: Measure, found: Mapping[str, float]) -> _Found:
    for dimension, value in found.items():
        yield dimension, measure, value
    if found:
        yield OVERALL, measure, fmean(found.values())


def _row(candidate: str, dimension: str, measure: Measure, values: list[float]) -> RateRow:
    found = interval(values, high=HIGHEST_GRADE if measure == "repeat_difference" else 1.0)
    return RateRow(candidate=candidate, dimension=dimension, measure=measure, n=len(values), **found._asdict())


# Measures of one question that was asked more than once, and of one sample.


def answer(judgment: Judgment) -> Answer | None:
    """Return the answer of a judgment; None unless it is ok."""
    if judgment.status != "ok":
        return None
    return judgment.verdict or next(each.score for each in judgment.scores if each.aspect == OVERALL_SCORE)


def first_position(asked: Asked) -> float | None:
    """Return the share of the decisive verdicts, Model or Human, that name the figure shown first.

    Both orders count alike, so that the better figure favours neither: a judge that ignores the order has 0.5 on
    average. None unless both orders were answered and some verdict is decisive.
    """
    shares = [
        fmean(verdict == SHOWN_FIRST[order] for verdict in decisive)
        for order, verdicts in asked.items()
        if (decisive := [verdict for verdict in verdicts if verdict in WINNERS])
    ]
    return fmean(shares) if len(asked) == len(SHOWN_FIRST) and shares else None


def agreement(asked: Asked) -> float | None:
    """Return the share of the pairs of verdicts in the same order that agree; None if there is no pair."""
    same = [one == other for order in SHOWN_FIRST for one, other in combinations(asked.get(order, ()), 2)]
    return fmean(same) if same else None


def chance_agreement(votes: Mapping[Order, Counter[Answer]]) -> float:
    """Return how often two votes in the same order would agree if each were drawn from all votes in that order.

    Args:
        votes: order -> answer -> how often it was given, at least once.
    """
    return fmean(sum((n / given.total()) ** 2 for n in given.values()) for given in votes.values())


def chance_difference(votes: Mapping[Order, Counter[Answer]]) -> float:
    """Return the mean distance of two scores, 0-10, if each were drawn from all scores (Gini's mean difference).

    Args:
        votes: the only order of images -> score -> how often it was given, at least once.
    """
    [given] = votes.values()
    scores = sorted((float(score), n) for score, n in given.items())
    below = (n / given.total() for n in accumulate(n for _, n in scores))
    steps = (upper - lower for (lower, _), (upper, _) in pairwise(scores))
    return sum(2 * share * (1 - share) * step for share, step in zip(below, steps, strict=False))


def difference(asked: Asked) -> float | None:
    """Return the mean absolute difference of the pairs of scores of one image, 0-10; None if there is no pair."""
    apart = [abs(float(one) - float(other)) for one, other in combinations(asked.get("single", ()), 2)]
    return fmean(apart) if apart else None


_CHANCE: Mapping[Measure, tuple[Measure, Callable[[Mapping[Order, Counter[Answer]]], float]]] = {
    "repeat_agreement": ("chance_agreement", chance_agreement),
    "repeat_difference": ("chance_difference", chance_difference),
}
"""Measure of votes -> measure by chance that it is compared with, and the function that computes that."""
