"""The rows of a file of labels: all that is wrong with them, and that one person answers a question once.

Owns neither the columns nor what a row must hold, which is the kind of judging's; where labels are kept is left to
`ledger.label_sets`.
"""

from pathlib import Path

from tasks.datasets.cells import Cells
from tasks.datasets.rows import find_rows
from tasks.errors import Problems
from tasks.kinds import kind_of
from tasks.ledger.label_sets import LabelRow
from tasks.rubrics.rubric import load_rubric


def read_label_rows(file: Path, flow: str) -> list[LabelRow]:
    """The labels in a file, in its order (JSON Lines, JSON, CSV or Parquet, by its ending).

    Figures: `id`, `dimension` (or `overall`) and `verdict`, and where known `candidate`, `annotator` and `order`. The
    four verdicts are allowed on every dimension: people are not bound by what a judge may answer. Generated images:
    `id` (or `image` or `filename`) and `score`, and where known `aspect` (otherwise it is the overall score), `tag`,
    `candidate` and `annotator`. Two answers of one annotator to the same question are a problem.

    Raises:
        InputError: all that is wrong, by row: what was found, what is allowed.
    """
    problems, rubric, kind = Problems(), load_rubric(flow), kind_of(flow)
    columns = kind.label_columns()
    first: dict[tuple[str, ...], str] = {}
    labels: list[LabelRow] = []
    for row in find_rows(file, problems):
        columns.meet(row, problems)
        label = kind.read_label(Cells(row, problems), rubric)
        if label.sample_id and (known := first.setdefault(_question(label), row.where)) != row.where:
            problems.add(row.where, f"answers again what the same person answers in {known}")
        labels.append(label)
    columns.check(file.name, problems)
    problems.stop(f"labels {file}")
    return labels


def _question(label: LabelRow) -> tuple[str, ...]:
    return (label.candidate, label.sample_id, label.dimension, label.aspect, label.annotator, label.order)
