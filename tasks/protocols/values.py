"""Values that a kind of judging exchanges with its callers: forms of replies, readings, decisions, measures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tasks.records import AspectScore, DimensionOutcome, Judgment, Order, Outcome, OutcomeStatus, Seen

REPLY_SCHEMA = "1"
"""Version of the reply schemas and their words; part of every call's key."""


Answered = str | float
"""Answer to one question about a sample: a verdict or a score."""


class Choice(NamedTuple):
    """One answer that people may give."""

    key: str
    """Key on the keyboard."""
    value: str
    """Value in the saved file."""
    words: str


CANNOT_TELL = Choice("c", "cannot tell", "Cannot tell")
NOT_APPLICABLE = Choice("n", "does not apply", "Does not apply")
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


class ReplyForm(NamedTuple):
    """Required form of a reply to a prompt."""

    schema: Mapping[str, Any]
    """JSON schema, sent if the endpoint accepts one."""
    words: str
    """The same form in words, always sent."""
    allowed: object
    """Values of the prompt's front matter that decide the form; part of every call's key."""
    common: Mapping[str, Any] = {}
    """JSON schema of the replies to all prompts of the flow. It may allow replies that this prompt forbids; empty:
    there is none."""
    common_words: str = ""
    """The same form in words."""
    own_words: str = ""
    """Replies of the common form that this prompt allows, in words; empty: all."""


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


class Chances(NamedTuple):
    """Probabilities of the three outcomes of a pair; they add up to 1."""

    model: float
    tie: float
    human: float


class Original(NamedTuple):
    """Outcome of a sample as it is, for comparison with a control made of it."""

    overall: str | None
    score: float | None


Votes = Mapping[str, Mapping[Order, Sequence[Answered]]]
"""Dimension or tag -> order -> its ok answers, by vote."""


class Heard(NamedTuple):
    """All ok answers about a control and about the sample that it was made of.

    Empty if each question was asked once in an order: the two outcomes then contain the answers.
    """

    control: Votes
    real: Votes


class Lack(NamedTuple):
    """Reason why a sample cannot be judged: pictures are missing or unreadable."""

    status: OutcomeStatus
    problem: str


class Decided(NamedTuple):
    """Decision of the rule on a sample: the part of an `Outcome` that depends on the kind of judging."""

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
    """One quantity that is measured for every sample."""

    dimension: str
    """Dimension or tag; `overall` or `all prompts`."""
    measure: str = "score"
    """`score`; for a tag also `aspect_mean` and `satisfied`."""
    highest: float = 100.0
    """Upper end of its scale, which begins at 0."""


class Measured(NamedTuple):
    """Values of a judged sample that are compared with those of another."""

    unit: str
    """Unit of the pairing: id of the sample, or of the generated image's prompt."""
    status: str
    tag: str
    """Empty for figures."""
    values: Mapping[Measure, float | None]
    """Value by each measure, None if missing; the sample is scored if the first one exists."""


class Compared(NamedTuple):
    """Parts of an outcome that are compared, from a ledger or from the history."""

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
        """Return the parts of an outcome that are compared."""
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
    """Category in which an answer is counted, with its place on the scale."""

    place: int
    name: str


def last_attempts(judgments: Iterable[Judgment]) -> dict[tuple[str, Order, int], Judgment]:
    """Return the judgment that counts for each (dimension, order, vote): the last attempt."""
    latest: dict[tuple[str, Order, int], Judgment] = {}
    for row in sorted(judgments, key=lambda row: row.attempt):
        latest[row.dimension, row.order, row.vote] = row
    return latest
