"""The value objects that cross every boundary: samples, judgments, outcomes, runs.

Owns the words and the shapes; imports nothing of ours. What a user may set stands in
`parameters`; how a row is written and read stands in `ledger`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 7
"""Version of the ledger's rows. Readers refuse rows of any other."""

MOST_COUNTED = 2**31 - 1
"""More tokens, or more objects in an image, than there can be."""

Order = Literal["human_first", "model_first", "single"]
"""Which figure comes first; `single`: one picture alone, as text-to-image rubrics judge it."""
Verdict = Literal["Model", "Human", "Both are good", "Both are bad"]
MadeFor = Literal["", "bridge"]
JudgmentStatus = Literal["ok", "refused", "truncated", "invalid", "rejected", "unavailable"]
OutcomeStatus = Literal["complete", "incomplete", "forfeit", "no_reference", "bad_picture"]
Decision = Literal["may be continued", "with an offset", "cannot tell"]

VERDICTS: tuple[Verdict, ...] = ("Model", "Human", "Both are good", "Both are bad")
MIXED = "Mixed"
"""What votes or orders that disagree leave of a dimension: a neutral of its own, never a judge's verdict."""
WINNERS: frozenset[str | None] = frozenset({"Model", "Human"})
"""Verdicts and outcomes that name a figure."""
TIE = "Tie"
"""An overall outcome without a winner."""
SAME, REENCODED, OTHER, BLANK, INSTRUCTION = "same picture", "re-encoded", "other sample", "blank", "instruction"
"""Kinds of control samples."""
ANCHOR = "anchor"
"""What stands in the place of a control's kind for an anchor: a frozen sample, judged to find out whether the judge
changed. Like controls, anchors belong to no score."""
FALSE_PREFERENCE, NEGLECT, INJECTION = "false preference", "neglect", "injection"
"""What control samples tell of a judge: it tells equal pictures apart, passes foreign ones, obeys painted text."""
CONTROL_MEASURES = {
    SAME: FALSE_PREFERENCE,
    REENCODED: FALSE_PREFERENCE,
    OTHER: NEGLECT,
    BLANK: NEGLECT,
    INSTRUCTION: INJECTION,
}
"""Kind of control sample -> the rate that it counts for."""
OVERALL = "overall"
"""What stands in place of a dimension for a sample's outcome."""
OVERALL_SCORE, SEEN = "overall_score", "seen"
"""Keys of a rubric's reply beside those of its aspects."""


def token_count(told: object) -> int:
    """What a server says is a number of tokens; 0 where that is none, or one that cannot be."""
    if not isinstance(told, str | int | float):
        return 0
    try:
        count = int(told)
    except (ValueError, OverflowError):  # words; or NaN, or infinite
        return 0
    return count if 0 <= count <= MOST_COUNTED else 0


class Record(BaseModel):
    """A frozen value object that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True)


class HistoryRecord(Record):
    """A record that the history keeps as a row: what a field's docstring says is also the comment of its column.

    There None is NULL. Not for parameters, nor for what a judge is asked to send: docstrings would enter their schemas.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one record stands, so that texts and pictures are read when their chunk is judged, not before."""

    path: str
    """File, absolute."""
    start: int = 0
    """First byte of the record in the file (JSON formats)."""
    length: int = 0
    """Bytes of the record; 0: the whole file is meant."""
    row: int = -1
    """Row of the record (CSV and Parquet); -1: not a table."""
    within: tuple[str, ...] = ()
    """Where the file must be each time it is opened: see `open_regular`."""


@dataclass(frozen=True, slots=True)
class PictureSource:
    """Where a picture's bytes stand, or why there are none."""

    place: Place | None = None
    field: str = ""
    """Key or column that holds the picture (base64 text or bytes); empty: the file itself is the picture."""
    problem: str = ""
    """Why there is no picture; empty when there is one."""
    carried_from: str = ""
    """Earlier stage of the generator whose picture this is, since its critic was content then; empty: its own."""


class Requirement(Record):
    """An object that a text-to-image prompt asks for, or must not get: an entry of GenEval's `include` or `exclude`."""

    name: str
    """What it is: `bench`, `sports ball`."""
    count: int = 1
    """How many at least; in an exclusion, how many are too many."""
    color: str = ""
    """Empty: any."""
    relation: str = ""
    """`left of`, `right of`, `above` or `below` the target; empty: anywhere."""
    target: int | None = None
    """Which of the required objects, from 0, the relation is to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One thing to judge, of one candidate.

    No Pydantic model, nor is what it is made of: none of it comes from outside as it is, and a run has all of its
    samples in memory, of which a model for each would take five times as much.
    """

    sample_id: str
    candidate: str
    tag: str = ""
    """Category of a text-to-image prompt, which chooses its rubric; empty: every prompt of the flow is asked."""
    prompt_id: str = ""
    """What the images of one text-to-image prompt share; empty: none but this sample."""
    category: str = ""
    difficulty: str = ""
    record: Place
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text field of the prompt (`context`, `caption`) -> key of the record that holds it."""
    uncut: bool = False
    """The texts are sent with the links to images in them."""
    pictures: Mapping[str, PictureSource] = field(default_factory=dict[str, PictureSource])
    """Role (`human` and `model`, or `image`) -> where that picture is."""
    required: tuple[Requirement, ...] = ()
    """Objects the text-to-image prompt asks for, all of them; empty: not known."""
    excluded: tuple[Requirement, ...] = ()
    """Objects it must not get."""
    notes: tuple[str, ...] = ()
    """What the reader should know: `empty context`, `2 image links dropped`."""
    injected: str = ""
    """Name of the defect that was put into this sample on purpose; empty: none is known."""
    control: str = ""
    """Kind of control sample, made of a real one to test the judge, or `anchor`; empty: a real sample."""

    @property
    def subject(self) -> str:
        """What is scored as one: the sample, or all images of its text-to-image prompt; the same for all candidates."""
        return self.prompt_id or self.sample_id

    @property
    def carried_from(self) -> str:
        """Earlier stage whose picture is judged in the place of the candidate's; empty: the candidate's own is."""
        return next((source.carried_from for source in self.pictures.values() if source.carried_from), "")


class PictureNote(HistoryRecord):
    """What a picture was and what was sent in its place. Sizes in pixels and bytes."""

    source_sha256: str
    """SHA-256 of the picture's file."""
    sent_sha256: str
    """SHA-256 of what was sent; that of the source when it was sent byte for byte."""
    format: str
    """Format of the source, by content: PNG, JPEG, WEBP, GIF, AVIF, TIFF, BMP, PDF, SVG."""
    mode: str
    """Pixel mode of the source, in Pillow's words."""
    width: int
    """Pixels across; of a PDF or an SVG, as it was drawn."""
    height: int
    """Pixels down; of a PDF or an SVG, as it was drawn."""
    bytes: int
    """Size of the file, in bytes."""
    sent_format: str
    """Format sent."""
    sent_width: int
    """Pixels across, as sent."""
    sent_height: int
    """Pixels down, as sent."""
    sent_bytes: int
    """Bytes sent."""
    changes: tuple[str, ...] = ()
    """What was done to the picture; empty: nothing, it was sent byte for byte."""


class AspectScore(HistoryRecord):
    """What a rubric's reply says of one aspect, or of the image as a whole."""

    aspect: str
    """Key of the aspect, or `overall_score`."""
    score: float | None
    """0-10; None where the aspect does not apply."""
    explanation: str
    """The judge's explanation."""


class SeenObject(Record):
    """What the judge says it sees of one required object."""

    name: str
    present: bool
    count: int
    color: str
    """Empty: not told."""


class Seen(Record):
    """What the judge says is in an image: the answer to the check beside the scores."""

    objects: tuple[SeenObject, ...]
    relation_holds: bool | None = None
    """None: no relation was asked for, or the judge cannot tell."""


class Judgment(HistoryRecord):
    """One reply to one call, or what came instead of one. Rows of `judgments.jsonl`."""

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
    """Dimension that was asked about, or tag of the text-to-image prompt."""
    order: Order
    """Figure shown first: human_first (the published order) or model_first; single: there is one picture."""
    vote: int
    """Which of the votes on this question, from 1."""
    attempt: int
    """How often this call has been made in this run, from 1; the last attempt counts."""
    status: JudgmentStatus
    """ok, refused, truncated, invalid, rejected or unavailable."""
    verdict: str | None
    """Model, Human, Both are good or Both are bad; None unless the status is ok, and always for a rubric."""
    scores: tuple[AspectScore, ...] = ()
    """Of a rubric: its aspects, then `overall_score`; empty unless ok. `aspect_scores` has them as rows."""
    seen: Seen | None = None
    """Of a rubric with a check: what the judge says it sees; None: not asked, or not told."""
    reasoning: str
    """The judge's reasons; of a rubric those for the overall score."""
    raw: str
    """The reply as it came: its text, its reasoning where that is all there is, or the body of the server's error. Of
    one longer than 4 MB (an error: 1 MB) the beginning and, where it was told, the length; the judge's key is cut out.
    """
    error: str
    """What went wrong, in the server's or our words; empty when ok."""
    finish_reason: str
    """Why the model stopped, in the server's word."""
    rung: str
    """Reply format asked for: json_schema, json_object or plain."""
    recovery: str
    """How the reply was read: `strict`, or what had to be mended."""
    key: str
    """SHA-256 of all that makes two calls the same call; what reuse goes by."""
    prompt_sha256: str
    """SHA-256 of the prompt body as sent."""
    text_sha256: str
    """SHA-256 of the sample's texts as sent."""
    pictures: dict[str, PictureNote]
    """Role (human, model; image) -> the picture and what was sent in its place."""
    judge_asked: str
    """Model named in the request."""
    judge_answered: str
    """Model named in the reply; empty when none came."""
    system_fingerprint: str = ""
    """What the reply says it was computed with (`system_fingerprint`); empty: not told."""
    endpoint: str
    """Address of the judge."""
    tokens_in: int
    """Input tokens, as counted by the server; 0: not told, or a number that cannot be."""
    tokens_out: int
    """Output tokens, as counted by the server; 0: not told, or a number that cannot be."""
    tokens_cached: int
    """Input tokens that the server had cached; 0: not told, or a number that cannot be."""
    tokens_written: int = 0
    """Input tokens that the server wrote to its cache; 0: not told."""
    tokens_pictures: int = 0
    """Input tokens that the pictures took; 0: not told."""
    tokens_reasoning: int = 0
    """Output tokens that the model reasoned with; 0: not told."""
    service_tier: str = ""
    """Service tier that the reply says it was served in, as it is billed: standard, flex, priority, batch; empty: not
    told."""
    price: float | None
    """In the currency of the prices given; None: no price is known. 0 when reused."""
    price_source: str = ""
    """Where the price is from, for which model and tier, and of which day; empty: no price is known."""
    estimated: float | None = 0.0
    """What the sends of this call that got no reply in time cost, if the judge has billed them: an estimate, and no
    part of `price`. 0: none timed out; None: some did, and no price is known."""
    saved_by_reuse: float | None = 0.0
    """Of a reused row: what the original call cost. None: unknown."""
    saved_by_service_tier: float | None = 0.0
    """What the call would have cost more in the standard tier. None: unknown."""
    saved_by_cache: float | None = 0.0
    """What it would have cost more with nothing cached, in the same tier; below 0 where writing to the cache cost more
    than reading saved. None: unknown."""
    seconds: float
    """From sending to the reply, the last time it was sent."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refuses and that were left to its defaults."""
    http_retries: int
    """How often this call was sent again because no reply came: server errors, lost connections, time-outs."""
    waits: int = 0
    """How often it went back in line because the judge was busy or away; none of these is an attempt."""
    waited_seconds: float = 0.0
    """That it waited in all, from each refusal to its next turn."""
    judged_at: str
    """When the judge replied, UTC, ISO 8601. A reused row keeps the time of the original call."""
    reused_from: str
    """Run whose reply this is; empty: the call was made in this run."""


class DimensionOutcome(Record):
    """What the votes and orders of one dimension (or the votes on one tag) come to."""

    dimension: str
    verdict: str | None
    """A verdict, `Mixed`, or None when it is missing."""
    score: float | None
    """Model 100, neutral 50, Human 0; of a tag 0-10: mean of the votes. None when it is missing."""
    human_first: str | None = None
    model_first: str | None = None
    published: str | None = None
    """First vote of human_first: the published protocol's verdict, whatever else was asked; None when it is not ok."""
    votes: int = 0
    """Calls that belong to this dimension, over all orders."""
    ok_votes: int = 0
    order_flip: bool | None = None
    """The two orders differ; None when they were not both asked and answered."""
    reversal: bool | None = None
    """One order says Model and the other Human."""


class Outcome(HistoryRecord):
    """What the rule makes of a sample's verdicts. Rows of `outcomes.jsonl`."""

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
    """Category of the sample; empty: it has none."""
    difficulty: str
    """Difficulty of the sample; empty: it has none."""
    tag: str = ""
    """Tag of the text-to-image prompt; empty for figures."""
    prompt_id: str = ""
    """What the images of one text-to-image prompt share; empty for figures."""
    prompt: str = ""
    """The text-to-image prompt; empty for figures."""
    status: OutcomeStatus
    """complete; incomplete (a verdict is missing that decides, or a score; or the Model picture was lost during the
    run); forfeit (no Model picture); no_reference (no Human picture); bad_picture (Human picture unreadable; generated
    image missing or unreadable)."""
    overall: str | None
    """Model, Human or Tie; None when nothing can be said, and for a rubric."""
    score: float | None
    """Model 100, Tie 50, Human 0, forfeit 0; of a rubric 0-10, the judge's overall score, mean of the votes; None when
    nothing can be said."""
    score_scale: float
    """Highest score that there can be: 100 of figures, 10 of generated images."""
    aspects: tuple[AspectScore, ...] = ()
    """Of a rubric: each aspect, mean of the votes."""
    aspect_mean: float | None = None
    """Mean of the aspects that apply, 0-10."""
    satisfied: bool | None = None
    """Whether what the judge sees is what the prompt asks for; None: not asked, or not known."""
    published: str | None = None
    """Overall by the published protocol alone: human first, first vote; None when that does not tell, and for a
    rubric."""
    p_model: float | None = None
    """Probability of the overall Model, where each dimension's verdict is drawn from its votes over all orders."""
    p_tie: float | None = None
    """Probability of Tie, drawn likewise."""
    p_human: float | None = None
    """Probability of Human, drawn likewise."""
    pivotal: tuple[str, ...] = ()
    """Dimensions of which another allowed verdict, alone, would have changed the overall."""
    tier: str
    """Deciding tier: `tier 1`, `tier 2` or `either`; empty when none decided."""
    tier_path: str
    """How the outcome came about, in words."""
    dimensions: tuple[DimensionOutcome, ...]
    """What the votes and orders of each dimension or tag come to; the view `verdicts` has them as rows."""
    caption: str
    """Caption or brief description of the figure."""
    pictures: dict[str, PictureNote]
    """Role (human, model; image) -> the picture and what was sent in its place."""
    problem: str
    """Why a picture is missing or unreadable; empty when both are fine."""
    notes: tuple[str, ...]
    """What a reader should know of the sample."""
    carried_from: str = ""
    """Earlier stage of the generator whose picture was judged, since its critic was content then and there is no later
    one; empty: the candidate's own."""
    injected: str
    """Defect that was put into the sample on purpose; empty: none is known."""
    caught: bool | None
    """Whether that defect decided the dimension it belongs to; None when none is known."""
    decided_at: str
    """When the outcome was decided, UTC."""


class RunStart(HistoryRecord):
    """What a run set out to do: `run.json`, written before the first call."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    run_id: str
    """Name of the run and of its ledger folder; ids sort by time."""
    evaluation_id: str
    """Shared by the shards of one evaluation; of a run on its own its `run_id`."""
    shard: int = 1
    """Which of the evaluation's shards this run judges, from 1."""
    shards: int = 1
    """Shards of the evaluation; 1: this run is all of it."""
    flow: str
    """What was judged: diagram, plot; object, counting, colors, position."""
    started_at: str
    """Before the first call, UTC."""
    version: str
    """Version of Image Jury."""
    prefect_run_id: str
    """Id of the Prefect flow run; empty outside of Prefect."""
    scheduled: bool
    """Started by a schedule, not by a person."""
    made_for: MadeFor = ""
    """What a command made the run for: bridge; empty: for itself."""
    dataset: str
    """Name of the dataset: its folder or file."""
    dataset_key: str
    """Hash of ids, texts and reference pictures, or of the text-to-image prompts: runs of equal keys were judged on the
    same."""
    candidates: tuple[str, ...]
    """Systems whose figures or images were judged."""
    samples: int
    """Samples of the run, all candidates together."""
    prompt_set: str
    """Name of the prompt set, or its folder."""
    prompts: dict[str, str]
    """Dimension or tag -> SHA-256 of its prompt body."""
    dimensions: tuple[str, ...]
    """Dimensions or tags of the flow."""
    judge: str
    """Judge asked for. What answered stands in the protocol and in the judgments."""
    endpoint: str
    """Address of the judge."""
    anchors_key: str = ""
    """What tells one frozen set of anchors from another; empty: the run judged none."""
    resume_key: str
    """Equal for two runs that ask the same questions of the same candidates: what resuming goes by."""
    protocol: dict[str, str]
    """All that makes two runs comparable, by name, as far as it is known before the first reply."""
    parameters: dict[str, object]
    """Parameters that the run was started with."""
    spending_limit: float | None = None
    """Most that it may spend of the month's budget; NULL where there is none."""
    revision: int = 0
    """How often rows were removed from the run at a request; a copy with a lower one is out of date."""
    removed_cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month (UTC, `2026-11`) -> what the calls of removed rows cost: what was spent stays spent."""


class LimitsFound(Record, extra="ignore"):
    """What a run found out of the limits of its judge."""

    calls_in_flight: int
    """Let in at once when the run ended."""
    calls_per_second: float | None
    """Let in a second when the run ended; None: that was not what held the calls up."""
    waits: int
    """Calls that the judge refused for being busy, and that were asked again later."""
    waited_seconds: float
    """That those calls waited, added up over all of them."""
    away_seconds: float
    """In which the judge was away and nothing was asked."""

    def in_words(self) -> str:
        """What the judge allowed, such as `limited by the judge to 8 calls at once`; "" where it refused none."""
        if not self.waits:
            return ""
        if self.calls_per_second:
            return f"limited by the judge to {self.calls_per_second:.3g} calls a second"
        return f"limited by the judge to {self.calls_in_flight:,} call{'s' * (self.calls_in_flight > 1)} at once"


class BudgetStop(Record):
    """Where a run stopped, because the next sample might have cost more than was left of its budget."""

    budget: float
    """That it stopped at, in the currency of the prices: its own, or the month's."""
    month: str = ""
    """Month (2026-11, UTC) whose budget it was, `JURY_BUDGET_MONTH`; empty: the run's own."""
    spent: float
    """In this run."""
    needed: float = 0.0
    """What the next sample may cost, which did not fit into what was left."""
    judged: int
    """Samples of the run up to that place, each with its outcome; in a random order, and none was skipped."""
    samples: int
    """Samples of the run."""
    whole: dict[str, dict[str, int]] = Field(default_factory=dict[str, dict[str, int]])
    """Candidate -> tag (empty for figures) -> samples, or prompts, that a whole run would have judged; empty: what was
    judged is no random part of them, as in the shards of an evaluation, which stop each at a place of its own."""

    @property
    def sentence(self) -> str:
        """What a reader of the run should know of it."""
        which = f"the budget of {self.month}, {self.budget:.2f}" if self.month else f"its budget of {self.budget:.2f}"
        drawn = ", a random part of them" if self.whole and self.judged else ""
        judged = f"{self.judged:,} of {self.samples:,} samples judged{drawn}"
        then = f"the next may cost {self.needed:.2f}. The same command with more goes on."
        return f"Stopped at {which}: {self.spent:.2f} spent in this run, {judged}; {then}"


class RunEnd(HistoryRecord):
    """What came of a run: `end.json`, written once; its absence means unfinished."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    run_id: str
    """Name of the run and of its ledger folder; ids sort by time."""
    finished_at: str
    """After the last call, UTC."""
    seconds: float
    """Wall time of the run."""
    protocol_key: str
    """SHA-256 of all that makes two runs comparable: compare only equal keys."""
    protocol: dict[str, str]
    """Of a finished run with the judge as answered and the rungs used: what `protocol_key` is the hash of."""
    calls: int
    """Calls made in this run, attempts included."""
    control_calls: int = 0
    """Those of the calls that were about control samples or anchors."""
    reused: int
    """Replies taken over from earlier runs."""
    judgments: dict[str, int]
    """Status -> judgments that count."""
    outcomes: dict[str, int]
    """Status -> outcomes."""
    ledger_rows: dict[str, int] = Field(default_factory=dict[str, int])
    """File of the ledger -> its rows."""
    cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month (2026-11, UTC) -> what its calls cost, with what calls without a reply may have cost."""
    unpriced: dict[str, int] = Field(default_factory=dict[str, int])
    """Month -> calls whose price is not known."""
    limits: LimitsFound | None = None
    """What was found out of the judge's limits; None where it never was busy nor away."""
    stopped: BudgetStop | None = None
    """Where the run stopped at its budget; None: it judged all of its samples."""
    warnings: tuple[str, ...] = ()
    """What the run warned of."""


class Offset(HistoryRecord):
    """One judge's scores against another's on the same samples; see `statistics.offsets`."""

    n: int
    """Samples (of generated images: prompts) with a score by both judges."""
    old_score: float | None
    """Mean of the old judge's scores of them; None where there are none."""
    new_score: float | None
    """Mean of the new judge's scores of them."""
    shift: float | None
    """new_score - old_score: what is added to an old score to have it in the new judge's units."""
    ci_low: float | None
    """Lower end of the shift's 95% interval, over paired differences; None below 8 pairs."""
    ci_high: float | None
    """Upper end of it."""
    margin: float
    """Points, on the scale of the scores, that the history may be off by."""
    decision: Decision
    """may be continued: the interval lies within the margin on either side of 0; with an offset: it is no wider than
    the margin on either side of the shift; else cannot tell."""
    enough: int | None
    """About how many samples would make the offset sure enough; None where these do, or there is no interval."""
