"""What people say of a pair of figures: the rows of their labels, their votes as one, how far two raters agree.

Owns what of this is peculiar to verdicts. How votes are merged is the judge's rule too and stands in `tier_rule`, the
statistics in `statistics.concordance`.
"""

from collections.abc import Sequence

from tasks.datasets.cells import Cells
from tasks.errors import InputError
from tasks.kinds.tier_rule import merge_votes
from tasks.kinds.values import CANNOT_TELL, Answered, Category, Choice, PeopleQuestion
from tasks.ledger.label_pages import LabelItem
from tasks.ledger.label_sets import LabelRow
from tasks.records import MIXED, OVERALL, TIE, VERDICTS
from tasks.rubrics.rubric import Rubric
from tasks.statistics.concordance import Concordance, kappa, paired, raw_agreement, tau_b
from tasks.statistics.scores import verdict_score
from tasks.text import listed

REQUIRED = ("id", "dimension", "verdict")
OPTIONAL = ("candidate", "annotator", "order")
ORDERS = ("human_first", "model_first")
CATEGORIES = ("Model", *(verdict for verdict in VERDICTS if verdict.startswith("Both")), MIXED, TIE, "Human")
NOTES = (
    "equal: the same answer; kappa: Cohen's; both keep Both are good and bad apart",
    "tau-b: Kendall's, on the scale Model > neutral > Human; [ ]: 95% interval",
)

_SIDES = (Choice("1", "left", "Left is better"), Choice("2", "right", "Right is better"))
_SAME = Choice("3", "tie", "No difference")
_NEUTRAL = (Choice("3", "good", "Both are good"), Choice("4", "bad", "Both are bad"))
_NEUTRAL_VERDICTS = {"tie": TIE, "good": "Both are good", "bad": "Both are bad"}
_HINTS = {
    OVERALL: "What it shows of the method or data, and how easily it is read, count first; where these tie, how "
    "concise and how good-looking it is.",
    "faithfulness": "Which one shows what the text says, with nothing wrong and nothing that matters left out?",
    "conciseness": "Which one shows what matters and leaves out what does not?",
    "readability": "Which one is easier to follow: order, lines, size and contrast of texts?",
    "aesthetics": "Which one looks better and fits a paper?",
}


def people_questions(rubric: Rubric, chosen: Sequence[str]) -> tuple[PeopleQuestion, ...]:
    """What people are asked of a pair: which figure is better, overall or on these dimensions.

    Raises:
        InputError: one of them is no dimension.
    """
    known = (OVERALL, *(prompt.dimension for prompt in rubric.prompts))
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(
            f"{listed(unknown)}: {rubric.flow} figures have no such dimension, allowed are {listed(known)}"
        )
    return tuple(_people_question(name) for name in dict.fromkeys(chosen or (OVERALL,)))


def _people_question(name: str) -> PeopleQuestion:
    words = "Which figure is better, all in all?" if name == OVERALL else f"Which figure is better in {name}?"
    neutral = (_SAME,) if name == OVERALL else _NEUTRAL
    return PeopleQuestion(name, words, _HINTS.get(name, ""), (*_SIDES, *neutral, CANNOT_TELL))


def people_label(item: LabelItem, question: str, answer: str) -> LabelRow:
    """An allowed answer about a blind pair as a verdict on the sample, if it is one."""
    sides = {"left": item.left, "right": "model" if item.left == "human" else "human"}
    verdict = sides[answer].capitalize() if answer in sides else _NEUTRAL_VERDICTS.get(answer)
    return LabelRow(
        sample_id=item.sample_id,
        candidate=item.candidate,
        dimension=question,
        verdict=verdict,
        annotator="",
        order=f"{item.left}_first",
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
    scale = paired([worth(each) for each in first], [worth(each) for each in second], drawn)
    return Concordance(raw_agreement(categories), kappa(categories), tau_b(scale))


def worth(answer: Answered) -> float:
    """Model 100, a neutral 50, Human 0."""
    return verdict_score(str(answer)) or 0.0
