"""Labels of generated images: scores by people."""

from collections.abc import Collection, Mapping, Sequence

from tasks.datasets.rows import Cells
from tasks.errors import InputError
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.labels import CANNOT_TELL, NOT_APPLICABLE, Choice, LabelRules, PeopleQuestion, Scale
from tasks.protocols.protocol import Answered
from tasks.records import OVERALL_SCORE
from tasks.rubrics.rubric import Rubric, RubricPrompt
from tasks.statistics.scores import HIGHEST_GRADE
from tasks.text import listed

_SCORES = tuple(Choice(str(score) if score < HIGHEST_GRADE else "t", str(score), str(score)) for score in range(11))
"""Whole points, the finest steps that people can distinguish, with a key each; the key of 10 is t."""
_OVERALL = "How good is the image for its prompt, all in all?"


class ImageLabels(LabelRules):
    """Scores of people for an aspect, or overall."""

    required = ("id", "score")
    optional = ("aspect", "tag", "candidate", "annotator")
    scale = Scale(near=1.0)
    agreement_notes = (
        "equal: at most 1 point apart; kappa: Cohen's, quadratic weights; tau-b: Kendall's",
        "[ ]: 95% interval, over prompts",
    )

    def read_label(self, cells: Cells, known: Mapping[str, Collection[str]]) -> LabelRow:
        """Read one score, of an aspect or else overall."""
        tag = cells.one_of("tag", known, fallback=next(iter(known)) if len(known) == 1 else "")
        named = [known[tag]] if tag in known else known.values()
        aspects = tuple(dict.fromkeys(aspect for each in named for aspect in each))
        return LabelRow(
            sample_id=cells.filled("id"),
            candidate=cells.text("candidate"),
            tag=tag,
            aspect=cells.one_of("aspect", (OVERALL_SCORE, *aspects), fallback=OVERALL_SCORE),
            score=_score(cells),
            annotator=cells.text("annotator"),
        )

    def people_questions(self, rubric: Rubric, chosen: Sequence[str]) -> Mapping[str, tuple[PeopleQuestion, ...]]:
        """Return questions on the aspects of the image's tag, then on the image as a whole."""
        found = {prompt.dimension: _of_tag(prompt) for prompt in rubric.prompts if isinstance(prompt, RubricPrompt)}
        known = dict.fromkeys(each.question for questions in found.values() for each in questions)
        if unknown := [name for name in chosen if name not in known]:
            raise InputError(
                f"{listed(unknown)}: {rubric.flow} images have no such aspect, allowed are {listed(known)}"
            )
        wanted = chosen or known
        return {tag: tuple(each for each in questions if each.question in wanted) for tag, questions in found.items()}

    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """Return an allowed answer about a blind image as a label; the score is None if the answer is none."""
        return LabelRow(
            sample_id=item.sample_id,
            candidate=item.candidate,
            tag=item.tag,
            aspect=question,
            score=float(answer) if answer in {choice.value for choice in _SCORES} else None,
            annotator="",
        )

    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> float | None:
        """Return the mean of the scores of several people; None if one is missing."""
        scores = [float(answer) for answer in answers if answer is not None]
        return sum(scores) / len(scores) if len(scores) == len(answers) else None


def _of_tag(prompt: RubricPrompt) -> tuple[PeopleQuestion, ...]:
    aspects = (
        PeopleQuestion(
            key,
            f"{key.replace('_', ' ').capitalize()}, 0 to 10",
            f"0: {aspect.zero}. 10: {aspect.ten}.",
            (*_SCORES, *((NOT_APPLICABLE,) if aspect.not_applicable else ()), CANNOT_TELL),
        )
        for key, aspect in prompt.aspects.items()
    )
    overall = PeopleQuestion(OVERALL_SCORE, _OVERALL, "0: it fails. 10: nothing is amiss.", (*_SCORES, CANNOT_TELL))
    return (*aspects, overall)


def _score(cells: Cells) -> float | None:
    number = cells.number("score")
    if number is None or not 0 <= number <= HIGHEST_GRADE:
        found = cells.row.values.get("score")
        cells.refuse(f"score is {found!r}, allowed are numbers from 0 to 10 (leave out rows without a score)")
        return None
    return number


LABELS = ImageLabels()
