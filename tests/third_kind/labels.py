"""Labels of the kind: people answer the questions that the judge was asked."""

from collections.abc import Collection, Mapping, Sequence

from tasks.datasets.rows import Cells
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.labels import CANNOT_TELL, Choice, LabelRules, PeopleQuestion, Scale
from tasks.protocols.protocol import Answered
from tasks.rubrics.rubric import Rubric
from third_kind.protocol import WORTH

CHOICES = (Choice("y", "yes", "Yes"), Choice("n", "no", "No"), CANNOT_TELL)


class PresenceLabels(LabelRules):
    """Yes or no to each question."""

    required = ("id", "dimension", "verdict")
    optional = ("candidate", "annotator")
    scale = Scale(WORTH)
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


LABELS = PresenceLabels()
