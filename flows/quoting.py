"""Quote instead of a run: an estimate from the judge's history or from a pilot of a few samples.

A pilot is no result: its ledger never ends, and the run that follows reuses its replies.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.chunks import Chunks, Work
from flows.flow_run import ANSWER_SECONDS, name_run
from flows.run import Progress, Session
from tasks.datasets.dataset import Dataset
from tasks.extensions.anchors import in_turn
from tasks.judging.case import Call, Case
from tasks.judging.run import Run
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.run_files import read_judgments
from tasks.presentation.tables import bullets, plain_markdown
from tasks.records import ANCHOR, Judgment, Sample
from tasks.spending.budget import VARIABLE, month_budget, month_of_store
from tasks.spending.prices import tariffs
from tasks.spending.quote import ENOUGH, Expected, Quote, megapixels, newest_model, past_replies, quote_of, seen, tries
from tasks.spending.quote import Call as PlannedCall
from tasks.store import store_or_warn

PILOT = 5
"""Number of samples in a pilot."""


class Plan(NamedTuple):
    """Calls that a run would make."""

    calls: list[PlannedCall]
    """All calls of the run."""
    there: set[str]
    """Keys of the calls that have replies already."""

    @property
    def open(self) -> list[PlannedCall]:
        """Return the calls to be made."""
        return [call for call in self.calls if call.key not in self.there]


async def quoted(session: Session, dataset: Dataset, work: Work) -> State:
    """Make the quote of a run, with a pilot if that was requested and is needed.

    Returns:
        Completed, with the quote in its message and `{"run_id": "", "warnings", "quote"}` as its result.
    """
    async with _trying(session, dataset) as (run, samples):
        plan = await asyncio.to_thread(plan_of, run, samples)
        left = await in_daemon_thread(lambda: _left_of_month(session, run))
        rows = await asyncio.to_thread(past_replies, Path(session.folder), run.start)
        prompts = run.start.prompts
        pilot = _pilot(plan, samples, rows, prompts) if session.parameters.quote == "pilot" else []
        if pilot:
            key = f"{session.shown_as}-quote"
            chunks = Chunks(run, pilot)
            async with Progress(run, run.start.flow, key).shown():
                await chunks.each(work)
        asked = list(read_judgments(run.ledger.folder))
        found = await asyncio.to_thread(_quote, run, plan, rows, asked)
    judged = sum(run.tally.outcomes.values())
    left = left if left is None else max(0.0, left - (run.bill.spent or 0.0))
    told = {"pilot_samples": judged, "pilot_price": run.bill.spent, "left_of_month": left}
    found = found.model_copy(update=told)
    session.warnings += await _stopped(run, pilot, judged)
    await _publish(found, f"{session.shown_as}-quote")
    data = {"run_id": "", "warnings": session.warnings, "quote": found.model_dump(mode="json")}
    return Completed(message=found.sentence, data=data)


@asynccontextmanager
async def _trying(session: Session, dataset: Dataset) -> AsyncGenerator[tuple[Run, Sequence[Sample]]]:
    """Yield the run as it would begin, and all samples that it would judge.

    Its replies are kept, sent and stored, but it never ends in its ledger: it is no result.
    """
    dataset, start = await session.prepare(dataset)
    await name_run(start)
    run = await session.begin(start)
    session.warnings = session.said
    try:
        yield run, await asyncio.to_thread(session.samples, dataset)
    finally:
        session.close(run)
        if run.ledger.folder.exists():
            unstored = await store_or_warn(session.folder, session.run_id)
            session.warnings += [*unstored, *await session.after_judging()]


async def _stopped(run: Run, pilot: Sequence[Sample], judged: int) -> list[str]:
    stopped = run.limit.stopped(pilot, judged) if run.limit else None
    if not stopped:
        return []
    which = f"{VARIABLE} leaves" if stopped.month else f"A budget of {stopped.budget:g} has"
    found = [sentence for each in run.extensions for sentence in await each.finish()]
    return [f"{which} room for {judged} of the {len(pilot)} samples of the pilot", *found]


def _pilot(plan: Plan, samples: Sequence[Sample], rows: Sequence[Judgment], prompts: Mapping[str, str]) -> list[Sample]:
    """Return the samples of a pilot that are left to ask about; none if the judge's history has enough replies."""
    known = Expected(seen(rows, (), prompts))
    if all(known.replies(call.dimension) >= ENOUGH for call in plan.open):
        return []
    asked_about = {call.subject for call in plan.calls}
    real = [each for each in samples if (each.sample_id, each.candidate, "") in asked_about]
    answered = {row.key for row in rows if row.status == "ok"}
    left = {call.subject for call in plan.open if call.key not in answered}
    return [each for each in (in_turn(real) or real)[:PILOT] if (each.sample_id, each.candidate, "") in left]


def _left_of_month(session: Session, run: Run) -> float | None:
    """Return what the month's budget has left before the pilot; None: there is no such budget."""
    amount = month_budget()
    if amount is None:
        return None
    return month_of_store(Path(session.folder), session.opening.remote, amount, run.start.run_id).sum().left_of(amount)


def _quote(run: Run, plan: Plan, rows: Sequence[Judgment], pilot: Sequence[Judgment]) -> Quote:
    judge, known = run.parameters.judge, [*rows, *pilot]
    plan.there.update(row.key for row in pilot if row.status == "ok" and run.parameters.reuse_hours)
    expected = Expected(seen(known, plan.calls, run.start.prompts), tries(known))
    found = quote_of(run.start.flow, judge, plan.open, expected, tariffs(judge, newest_model(known)))
    return found.model_copy(update={"reused": len(plan.calls) - len(plan.open)})


def plan_of(run: Run, samples: Iterable[Sample]) -> Plan:
    """Return the calls that the run would make. It reads all pictures, so it belongs in a thread."""
    plan = Plan([], set())
    for sample in samples:
        case = run.read(sample, None)
        plan.calls.extend(_sized(run, case, call) for call in case.calls)
        plan.there.update(call.key for call in case.calls if sample.control != ANCHOR and run.replies.find(call.key))
    return plan


def _sized(run: Run, case: Case, call: Call) -> PlannedCall:
    question = case.questions(run.rubric)[call.dimension]
    prompt, asked = question.prompt, case.reduced_to(question)
    letters = len(run.layout.instructions(prompt)) + sum(
        len(asked.texts[name]) for name in prompt.inputs if name in asked.texts
    )
    return PlannedCall(
        key=call.key,
        subject=(case.sample.sample_id, case.sample.candidate, case.sample.control),
        dimension=prompt.dimension,
        text_sha256=asked.text_sha256(prompt),
        letters=letters,
        pictures=len(case.pictures),
        megapixels=megapixels(case.notes()),
    )


async def _publish(found: Quote, key: str) -> None:
    """Show the quote as an artifact; a failure is only logged, because the run's message has the quote, too."""
    text = f"# What {plain_markdown(found.flow)} will take\n\n{bullets(found.lines())}"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await acreate_markdown_artifact(text, key, found.sentence)
    except Exception as error:
        get_run_logger().warning("The quote could not be shown as an artifact", exc_info=error)
