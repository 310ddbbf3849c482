"""Rules of a kind of judging for labels: reading and asking people, and comparing answers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from tasks.datasets.rows import Cells
from tasks.ledger.labels import LabelItem, LabelRow
from tasks.protocols.protocol import Answered
from tasks.records import Sample
from tasks.rubrics.rubric import Rubric
from tasks.statistics.concordance import Concordance, kappa, paired, quadratic_kappa, raw_agreement, tau_b
from tasks.statistics.intervals import DECIMALS


class Choice(NamedTuple):
    """One answer that people may give."""

    key: str
    """Key on the keyboard."""
    value: str
    """Value in the saved file."""
    words: str


CANNOT_TELL = Choice("c", "cannot tell", "Cannot tell")
NOT_APPLICABLE = Choice("n", "does not apply", "Does not apply")
NUMBER = Choice("", "a whole number", "")
"""Choice that a page shows as a field: the answer is a number in digits."""
UNANSWERED = (CANNOT_TELL.value, NOT_APPLICABLE.value)
"""Answers that are neither a verdict nor a score."""


class PeopleQuestion(NamedTuple):
    """One question for people, who see no candidate's name."""

    question: str
    """Dimension or `overall` of figures; aspect or `overall_score` of an image."""
    words: str
    hint: str
    """Meaning of the question, in a sentence."""
    choices: tuple[Choice, ...]


OWN = "question"
"""Name on a page of a question that one sample alone has: its true name may give away the answer."""


class OwnQuestion(NamedTuple):
    """Question that one sample alone has."""

    asked: PeopleQuestion
    scores: Mapping[str, float]
    """Answer -> its score; any other number scores 0."""


class Category(NamedTuple):
    """Category in which an answer is counted, with its place on the scale."""

    place: int
    name: str


@dataclass(frozen=True)
class Scale:
    """Scale of the answers to one kind of questions: categories, each with its score, or scores alone."""

    categories: Mapping[str, float] = field(default_factory=dict[str, float])
    """Category -> its score, from 0 to the highest of the protocol, the best first; empty: the answers are scores."""
    near: float = 0.0
    """Greatest difference of two scores that count as agreement; categories agree only if they are equal."""

    def score(self, answer: Answered) -> float:
        """Return the score of an answer."""
        return self.categories[str(answer)] if self.categories else float(answer)

    def category(self, answer: Answered) -> Category:
        """Return the category in which an answer is counted: scores in whole points, halves rounded up."""
        if self.categories:
            return Category([*self.categories].index(str(answer)), str(answer))
        points = int(float(answer) + 0.5)
        return Category(points, str(points))

    def alike(self, one: Answered, other: Answered) -> bool:
        """Return whether two answers count as the same."""
        return one == other if self.categories else round(abs(float(one) - float(other)), DECIMALS) <= self.near

    def concordance(self, first: Sequence[Answered], second: Sequence[Answered], drawn: Sequence[str]) -> Concordance:
        """Return statistics of the agreement of two raters. Kappa weighs the distance of scores, not of categories.

        Args:
            first: answers of one rater to one question.
            second: answers of the other rater, sample by sample.
            drawn: unit that each sample belongs to when resampling.
        """
        scores = paired([self.score(each) for each in first], [self.score(each) for each in second], drawn)
        if not self.categories:
            return Concordance(raw_agreement(scores, self.near), quadratic_kappa(scores), tau_b(scores))
        places = [[self.category(each).place for each in answers] for answers in (first, second)]
        categories = paired(places[0], places[1], drawn)
        return Concordance(raw_agreement(categories), kappa(categories), tau_b(scores))


class LabelRules(ABC):
    """Rules for the labels of one kind of judging. Instances have no state."""

    required: ClassVar[tuple[str, ...]]
    """Columns that a file of labels must have."""
    optional: ClassVar[tuple[str, ...]]
    """Columns that it may have."""
    scale: ClassVar[Scale]
    """Scale of the answers."""
    agreement_notes: ClassVar[tuple[str, ...]]
    """Meaning of the statistics of agreement, as lines below a table."""

    pooled: ClassVar[str] = ""
    """Name under which agreement counts all questions together, if each sample has its own; empty: they share them."""

    @abstractmethod
    def read_label(self, cells: Cells, known: Mapping[str, Collection[str]]) -> LabelRow:
        """Read the label in a row; its problems are added to those of `cells`.

        Args:
            known: dimension or tag -> its aspects, if any.
        """

    @abstractmethod
    def people_questions(self, rubric: Rubric, chosen: Sequence[str]) -> Mapping[str, tuple[PeopleQuestion, ...]]:
        """Return the questions for people on a page of blind items, in order: tag (empty for figures) -> questions.

        Args:
            chosen: only these questions; empty: the usual questions of the kind.

        Raises:
            InputError: the flow has no such question.
        """

    def own_question(self, sample: Sample, name: str) -> OwnQuestion | None:
        """Return the question of this name that a sample has, called `OWN`; None: samples share their questions."""
        return None

    @abstractmethod
    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """Return an answer on such a page as a label of the item's sample; its value is None if it is no judgment."""

    @abstractmethod
    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> Answered | None:
        """Merge the answers of several people, at least one; return None if they give no answer together."""

    def overall_of(self, answers: Mapping[str, Answered], rubric: Rubric) -> Answered | None:
        """Return the overall answer that follows from the answers to the other questions; None: none follows."""
        return None
