"""Interface of a kind of judging.

A third kind needs one more folder like `figures` and `images`, and an entry in `tasks.protocols.KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tasks.datasets.cells import Cells
from tasks.datasets.dataset import Dataset
from tasks.datasets.rows import Columns
from tasks.ledger.label_pages import LabelItem
from tasks.ledger.label_sets import LabelRow
from tasks.parameters import Parameters
from tasks.presentation.wording import Scored
from tasks.protocols.display import Display
from tasks.protocols.values import (
    Answered,
    Category,
    Compared,
    Decided,
    Heard,
    Lack,
    Measured,
    Original,
    PeopleQuestion,
    Reading,
    ReplyForm,
)
from tasks.records import Judgment, Outcome, PictureSource, RunStart, Sample
from tasks.rubrics.rubric import Prompt, PromptModel, Rubric
from tasks.statistics.concordance import Concordance

MISSING_OUTPUT = "Missing output (forfeit)"
"""Reason to look at a sample for which the candidate delivered no output."""


Given = TypeVar("Given")


def checked(value: object, expected: type[Given]) -> Given:
    """Return the value if it has the type that all flows of a kind use.

    Raises:
        TypeError: it belongs to a flow of another kind.
    """
    if not isinstance(value, expected):
        raise TypeError(f"{type(value).__name__} in the place of {expected.__name__}")
    return value


class Tally(Protocol):
    """Scores, computed while the outcomes of real samples are added one by one."""

    def add(self, outcome: Outcome, /) -> None:
        """Add the outcome of a real sample."""
        ...

    def rows(self) -> Sequence[Scored]:
        """Return the scores of all outcomes added so far."""
        ...


class Kind(ABC):
    """One kind of judging. Instances have no state, so all threads and runs may share them."""

    prompt_model: ClassVar[PromptModel]
    """Model of its prompts; every flow with such prompts is of this kind."""
    unit: ClassVar[str]
    """Unit that is counted and resampled, in the plural: `samples` or `prompts`."""
    decimals: ClassVar[int]
    """Number of decimals of a displayed score."""
    highest: ClassVar[float]
    """Upper end of its scores, which begin at 0."""
    instructions: ClassVar[Mapping[str, str]]
    """Role of a picture that controls may alter -> text that they paint into it."""
    agreement_notes: ClassVar[tuple[str, ...]]
    """Meaning of the statistics of `concordance`, as lines below a table."""
    display: ClassVar[Display[Any]]
    """Display of its scores and samples."""

    # Input

    @abstractmethod
    def read_dataset(self, source: Path, flow: str, parameters: Parameters) -> Dataset:
        """Read a dataset and apply the filters of `parameters`; InputError lists the problems."""

    @abstractmethod
    def manifest_row(
        self, flow: str, sample: Sample, texts: Mapping[str, object], pictures: Mapping[str, str]
    ) -> Mapping[str, object]:
        """Return a sample as a row of a manifest that `read_dataset` reads.

        Args:
            texts: text field of the prompt -> its text, or data.
            pictures: role -> path of the file, relative to the manifest's folder.
        """

    def texts_of(self, sample: Sample) -> Mapping[str, str]:
        """Return texts that are sent with a sample besides those of its record, by the name of the prompt's input."""
        return {}

    @abstractmethod
    def lack(self, problems: Mapping[str, str]) -> Lack:
        """Return the status of a sample whose pictures cannot all be shown.

        Args:
            problems: role -> problem of its picture, at least one.
        """

    # The judge's replies

    @abstractmethod
    def reply_form(self, prompt: Prompt) -> ReplyForm:
        """Return the form required of a reply to a prompt of this kind."""

    @abstractmethod
    def read_reply(self, text: str, prompt: Prompt) -> Reading:
        """Return the content of a reply, or the error that makes it invalid."""

    # Outcomes and scores

    @abstractmethod
    def decide(
        self, sample: Sample, judgments: Sequence[Judgment], rubric: Rubric, parameters: Parameters, lack: Lack | None
    ) -> Decided:
        """Decide a sample from all attempts of its calls, or from its lack of pictures."""

    @abstractmethod
    def score_tally(self, start: RunStart) -> Tally:
        """Return a tally that computes the scores of a run from its outcomes.

        Raises:
            InputError: the run's parameters lack a value that the tally needs.
        """

    @abstractmethod
    def headline_dimensions(self, start: RunStart) -> Sequence[str]:
        """Return the dimensions or tags whose scores are the headline of a run."""

    def good_from(self, parameters: Mapping[str, Any]) -> float:
        """Return the score from which a sample of a run with these parameters counts as good; 0: no threshold."""
        return 0.0

    @abstractmethod
    def notable(self, outcome: Outcome, good_from: float) -> Iterator[str]:
        """Yield reasons for a person to look at a sample, the best reason first."""

    # Controls

    def control_of(self, turn: str) -> str:
        """Return the control that a sample gets in a turn: that of the turn, unless the kind cannot show it."""
        return turn

    @abstractmethod
    def shown_in(self, control: str, base: Sample, giver: Sample) -> Mapping[str, PictureSource]:
        """Return the pictures that a control shows instead of the sample's own: role -> picture.

        Args:
            control: kind of control, as `control_of` returns it.
            base: the sample that the control is made of.
            giver: the sample whose pictures are taken: another one for `other`, else `base`.
        """

    @abstractmethod
    def failures(self, control: Outcome, real: Original | None, heard: Heard) -> Sequence[float | None]:
        """Return the share of answers on which the judge failed, 0-1, for each question of a control sample.

        The expected share is the same for all numbers of orders and votes. None: the question gives no evidence,
        because a verdict or score is missing, or because nothing was left to win or lose.

        Args:
            real: outcome of the sample that the control was made of; None: it has no outcome.
            heard: the answers, if there were several votes.
        """

    # Other evaluations

    @abstractmethod
    def measured(self, outcome: Compared) -> Measured:
        """Return the values of an outcome that are paired with those of another evaluation."""

    # Labels by people

    @abstractmethod
    def label_columns(self) -> Columns:
        """Return the columns of a file of labels, before any row is read."""

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

    @abstractmethod
    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """Return an answer on such a page as a label of the item's sample; its value is None if it is no judgment."""

    @abstractmethod
    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> Answered | None:
        """Merge the answers of several people, at least one; return None if they give no answer together."""

    def overall_of(self, answers: Mapping[str, Answered], rubric: Rubric) -> Answered | None:
        """Return the overall answer that follows from the answers to the other questions; None: none follows."""
        return None

    @abstractmethod
    def worth(self, answer: Answered) -> float:
        """Return an answer as a score, from 0 to `highest`."""

    @abstractmethod
    def alike(self, one: Answered, other: Answered) -> bool:
        """Return whether two answers count as the same."""

    @abstractmethod
    def category(self, answer: Answered) -> Category:
        """Return the category in which an answer is counted."""

    @abstractmethod
    def concordance(self, first: Sequence[Answered], second: Sequence[Answered], drawn: Sequence[str]) -> Concordance:
        """Return statistics of the agreement of two raters.

        Args:
            first: answers of one rater to one question.
            second: answers of the other rater, sample by sample.
            drawn: unit that each sample belongs to when resampling.
        """
