"""Protocol of checklists: datasets, questions, answers and outcomes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from tasks.datasets.dataset import Dataset
from tasks.demo.defects import CHECKED, CLEAN_SCENE
from tasks.protocols.checklist import reply
from tasks.protocols.checklist.datasets import read_checklists
from tasks.protocols.checklist.parameters import INSTRUMENT, ONE_BY_ONE, SOFT, ChecklistParameters
from tasks.protocols.checklist.prompts import asked_keys
from tasks.protocols.checklist.scores import GEOMETRIC, CheckTally, geometric_mean, share
from tasks.protocols.protocol import NOT_ASKED, Decided, Protocol, Question, Reading, ReplyForm, Tally, last_attempts
from tasks.records import BLANK, AspectScore, Check, DimensionOutcome, Judgment, RunStart, Sample
from tasks.rubrics.rubric import InstrumentPrompt, Rubric
from tasks.statistics.series import Compared, Measure, Measured, Part
from tasks.text import number_of, quoted

HALF = reply.RIGHT / 2
"""Mean of several votes, or probability, below which a check counts as wrong for those that depend on it."""


class ChecklistProtocol(Protocol[InstrumentPrompt, ChecklistParameters]):
    """Judging of one picture by questions with known answers; scores are shares of right answers, 0-100."""

    parameters = ChecklistParameters
    selector = INSTRUMENT
    unit = "prompts"
    decimals = 1
    highest = reply.RIGHT

    def read_dataset(self, source: Path, flow: str, parameters: ChecklistParameters) -> Dataset:
        """Read a manifest or a published set."""
        return read_checklists(source, flow, parameters)

    def questions(self, sample: Sample, rubric: Rubric) -> Sequence[Question]:
        """Return one question with all checks, or one for each check, named by its id."""
        prompt = rubric.prompt(sample.tag)
        if sample.tag not in ONE_BY_ONE:
            return [Question(prompt.dimension, prompt, sample)]
        return [
            Question(
                check.check_id,
                prompt,
                replace(sample, checks=(check,)),
                after=check.parents,
                is_needless=partial(_wrong_parent, sample, check),
            )
            for check in sample.checks
        ]

    def texts_of(self, sample: Sample) -> Mapping[str, str]:
        """Return the checks that are asked."""
        return {"checks": reply.questions_text(sample)}

    def reply_form(self, prompt: InstrumentPrompt, sample: Sample) -> ReplyForm:
        """Return a form with a reason and an answer for each check."""
        return reply.reply_form(sample)

    def read_reply(self, text: str, prompt: InstrumentPrompt, sample: Sample) -> Reading:
        """Return the scores of the answers in a reply."""
        return reply.read(text, sample)

    def decide(
        self,
        sample: Sample,
        judgments: Sequence[Judgment],
        rubric: Rubric,
        parameters: ChecklistParameters,
        problems: Mapping[str, str],
    ) -> Decided:
        """Return the weighted share of right answers among the scored checks; of soft ones their mean probability.

        All is right unless one check is wrong; that is unknown while one is not scored. A check is right if more than
        half of its votes are, an ordinal if their mean is above 1. A soft answer is right from 50 on, where it is more
        probable than all others together; parents have the same limit. A picture without a scored check is incomplete,
        and one that is missing or unreadable has no score.
        """
        problem = problems.get("image", "")
        votes = 0 if problem else parameters.votes
        answered = _by_check(sample, judgments)
        aspects = tuple(_ruled(sample, answered))
        score, satisfied, is_soft = share(aspects).value, _all_right(aspects, sample.tag), sample.tag == SOFT
        ok_votes = min((len(each) for each in answered.values()), default=0)
        tagged = DimensionOutcome(dimension=sample.tag, verdict=None, score=score, votes=votes, ok_votes=ok_votes)
        return Decided(
            status="bad_picture" if problem else "incomplete" if score is None else "complete",
            score=score,
            aspects=aspects,
            aspect_mean=geometric_mean(aspects).value if is_soft else None,
            satisfied=satisfied,
            tier_path=f"bad picture: {problem}" if problem else _words(aspects, judgments, is_soft),
            dimensions=(tagged,),
            caught=noticed(sample.injected, satisfied),
            problem=problem,
        )

    def score_tally(self, start: RunStart) -> Tally:
        """Return scores over all checks and by group."""
        return CheckTally()

    def measured(self, outcome: Compared) -> Measured:
        """Return the score, then whether all answers are right, to pair with pictures of the same prompt."""
        satisfied, means = _all_right(outcome.parts, outcome.tag), {"score": share(outcome.parts)}
        if outcome.tag == SOFT:
            means[GEOMETRIC] = geometric_mean(outcome.parts)
        bounded = {Measure(outcome.tag, name, reply.RIGHT): mean for name, mean in means.items()}
        values = {measure: mean.value for measure, mean in bounded.items()}
        values[Measure(outcome.tag, "satisfied", 1.0)] = None if satisfied is None else float(satisfied)
        partial = {measure: mean for measure, mean in bounded.items() if mean.share < 1}
        return Measured(outcome.prompt_id, outcome.status, outcome.tag, values, partial)


def _all_right(checks: Sequence[AspectScore | Part], instrument: str) -> bool | None:
    """Return whether all checks are right; None: some are not scored, and no other is wrong."""
    scores = [each.score for each in checks]
    if any(score is not None and not _is_right(score, instrument == SOFT) for score in scores):
        return False
    return None if None in scores or not scores else True


def _is_right(score: float, is_soft: bool) -> bool:
    """Return whether most votes on a check are right; half of them, or a mean of 1 of an ordinal, is not enough."""
    return score >= HALF if is_soft else score > HALF


def _by_check(sample: Sample, judgments: Sequence[Judgment]) -> dict[str, list[AspectScore]]:
    """Return check that was asked -> its answer in each vote, none if fewer than half of the votes have one.

    A reply with a fault counts for its other answers.
    """
    replies: dict[str, list[Judgment]] = {}
    for row in last_attempts(judgments).values():
        replies.setdefault(row.dimension, []).append(row)
    found: dict[str, list[AspectScore]] = {}
    for check in sample.checks:
        rows = replies.get(check.check_id if sample.tag in ONE_BY_ONE else sample.tag)
        if rows:
            its = [each for row in rows for each in row.scores if each.aspect == check.check_id]
            found[check.check_id] = its if 2 * len(its) >= len(rows) else []
    return found


def _scores(sample: Sample, answered: Mapping[str, Sequence[AspectScore]]) -> dict[str, float | None]:
    """Return check -> its score after the rule of parents, which is that of DSG (Cho et al., 2023).

    A check is 0 if a parent is wrong, and not scored if one is not, unless it is wrong itself.
    """
    parents = {check.check_id: check.parents for check in sample.checks}
    scores: dict[str, float | None] = {}
    for check_id in asked_keys(sample.checks):  # parents before their children
        own, above = _mean(answered.get(check_id, ())), [scores[parent] for parent in parents[check_id]]
        known = own if None not in above or _is_wrong(own) else None
        scores[check_id] = 0.0 if any(map(_is_wrong, above)) else known
    return scores


def _wrong_parent(sample: Sample, check: Check, judgments: Sequence[Judgment]) -> bool:
    """Return whether a parent of a check is wrong: then the check is, too, whatever its own answer would be."""
    scores = _scores(sample, _by_check(sample, judgments)) if check.parents else {}
    return any(_is_wrong(scores[parent]) for parent in check.parents)


def _ruled(sample: Sample, answered: Mapping[str, Sequence[AspectScore]]) -> Iterator[AspectScore]:
    """Yield each check with its score and the judge's answer, or the reason why it was not asked."""
    scores, questions = _scores(sample, answered), {check.check_id: check.question for check in sample.checks}
    keys = asked_keys(sample.checks)
    for check in sample.checks:
        its = answered.get(check.check_id)
        wrong = next((questions[parent] for parent in check.parents if _is_wrong(scores[parent])), "")
        why = f"{NOT_ASKED}{quoted(wrong)} is wrong" if wrong and its is None else ""
        # An empty picture gives the right answer: that says nothing about a judge.
        empty = sample.control == BLANK and check.absence
        yield AspectScore(
            aspect=check.check_id,
            score=None if empty else scores[check.check_id],
            explanation=_told(its) if its else why,
            question=check.question,
            group=check.group,
            weight=check.weight,
            asked_key=keys[check.check_id],
        )


def _told(votes: Sequence[AspectScore]) -> str:
    """Return the answer of the first vote on the side of the majority."""
    is_wrong = _is_wrong(_mean(votes))
    return next((vote.explanation for vote in votes if _is_wrong(vote.score) == is_wrong), votes[0].explanation)


def _mean(votes: Sequence[AspectScore]) -> float | None:
    known = [vote.score for vote in votes if vote.score is not None]
    return fmean(known) if known else None


def _is_wrong(score: float | None) -> bool:
    return score is not None and score < HALF


def _words(aspects: Sequence[AspectScore], judgments: Sequence[Judgment], is_soft: bool) -> str:
    known = [each.score for each in aspects if each.score is not None]
    right, checks = sum(_is_right(score, is_soft) for score in known), number_of(len(aspects), "check")
    missing = len(aspects) - len(known)
    bounds = sum(row.recovery == reply.LOWER_BOUND for row in last_attempts(judgments).values())
    mean = f"geometric mean of {checks} {geometric_mean(aspects).value or 0.0:.1f}" if known else f"{checks}"
    return (
        (mean if is_soft else f"{right} of {checks} right")
        + f", {missing} not scored" * bool(missing)
        + f", {number_of(bounds, reply.LOWER_BOUND)}" * bool(bounds)
    )


def noticed(kind: str, satisfied: bool | None) -> bool | None:
    """Return whether the answers show that the judge noticed a drawn picture's kind: all right only if it is clean.

    None: no check is about the kind, or a check is not scored and no other is wrong.
    """
    if satisfied is None or kind not in CHECKED:
        return None
    return satisfied == (kind == CLEAN_SCENE)


PROTOCOL = ChecklistProtocol()
