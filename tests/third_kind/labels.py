"""Labels of the kind: people answer the questions that the judge was asked."""

from collections.abc import Collection, Mapping, Sequence

from tasks.datasets.rows import Cells
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.labels import CANNOT_TELL, Category, Choice, LabelRules, PeopleQuestion
from tasks.protocols.protocol import Answered
from tasks.rubrics.rubric import Rubric
from tasks.statistics.concordance import Concordance, kappa, paired, raw_agreement, tau_b
from third_kind.protocol import WORTH

CHOICES = (Choice("y", "yes", "Yes"), Choice("n", "no", "No"), CANNOT_TELL)


class PresenceLabels(LabelRules):
    """Yes or no to each question."""

    required = ("id", "dimension", "verdict")
    optional = ("candidate", "annotator")
    agreement_notes = ("equal: the same answer",)

    def read_label(self, cells: Cells, known: Mapping[str, Collection[str]]) -> LabelRow:
        dimension, verdict = cells.one_of("dimension", known), cells.one_of("verdict", WORTH)
        return LabelRow(
            sample_id=cells.text("id"), candidate=cells.text("candidate"), dimension=dimension, verdict=verdict,
            annotator=cells.text("annotator"),
        )  # fmt: skip

    def people_questions(self, rubric: Rubric, chosen: Sequence[str]) -> Mapping[str, tuple[PeopleQuestion, ...]]:
        questions = (
            PeopleQuestion(each.dimension, f"Is the {each.dimension} right?", "Look at the statement.", CHOICES)
            for each in rubric.prompts
        )
        return {"": tuple(each for each in questions if not chosen or each.question in chosen)}

    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        verdict = answer if answer in WORTH else None
        return LabelRow(
            sample_id=item.sample_id, candidate=item.candidate, dimension=question, verdict=verdict, annotator=""
        )

    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> Answered | None:
        return answers[0] if len({*answers}) == 1 else None

    def overall_of(self, answers: Mapping[str, Answered], rubric: Rubric) -> Answered | None:
        return "yes" if {*answers.values()} == {"yes"} else "no"

    def worth(self, answer: Answered) -> float:
        return WORTH[str(answer)]

    def category(self, answer: Answered) -> Category:
        return Category([*WORTH].index(str(answer)), str(answer))

    def concordance(self, first: Sequence[Answered], second: Sequence[Answered], drawn: Sequence[str]) -> Concordance:
        pairs = paired([self.worth(each) for each in first], [self.worth(each) for each in second], drawn)
        return Concordance(raw_agreement(pairs), kappa(pairs), tau_b(pairs))


LABELS = PresenceLabels()
