"""A run whose calls are bought as a batch, up to where it waits: read as any run is, put down instead of asked.

Owns that nobody else is at work on it meanwhile, what becomes of it where it does not come to be handed in, and the
pilot of a run with a budget, of whose calls nobody knows what they cost. What happens once it waits is for
`collecting`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from flows.runtime.budgeting import where_stopped
from flows.runtime.chunks import Chunk, Work
from flows.runtime.quoting import PILOT
from flows.runtime.session import Session
from tasks.batches.cases import CASES
from tasks.batches.handing_in import HandingIn, Withheld
from tasks.batches.log import begin, lease
from tasks.batches.taking_out import remove
from tasks.datasets.dataset import Dataset
from tasks.judging.run import current_run
from tasks.ledger.remote import Remote
from tasks.records import Sample
from tasks.spending.money import money
from tasks.spending.order import chunks as in_chunks
from tasks.spending.order import in_random_order
from tasks.store import store as store_step


class HandedIn(NamedTuple):
    """What came of handing in."""

    run_id: str
    """The run that waits: this one, or one that waits already and asks the very same, and nothing of this one stays."""
    unstored: list[str]
    """Why the history does not show it; empty: it does."""


async def hand_in(session: Session, dataset: Dataset, work: Work) -> HandedIn:
    """Put down the samples, all or those that the budget has room for, and what is to be asked about them.

    By the most that a call can cost little has room, so that a few samples are judged first where more is not known.
    """
    waits = await _put_down(session, dataset, may_guess=False)
    if not waits:
        await _pilot(session, dataset, work)
        waits = await _put_down(session, dataset, may_guess=True)
    await session.finish_thumbnails()
    if session.remote:
        await _send_thumbnails(session.remote, waits)
    return HandedIn(waits, await session.storing(store_step(session.store, waits)))


async def _send_thumbnails(remote: Remote, run_id: str) -> None:
    """Let whoever takes the run in show what was judged. Without them its pages lack pictures, and nothing else."""
    cases = remote.folder / "batches" / run_id / CASES
    with suppress(OSError):
        await asyncio.to_thread(remote.send_pictures, cases)


async def _pilot(session: Session, dataset: Dataset, work: Work) -> None:
    """Judge the first samples of the budget's order now, into a ledger of their own: the run takes the replies over."""
    session.waits = False
    ordered = in_random_order(dataset.samples, dataset.key)
    first: Sequence[Sample] = next(in_chunks(ordered, PILOT, whole_units=True), ())
    async with session.trying(dataset) as (run, _):
        async with session.asking(run, first, "pilot") as chunks:
            await chunks.each(work)
        session.spent_before = run.budget.spent if run.budget else 0.0
        judged = sum(run.tally.outcomes.values())
    samples = "1 sample was" if judged == 1 else f"{judged} samples were"
    kept = ", and their replies are taken over" if session.parameters.reuse_hours else ""
    session.said.append(
        f"What calls of this judge cost was not known: {samples} judged live first, not in the batch, "
        f"for {money(session.spent_before)} of the budget{kept}"
    )


async def _put_down(session: Session, dataset: Dataset, may_guess: bool) -> str:
    """The run that waits; empty: the budget stopped it by a guess, and nothing of it stays."""
    session.waits = True
    async with session.judging(dataset, Withheld) as chunks:
        run, store, turn = current_run(), Path(session.store), asyncio.Lock()
        begin(store, session.run_id)
        with lease(store, session.run_id, session.remote) as log:
            assert log  # nobody else knows of the run
            handing_in = HandingIn(run, log)

            async def put_down(chunk: Chunk) -> None:
                async with turn:
                    await asyncio.to_thread(handing_in.add, run.in_hand.chunks[chunk.samples])

            try:
                await chunks.each(put_down)
                handing_in.close()
                budget = run.budget
                if budget and budget.over and budget.guessed and not may_guess:
                    remove(log)
                    return ""
                waits = await asyncio.to_thread(handing_in.earlier, session.remote) or log.run_id
                if waits == log.run_id:
                    stopped = where_stopped(run, dataset.samples, handing_in.samples)
                    if budget:
                        await budget.wait()
                    handing_in.finish(
                        shown_as=session.shown_as,
                        said=tuple(session.said),
                        stopped=stopped,
                        limit=budget.limit if budget else 0.0,
                        month=budget.month if budget else "",
                    )
            except BaseException:
                remove(log)  # nothing of it was sent
                raise
            if waits != log.run_id:
                remove(log)
    return waits
