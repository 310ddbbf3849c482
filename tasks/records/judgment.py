"""Judgment: one reply to one call. Outcome: the result of the rule for a sample's judgments."""

from pydantic import Field

from tasks.records.terms import HistoryRecord, Int32, JudgmentStatus, LedgerRecord, Order, OutcomeStatus, Record, Tokens


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
    width: Int32
    """Width in pixels; of a PDF or an SVG, as it was drawn."""
    height: Int32
    """Height in pixels; of a PDF or an SVG, as it was drawn."""
    bytes: int
    """Size of the source file, in bytes."""
    sent_format: str
    """Format as sent."""
    sent_width: Int32
    """Width as sent, in pixels."""
    sent_height: Int32
    """Height as sent, in pixels."""
    sent_bytes: int
    """Size as sent, in bytes."""
    changes: tuple[str, ...] = ()
    """Changes to the picture; empty: none, it was sent byte for byte."""


class AspectScore(HistoryRecord):
    """Score of one aspect of a rubric or one check of a checklist, or of the image as a whole."""

    aspect: str
    """Key of the aspect, id of the check, or `overall_score`."""
    score: float | None
    """Score, 0-10, None if the aspect does not apply; of a check 100 for a right answer, None if it is not scored."""
    explanation: str
    """The judge's explanation; of a check its answer, then the reason."""
    question: str = ""
    """Question that the sample has of its own, in an outcome; empty: an aspect."""
    group: str = ""
    """Group of such a question, in an outcome; empty: none."""
    weight: float = 1.0
    """Weight of such a question, in an outcome."""
    asked_key: str = ""
    """Hash of such a question with all that its score depends on: equal where the same was asked; empty: an aspect."""


class SeenObject(Record):
    """Judge's answer about one required object."""

    name: str
    present: bool
    count: Int32
    color: str
    """Color that the judge names; empty: none."""


class Seen(Record):
    """Judge's answer about the content of an image: the answer to the check beside the scores."""

    objects: tuple[SeenObject, ...]
    relation_holds: bool | None = None
    """True if the requested relation holds; None: none was requested, or the judge cannot tell."""


class _SampleRow(LedgerRecord):
    """Row of a ledger about one sample of a run."""

    run_id: str
    """Run that the row belongs to."""
    flow: str
    """Flow of the run."""
    sample_id: str
    """Sample that was judged."""
    candidate: str
    """System whose figure or image was judged."""


class Judgment(_SampleRow):
    """One reply to one call, or the failure in place of one: a row of `judgments.jsonl`."""

    control: str = ""
    """Kind of control sample that was shown, or `anchor`; empty: a real sample."""
    dimension: str
    """Dimension of the question, or tag of the text-to-image prompt."""
    order: Order
    """Figure shown first: human_first (the published order) or model_first; single: there is one picture."""
    vote: Int32
    """Number of the vote on this question, from 1."""
    attempt: Int32
    """Number of this attempt at the call in this run, from 1; the last attempt counts."""
    status: JudgmentStatus
    """Status: ok, refused, truncated, invalid, rejected or unavailable."""
    verdict: str | None
    """Verdict: Model, Human, Both are good or Both are bad; None unless the status is ok, and always for a rubric."""
    scores: tuple[AspectScore, ...] = ()
    """Scores by a rubric: its aspects, then `overall_score`; empty unless ok. Of a checklist, its answered checks.
    `aspect_scores` has them as rows."""
    seen: Seen | None = None
    """Objects that the judge sees, by a rubric with a check; None: not asked, or not answered."""
    reasoning: str
    """Judge's reasons; by a rubric, those for the overall score."""
    raw: str
    """Reply as it came: its text, its reasoning if there is nothing else, or the body of the server's error. If it is
    longer than 4 MB (an error: 1 MB), only its beginning, and its length if the server gave one. The judge's key is
    removed. Of one word with probabilities: JSON of the text and the alternatives to its first token."""
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
    tokens_in: Tokens
    """Input tokens, as counted by the server; 0: not reported, or an impossible number."""
    tokens_out: Tokens
    """Output tokens, as counted by the server; 0: not reported, or an impossible number."""
    tokens_cached: Tokens
    """Input tokens that the server read from its cache; 0: not reported, or an impossible number."""
    tokens_written: Tokens = 0
    """Input tokens that the server wrote to its cache; 0: not reported."""
    tokens_pictures: Tokens = 0
    """Input tokens of the pictures; 0: not reported."""
    tokens_reasoning: Tokens = 0
    """Output tokens of the model's reasoning; 0: not reported."""
    service_tier: str = ""
    """Service tier in which the call is billed, as the reply reports it: standard, flex, priority, batch; empty: not
    reported."""
    price: float | None = Field(ge=0, allow_inf_nan=False)
    """Price in the currency of the prices given; None: unknown. 0 if reused."""
    price_source: str = ""
    """Source of the price, with its model, tier and day; empty: the price is unknown."""
    estimated: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
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
    http_retries: Int32
    """Number of times this call was sent again because no reply came: server errors, lost connections, time-outs."""
    waits: Int32 = 0
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
    votes: Int32 = 0
    """Number of calls on this dimension, over all orders."""
    ok_votes: Int32 = 0
    order_flip: bool | None = None
    """True if the two orders differ; None unless both were asked and answered."""
    reversal: bool | None = None
    """True if one order has Model and the other Human; None as for `order_flip`."""


class Outcome(_SampleRow):
    """Decision of the rule on a sample: a row of `outcomes.jsonl`."""

    control: str = ""
    """Kind of control sample, or `anchor`; empty: a real sample."""
    category: str
    """Category of the sample; empty: none."""
    difficulty: str
    """Difficulty of the sample; empty: none."""
    tag: str = ""
    """Tag of the text-to-image prompt, or instrument of a checklist; empty for figures."""
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
    """Score: Model 100, Tie 50, Human 0, forfeit 0; of a rubric 0-10, the judge's overall score, mean of the votes; of
    a checklist 0-100, the weighted share of right answers. None: undecided, see status."""
    score_scale: float
    """Highest possible score: 100 for figures and checklists, 10 for rubrics of generated images."""
    aspects: tuple[AspectScore, ...] = ()
    """Scores of a rubric's aspects, or of the checks of a list, each the mean of the votes."""
    aspect_mean: float | None = None
    """Mean of the aspects that apply, 0-10. Of a soft checklist the geometric mean of its checks, 0-100."""
    satisfied: bool | None = None
    """True if the objects that the judge sees are those that the prompt asks for, or all checks are right; None: not
    asked, or undecided."""
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
