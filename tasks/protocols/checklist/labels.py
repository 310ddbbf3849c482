"""Labels of checklists: answers by people."""

from collections.abc import Collection, Mapping, Sequence

from tasks.datasets.rows import Cells
from tasks.errors import InputError
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.checklist.reply import RIGHT
from tasks.protocols.labels import LabelRules, PeopleQuestion, Scale
from tasks.protocols.protocol import Answered
from tasks.rubrics.rubric import Rubric

_RIGHT = {"right": RIGHT, "wrong": 0.0}


class ChecklistLabels(LabelRules):
    """Right or wrong, for a check of a picture."""

    required = ("id", "check", "answer")
    optional = ("candidate", "annotator")
    scale = Scale()
    agreement_notes = (
        "equal: both right or both wrong; kappa: Cohen's; tau-b: Kendall's",
        "[ ]: 95% interval, over prompts",
    )

    def read_label(self, cells: Cells, known: Mapping[str, Collection[str]]) -> LabelRow:
        """Read whether one check is right; other checks than those judged are only counted."""
        answer = cells.one_of("answer", _RIGHT)
        return LabelRow(
            sample_id=cells.filled("id"),
            candidate=cells.text("candidate"),
            aspect=cells.filled("check"),
            score=_RIGHT.get(answer),
            annotator=cells.text("annotator"),
        )

    def people_questions(self, rubric: Rubric, chosen: Sequence[str]) -> Mapping[str, tuple[PeopleQuestion, ...]]:
        """Raise InputError: a page asks the same questions about all samples."""
        raise InputError(
            f"{rubric.flow}: a page asks the same questions about all samples, and each picture has checks of its own: "
            "give the answers of people as a table with the columns id, check and answer (right or wrong)"
        )

    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """Return an answer about a blind picture as a label."""
        score = _RIGHT.get(answer)
        return LabelRow(sample_id=item.sample_id, candidate=item.candidate, aspect=question, score=score, annotator="")

    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> Answered | None:
        """Merge answers of several people: that of most; None if they are level."""
        known = [float(each) for each in answers if each is not None]
        right = sum(each == RIGHT for each in known)
        return None if 2 * right == len(known) else RIGHT if 2 * right > len(known) else 0.0


LABELS = ChecklistLabels()
