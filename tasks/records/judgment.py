"""Judgments: rows of `judgments.jsonl`, and their parts."""

from pydantic import Field

from tasks.records.terms import SCHEMA, HistoryRecord, Int32, JudgmentStatus, Order, Record


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
    """Question of a check, in an outcome; empty: an aspect."""
    group: str = ""
    """Group of a check, in an outcome; empty: none."""
    weight: float = 1.0
    """Weight of a check, in an outcome."""
    asked_key: str = ""
    """Hash of a check, its right answers and its parents, in an outcome: equal where the same was asked; empty: an
    aspect."""


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


class Judgment(HistoryRecord):
    """One reply to one call, or the failure in place of one: a row of `judgments.jsonl`."""

    schema_version: Int32 = Field(default=SCHEMA, alias="schema")
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
