"""Protocol of generated images: datasets, scores by aspect and overall, and outcomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tasks.datasets.dataset import Dataset, read_images
from tasks.demo.defects import CLEAN_SCENE, SCENE_KINDS
from tasks.protocols.display import threshold_of
from tasks.protocols.images import reply
from tasks.protocols.images.requirements import objects_text, relation_text, satisfied
from tasks.protocols.protocol import Decided, Protocol, Reading, ReplyForm, Tally, last_attempts
from tasks.records import AspectScore, DimensionOutcome, Judgment, RunStart, Sample
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
        if problem:
            return found._replace(status="bad_picture", tier_path=f"bad picture: {problem}", problem=problem)
        return found._replace(caught=noticed(sample.injected, found.score, parameters.threshold))

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


def grade(sample: Sample, votes: Sequence[Judgment | None]) -> Decided:
    """Decide an image by its votes: the last attempt of each, None if there is none.

    A score is the mean of the votes in which it applies, with the first ok vote's explanation. There is none if fewer
    than half of the votes are ok.
    """
    ok = [vote for vote in votes if vote and vote.status == "ok"]
    tagged = DimensionOutcome(dimension=sample.tag, verdict=None, score=None, votes=len(votes), ok_votes=len(ok))
    if not ok or 2 * len(ok) < len(votes):
        return Decided("incomplete", None, "no score", (tagged,))
    *aspects, overall = map(_merged, zip(*(vote.scores for vote in ok), strict=True))
    return Decided(
        status="complete",
        score=overall.score,
        aspects=tuple(aspects),
        aspect_mean=_mean(aspects),
        satisfied=_checked(sample, ok),
        tier_path=f"overall {overall.score:g}: {overall.explanation}",
        dimensions=(tagged.model_copy(update={"score": overall.score}),),
    )


def _merged(votes: Sequence[AspectScore]) -> AspectScore:
    return votes[0].model_copy(update={"score": _mean(votes)})


def _mean(scores: Sequence[AspectScore]) -> float | None:
    """Return the mean of the scores that apply; None if none does."""
    applicable = [each.score for each in scores if each.score is not None]
    return fmean(applicable) if applicable else None


def _checked(sample: Sample, votes: Sequence[Judgment]) -> bool | None:
    """Return the majority of the votes that give an answer; None if none does, or if they are level."""
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
