"""Interface of a kind of judging: all that a run needs to know of it.

A third kind would be one more module like `pairwise` and `rubric`, and an entry in `tasks.kinds.KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tasks.datasets.cells import Cells
from tasks.datasets.dataset import Dataset
from tasks.datasets.rows import Columns
from tasks.kinds.display import Display
from tasks.kinds.values import (
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
from tasks.ledger.label_pages import LabelItem
from tasks.ledger.label_sets import LabelRow
from tasks.parameters import Parameters
from tasks.presentation.wording import Scored
from tasks.records import Judgment, Outcome, PictureSource, RunStart, Sample
from tasks.rubrics.rubric import Prompt, PromptModel, Rubric
from tasks.statistics.concordance import Concordance

MISSING_OUTPUT = "Missing output (forfeit)"
"""Why to look at a sample of which the candidate delivered nothing."""


Given = TypeVar("Given")


def checked(value: object, expected: type[Given]) -> Given:
    """The value, which is of this type for all flows of a kind.

    Raises:
        TypeError: it is of a flow of another kind.
    """
    if not isinstance(value, expected):
        raise TypeError(f"{type(value).__name__} in the place of {expected.__name__}")
    return value


class Tally(Protocol):
    """Scores while the outcomes of real samples are taken in, one after the other."""

    def add(self, outcome: Outcome, /) -> None:
        """Take in the outcome of a real sample."""
        ...

    def rows(self) -> Sequence[Scored]:
        """The scores of all that were taken in."""
        ...


class Kind(ABC):
    """One kind of judging. Instances hold nothing: they may be shared by all threads and runs."""

    prompt_model: ClassVar[PromptModel]
    """What its prompts are: the flows that ask with such prompts are of this kind."""
    unit: ClassVar[str]
    """What is counted and resampled, in the plural: `samples` or `prompts`."""
    decimals: ClassVar[int]
    """Of its scores, where they are shown."""
    highest: ClassVar[float]
    """Upper end of its scores, which begin at 0."""
    instructions: ClassVar[Mapping[str, str]]
    """What controls may alter, and what text they paint into it: role of a picture -> the text."""
    agreement_notes: ClassVar[tuple[str, ...]]
    """What the statistics of `concordance` mean, as lines below a table."""
    display: ClassVar[Display[Any]]
    """How its scores and samples are shown."""

    # What goes in

    @abstractmethod
    def read_dataset(self, source: Path, flow: str, parameters: Parameters) -> Dataset:
        """The samples of a dataset, as the filters of `parameters` leave them; InputError lists what is wrong."""

    @abstractmethod
    def manifest_row(
        self, flow: str, sample: Sample, texts: Mapping[str, object], pictures: Mapping[str, str]
    ) -> Mapping[str, object]:
        """A sample as a row of a manifest that `read_dataset` reads.

        Args:
            texts: text field of the prompt -> its text, or data.
            pictures: role -> path of the file, from the manifest's folder.
        """

    def texts_of(self, sample: Sample) -> Mapping[str, str]:
        """Texts that are sent with a sample besides those of its record, by the name of the prompt's input."""
        return {}

    @abstractmethod
    def lack(self, problems: Mapping[str, str]) -> Lack:
        """What becomes of a sample without all of its pictures: role -> why that one cannot be shown, at least one."""

    # The judge's replies

    @abstractmethod
    def reply_form(self, prompt: Prompt) -> ReplyForm:
        """What a reply to a prompt of this kind must look like."""

    @abstractmethod
    def read_reply(self, text: str, prompt: Prompt) -> Reading:
        """What a reply says, or the error that makes it invalid."""

    # What comes of them

    @abstractmethod
    def decide(
        self, sample: Sample, judgments: Sequence[Judgment], rubric: Rubric, parameters: Parameters, lack: Lack | None
    ) -> Decided:
        """The decision on a sample from all attempts of its calls, or from what it lacks."""

    @abstractmethod
    def score_tally(self, start: RunStart) -> Tally:
        """What makes the scores of a run's outcomes.

        Raises:
            InputError: the run's parameters lack what that takes.
        """

    @abstractmethod
    def headline_dimensions(self, start: RunStart) -> Sequence[str]:
        """The dimensions or tags whose scores are the headline of a run."""

    def good_from(self, parameters: Mapping[str, Any]) -> float:
        """Score from which a sample of a run with these parameters counts as good; 0 where there is no threshold."""
        return 0.0

    @abstractmethod
    def notable(self, outcome: Outcome, good_from: float) -> Iterator[str]:
        """Why a person may want to look at a sample, the best reason first."""

    # Controls

    def control_of(self, turn: str) -> str:
        """The control that a sample gets in a turn: that of the turn, unless the kind cannot show it."""
        return turn

    @abstractmethod
    def shown_in(self, control: str, base: Sample, giver: Sample) -> Mapping[str, PictureSource]:
        """What a control shows in the place of the sample's own pictures: role -> picture.

        Args:
            control: which one, as `control_of` names it.
            base: the sample that the control is made of.
            giver: whose pictures are taken: another sample for `other`, else `base`.
        """

    @abstractmethod
    def failures(self, control: Outcome, real: Original | None, heard: Heard) -> Sequence[float | None]:
        """The share of its answers on which the judge failed, 0-1, for each question that a control sample puts.

        A share of answers is expected to be the same whatever orders and votes were asked. None where a question tells
        nothing: a verdict or score is missing, or nothing was left to win or lose.

        Args:
            real: what came of the sample that the control was made of; None: it has no outcome.
            heard: the answers where there were several votes.
        """

    # Other evaluations

    @abstractmethod
    def measured(self, outcome: Compared) -> Measured:
        """What is paired of an outcome with the same of another evaluation."""

    # What people say

    @abstractmethod
    def label_columns(self) -> Columns:
        """The columns of a file of labels, none met yet."""

    @abstractmethod
    def read_label(self, cells: Cells, rubric: Rubric) -> LabelRow:
        """The label in a row; what is wrong with it goes to the problems of `cells`."""

    @abstractmethod
    def people_questions(self, rubric: Rubric, chosen: Sequence[str]) -> Mapping[str, tuple[PeopleQuestion, ...]]:
        """What people are asked on a page of blind items: tag (empty for figures) -> questions, in their order.

        Args:
            chosen: these alone; empty: what the kind asks of people as a rule.

        Raises:
            InputError: one of those chosen is no question of the flow.
        """

    @abstractmethod
    def people_label(self, item: LabelItem, question: str, answer: str) -> LabelRow:
        """An answer to such a page as a label of the item's sample, without a value where it is no judgment."""

    @abstractmethod
    def merged_answer(self, question: str, answers: Sequence[Answered | None]) -> Answered | None:
        """One answer from those of several people, at least one; None where they come to none."""

    def overall_of(self, answers: Mapping[str, Answered], rubric: Rubric) -> Answered | None:
        """The overall answer that follows from those to the other questions; None where none does."""
        return None

    @abstractmethod
    def worth(self, answer: Answered) -> float:
        """An answer as a score, from 0 to `highest`."""

    @abstractmethod
    def alike(self, one: Answered, other: Answered) -> bool:
        """Whether two answers count as the same."""

    @abstractmethod
    def category(self, answer: Answered) -> Category:
        """What an answer counts as."""

    @abstractmethod
    def concordance(self, first: Sequence[Answered], second: Sequence[Answered], drawn: Sequence[str]) -> Concordance:
        """How far two raters agree.

        Args:
            first: answers of one rater to one question.
            second: those of the other, sample by sample.
            drawn: what each sample belongs to when resampling.
        """
