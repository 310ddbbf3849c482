"""What came of an anchor in a run: the quantity in which judge and candidate are compared, and its row."""

from statistics import fmean

from tasks.records import DimensionOutcome, HistoryRecord, Outcome, OutcomeStatus


class AnchorRow(HistoryRecord):
    """One anchor and what came of it. Rows of the history's table `anchor_outcomes`."""

    flow: str
    """Flow of the run."""
    candidate: str
    """System whose figure or image the anchor is; it was frozen, whatever the candidates of the run."""
    sample_id: str
    """Id of the anchor, that of the sample that was frozen."""
    category: str
    """Category of the anchor; empty: it has none."""
    tag: str
    """Tag of the text-to-image prompt; empty for figures."""
    status: OutcomeStatus
    """Status of its outcome, as in `outcomes`."""
    score: float | None
    """Mean of its dimensions' scores, 0-100; of an image the overall score, 0-10. None where one is missing."""
    dimensions: tuple[DimensionOutcome, ...]
    """What was said of each dimension or tag, as in `outcomes`."""


def anchor_row(anchor: Outcome) -> AnchorRow:
    """What came of an anchor.

    Of a figure the mean of the dimensions counts and not the rule's overall: it has half the noise of a night.
    """
    scores = [each.score for each in anchor.dimensions if each.score is not None]
    whole = bool(scores) and len(scores) == len(anchor.dimensions)
    return AnchorRow(
        flow=anchor.flow,
        candidate=anchor.candidate,
        sample_id=anchor.sample_id,
        category=anchor.category,
        tag=anchor.tag,
        status=anchor.status,
        score=fmean(scores) if whole else None,
        dimensions=anchor.dimensions,
    )
