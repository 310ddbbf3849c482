"""Drafts of checklists: a model is asked for the checks of each figure, from its text."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tasks.datasets.entries import read_picture
from tasks.endpoint.api_keys import Secret
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import Request
from tasks.errors import InputError
from tasks.extensions.budget import budget_of_calls
from tasks.judging.case import sample_texts
from tasks.judging.questions import GUARD, delimited
from tasks.ledger.remote import Remote
from tasks.ledger.side_records import OTHER_CALLS
from tasks.protocols.checklist.drafts import FORMAT, INSTRUCTIONS, SCHEMA, Draft, read_draft
from tasks.records import Sample, new_id
from tasks.records.judge import Judge
from tasks.rubrics.rubric import load_rubric
from tasks.spending.bill import OtherCalls

ATTEMPTS = 3
"""Most askings for the checks of one figure, while its replies cannot be used."""


async def draft(
    flow: str, samples: Iterable[Sample], judge: Judge, store: Path, remote: Remote | None, folder: Path, secret: Secret
) -> list[str]:
    """Draft the checks of all figures that have none in the folder; return a sentence for each that is left out.

    A draft of another text or Human picture is replaced.

    Args:
        store: store that keeps what the calls cost.
        secret: place of a key that is not in the environment.

    Raises:
        InputError: the month's budget has no room for a further call.
        JudgeStopped: no call can succeed.
    """
    draft_id, drafts = new_id("draft", datetime.now(UTC)), Draft(folder)
    budget = await budget_of_calls(judge, store, remote, draft_id)
    calls = OtherCalls(store, judge, "draft", flow, draft_id, budget)
    figures, turns = {each.sample_id: each for each in samples}, asyncio.Semaphore(judge.concurrency)

    async def draft_figure(sample: Sample, vlm: Vlm) -> str:
        async with turns:  # so few pictures are in memory
            return await _draft_figure(flow, sample, vlm, calls, drafts)

    try:
        async with calls.client(secret) as vlm, asyncio.TaskGroup() as group:
            asked = [group.create_task(draft_figure(each, vlm)) for each in figures.values()]
    finally:
        if remote:  # what a stopped draft cost counts for other machines, too
            await asyncio.to_thread(remote.send_folder, OTHER_CALLS.folder)
    return [words for each in asked if (words := each.result())]


async def _draft_figure(flow: str, sample: Sample, vlm: Vlm, calls: OtherCalls, drafts: Draft) -> str:
    """Draft the checks of a figure; return the sentence that it is left out, or an empty one."""
    try:
        picture, texts = read_picture(sample.pictures["human"]), sample_texts(sample, flow)
    except InputError as error:
        return f"{sample.sample_id} is left out: {error}"
    text = "\n\n".join(filter(str.strip, texts.values()))
    if not text:
        return f"{sample.sample_id} is left out: it has no text to draft from"
    if drafts.has(sample.sample_id, text, picture):
        return ""
    labels, error = load_rubric(flow).prompts[0].inputs, ""
    content = [f"{label}:\n{delimited(texts[name])}" for name, label in labels.items() if name in texts]
    question = Request(INSTRUCTIONS, (*content, f"{GUARD}\n\n{FORMAT}"), "draft_checks", SCHEMA)
    for attempt in range(ATTEMPTS):
        reply = await calls.ask(vlm, question._replace(seed_offset=attempt))
        checks, error = read_draft(reply.text) if reply.status == "ok" else ([], reply.error)
        if not error:
            drafts.add(sample.sample_id, text, picture, vlm.judge.model, checks)
            return ""
    return f"{sample.sample_id} is left out: {error}"
