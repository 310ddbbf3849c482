"""The rows of a file of labels: what they must hold, and all that is wrong with them.

Owns the columns, and how an image's file name becomes the id of its sample. Where labels are kept is left to
`ledger.label_sets`.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tasks.datasets.entries import kind
from tasks.datasets.rows import Columns, Row, find_rows
from tasks.errors import Problems
from tasks.ledger.label_sets import LabelRow
from tasks.parameters import PAIRWISE
from tasks.records import OVERALL, OVERALL_SCORE, TIE, VERDICTS
from tasks.rubrics.rubric import Rubric, RubricPrompt, load_rubric
from tasks.text import listed, well_formed

ORDERS = ("human_first", "model_first")
HIGHEST = 10.0
NAMES = ("id", "image", "filename")
"""Columns that can name a generated image: by the id of its sample, or by its path in GenEval's folders."""


class _Cells(NamedTuple):
    """One row under check: its cells as texts, and where problems go."""

    row: Row
    problems: Problems

    def text(self, column: str) -> str:
        """The text in a column, without blanks around it; empty where there is none."""
        value = self.row.values.get(column)
        if value is not None and not isinstance(value, str):
            self.problems.add(self.row.where, f"{column!r} is {kind(value)}, must be text")
            return ""
        return well_formed(value or "").strip()

    def filled(self, column: str) -> str:
        """The text in a column that must hold one."""
        found = self.text(column)
        if not found and isinstance(self.row.values.get(column), str | None):
            self.problems.add(self.row.where, f"{column} is empty, must be text")
        return found

    def one_of(self, column: str, allowed: Mapping[str, object] | tuple[str, ...], fallback: str | None = None) -> str:
        """The text in a column, one of those allowed; where it is empty the fallback, if there is one."""
        found = self.text(column)
        if not found and fallback is not None:
            return fallback
        if found not in allowed:
            self.problems.add(self.row.where, f"{column} is {found!r}, allowed are {listed(allowed)}")
        return found


def read_label_rows(file: Path, flow: str) -> list[LabelRow]:
    """The labels in a file, in its order (JSON Lines, JSON, CSV or Parquet, by its ending).

    Figures: `id`, `dimension` (or `overall`) and `verdict`, and where known `candidate`, `annotator` and `order`. The
    four verdicts are allowed on every dimension: people are not bound by what a judge may answer. Generated images:
    `id` (or `image` or `filename`) and `score`, and where known `aspect` (otherwise it is the overall score), `tag`,
    `candidate` and `annotator`. Two answers of one annotator to the same question are a problem.

    Raises:
        InputError: all that is wrong, by row: what was found, what is allowed.
    """
    problems, rubric = Problems(), load_rubric(flow)
    columns = _columns(flow)
    first: dict[tuple[str, ...], str] = {}
    labels: list[LabelRow] = []
    for row in find_rows(file, problems):
        columns.meet(row, problems)
        cells = _Cells(row, problems)
        label = _of_figure(cells, rubric) if flow in PAIRWISE else _of_image(cells, rubric)
        if label.sample_id and (known := first.setdefault(_question(label), row.where)) != row.where:
            problems.add(row.where, f"answers again what the same person answers in {known}")
        labels.append(label)
    columns.check(file.name, problems)
    problems.stop(f"labels {file}")
    return labels


def _columns(flow: str) -> Columns:
    if flow in PAIRWISE:
        return Columns(("id", "dimension", "verdict"), ("candidate", "annotator", "order"))
    return Columns(("score",), (*NAMES, "aspect", "tag", "candidate", "annotator"))


def _question(label: LabelRow) -> tuple[str, ...]:
    return (label.candidate, label.sample_id, label.dimension, label.aspect, label.annotator, label.order)


def _of_figure(cells: _Cells, rubric: Rubric) -> LabelRow:
    dimension = cells.one_of("dimension", (*(prompt.dimension for prompt in rubric.prompts), OVERALL))
    return LabelRow(
        sample_id=cells.filled("id"),
        candidate=cells.text("candidate"),
        dimension=dimension,
        verdict=cells.one_of("verdict", ("Model", "Human", TIE) if dimension == OVERALL else VERDICTS),
        annotator=cells.text("annotator"),
        order=cells.one_of("order", ORDERS, fallback=""),
    )


def _of_image(cells: _Cells, rubric: Rubric) -> LabelRow:
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


def _score(cells: _Cells) -> float | None:
    value = cells.row.values.get("score")
    number = _number(value)
    if number is None or not 0 <= number <= HIGHEST:
        words = f"score is {value!r}, allowed are numbers from 0 to 10 (leave out rows without a score)"
        cells.problems.add(cells.row.where, words)
        return None
    return number


def _number(value: object) -> float | None:
    """A number, in CSV written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _image_id(cells: _Cells) -> str:
    given = [(column, text) for column in NAMES if (text := cells.text(column))]
    if len(given) != 1:
        found = listed(column for column, _ in given)
        cells.problems.add(cells.row.where, f"an image is named by one of {listed(NAMES)}, found {found}")
        return ""
    column, text = given[0]
    sample_id = text if column == "id" else _in_prompt_folder(text)
    if not sample_id:
        words = f"{column} {text!r} is not in GenEval's folders (00012/samples/0003.png): give the `id` of the sample"
        cells.problems.add(cells.row.where, words)
    return sample_id


def _in_prompt_folder(name: str) -> str:
    """The sample's id for an image at `…/00012/samples/0003.png`: `00012/0003`; empty for other paths."""
    path = PurePosixPath(name.replace("\\", "/"))
    folder = path.parent.parent if path.parent.name == "samples" else path.parent
    numbered = folder.name.isascii() and folder.name.isdigit()
    return f"{int(folder.name):05}/{path.stem}" if numbered else ""
