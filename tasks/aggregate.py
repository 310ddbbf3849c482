"""Aggregate step: decide a sample from its judgments, and write the outcome to the ledger."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.judging.case import Case, Chunk, parameters_for
from tasks.judging.run import Run
from tasks.protocols import protocol_of
from tasks.protocols.protocol import last_attempts
from tasks.records import Outcome


@task(name="aggregate", task_run_name="aggregate {chunk.name}", cache_policy=NO_CACHE)
async def aggregate(run: Run, chunk: Chunk) -> dict[str, int]:
    """Decide all samples of a chunk after its last try; a call that is still open counts as it stands.

    Args:
        run: wrapped in Prefect's `quote`, like the chunk: Prefect then neither searches nor copies it.

    Returns:
        Status -> number of outcomes.
    """
    statuses = Counter[str]()
    for case in chunk.cases:
        statuses[aggregate_sample(run, case).status] += 1
        await asyncio.sleep(0)  # samples without open calls come by the thousand, and calls of others must not wait
    return dict(statuses)


def aggregate_sample(run: Run, case: Case) -> Outcome:
    """Decide one sample, and write its outcome to ledger, results and tally."""
    outcome = decided(run, case)
    case.decided = True
    run.ledger.append(outcome)
    run.results.add(outcome)
    run.tally.add(case, last_attempts(case.judgments).values(), outcome)
    for each in run.extensions:
        each.after_outcome(case.sample, outcome)
    return outcome


def decided(run: Run, case: Case) -> Outcome:
    """Return the outcome of a sample from all of its judgments, or from the problems of its pictures."""
    sample, protocol = case.sample, protocol_of(run.start.flow)
    asked = parameters_for(sample, run.parameters)
    found = protocol.decide(sample, case.judgments, run.rubric, asked, case.problems)
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
        **found._asdict(),
        score_scale=protocol.highest,
        caption=case.texts.get("caption", ""),
        pictures=case.notes(),
        notes=sample.notes,
        carried_from=sample.carried_from,
        injected=sample.injected,
        decided_at=datetime.now(UTC).isoformat(),
    )
