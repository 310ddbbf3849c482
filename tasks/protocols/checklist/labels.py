"""Labels of checklists: answers by people."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from tasks.datasets.rows import Cells
from tasks.errors import InputError
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.checklist.prompts import as_number
from tasks.protocols.checklist.reply import RIGHT, score_of
from tasks.protocols.labels import CANNOT_TELL, NUMBER, OWN, Choice, LabelRules, OwnQuestion, PeopleQuestion, Scale
from tasks.protocols.protocol import Answered
from tasks.records import Sample
from tasks.rubrics.rubric import Rubric

_RIGHT = {"right": RIGHT, "wrong": 0.0}
_CHOICES = {
    "yes_no": (Choice("y", "yes", "Yes"), Choice("n", "no", "No")),
    "ordinal": tuple(Choice(value, value, value) for value in "012"),
    "number": (NUMBER,),
}
_ABSENT = Choice("x", "not there", "Not there")
"""Answer to a check with parents whose subject is missing: wrong, by the rule of parents."""
_HINT = "Answer by what the picture shows."


class ChecklistLabels(LabelRules):
    """Right or wrong, for a check of a picture."""

    required = ("id", "check", "answer")
    optional = ("candidate", "annotator")
    scale = Scale(near=49.0)
    pooled = "checks"
    agreement_notes = (
        "equal: both right or both wrong (less than 50 of 100 apart); kappa: Cohen's; tau-b: Kendall's",
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
        """Return no question that all samples share; InputError if any is chosen."""
        if chosen:
            raise InputError(f"{rubric.flow}: a page draws a check for each item, and none can be chosen: omit --ask")
        return {}

    def own_question(self, sample: Sample, name: str) -> OwnQuestion:
        """Return a check with the answers that its form allows; the letters of options are not shown."""
        check = next(each for each in sample.checks if each.check_id == name)
        numbered = enumerate(check.options, 1)
        options = tuple(Choice(str(n) if n < 10 else "", letter, words) for n, (letter, words) in numbered)
        choices = _CHOICES.get(check.form, options)
        known = [str(as_number(each) or 0).removesuffix(".0") for each in check.expected] if NUMBER in choices else ()
        scores = dict.fromkeys(known, RIGHT) or {each.value: score_of(check, each.value) for each in choices}
        choices = (*choices, _ABSENT, CANNOT_TELL) if check.parents else (*choices, CANNOT_TELL)
        return OwnQuestion(PeopleQuestion(OWN, check.question, _HINT, choices), {**scores, _ABSENT.value: 0.0})

    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """Return an answer about a blind picture as a label of the item's check."""
        score = item.scores.get(answer, 0.0 if answer.isdecimal() else None)
        return LabelRow(
            sample_id=item.sample_id, candidate=item.candidate, aspect=item.question, score=score, annotator=""
        )

    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> Answered | None:
        """Merge answers of several people: that of most, or the mean of those that are level."""
        found = Counter(float(each) for each in answers if each is not None).most_common()
        most = [answer for answer, times in found if times == found[0][1]]
        return fmean(most) if most else None


LABELS = ChecklistLabels()
