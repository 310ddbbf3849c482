"""Protocol of a kind of judging: datasets, calls, replies and outcomes, and the values that it exchanges."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from typing import Protocol as Interface

from tasks.datasets.dataset import Dataset
from tasks.presentation.wording import Scored
from tasks.records import AspectScore, DimensionOutcome, Judgment, Order, Outcome, OutcomeStatus, RunStart, Sample, Seen
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Prompt, Rubric
from tasks.statistics.series import Compared, Measured

REPLY_SCHEMA = "1"
"""Version of the reply schemas and their words; part of every call's key."""
AGGREGATION = "1"
"""Version of the rules that decide outcomes; part of every protocol key."""
NOT_ASKED = "not asked: "
"""Beginning of the explanation of a question that was not asked, since another answer made it needless."""

Answered = str | float
"""Answer to one question about a sample: a verdict or a score."""

AskedPrompt = TypeVar("AskedPrompt", bound=Prompt)
AskedParameters = TypeVar("AskedParameters", bound=Parameters)


class Question(NamedTuple):
    """One question about a sample, which each call asks once in an order."""

    dimension: str
    """Name of its answers: that of its prompt, unless the prompt asks several questions about a sample."""
    prompt: Prompt
    sample: Sample
    """The sample, reduced to what the question is about."""
    after: tuple[str, ...] = ()
    """Dimensions of the questions that are asked before this one, because their answers may make it needless."""
    is_needless: Callable[[Sequence[Judgment]], bool] = lambda _: False
    """Function that returns whether the judgments of the sample so far decide its part of the outcome."""


class ReplyForm(NamedTuple):
    """Required form of a reply to a prompt."""

    schema: Mapping[str, Any]
    """JSON schema, sent if the endpoint accepts one. Empty: one word as plain text, with the probabilities of its first
    token; `read_reply` gets both, see `Reply.of_one_word`."""
    words: str
    """The same form in words, always sent."""
    allowed: object
    """Values of the prompt's front matter and of the sample that decide the form; part of every call's key."""


class Reading(NamedTuple):
    """Content of a reply; with an `error` it has no verdict and no scores."""

    verdict: str | None = None
    """Verdict of a pairwise reply."""
    scores: tuple[AspectScore, ...] = ()
    """Scores of a rubric's reply: its aspects in their order, then the overall score."""
    seen: Seen | None = None
    reasoning: str = ""
    recovery: str = ""
    """`strict`, or the repairs that were needed to read the reply."""
    error: str = ""


class Decided(NamedTuple):
    """Decision of the rule on a sample: the fields of an `Outcome` that depend on the kind of judging."""

    status: OutcomeStatus
    score: float | None
    tier_path: str
    dimensions: tuple[DimensionOutcome, ...]
    overall: str | None = None
    aspects: tuple[AspectScore, ...] = ()
    aspect_mean: float | None = None
    satisfied: bool | None = None
    pivotal: tuple[str, ...] = ()
    tier: str = ""
    caught: bool | None = None
    problem: str = ""
    """Problem of a picture, for which the sample was not judged."""


class Tally(Interface):
    """Scores, computed while the outcomes of real samples are added one by one."""

    def add(self, outcome: Outcome, /) -> None:
        """Add the outcome of a real sample."""
        ...

    def rows(self) -> Sequence[Scored]:
        """Return the scores of all outcomes added so far."""
        ...


class Protocol(ABC, Generic[AskedPrompt, AskedParameters]):
    """Protocol of one kind of judging. Instances have no state, so all threads and runs may share them."""

    parameters: ClassVar[type[Parameters]]
    """Model of the parameters of its flows."""
    selector: ClassVar[str] = ""
    """Protocol item that selects the prompts asked, so that its values differ in these, too; empty: none does."""
    unit: ClassVar[str]
    """Unit that is counted and resampled, in the plural: `samples` or `prompts`."""
    decimals: ClassVar[int]
    """Number of decimals of a displayed score."""
    highest: ClassVar[float]
    """Upper end of its scores, which begin at 0."""

    @abstractmethod
    def read_dataset(self, source: Path, flow: str, parameters: AskedParameters) -> Dataset:
        """Read a dataset and apply the filters of `parameters`; InputError lists the problems."""

    def questions(self, sample: Sample, rubric: Rubric) -> Sequence[Question]:
        """Return the questions about a sample; by default each prompt that judges it asks one."""
        return [Question(prompt.dimension, prompt, sample) for prompt in rubric.prompts_for(sample)]

    def texts_of(self, sample: Sample) -> Mapping[str, str]:
        """Return texts that are sent with a sample besides those of its record, by the name of the prompt's input."""
        return {}

    @abstractmethod
    def reply_form(self, prompt: AskedPrompt, sample: Sample) -> ReplyForm:
        """Return the form required of a reply to a prompt.

        Args:
            sample: the sample asked about; a kind whose samples have questions of their own requires answers to these.
        """

    @abstractmethod
    def read_reply(self, text: str, prompt: AskedPrompt, sample: Sample) -> Reading:
        """Return the content of a reply, or the error that makes it invalid.

        Args:
            sample: the sample asked about, which may decide the form, as in `reply_form`.
        """

    @abstractmethod
    def decide(
        self,
        sample: Sample,
        judgments: Sequence[Judgment],
        rubric: Rubric,
        parameters: AskedParameters,
        problems: Mapping[str, str],
    ) -> Decided:
        """Decide a sample from all attempts of its calls, or from the problems of its pictures.

        Args:
            problems: role -> problem of a picture that is missing or unreadable; with any, no call was made.
        """

    @abstractmethod
    def score_tally(self, start: RunStart) -> Tally:
        """Return a tally of the scores of a run. Raises InputError if its parameters lack a value that this needs."""

    @abstractmethod
    def measured(self, outcome: Compared) -> Measured:
        """Return the values of an outcome that are paired with those of another evaluation."""


def last_attempts(judgments: Iterable[Judgment]) -> dict[tuple[str, Order, int], Judgment]:
    """Return the judgment that counts for each (dimension, order, vote): the last attempt."""
    latest: dict[tuple[str, Order, int], Judgment] = {}
    for row in sorted(judgments, key=lambda row: row.attempt):
        latest[row.dimension, row.order, row.vote] = row
    return latest
