"""Outcomes: rows of `outcomes.jsonl`, and their parts."""

from pydantic import Field

from tasks.records.judgment import AspectScore, PictureNote
from tasks.records.terms import SCHEMA, HistoryRecord, Int32, OutcomeStatus, Record


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


class Outcome(HistoryRecord):
    """Decision of the rule on a sample: a row of `outcomes.jsonl`."""

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
