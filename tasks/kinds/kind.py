"""What a kind of judging is: all that a run needs to know of it, behind one type.

Owns the type and what passes through it. The two kinds there are stand in `pairwise` and `rubric`; a third would be one
more module like them, and an entry in `tasks.kinds.KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from tasks.datasets.dataset import Dataset
from tasks.kinds.display import Display
from tasks.kinds.geneval_export import Export
from tasks.parameters import Parameters
from tasks.presentation.wording import Scored
from tasks.records import (
    AspectScore,
    DimensionOutcome,
    Judgment,
    Order,
    Outcome,
    OutcomeStatus,
    RunStart,
    Sample,
    Seen,
)
from tasks.rubrics.rubric import Prompt, Rubric

REPLY_SCHEMA = "1"
"""Version of the reply schemas and their words; part of every call's key."""


class ReplyForm(NamedTuple):
    """What a reply to a prompt must look like."""

    schema: Mapping[str, Any]
    """JSON schema, as it is sent where the endpoint takes one."""
    words: str
    """The same asked for in words, sent in any case."""
    allowed: object
    """What of the prompt's front matter decides the form; part of every call's key."""


class Reading(NamedTuple):
    """What a reply says. It says nothing where there is an `error`, which then tells why."""

    verdict: str | None = None
    """Of a pairwise reply."""
    scores: tuple[AspectScore, ...] = ()
    """Of a rubric's reply: its aspects in their order, then the overall score."""
    seen: Seen | None = None
    reasoning: str = ""
    recovery: str = ""
    """`strict`, or what had to be mended to read it."""
    error: str = ""


class Chances(NamedTuple):
    """Probabilities of the three outcomes of a pair; they add up to 1."""

    model: float
    tie: float
    human: float


class Original(NamedTuple):
    """What came of a sample as it is, beside a control that was made of it."""

    overall: str | None
    score: float | None


class ScoreTally(Protocol):
    """Scores while the outcomes of real samples are taken in, one after the other."""

    def add(self, outcome: Outcome, /) -> None:
        """Take in the outcome of a real sample."""
        ...

    def rows(self) -> Sequence[Scored]:
        """The scores of all that were taken in."""
        ...


class Lack(NamedTuple):
    """Why a sample cannot be judged: pictures are missing or unreadable."""

    status: OutcomeStatus
    problem: str


class Decided(NamedTuple):
    """What the rule makes of a sample: the part of an `Outcome` that depends on the kind of judging."""

    status: OutcomeStatus
    score: float | None
    path: str
    dimensions: tuple[DimensionOutcome, ...]
    overall: str | None = None
    aspects: tuple[AspectScore, ...] = ()
    aspect_mean: float | None = None
    satisfied: bool | None = None
    published: str | None = None
    chances: Chances | None = None
    pivotal: tuple[str, ...] = ()
    tier: str = ""
    caught: bool | None = None


class Measure(NamedTuple):
    """One thing that is measured of every sample."""

    dimension: str
    """Dimension or tag; `overall` or `all prompts`."""
    measure: str = "score"
    """`score`; of a tag also `aspect_mean` and `satisfied`."""
    highest: float = 100.0
    """Upper end of its scale, which begins at 0."""


class Measured(NamedTuple):
    """A judged sample, as far as it is compared with another."""

    unit: str
    """What is paired: id of the sample, or of the generated image's prompt."""
    status: str
    tag: str
    """Empty for figures."""
    values: Mapping[Measure, float | None]
    """Those that can be known of it; the first tells whether the sample is scored."""


class Compared(NamedTuple):
    """As much of an outcome as is compared, from a ledger or from the history."""

    sample_id: str
    prompt_id: str
    tag: str
    status: str
    score: float | None
    aspect_mean: float | None
    satisfied: bool | None
    scores: Mapping[str, float | None]
    """Dimension -> its score."""

    @classmethod
    def of(cls, outcome: Outcome) -> "Compared":
        """What is compared of an outcome."""
        return cls(
            sample_id=outcome.sample_id,
            prompt_id=outcome.prompt_id,
            tag=outcome.tag,
            status=outcome.status,
            score=outcome.score,
            aspect_mean=outcome.aspect_mean,
            satisfied=outcome.satisfied,
            scores={each.dimension: each.score for each in outcome.dimensions},
        )


class Kind(ABC):
    """One kind of judging. Instances hold nothing: they may be shared by all threads and runs."""

    unit: ClassVar[str]
    """What is counted and resampled, in the plural: `samples` or `prompts`."""
    decimals: ClassVar[int]
    """Of its scores, where they are shown."""
    highest: ClassVar[float]
    """Upper end of the scale of its scores."""
    display: ClassVar[Display[Any]]
    """How its scores and samples are shown."""

    # What goes in

    @abstractmethod
    def read_dataset(self, source: Path, flow: str, parameters: Parameters) -> Dataset:
        """The samples of a dataset, as the filters of `parameters` leave them; InputError lists what is wrong."""

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
    def score_tally(self, start: RunStart) -> ScoreTally:
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

    @abstractmethod
    def has_failed(self, control: Outcome, real: Original | None) -> bool | None:
        """Whether the judge failed on a control sample; None where it tells nothing.

        That is where a verdict or score is missing, or nothing was left to win or lose.

        Args:
            real: what came of the sample that the control was made of; None: it has no outcome.
        """

    @abstractmethod
    def measured(self, outcome: Compared) -> Measured:
        """What is paired of an outcome with the same of another evaluation."""

    def open_export(self, parameters: Parameters, candidates: Sequence[str]) -> Export | None:
        """The file that a run was asked to write besides; None where it was not, or the kind has none."""
        return None


def last_attempts(judgments: Iterable[Judgment]) -> dict[tuple[str, Order, int], Judgment]:
    """The judgment that counts for each (dimension, order, vote): the last attempt."""
    latest: dict[tuple[str, Order, int], Judgment] = {}
    for row in sorted(judgments, key=lambda row: row.attempt):
        latest[row.dimension, row.order, row.vote] = row
    return latest
