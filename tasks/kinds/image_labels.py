"""What people say of generated images: the rows of their labels, their scores as one, how far two raters agree.

Owns what of this is peculiar to scores, and how an image's file name becomes the id of its sample. The statistics stand
in `statistics.concordance`.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from tasks.datasets.cells import Cells
from tasks.errors import InputError
from tasks.kinds.values import CANNOT_TELL, NOT_APPLICABLE, Answered, Category, Choice, PeopleQuestion
from tasks.ledger.label_pages import LabelItem
from tasks.ledger.label_sets import LabelRow
from tasks.records import OVERALL_SCORE
from tasks.rubrics.rubric import Rubric
from tasks.rubrics.rubric_prompt import RubricPrompt
from tasks.statistics.concordance import Concordance, paired, quadratic_kappa, raw_agreement, tau_b
from tasks.statistics.image_scores import HIGHEST
from tasks.text import listed

NAMES = ("id", "image", "filename")
"""Columns that can name a generated image: by the id of its sample, or by its path in GenEval's folders."""
REQUIRED = ("score",)
OPTIONAL = (*NAMES, "aspect", "tag", "candidate", "annotator")
NEAR = 1.0
"""Scores that are no further apart count as agreement."""
NOTES = (
    "equal: at most 1 point apart; kappa: Cohen's, quadratic weights; tau-b: Kendall's",
    "[ ]: 95% interval, over prompts",
)

_SCORES = tuple(Choice(str(score) if score < HIGHEST else "t", str(score), str(score)) for score in range(11))
"""Whole points, which is what people can tell apart; a key each, t for 10."""
_OVERALL = "How good is the image for its prompt, all in all?"


def people_questions(rubric: Rubric, chosen: Sequence[str]) -> dict[str, tuple[PeopleQuestion, ...]]:
    """What people are asked of an image, by the tag of its prompt: its aspects, and then the image as a whole.

    Raises:
        InputError: one of those chosen is no aspect of any tag.
    """
    found = {prompt.dimension: _of_tag(prompt) for prompt in rubric.prompts if isinstance(prompt, RubricPrompt)}
    known = dict.fromkeys(each.question for questions in found.values() for each in questions)
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"{listed(unknown)}: {rubric.flow} images have no such aspect, allowed are {listed(known)}")
    wanted = chosen or known
    return {tag: tuple(each for each in questions if each.question in wanted) for tag, questions in found.items()}


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


def people_label(item: LabelItem, question: str, answer: str) -> LabelRow:
    """An allowed answer about a blind image as a score of the sample, if it is one."""
    return LabelRow(
        sample_id=item.sample_id,
        candidate=item.candidate,
        tag=item.tag,
        aspect=question,
        score=float(answer) if answer in {choice.value for choice in _SCORES} else None,
        annotator="",
    )


def read_label(cells: Cells, rubric: Rubric) -> LabelRow:
    """One score, of an aspect or else overall."""
    tags = {prompt.dimension: prompt for prompt in rubric.prompts if isinstance(prompt, RubricPrompt)}
    tag = cells.one_of("tag", tags, fallback=next(iter(tags)) if len(tags) == 1 else "")
    prompts = [tags[tag]] if tag in tags else list(tags.values())
    aspects = tuple(dict.fromkeys(aspect for prompt in prompts for aspect in prompt.aspects))
    return LabelRow(
        sample_id=_image_id(cells),
        candidate=cells.text("candidate"),
        tag=tag,
        aspect=cells.one_of("aspect", (OVERALL_SCORE, *aspects), fallback=OVERALL_SCORE),
        score=_score(cells),
        annotator=cells.text("annotator"),
    )


def _score(cells: Cells) -> float | None:
    number = cells.number("score")
    if number is None or not 0 <= number <= HIGHEST:
        found = cells.row.values.get("score")
        cells.refuse(f"score is {found!r}, allowed are numbers from 0 to 10 (leave out rows without a score)")
        return None
    return number


def _image_id(cells: Cells) -> str:
    given = [(column, text) for column in NAMES if (text := cells.text(column))]
    if len(given) != 1:
        found = listed(column for column, _ in given)
        cells.refuse(f"an image is named by one of {listed(NAMES)}, found {found}")
        return ""
    column, text = given[0]
    sample_id = text if column == "id" else _in_prompt_folder(text)
    if not sample_id:
        cells.refuse(
            f"{column} {text!r} is not in GenEval's folders (00012/samples/0003.png): give the `id` of the sample"
        )
    return sample_id


def _in_prompt_folder(name: str) -> str:
    """The sample's id for an image at `…/00012/samples/0003.png`: `00012/0003`; empty for other paths."""
    path = PurePosixPath(name.replace("\\", "/"))
    folder = path.parent.parent if path.parent.name == "samples" else path.parent
    numbered = folder.name.isascii() and folder.name.isdigit()
    return f"{int(folder.name):05}/{path.stem}" if numbered else ""


def merged(answers: Sequence[Answered | None]) -> float | None:
    """The mean of the scores of several people; None where one is missing."""
    scores = [float(answer) for answer in answers if answer is not None]
    return sum(scores) / len(scores) if len(scores) == len(answers) else None


def category(answer: Answered) -> Category:
    """The score in whole points, halves rounded up."""
    points = int(float(answer) + 0.5)
    return Category(points, str(points))


def concordance(first: Sequence[Answered], second: Sequence[Answered], drawn: Sequence[str]) -> Concordance:
    """Scores as they are: near ones agree, and kappa weighs how far apart they are."""
    scores = paired([float(each) for each in first], [float(each) for each in second], drawn)
    return Concordance(raw_agreement(scores, NEAR), quadratic_kappa(scores), tau_b(scores))
