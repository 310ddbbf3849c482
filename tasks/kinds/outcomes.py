"""The outcome of a sample in hand, written down with what a reader needs to see beside it.

The one place where pairwise and rubric decisions part ways: `aggregate` holds the rule of the one, `grading` of the
other.
"""

from datetime import UTC, datetime
from typing import Any

from tasks.judging.cases import Case, RunContext
from tasks.kinds.rubric_votes import grade
from tasks.kinds.sensitivity import chances, pivotal
from tasks.kinds.tier_rule import Decision, decide, last_attempts, overall, undecided
from tasks.parameters import RubricParameters
from tasks.records import DimensionOutcome, Outcome
from tasks.rubrics.rubric import Rubric
from tasks.synthetic.images import noticed
from tasks.synthetic.samples import caught


def decided(run: RunContext, case: Case) -> Outcome:
    """The outcome of a sample from all that was said of it, or from what it lacks."""
    sample = case.sample
    return Outcome(
        run_id=run.start.run_id,
        flow=run.start.flow,
        sample_id=sample.sample_id,
        candidate=sample.candidate,
        control=sample.control,
        category=sample.category,
        difficulty=sample.difficulty,
        tag=sample.tag,
        prompt_id=sample.prompt_id,
        prompt=case.texts.get("prompt", ""),
        caption=case.texts.get("caption", ""),
        pictures=case.notes(),
        problem=case.problem,
        notes=sample.notes,
        injected=sample.injected,
        decided_at=datetime.now(UTC).isoformat(),
        **(_graded(run, case) if sample.tag else _compared(run, case)),
    )


def _compared(run: RunContext, case: Case) -> dict[str, Any]:
    if case.lacking:
        decision = undecided(case.lacking, case.problem, run.rubric)
    else:
        decision = decide(case.judgments, run.rubric, run.parameters.order_list(), run.parameters.votes)
    return {
        "status": decision.status,
        "overall": decision.overall.outcome,
        "score": decision.score,
        "published": overall({each.dimension: each.published for each in decision.dimensions}, run.rubric).outcome,
        "tier": decision.overall.tier,
        "path": decision.overall.path,
        "dimensions": decision.dimensions,
        "caught": caught(case.sample.injected, run.start.flow, decision.verdicts()),
        **(_hanging(decision, run.rubric) if decision.status == "complete" else {}),
    }


def _hanging(decision: Decision, rubric: Rubric) -> dict[str, Any]:
    """What a decided outcome hangs on. A forfeit was not decided by votes, so it has no chances."""
    found = chances(decision.cast, decision.verdicts(), rubric)
    likely = {f"p_{name}": value for name, value in found._asdict().items()} if found else {}
    return {"pivotal": pivotal(decision.verdicts(), rubric), **likely}


def _graded(run: RunContext, case: Case) -> dict[str, Any]:
    sample, votes = case.sample, run.parameters.votes
    latest = last_attempts(case.judgments)
    found = grade(sample, [latest.get((sample.tag, "single", vote)) for vote in range(1, votes + 1)])
    words = f"overall {found.score:g}: {found.explanation}" if found.score is not None else "no score"
    asked = 0 if case.lacking else votes
    tagged = DimensionOutcome(
        dimension=sample.tag, verdict=None, score=found.score, votes=asked, ok_votes=found.ok_votes
    )
    return {
        "status": case.lacking or ("incomplete" if found.score is None else "complete"),
        "overall": None,
        "score": found.score,
        "aspects": found.aspects,
        "aspect_mean": found.aspect_mean,
        "satisfied": found.satisfied,
        "tier": "",
        "path": f"{case.lacking.replace('_', ' ')}: {case.problem}" if case.lacking else words,
        "dimensions": (tagged,),
        "caught": noticed(sample.injected, found.score, _threshold(run)),
    }


def _threshold(run: RunContext) -> float:
    return run.parameters.threshold if isinstance(run.parameters, RubricParameters) else 0.0
