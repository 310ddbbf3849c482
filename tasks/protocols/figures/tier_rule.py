"""Two-tier rule of the PaperBanana protocol, from votes to outcomes, and the factors that change an outcome.

A missing verdict never counts as a neutral one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tasks.protocols.protocol import Decided, last_attempts
from tasks.records import MIXED, TIE, WINNERS, DimensionOutcome, Judgment, Order, OutcomeStatus
from tasks.rubrics.rubric import PairwisePrompt, Rubric
from tasks.statistics.scores import verdict_score

TIERS = (1, 2)

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
    if side in WINNERS:
        return side
    (first, most), *others = [(vote, n) for vote, n in counts.most_common() if vote not in WINNERS]
    return MIXED if others and others[0][1] == most else first


class MergedOrders(NamedTuple):
    """Merged result of the orders of one dimension: fields of its outcome."""

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


def tier(*verdicts: str) -> str:
    """Apply the rule of one tier: the side that more of its verdicts name wins; if they are level, it is a Tie.

    A verdict for Model or Human is one voice for that side, a neutral one is none. For two dimensions this is the
    published rule: the winner that both name, or that one names beside a neutral; otherwise Tie. For one, it is that
    verdict. For more, it is the only rule that treats all dimensions alike and both sides alike, and that lets one more
    voice for a side break a tie (May, 1952).
    """
    return _winner(sum(map(_voice, verdicts)))


def _voice(verdict: str) -> int:
    return {"Model": 1, "Human": -1}.get(verdict, 0)


def _winner(lead: int) -> str:
    """Return the winner of a tier in which so many more verdicts name Model than Human."""
    return TIE if lead == 0 else "Model" if lead > 0 else "Human"


class Overall(NamedTuple):
    """Outcome of the two tiers, the tier that decided, and the path in words."""

    outcome: str | None
    tier: str
    path: str


def overall(verdicts: Mapping[str, str | None], rubric: Rubric) -> Overall:
    """Combine one verdict a dimension by the two-tier rule.

    Args:
        verdicts: dimension -> verdict, None if it is missing.
        rubric: defines the dimensions of each tier and the allowed verdicts of each dimension.

    Returns:
        Outcome (Model, Human, Tie). With missing verdicts it is None, unless all their allowed values give the same
        outcome. The tier is `either` if the missing values would decide it.
    """
    given = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    names = [prompt.dimension for prompt in pairwise_prompts(rubric) if prompt.dimension not in given]
    if not names:
        result, path = TIE, list[str]()
        for number in TIERS:
            its = {prompt.dimension: given[prompt.dimension] for prompt in in_tier(number, rubric)}
            result = tier(*its.values())
            said = ", ".join(f"{name} {verdict}" for name, verdict in its.items())
            path.append(f"tier {number}: {said} -> {result}")
            if result != TIE:
                break
        return Overall(result, f"tier {len(path)}", "; ".join(path))
    first, second = (_leads(number, given, rubric) for number in TIERS)
    outcomes, tiers = _possible(first, second)
    missing = f"{' and '.join(names)} missing"
    if len(outcomes) > 1:
        return Overall(None, "", f"{missing}: the outcome could be {' or '.join(outcomes)}")
    said = ", ".join(f"{name} {verdict}" for name, verdict in given.items())
    path = f"{said}; {missing}, but every allowed answer leads to {outcomes[0]}"
    return Overall(outcomes[0], tiers[0] if len(tiers) == 1 else "either", path)


def in_tier(number: int, rubric: Rubric) -> list[PairwisePrompt]:
    """Return the prompts of a tier, in the order of the rubric."""
    return [prompt for prompt in pairwise_prompts(rubric) if prompt.tier == number]


def _leads(number: int, given: Mapping[str, str], rubric: Rubric) -> frozenset[int]:
    """Return by how many verdicts Model may lead in a tier, over all allowed values of those that are not given."""
    leads = {0}
    for prompt in in_tier(number, rubric):
        verdicts = [given[prompt.dimension]] if prompt.dimension in given else prompt.verdicts
        leads = {lead + _voice(verdict) for lead in leads for verdict in verdicts}
    return frozenset(leads)


def _possible(first: Iterable[int], second: Iterable[int]) -> tuple[list[str], list[str]]:
    """Return the outcomes that these leads in both tiers allow, sorted, and the tiers that may decide."""
    of_first, of_second = set(map(_winner, first)), set(map(_winner, second))
    tiers = [name for name, decides in (("tier 1", of_first != {TIE}), ("tier 2", TIE in of_first)) if decides]
    return sorted((of_first - {TIE}) | (of_second if TIE in of_first else set[str]())), tiers


def decide(judgments: Iterable[Judgment], rubric: Rubric, orders: Sequence[Order], votes: int) -> Decided:
    """Decide a sample whose pictures were judged, from its judgments: all attempts, in any order."""
    verdict_of = {call: row.verdict for call, row in last_attempts(judgments).items()}
    cast: Cast = {
        name: {order: [verdict_of.get((name, order, vote)) for vote in range(1, votes + 1)] for order in orders}
        for name in (prompt.dimension for prompt in rubric.prompts)
    }
    dimensions = tuple(_dimension(dimension, by_order) for dimension, by_order in cast.items())
    verdicts = {each.dimension: each.verdict for each in dimensions}
    result = overall(verdicts, rubric)
    return Decided(
        status="complete" if result.outcome else "incomplete",
        overall=result.outcome,
        score=verdict_score(result.outcome),
        pivotal=pivotal(verdicts, rubric),
        tier=result.tier,
        tier_path=result.path,
        dimensions=dimensions,
    )


def undecided(status: OutcomeStatus, problem: str, rubric: Rubric) -> Decided:
    """Decide a sample that lacks a picture: a forfeit scores 0 on everything, the other statuses have no score."""
    score = 0.0 if status == "forfeit" else None
    dimensions = tuple(DimensionOutcome(dimension=p.dimension, verdict=None, score=score) for p in rubric.prompts)
    return Decided(status, score, f"{status.replace('_', ' ')}: {problem}", dimensions, problem=problem)


def _dimension(dimension: str, cast: Mapping[Order, Sequence[str | None]]) -> DimensionOutcome:
    by_order: dict[Order, str | None] = {order: merge_votes(votes) for order, votes in cast.items()}
    merged = merge_orders(by_order)
    votes = [vote for each in cast.values() for vote in each]
    return DimensionOutcome(
        dimension=dimension,
        **merged._asdict(),
        score=verdict_score(merged.verdict),
        human_first=by_order.get("human_first"),
        model_first=by_order.get("model_first"),
        votes=len(votes),
        ok_votes=sum(vote is not None for vote in votes),
    )


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
