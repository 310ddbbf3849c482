"""What people say of generated images: the rows of their labels, their scores as one, how far two raters agree.

Owns what of this is peculiar to scores, and how an image's file name becomes the id of its sample. The statistics stand
in `statistics.concordance`.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from tasks.datasets.cells import Cells
from tasks.kinds.values import Answered, Category
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
