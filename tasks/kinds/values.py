"""What passes between a kind of judging and whoever uses it: forms of replies, readings, decisions, measures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tasks.records import AspectScore, DimensionOutcome, Judgment, Order, Outcome, OutcomeStatus, Seen

REPLY_SCHEMA = "1"
"""Version of the reply schemas and their words; part of every call's key."""


Answered = str | float
"""An answer to one question about a sample: a verdict, or a score."""


class Choice(NamedTuple):
    """One answer that people may give, and how."""

    key: str
    """Key of the keyboard."""
    value: str
    """What the saved file says."""
    words: str


CANNOT_TELL = Choice("c", "cannot tell", "Cannot tell")
NOT_APPLICABLE = Choice("n", "does not apply", "Does not apply")
UNANSWERED = (CANNOT_TELL.value, NOT_APPLICABLE.value)
"""Answers that are neither a verdict nor a score."""


class PeopleQuestion(NamedTuple):
    """One question as people are asked it, who see no candidate's name."""

    question: str
    """Dimension or overall; of an image an aspect or overall_score."""
    words: str
    hint: str
    """What it means, in a sentence."""
    choices: tuple[Choice, ...]


class ReplyForm(NamedTuple):
    """What a reply to a prompt must look like."""

    schema: Mapping[str, Any]
    """JSON schema, as it is sent where the endpoint takes one."""
    words: str
    """The same asked for in words, sent in any case."""
    allowed: object
    """What of the prompt's front matter decides the form; part of every call's key."""
    common: Mapping[str, Any] = {}
    """JSON schema of the replies to all prompts of the flow, which allows some that this prompt does not; empty: there
    is none."""
    common_words: str = ""
    """The same asked for in words."""
    own_words: str = ""
    """What of it this prompt allows; empty: all."""


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


Votes = Mapping[str, Mapping[Order, Sequence[Answered]]]
"""Dimension or tag -> order -> its ok answers, by vote."""


class Heard(NamedTuple):
    """All ok answers about a control and about the sample that it was made of.

    Empty where each question was asked once in an order: the two outcomes then have them.
    """

    control: Votes
    real: Votes


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


class Category(NamedTuple):
    """What an answer counts as, where answers are counted; in the order of the scale."""

    place: int
    name: str


def last_attempts(judgments: Iterable[Judgment]) -> dict[tuple[str, Order, int], Judgment]:
    """The judgment that counts for each (dimension, order, vote): the last attempt."""
    latest: dict[tuple[str, Order, int], Judgment] = {}
    for row in sorted(judgments, key=lambda row: row.attempt):
        latest[row.dimension, row.order, row.vote] = row
    return latest
