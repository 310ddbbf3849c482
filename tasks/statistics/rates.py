"""Rates of a run with their intervals: the judge's agreement with itself, and verdicts that outcomes depend on."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Literal

from tasks.records import OVERALL, OVERALL_SCORE, WINNERS, HistoryRecord, Judgment, Order, Outcome, RunStart
from tasks.statistics.intervals import interval
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
    "tier_1",
    "pivotal",
    "repeat_difference",
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
    agree). Of votes on generated images: repeat_difference (mean distance of two scores of an image, 0-10). Of
    outcomes: tier_1 (share that tier 1 decided), and pivotal: the share that another verdict, alone, would have
    changed; of a dimension, another verdict of its own."""
    n: int
    """Samples (of generated images: prompts) with a value of the measure, which the interval resamples."""
    value: float | None
    """Mean over them: a share, 0-1; of repeat_difference 0-10."""
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
    """Rates of a run while its outcomes are read."""

    _values: defaultdict[_Place, list[float]] = field(default_factory=lambda: defaultdict(list))
    _units: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """(Candidate, image) -> its prompt, resampled as a whole because its images are alike. Figures have none."""

    def decide(self, outcome: Outcome) -> None:
        """Add the outcome of a real sample."""
        if outcome.prompt_id:
            self._units[outcome.candidate, outcome.sample_id] = outcome.prompt_id
        for dimension, measure, value in _decided(outcome):
            self._values[outcome.candidate, dimension, measure].append(value)

    def rows(self, judgments: Iterable[Judgment]) -> list[RateRow]:
        """Return a row for every rate with at least one value.

        Args:
            judgments: judgments of the run in the order of the ledger; the last attempt of a call counts, controls do
                not. Without any, only rates of outcomes are returned.
        """
        answers: defaultdict[tuple[str, str], dict[tuple[str, Order, int], Answer | None]] = defaultdict(dict)
        for each in judgments:
            if not each.control:
                answers[each.candidate, each.sample_id][each.dimension, each.order, each.vote] = answer(each)
        units: defaultdict[_Place, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (candidate, sample_id), said in answers.items():
            unit = self._units.get((candidate, sample_id), sample_id)
            for dimension, measure, value in _heard(said):
                units[candidate, dimension, measure][unit].append(value)
        heard = {place: [fmean(values) for values in found.values()] for place, found in units.items()}
        return [_row(*place, values) for place, values in {**self._values, **heard}.items()]


def _decided(outcome: Outcome) -> _Found:
    flips = {each.dimension: each.order_flip for each in outcome.dimensions if each.order_flip is not None}
    yield from _with_overall("order_flip", flips)
    reversals = {each.dimension: each.reversal for each in outcome.dimensions if each.reversal is not None}
    yield from _with_overall("reversal", reversals)
    if outcome.status != "complete" or not outcome.tier:
        return
    for each in outcome.dimensions:
        yield each.dimension, "pivotal", each.dimension in outcome.pivotal
    yield OVERALL, "pivotal", bool(outcome.pivotal)
    if outcome.tier != "either":
        yield OVERALL, "tier_1", outcome.tier == "tier 1"


def _heard(said: Mapping[tuple[str, Order, int], Answer | None]) -> _Found:
    questions: defaultdict[str, defaultdict[Order, list[Answer]]] = defaultdict(lambda: defaultdict(list))
    for (dimension, order, _), words in said.items():
        if words is not None:
            questions[dimension][order].append(words)
    yield from _with_overall("first_position", _known(questions, first_position))
    yield from _with_overall("repeat_agreement", _known(questions, agreement))
    for tag, value in _known(questions, difference).items():
        yield tag, "repeat_difference", value


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
    """Return the answer of a judgment; None unless it is ok and about the whole: checks have no rates."""
    if judgment.status != "ok":
        return None
    return judgment.verdict or next((each.score for each in judgment.scores if each.aspect == OVERALL_SCORE), None)


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


def difference(asked: Asked) -> float | None:
    """Return the mean absolute difference of the pairs of scores of one image, 0-10; None if there is no pair."""
    apart = [abs(float(one) - float(other)) for one, other in combinations(asked.get("single", ()), 2)]
    return fmean(apart) if apart else None
