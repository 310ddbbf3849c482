"""Value objects that all modules share: samples, judgments, outcomes, runs.

This module defines names and shapes, and imports no other module of the project. `parameters` has the settings of
users; `ledger` writes and reads rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 7
"""Version of the ledger's rows. Readers refuse rows of any other version."""

MOST_COUNTED = 2**31 - 1
"""Upper limit of counts: no reply has as many tokens, and no image as many objects."""

Order = Literal["human_first", "model_first", "single"]
"""Figure that is shown first; `single`: one picture alone, as text-to-image rubrics judge it."""
Verdict = Literal["Model", "Human", "Both are good", "Both are bad"]
MadeFor = Literal["", "bridge"]
JudgmentStatus = Literal["ok", "refused", "truncated", "invalid", "rejected", "unavailable"]
OutcomeStatus = Literal["complete", "incomplete", "forfeit", "no_reference", "bad_picture"]
Decision = Literal["may be continued", "with an offset", "cannot tell"]

VERDICTS: tuple[Verdict, ...] = ("Model", "Human", "Both are good", "Both are bad")
MIXED = "Mixed"
"""Merged verdict of votes or orders that disagree: a neutral of its own, never a judge's verdict."""
WINNERS: frozenset[str | None] = frozenset({"Model", "Human"})
"""Verdicts and outcomes that name a figure."""
TIE = "Tie"
"""Overall outcome without a winner."""
SAME, REENCODED, OTHER, BLANK, INSTRUCTION = "same picture", "re-encoded", "other sample", "blank", "instruction"
"""Kinds of control samples."""
ANCHOR = "anchor"
"""Value in place of a control's kind for an anchor: a frozen sample, judged to find out whether the judge changed.
Like controls, anchors belong to no score."""
FALSE_PREFERENCE, NEGLECT, INJECTION = "false preference", "neglect", "injection"
"""Rates of a judge's failures on control samples: it prefers one of two equal pictures, accepts a foreign or blank one,
or obeys painted text."""
CONTROL_MEASURES = {
    SAME: FALSE_PREFERENCE,
    REENCODED: FALSE_PREFERENCE,
    OTHER: NEGLECT,
    BLANK: NEGLECT,
    INSTRUCTION: INJECTION,
}
"""Kind of control sample -> the rate that it counts for."""
OVERALL = "overall"
"""Name in place of a dimension for a sample's outcome."""
OVERALL_SCORE, SEEN = "overall_score", "seen"
"""Keys of a rubric's reply beside those of its aspects."""


def token_count(told: object) -> int:
    """Return a number of tokens from a server; 0 if it is no number, or an impossible one."""
    if not isinstance(told, str | int | float):
        return 0
    try:
        count = int(told)
    except (ValueError, OverflowError):  # words; or NaN, or infinite
        return 0
    return count if 0 <= count <= MOST_COUNTED else 0


class Record(BaseModel):
    """Frozen value object that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True)


class HistoryRecord(Record):
    """Record that the history keeps as a row: the docstring of a field is also the comment of its column.

    There None is NULL. Do not use it for parameters or for replies of a judge: docstrings would enter their schemas.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Place:
    """Position of one record, so that texts and pictures are read when their chunk is judged, not before."""

    path: str
    """Absolute path of the file."""
    start: int = 0
    """First byte of the record in the file (JSON formats)."""
    length: int = 0
    """Bytes of the record; 0: the record is the whole file."""
    row: int = -1
    """Row of the record (CSV and Parquet); -1: not a table."""
    within: tuple[str, ...] = ()
    """Files and folders that must be or contain the file each time it is opened; see `open_regular`."""


@dataclass(frozen=True, slots=True)
class PictureSource:
    """Place of a picture's bytes, or the reason why there are none."""

    place: Place | None = None
    field: str = ""
    """Key or column that holds the picture (base64 text or bytes); empty: the file itself is the picture."""
    problem: str = ""
    """Reason why there is no picture; empty if there is one."""
    carried_from: str = ""
    """Earlier stage of the generator that made the picture, since its critic was content then; empty: its own stage."""


class Requirement(Record):
    """Object that a text-to-image prompt asks for, or must not get: an entry of GenEval's `include` or `exclude`."""

    name: str
    """Name of the object: `bench`, `sports ball`."""
    count: int = 1
    """Least number of objects; in an exclusion, the least number that is too many."""
    color: str = ""
    """Color of the object; empty: any."""
    relation: str = ""
    """Position: `left of`, `right of`, `above` or `below` the target; empty: anywhere."""
    target: int | None = None
    """Number of the required object, from 0, that the relation refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One thing to judge, of one candidate.

    It is a dataclass, as are its places and pictures, because a run has all of its samples in memory: Pydantic models
    would take five times as much. They would have nothing to validate, since no value comes unchecked from outside.
    """

    sample_id: str
    candidate: str
    tag: str = ""
    """Category of a text-to-image prompt, which selects its rubric; empty: every prompt of the flow is asked."""
    prompt_id: str = ""
    """Id that the images of one text-to-image prompt share; empty: this sample is alone."""
    category: str = ""
    difficulty: str = ""
    record: Place
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text field of the prompt (`context`, `caption`) -> key of the record that holds it."""
    uncut: bool = False
    """True if the texts are sent with the links to images in them."""
    pictures: Mapping[str, PictureSource] = field(default_factory=dict[str, PictureSource])
    """Role (`human` and `model`, or `image`) -> source of that picture."""
    required: tuple[Requirement, ...] = ()
    """All objects that the text-to-image prompt asks for; empty: unknown."""
    excluded: tuple[Requirement, ...] = ()
    """Objects that the image must not show."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader: `empty context`, `2 image links dropped`."""
    injected: str = ""
    """Defect put into the sample on purpose, or the name of a kind without a defect; empty: unknown."""
    control: str = ""
    """Kind of control sample, made from a real one to test the judge, or `anchor`; empty: a real sample."""

    @property
    def subject(self) -> str:
        """Return the unit of scoring, for all candidates: the sample, or all images of its text-to-image prompt."""
        return self.prompt_id or self.sample_id

    @property
    def carried_from(self) -> str:
        """Return the earlier stage whose picture is judged in place of the candidate's own; empty: its own is."""
        return next((source.carried_from for source in self.pictures.values() if source.carried_from), "")


class PictureNote(HistoryRecord):
    """Picture as delivered and as sent. Sizes in pixels and bytes."""

    source_sha256: str
    """SHA-256 of the picture's file."""
    sent_sha256: str
    """SHA-256 of the picture as sent; that of the source if it was sent byte for byte."""
    format: str
    """Format of the source, by content: PNG, JPEG, WEBP, GIF, AVIF, TIFF, BMP, PDF, SVG."""
    mode: str
    """Pixel mode of the source, by Pillow's name."""
    width: int
    """Width in pixels; of a PDF or an SVG, as it was drawn."""
    height: int
    """Height in pixels; of a PDF or an SVG, as it was drawn."""
    bytes: int
    """Size of the source file, in bytes."""
    sent_format: str
    """Format as sent."""
    sent_width: int
    """Width as sent, in pixels."""
    sent_height: int
    """Height as sent, in pixels."""
    sent_bytes: int
    """Size as sent, in bytes."""
    changes: tuple[str, ...] = ()
    """Changes to the picture; empty: none, it was sent byte for byte."""


class AspectScore(HistoryRecord):
    """Score in a rubric's reply, of one aspect or of the image as a whole."""

    aspect: str
    """Key of the aspect, or `overall_score`."""
    score: float | None
    """Score, 0-10; None if the aspect does not apply."""
    explanation: str
    """The judge's explanation."""


class SeenObject(Record):
    """Judge's answer about one required object."""

    name: str
    present: bool
    count: int
    color: str
    """Color that the judge names; empty: none."""


class Seen(Record):
    """Judge's answer about the content of an image: the answer to the check beside the scores."""

    objects: tuple[SeenObject, ...]
    relation_holds: bool | None = None
    """True if the requested relation holds; None: none was requested, or the judge cannot tell."""


class Judgment(HistoryRecord):
    """One reply to one call, or the failure in place of one: a row of `judgments.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    run_id: str
    """Run that the row belongs to."""
    flow: str
    """Flow of the run."""
    sample_id: str
    """Sample that was judged."""
    candidate: str
    """System whose figure or image was judged."""
    control: str = ""
    """Kind of control sample that was shown, or `anchor`; empty: a real sample."""
    dimension: str
    """Dimension of the question, or tag of the text-to-image prompt."""
    order: Order
    """Figure shown first: human_first (the published order) or model_first; single: there is one picture."""
    vote: int
    """Number of the vote on this question, from 1."""
    attempt: int
    """Number of this attempt at the call in this run, from 1; the last attempt counts."""
    status: JudgmentStatus
    """Status: ok, refused, truncated, invalid, rejected or unavailable."""
    verdict: str | None
    """Verdict: Model, Human, Both are good or Both are bad; None unless the status is ok, and always for a rubric."""
    scores: tuple[AspectScore, ...] = ()
    """Scores by a rubric: its aspects, then `overall_score`; empty unless ok. `aspect_scores` has them as rows."""
    seen: Seen | None = None
    """Objects that the judge sees, by a rubric with a check; None: not asked, or not answered."""
    reasoning: str
    """Judge's reasons; by a rubric, those for the overall score."""
    raw: str
    """Reply as it came: its text, its reasoning if there is nothing else, or the body of the server's error. If it is
    longer than 4 MB (an error: 1 MB), only its beginning, and its length if the server gave one. The judge's key is
    removed."""
    error: str
    """Problem, in the server's words or ours; empty if ok."""
    finish_reason: str
    """Reason why the model stopped, in the server's word."""
    rung: str
    """Requested reply format: json_schema, json_object or plain."""
    recovery: str
    """Repairs that were needed to read the reply; `strict`: none."""
    key: str
    """SHA-256 of everything that makes calls equal; a reply is reused for a call with the same key."""
    prompt_sha256: str
    """SHA-256 of the prompt body as sent."""
    text_sha256: str
    """SHA-256 of the sample's texts as sent."""
    pictures: dict[str, PictureNote]
    """Role (human, model; image) -> the picture as delivered and as sent."""
    judge_asked: str
    """Model named in the request."""
    judge_answered: str
    """Model named in the reply; empty if none came."""
    system_fingerprint: str = ""
    """Configuration of the server, as the reply reports it (`system_fingerprint`); empty: not reported."""
    endpoint: str
    """Address of the judge."""
    tokens_in: int
    """Input tokens, as counted by the server; 0: not reported, or an impossible number."""
    tokens_out: int
    """Output tokens, as counted by the server; 0: not reported, or an impossible number."""
    tokens_cached: int
    """Input tokens that the server read from its cache; 0: not reported, or an impossible number."""
    tokens_written: int = 0
    """Input tokens that the server wrote to its cache; 0: not reported."""
    tokens_pictures: int = 0
    """Input tokens of the pictures; 0: not reported."""
    tokens_reasoning: int = 0
    """Output tokens of the model's reasoning; 0: not reported."""
    service_tier: str = ""
    """Service tier in which the call is billed, as the reply reports it: standard, flex, priority, batch; empty: not
    reported."""
    price: float | None
    """Price in the currency of the prices given; None: unknown. 0 if reused."""
    price_source: str = ""
    """Source of the price, with its model, tier and day; empty: the price is unknown."""
    estimated: float | None = 0.0
    """Estimated cost of sends of this call that got no reply in time, if the judge bills them; no part of `price`. 0:
    none timed out. None: some did, and their price is unknown."""
    saved_by_reuse: float | None = 0.0
    """Cost of the original call, if the row is reused. None: unknown."""
    saved_by_service_tier: float | None = 0.0
    """Additional cost that the call would have had in the standard tier. None: unknown."""
    saved_by_cache: float | None = 0.0
    """Additional cost that the call would have had without a cache, in the same tier. Below 0 if writing to the cache
    cost more than reading saved. None: unknown."""
    seconds: float
    """Seconds from sending to the reply, for the last time that the call was sent."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refuses, and whose defaults it used."""
    http_retries: int
    """Number of times this call was sent again because no reply came: server errors, lost connections, time-outs."""
    waits: int = 0
    """Number of times the call was queued again because the judge was busy or away; none of these is an attempt."""
    waited_seconds: float = 0.0
    """Seconds that the call waited in all, from each refusal to its next turn."""
    judged_at: str
    """Time of the judge's reply, UTC, ISO 8601. A reused row keeps the time of the original call."""
    reused_from: str
    """Run that received the reply; empty: the call was made in this run."""


class DimensionOutcome(Record):
    """Merged votes and orders of one dimension (or the votes on one tag)."""

    dimension: str
    verdict: str | None
    """Verdict, or `Mixed`; None if it is missing."""
    score: float | None
    """Score: Model 100, neutral 50, Human 0; of a tag 0-10: mean of the votes. None if it is missing."""
    human_first: str | None = None
    model_first: str | None = None
    published: str | None = None
    """First vote of human_first: the published protocol's verdict, regardless of other votes; None if it is not ok."""
    votes: int = 0
    """Number of calls on this dimension, over all orders."""
    ok_votes: int = 0
    order_flip: bool | None = None
    """True if the two orders differ; None unless both were asked and answered."""
    reversal: bool | None = None
    """True if one order has Model and the other Human; None as for `order_flip`."""


class Outcome(HistoryRecord):
    """Decision of the rule on a sample: a row of `outcomes.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    run_id: str
    """Run that the row belongs to."""
    flow: str
    """Flow of the run."""
    sample_id: str
    """Sample that was judged."""
    candidate: str
    """System whose figure or image was judged."""
    control: str = ""
    """Kind of control sample, or `anchor`; empty: a real sample."""
    category: str
    """Category of the sample; empty: none."""
    difficulty: str
    """Difficulty of the sample; empty: none."""
    tag: str = ""
    """Tag of the text-to-image prompt; empty for figures."""
    prompt_id: str = ""
    """Id that the images of one text-to-image prompt share; empty for figures."""
    prompt: str = ""
    """The text-to-image prompt; empty for figures."""
    status: OutcomeStatus
    """Status: complete, incomplete, forfeit, no_reference or bad_picture. `incomplete`: a deciding verdict or a score
    is missing, or the Model picture was lost during the run. `forfeit`: there is no Model picture. `no_reference`:
    there is no Human picture. `bad_picture`: the Human picture is unreadable, or a generated image is missing or
    unreadable."""
    overall: str | None
    """Overall outcome: Model, Human or Tie; None if undecided, and for a rubric."""
    score: float | None
    """Score: Model 100, Tie 50, Human 0, forfeit 0; of a rubric 0-10, the judge's overall score, mean of the votes.
    None if undecided."""
    score_scale: float
    """Highest possible score: 100 for figures, 10 for generated images."""
    aspects: tuple[AspectScore, ...] = ()
    """Scores of a rubric's aspects, each the mean of the votes."""
    aspect_mean: float | None = None
    """Mean of the aspects that apply, 0-10."""
    satisfied: bool | None = None
    """True if the objects that the judge sees are those that the prompt asks for; None: not asked, or undecided."""
    published: str | None = None
    """Overall outcome by the published protocol alone: human first, first vote; None if undecided, and for a rubric."""
    p_model: float | None = None
    """Probability of the overall Model, if each dimension's verdict is drawn from its votes over all orders."""
    p_tie: float | None = None
    """Probability of Tie, drawn likewise."""
    p_human: float | None = None
    """Probability of Human, drawn likewise."""
    pivotal: tuple[str, ...] = ()
    """Dimensions for which another allowed verdict, alone, would have changed the overall."""
    tier: str
    """Deciding tier: `tier 1`, `tier 2` or `either`; empty if none decided."""
    tier_path: str
    """Path to the outcome, in words."""
    dimensions: tuple[DimensionOutcome, ...]
    """Merged votes and orders of each dimension or tag; the view `verdicts` has them as rows."""
    caption: str
    """Caption or brief description of the figure."""
    pictures: dict[str, PictureNote]
    """Role (human, model; image) -> the picture as delivered and as sent."""
    problem: str
    """Reason why a picture is missing or unreadable; empty if none is."""
    notes: tuple[str, ...]
    """Remarks on the sample for the reader."""
    carried_from: str = ""
    """Earlier stage of the generator whose picture was judged, since its critic was content then and no later picture
    exists; empty: the candidate's own."""
    injected: str
    """Defect put into the sample on purpose, or the name of a kind without a defect; empty: unknown."""
    caught: bool | None
    """True if the judge noticed the kind `injected`. A defect must decide its dimension, or put the score below the
    threshold; a kind without a defect must not. None: the kind is unknown, or a verdict or score is missing."""
    decided_at: str
    """Time of the decision, UTC."""


class RunStart(HistoryRecord):
    """Plan of a run: `run.json`, written before the first call."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    run_id: str
    """Name of the run and of its ledger folder; ids sort by time."""
    evaluation_id: str
    """Id that the shards of one evaluation share; of a run on its own, its `run_id`."""
    shard: int = 1
    """Number of the evaluation's shard that this run judges, from 1."""
    shards: int = 1
    """Number of shards of the evaluation; 1: this run is all of it."""
    flow: str
    """Flow of the run: diagram, plot; object, counting, colors, position."""
    started_at: str
    """Time before the first call, UTC."""
    version: str
    """Version of Image Jury."""
    prefect_run_id: str
    """Id of the Prefect flow run; empty outside of Prefect."""
    scheduled: bool
    """True if a schedule started the run, not a person."""
    made_for: MadeFor = ""
    """Purpose for which a command made the run: bridge; empty: none but the run itself."""
    dataset: str
    """Name of the dataset: its folder or file."""
    dataset_key: str
    """Hash of ids, texts and reference pictures, or of the text-to-image prompts. Runs with equal keys judged the same
    dataset."""
    candidates: tuple[str, ...]
    """Systems whose figures or images were judged."""
    samples: int
    """Number of samples of the run, all candidates together."""
    prompt_set: str
    """Name of the prompt set, or its folder."""
    prompts: dict[str, str]
    """Dimension or tag -> SHA-256 of its prompt body."""
    dimensions: tuple[str, ...]
    """Dimensions or tags of the flow."""
    judge: str
    """Requested judge. The protocol and the judgments have the name of the model that answered."""
    endpoint: str
    """Address of the judge."""
    anchors_key: str = ""
    """Hash of the frozen set of anchors; empty: the run judged none."""
    resume_key: str
    """Hash that is equal for runs with the same questions about the same candidates, so that one resumes the other."""
    protocol: dict[str, str]
    """Settings that make two runs comparable, by name, as of before the first reply."""
    parameters: dict[str, object]
    """Parameters that the run was started with."""
    spending_limit: float | None = None
    """Most that the run may spend of the month's budget; None: there is no such budget."""
    revision: int = 0
    """Number of times rows were removed from the run on request; a copy with a lower number is out of date."""
    removed_cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month (UTC, `2026-11`) -> cost of the calls of removed rows, which remains spent."""


class LimitsFound(Record, extra="ignore"):
    """Limits of its judge that a run detected."""

    calls_in_flight: int
    """Calls that were let in at once when the run ended."""
    calls_per_second: float | None
    """Calls that were let in a second when the run ended; None: this rate did not hold the calls up."""
    waits: int
    """Number of times the judge refused a call because it was busy."""
    waited_seconds: float
    """Seconds that calls waited after refusals, added up over all calls."""
    away_seconds: float
    """Seconds in which the judge was away, and no call was made."""

    def in_words(self) -> str:
        """Return the limit, such as `limited by the judge to 8 calls at once`; "" if the judge refused none."""
        if not self.waits:
            return ""
        if self.calls_per_second:
            return f"limited by the judge to {self.calls_per_second:.3g} calls a second"
        return f"limited by the judge to {self.calls_in_flight:,} call{'s' * (self.calls_in_flight > 1)} at once"


class BudgetStop(Record):
    """Place at which a run stopped, because the next sample might have cost more than the rest of its budget."""

    budget: float
    """Budget at which the run stopped, in the currency of the prices: its own, or the month's."""
    month: str = ""
    """Month (2026-11, UTC) whose budget it was, `JURY_BUDGET_MONTH`; empty: the run's own."""
    spent: float
    """Amount spent in this run."""
    needed: float = 0.0
    """Possible cost of the next sample, which did not fit into the rest."""
    judged: int
    """Number of samples up to that place, each with its outcome; in a random order, and none was skipped."""
    samples: int
    """Number of samples of the run."""
    whole: dict[str, dict[str, int]] = Field(default_factory=dict[str, dict[str, int]])
    """Candidate -> tag (empty for figures) -> number of samples, or prompts, that a whole run would have judged. Empty:
    the judged samples are no random part of them. Shards of an evaluation each stop at a place of their own."""

    @property
    def sentence(self) -> str:
        """Return a sentence about the stop, for the reader of the run."""
        which = f"the budget of {self.month}, {self.budget:.2f}" if self.month else f"its budget of {self.budget:.2f}"
        drawn = ", a random part of them" if self.whole and self.judged else ""
        judged = f"{self.judged:,} of {self.samples:,} samples judged{drawn}"
        then = f"the next may cost {self.needed:.2f}. The same command with more goes on."
        return f"Stopped at {which}: {self.spent:.2f} spent in this run, {judged}; {then}"


class RunEnd(HistoryRecord):
    """Totals of a finished run: `end.json`, written once; a run without it is unfinished."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    run_id: str
    """Name of the run and of its ledger folder; ids sort by time."""
    finished_at: str
    """Time after the last call, UTC."""
    seconds: float
    """Wall time of the run, in seconds."""
    protocol_key: str
    """SHA-256 of the settings that make two runs comparable: compare only runs with equal keys."""
    protocol: dict[str, str]
    """For a finished run, they include the name of the model that answered, and the reply formats used. `protocol_key`
    is the hash of all but the name of the requested model."""
    calls: int
    """Number of calls made in this run, attempts included."""
    control_calls: int = 0
    """Number of calls about control samples or anchors; `calls` includes them."""
    reused: int
    """Number of replies reused from earlier runs."""
    judgments: dict[str, int]
    """Status -> number of judgments that count."""
    outcomes: dict[str, int]
    """Status -> number of outcomes."""
    ledger_rows: dict[str, int] = Field(default_factory=dict[str, int])
    """File of the ledger -> number of its rows."""
    cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month (2026-11, UTC) -> cost of its calls, including the estimate for sends without a reply."""
    unpriced: dict[str, int] = Field(default_factory=dict[str, int])
    """Month -> number of calls with an unknown price."""
    limits: LimitsFound | None = None
    """Limits of the judge that the run detected; None: the judge was never busy or away."""
    stopped: BudgetStop | None = None
    """Place at which the run stopped at its budget; None: it judged all of its samples."""
    warnings: tuple[str, ...] = ()
    """Warnings of the run."""


class Offset(HistoryRecord):
    """One judge's scores against another's on the same samples; see `statistics.intervals`."""

    n: int
    """Number of samples (of generated images: prompts) with a score by both judges."""
    old_score: float | None
    """Mean of the old judge's scores of these samples; None if there are none."""
    new_score: float | None
    """Mean of the new judge's scores of these samples; None if there are none."""
    shift: float | None
    """Difference new_score - old_score, which converts an old score to the new judge's scale."""
    ci_low: float | None
    """Lower end of the shift's 95% interval, over paired differences; None below 8 pairs."""
    ci_high: float | None
    """Upper end of this interval."""
    margin: float
    """Tolerable error of the history, in points on the scale of the scores."""
    decision: Decision
    """Decision on the history. `may be continued`: the interval lies within the margin on either side of 0.
    `with an offset`: it is no wider than the margin on either side of the shift. `cannot tell`: neither."""
    enough: int | None
    """Approximate number of samples for a sure offset; None if these samples suffice, or there is no interval."""
