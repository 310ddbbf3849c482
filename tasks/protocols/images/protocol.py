"""Protocol of generated images: datasets, scores by aspect and overall, and outcomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from tasks.datasets.dataset import Dataset, read_images
from tasks.demo.defects import CLEAN_SCENE, SCENE_KINDS
from tasks.protocols.display import threshold_of
from tasks.protocols.images import reply
from tasks.protocols.images.requirements import objects_text, relation_text, satisfied
from tasks.protocols.protocol import Decided, Protocol, Reading, ReplyForm, Tally, last_attempts
from tasks.records import OVERALL_SCORE, AspectScore, DimensionOutcome, Judgment, RunStart, Sample
from tasks.records.parameters import RubricParameters
from tasks.rubrics.rubric import Rubric, RubricPrompt
from tasks.statistics.scores import HIGHEST_GRADE, GradeTally
from tasks.statistics.series import Compared, Measure, Measured


class ImageProtocol(Protocol[RubricPrompt, RubricParameters]):
    """Judging of one image by the rubric of its tag: three aspects and an overall score, 0-10 each."""

    parameters = RubricParameters
    unit = "prompts"
    decimals = 2
    highest = HIGHEST_GRADE

    def read_dataset(self, source: Path, flow: str, parameters: RubricParameters) -> Dataset:
        """Read a folder as GenEval's, or a file as a manifest."""
        return read_images(source, flow, parameters)

    def texts_of(self, sample: Sample) -> Mapping[str, str]:
        """Return the objects and relations to look for; only prompts with a check use them."""
        return {"objects": objects_text(sample), "relation": relation_text(sample)}

    def reply_form(self, prompt: RubricPrompt, sample: Sample) -> ReplyForm:
        """Return a form with each score and its explanation, and the objects that the judge sees, if asked for."""
        allowed = [[key, aspect.not_applicable] for key, aspect in prompt.aspects.items()]
        return ReplyForm(reply.schema(prompt), reply.format_words(prompt), allowed)

    def read_reply(self, text: str, prompt: RubricPrompt, sample: Sample) -> Reading:
        """Return the scores in a reply, and the objects that the judge sees."""
        return reply.read(text, prompt)

    def decide(
        self,
        sample: Sample,
        judgments: Sequence[Judgment],
        rubric: Rubric,
        parameters: RubricParameters,
        problems: Mapping[str, str],
    ) -> Decided:
        """Return the judge's own overall score, mean of the votes, with the mean of the aspects beside it.

        A missing or unreadable image has no score and lowers the coverage.
        """
        problem = problems.get("image", "")
        votes = 0 if problem else parameters.votes
        latest = last_attempts(judgments)
        found = grade(sample, [latest.get((sample.tag, "single", vote)) for vote in range(1, votes + 1)])
        words = f"overall {found.score:g}: {found.explanation}" if found.score is not None else "no score"
        tagged = DimensionOutcome(
            dimension=sample.tag, verdict=None, score=found.score, votes=votes, ok_votes=found.ok_votes
        )
        return Decided(
            status="bad_picture" if problem else "incomplete" if found.score is None else "complete",
            score=found.score,
            aspects=found.aspects,
            aspect_mean=found.aspect_mean,
            satisfied=found.satisfied,
            tier_path=f"bad picture: {problem}" if problem else words,
            dimensions=(tagged,),
            caught=noticed(sample.injected, found.score, parameters.threshold),
            problem=problem,
        )

    def score_tally(self, start: RunStart) -> Tally:
        """Return scores by tag and aspect."""
        return GradeTally(threshold_of(start.flow, start.parameters))

    def measured(self, outcome: Compared) -> Measured:
        """Return the score of an image, then its other measures, for a pair with images of the same prompt."""
        satisfied = None if outcome.satisfied is None else float(outcome.satisfied)
        values = {
            Measure(outcome.tag, "score", HIGHEST_GRADE): outcome.score,
            Measure(outcome.tag, "aspect_mean", HIGHEST_GRADE): outcome.aspect_mean,
            Measure(outcome.tag, "satisfied", 1.0): satisfied,
        }
        return Measured(outcome.prompt_id, outcome.status, outcome.tag, values)


class Grade(NamedTuple):
    """Merged votes on one image. Scores are 0-10."""

    score: float | None
    """Mean of the overall scores; None if fewer than half of the votes are ok."""
    aspects: tuple[AspectScore, ...] = ()
    """Mean of each aspect over the votes in which it applies, with the first ok vote's explanation."""
    aspect_mean: float | None = None
    """Mean of the aspects that apply."""
    satisfied: bool | None = None
    """Majority of the votes that give an answer; None if none does, or if they are level."""
    explanation: str = ""
    """Explanation of the first ok vote's overall score."""
    ok_votes: int = 0


def grade(sample: Sample, votes: Sequence[Judgment | None]) -> Grade:
    """Return the grade of an image from its votes: the last attempt of each, None if there is none."""
    ok = [vote for vote in votes if vote and vote.status == "ok"]
    if not ok or 2 * len(ok) < len(votes):
        return Grade(None, ok_votes=len(ok))
    merged = tuple(_merged([vote.scores[place] for vote in ok]) for place in range(len(ok[0].scores)))
    aspects = tuple(each for each in merged if each.aspect != OVERALL_SCORE)
    [overall] = (each for each in merged if each.aspect == OVERALL_SCORE)
    applicable = [each.score for each in aspects if each.score is not None]
    mean = fmean(applicable) if applicable else None
    return Grade(overall.score, aspects, mean, _checked(sample, ok), overall.explanation, len(ok))


def _merged(votes: Sequence[AspectScore]) -> AspectScore:
    applicable = [vote.score for vote in votes if vote.score is not None]
    score = fmean(applicable) if applicable else None
    return AspectScore(aspect=votes[0].aspect, score=score, explanation=votes[0].explanation)


def _checked(sample: Sample, votes: Sequence[Judgment]) -> bool | None:
    said = [satisfied(sample, vote.seen) for vote in votes]
    yes, no = said.count(True), said.count(False)
    return None if yes == no else yes > no


def noticed(kind: str, score: float | None, threshold: float) -> bool | None:
    """Return whether the overall score shows that the judge noticed the kind of an image.

    A defect is noticed by a score below the threshold, a clean image by another score. None: the kind is unknown, or
    there is no score.
    """
    if score is None or kind not in SCENE_KINDS:
        return None
    return (score >= threshold) == (kind == CLEAN_SCENE)


PROTOCOL = ImageProtocol()
