"""Display of a kind of judging: its tables, charts and samples, as plain data."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from tasks.presentation.chart_style import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import Scored
from tasks.records import Outcome
from tasks.statistics.image_scores import GradeRow
from tasks.statistics.scores import ScoreRow

Row = TypeVar("Row", ScoreRow, GradeRow)


class Terms(NamedTuple):
    """What of a run its scores are read by."""

    flow: str
    endpoint: str
    """Address of its judge."""
    good_from: float
    """Score from which a sample counts as good; 0 where the kind knows no such threshold."""


class Headline(NamedTuple):
    """A score that a report begins with."""

    name: str
    score: Scored


class Level(NamedTuple):
    """A score that others are seen against."""

    name: str
    score: float


class Quoted(NamedTuple):
    """A stranger's text between words of our own."""

    before: str
    text: str
    after: str = ""


class Shown(NamedTuple):
    """One sample with what came of it, from the top to the bottom; its pictures stand above the outcome."""

    above: Sequence[Quoted]
    outcome: Quoted
    table: Grid
    """What the judge said; every cell may hold a stranger's text."""
    below: Sequence[Quoted]


class Labels(NamedTuple):
    """What a sample of a page is labelled with."""

    overall: str
    marks: dict[str, str]
    """Dimension or tag, `overall` among them -> what a reader may choose the sample by."""
    path: str
    """How it came to the outcome; empty where the rest says it."""


class Display(ABC, Generic[Row]):
    """How one kind of judging is shown. Instances hold nothing."""

    row: ClassVar[type[ScoreRow] | type[GradeRow]]
    """What its scores are rows of."""
    counted: ClassVar[str]
    """What is scored, in the plural."""
    sides: ClassVar[tuple[str, ...]]
    """The pictures of a sample, from left to right; their roles are the same in small letters."""
    scale: ClassVar[str]
    """Where a score stands, in a few words beside it."""
    columns: ClassVar[tuple[str, str]]
    """What was asked of a sample, and what the judge said to it: heads of a table."""
    false_findings: ClassVar[str]
    """What it is to find a defect where there is none."""
    level: ClassVar[Level | None] = None
    """What is marked in trends: where what the candidates are judged against stands, if they are against anything."""

    @abstractmethod
    def headline(self, scores: Sequence[Row]) -> list[Headline]:
        """The scores that a report begins with."""

    @abstractmethod
    def in_words(self, scores: Sequence[Row]) -> list[tuple[str, str]]:
        """Each candidate, the best first, with its score in words."""

    @abstractmethod
    def grid(self, scores: Sequence[Row], grouping: str = "all") -> Grid:
        """Scores and counts of all candidates, over all samples or by group."""

    @abstractmethod
    def notes(self, scores: Sequence[Row], terms: Terms) -> list[str]:
        """What must be known to read these scores."""

    @abstractmethod
    def chart(self, scores: Sequence[Row], grouping: str = "all", terms: Terms | None = None) -> Chart:
        """The scores as a chart, at least one; with `terms` what must be known to read them stands in it."""

    @abstractmethod
    def shown(self, outcome: Outcome, reasons: Mapping[str, str]) -> Shown:
        """One sample, with the judge's reasons by dimension."""

    @abstractmethod
    def labels(self, row: Mapping[str, Any], answers: Mapping[str, str], good_from: float) -> Labels:
        """What a sample is labelled with.

        Args:
            row: the outcome as a row of the history.
            answers: dimension or tag -> what came of it, in words.
            good_from: score from which a sample counts as good.
        """
