"""What people say of a pair of figures: the rows of their labels, their votes as one, how far two raters agree.

Owns what of this is peculiar to verdicts. How votes are merged is the judge's rule too and stands in `tier_rule`, the
statistics in `statistics.concordance`.
"""

from collections.abc import Sequence

from tasks.datasets.cells import Cells
from tasks.kinds.tier_rule import merge_votes
from tasks.kinds.values import Answered, Category
from tasks.ledger.label_sets import LabelRow
from tasks.records import MIXED, OVERALL, TIE, VERDICTS
from tasks.rubrics.rubric import Rubric
from tasks.statistics.concordance import Concordance, kappa, paired, raw_agreement, tau_b
from tasks.statistics.scores import verdict_score

REQUIRED = ("id", "dimension", "verdict")
OPTIONAL = ("candidate", "annotator", "order")
ORDERS = ("human_first", "model_first")
CATEGORIES = ("Model", *(verdict for verdict in VERDICTS if verdict.startswith("Both")), MIXED, TIE, "Human")
NOTES = (
    "equal: the same answer; kappa: Cohen's; both keep Both are good and bad apart",
    "tau-b: Kendall's, on the scale Model > neutral > Human; [ ]: 95% interval",
)


def read_label(cells: Cells, rubric: Rubric) -> LabelRow:
    """One verdict. All four are allowed on every dimension: people are not bound by what a judge may answer."""
    dimension = cells.one_of("dimension", (*(prompt.dimension for prompt in rubric.prompts), OVERALL))
    return LabelRow(
        sample_id=cells.filled("id"),
        candidate=cells.text("candidate"),
        dimension=dimension,
        verdict=cells.one_of("verdict", ("Model", "Human", TIE) if dimension == OVERALL else VERDICTS),
        annotator=cells.text("annotator"),
        order=cells.one_of("order", ORDERS, fallback=""),
    )


def merged(question: str, answers: Sequence[Answered | None]) -> str | None:
    """Verdicts of several people merged as votes are; overall, no majority is a Tie, as an evaluation would say."""
    verdict = merge_votes([None if answer is None else str(answer) for answer in answers])
    return TIE if question == OVERALL and verdict == MIXED else verdict


def category(answer: Answered) -> Category:
    """The verdict, in its place between Model and Human."""
    return Category(CATEGORIES.index(str(answer)), str(answer))


def concordance(first: Sequence[Answered], second: Sequence[Answered], drawn: Sequence[str]) -> Concordance:
    """Verdicts as categories; for tau on the scale Model > neutral > Human."""
    categories = paired([category(each).place for each in first], [category(each).place for each in second], drawn)
    scale = paired([_worth(each) for each in first], [_worth(each) for each in second], drawn)
    return Concordance(raw_agreement(categories), kappa(categories), tau_b(scale))


def _worth(answer: Answered) -> float:
    return verdict_score(str(answer)) or 0.0
