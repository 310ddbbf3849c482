"""Labels of pairwise figures: verdicts by people."""

from collections.abc import Collection, Mapping, Sequence

from tasks.datasets.rows import Cells
from tasks.errors import InputError
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.figures.tier_rule import TIERS, in_tier, merge_votes, overall
from tasks.protocols.labels import CANNOT_TELL, Choice, LabelRules, PeopleQuestion, Scale
from tasks.protocols.protocol import Answered
from tasks.records import MIXED, OVERALL, TIE, VERDICTS, WINNERS
from tasks.rubrics.rubric import Rubric
from tasks.statistics.scores import NEUTRAL_SCORE
from tasks.text import enumerated, listed

ORDERS = ("human_first", "model_first")
NEUTRALS = (*(verdict for verdict in VERDICTS if verdict not in WINNERS), MIXED, TIE)
SCALE = Scale({"Model": 100.0, **dict.fromkeys(NEUTRALS, NEUTRAL_SCORE), "Human": 0.0})

_SIDES = (Choice("1", "left", "Left is better"), Choice("2", "right", "Right is better"))
_SAME = Choice("3", "tie", "No difference")
_NEUTRAL = (Choice("3", "good", "Both are good"), Choice("4", "bad", "Both are bad"))
_NEUTRAL_VERDICTS = {"tie": TIE, "good": "Both are good", "bad": "Both are bad"}
_HINTS = {
    "faithfulness": "Which one shows what the text says, with nothing wrong and nothing that matters left out?",
    "conciseness": "Which one shows what matters and leaves out what does not?",
    "readability": "Which one is easier to follow: order, lines, size and contrast of texts?",
    "aesthetics": "Which one looks better and fits a paper?",
}
_NAMES = {"faithfulness": "faithfulness to the method or data", "aesthetics": "looks"}
"""Dimension -> its name for people, if that says more."""


class FigureLabels(LabelRules):
    """Verdicts of people on a dimension, or overall."""

    required = ("id", "dimension", "verdict")
    optional = ("candidate", "annotator", "order")
    scale = SCALE
    agreement_notes = (
        "equal: the same answer; kappa: Cohen's; both keep Both are good and bad apart",
        "tau-b: Kendall's, on the scale Model > neutral > Human; [ ]: 95% interval",
    )

    def read_label(self, cells: Cells, known: Mapping[str, Collection[str]]) -> LabelRow:
        """Read one verdict. People may give all four on every dimension: a judge's limits do not apply to them."""
        dimension = cells.one_of("dimension", (*known, OVERALL))
        return LabelRow(
            sample_id=cells.filled("id"),
            candidate=cells.text("candidate"),
            dimension=dimension,
            verdict=cells.one_of("verdict", ("Model", "Human", TIE) if dimension == OVERALL else VERDICTS),
            annotator=cells.text("annotator"),
            order=cells.one_of("order", ORDERS, fallback=""),
        )

    def people_questions(self, rubric: Rubric, chosen: Sequence[str]) -> Mapping[str, tuple[PeopleQuestion, ...]]:
        """Return questions for the better figure, overall or on the chosen dimensions."""
        known = (OVERALL, *(prompt.dimension for prompt in rubric.prompts))
        if unknown := [name for name in chosen if name not in known]:
            raise InputError(
                f"{listed(unknown)}: {rubric.flow} figures have no such dimension, allowed are {listed(known)}"
            )
        return {"": tuple(_people_question(name, rubric) for name in dict.fromkeys(chosen or (OVERALL,)))}

    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """Return an allowed answer about a blind pair as a label; the verdict is None if the answer is none."""
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

    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> str | None:
        """Merge verdicts of several people like votes; overall, no majority is a Tie, as in an evaluation."""
        verdict = merge_votes([None if answer is None else str(answer) for answer in answers])
        return TIE if question == OVERALL and verdict == MIXED else verdict

    def overall_of(self, answers: Mapping[str, Answered], rubric: Rubric) -> str | None:
        """Apply the tier rule to the dimensions, as for a judge."""
        return overall({dimension: str(verdict) for dimension, verdict in answers.items()}, rubric).outcome


def _people_question(name: str, rubric: Rubric) -> PeopleQuestion:
    if name == OVERALL:
        words, hint, neutral = "Which figure is better, all in all?", _rule_hint(rubric), (_SAME,)
    else:
        words, hint, neutral = f"Which figure is better in {name.replace('_', ' ')}?", _HINTS.get(name, ""), _NEUTRAL
    return PeopleQuestion(name, words, hint, (*_SIDES, *neutral, CANNOT_TELL))


def _rule_hint(rubric: Rubric) -> str:
    """Return the tier rule for people: the dimensions that count first, and those that decide a tie."""
    first, second = (
        [_NAMES.get(prompt.dimension, prompt.dimension.replace("_", " ")) for prompt in in_tier(number, rubric)]
        for number in TIERS
    )
    count, tie = ("counts", "it ties") if len(first) == 1 else ("count", "these tie")
    return f"{enumerated(first).capitalize()} {count} first; if {tie}, {enumerated(second)}."


LABELS = FigureLabels()
