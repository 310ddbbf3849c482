"""Display of a kind of judging: its tables, charts and samples, as plain data."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from tasks.errors import InputError
from tasks.presentation.charts import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import Scored, interval_words, score_words
from tasks.protocols import parameters_of
from tasks.records import OVERALL
from tasks.statistics.scores import GradeRow, ScoreRow
from tasks.text import number_words

Row = TypeVar("Row", bound=ScoreRow | GradeRow)


class Terms(NamedTuple):
    """Facts about a run that are needed to interpret its scores."""

    flow: str
    endpoint: str
    """Address of its judge."""
    good_from: float
    """See `threshold_of`."""


class Headline(NamedTuple):
    """Score at the top of a report."""

    name: str
    score: Scored


class Level(NamedTuple):
    """Reference score that others are compared with."""

    name: str
    score: float


OUTCOMES = {"Model": "Model wins", "Human": "Human wins", "forfeit": "missing output"}
"""Outcome or status -> its name on a page, where that is another one."""


class Labels(NamedTuple):
    """Labels of a sample on a page."""

    overall: str
    marks: dict[str, str]
    """Dimension or tag, including `overall` -> value by which a reader may choose the sample."""
    path: str
    """Path to the outcome; empty if the other labels show it."""


class Display(ABC, Generic[Row]):
    """Display of one kind of judging. Instances have no state."""

    row: ClassVar[type[ScoreRow] | type[GradeRow]]
    """Type of its score rows."""
    counted: ClassVar[str]
    """Name of the scored items, in the plural."""
    sides: ClassVar[tuple[str, ...]]
    """Names of a sample's pictures, from left to right; in lower case they are the roles."""
    scale: ClassVar[str]
    """Scale of a score, in a few words beside it."""
    false_findings: ClassVar[str]
    """Name for defects that the judge reports where there are none."""
    satisfied: ClassVar[tuple[str, str]] = ("what was asked for is not there", "what was asked for is there")
    """Words about a sample that is not `satisfied`, and about one that is."""
    level: ClassVar[Level | None] = None
    """Reference score that trends mark, if the candidates are judged against one."""

    @abstractmethod
    def headline(self, scores: Sequence[Row]) -> list[Headline]:
        """Return the scores at the top of a report, those of the best candidate first."""

    @abstractmethod
    def grid(self, scores: Sequence[Row], grouping: str = "all") -> Grid:
        """Return the scores and counts of all candidates, over all samples or by group."""

    @abstractmethod
    def notes(self, scores: Sequence[Row], terms: Terms) -> list[str]:
        """Return the notes that readers of these scores need."""

    @abstractmethod
    def chart(self, scores: Sequence[Row]) -> Chart:
        """Return the scores, at least one, as a chart."""

    def aspect_words(self, score: float | None) -> str:
        """Return the score of one aspect of a sample in words."""
        return "does not apply" if score is None else number_words(score)


def score_cells(row: ScoreRow | GradeRow) -> list[str]:
    """Return a score and its interval as cells of a table."""
    return [score_words(row), interval_words(row)]


def threshold_of(flow: str, parameters: Mapping[str, Any]) -> float:
    """Return the score from which a sample of a run counts as good; 0: its kind of judging has no such threshold.

    Raises InputError if the threshold is missing or is no number.
    """
    if "threshold" not in parameters_of(flow).model_fields:
        return 0.0
    found = parameters.get("threshold")
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"run.json: parameters.threshold is {found!r}; a number is expected")
    return float(found)


def labels_of(row: Mapping[str, Any], answers: Mapping[str, str], good_from: float) -> Labels:
    """Return the labels of a sample: its outcome, score or status, and what its questions are filtered by.

    Args:
        row: the outcome as a row of the history.
        answers: dimension or tag -> its result, in words.
        good_from: see `threshold_of`; scores are filtered by it, because few samples have equal ones.
    """
    score = row["score"]
    words: str = row["overall"] or row["status"].replace("_", " ")
    overall = number_words(score) if words == "complete" else OUTCOMES.get(words, words)
    if not good_from:
        return Labels(overall, {OVERALL: overall, **answers}, row["tier_path"])
    if score is None:
        return Labels(overall, dict.fromkeys(answers, "missing"), row["tier_path"])
    words = f"{good_from:g} or more" if score >= good_from else f"below {good_from:g}"
    return Labels(overall, dict.fromkeys(answers, words), "")
