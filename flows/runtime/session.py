"""One run from its judge's client to its last warning: what stands around the steps of the chain.

Owns opening and closing (shared limit, client, ledger, remote store), and which failures of a step cost a warning and
which the run. The order of the steps is the pipeline's, how a sample is judged is for `tasks`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.runtime.ahead import client_of, first_question
from flows.runtime.anchoring import anchors_of_run
from flows.runtime.asked_again import prompt_client
from flows.runtime.budgeting import budget_of, in_order, tariff_of, where_stopped
from flows.runtime.chunks import Chunks
from flows.runtime.endings import ending_sentences
from flows.runtime.prefect_run import is_scheduled, log_start, name_run, own_run, results_key
from flows.runtime.progress import Progress
from flows.runtime.purpose import made_for
from flows.runtime.secrets import secret_block
from flows.runtime.sending import Sending, fetch_passports, fetch_replies, share_nights
from flows.runtime.settling import budget_after
from flows.runtime.shared_findings import sharing_findings
from flows.runtime.shared_limit import shared_slots
from tasks.batches.log import Event, asked_already
from tasks.comparing.unchanged import unchanged_words
from tasks.controls.samples import with_controls
from tasks.datasets.dataset import Dataset
from tasks.endpoint.client import Vlm
from tasks.endpoint.usage import STANDARD
from tasks.errors import HistoryLocked, InputError
from tasks.forgetting.keeping import keep_days, remove_old
from tasks.judging import shared_layout
from tasks.judging.protocol import check_prompts, picture_policy, run_end, run_start
from tasks.judging.results import Results, keep_results
from tasks.judging.run import Run, current
from tasks.kinds import kind_of
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.reuse import earlier_replies
from tasks.ledger.writing import Ledger
from tasks.pages.artifact import begin_chart
from tasks.pages.without_pictures import may_have_pictures
from tasks.parameters import EMBEDDED, Judge, Parameters
from tasks.passport.wording import warning as passport_warning
from tasks.pictures.thumbnails import Thumbnails
from tasks.records import BudgetStop, RunStart, Sample
from tasks.rubrics.rubric import Rubric, load_rubric
from tasks.spending import overlay
from tasks.spending.budget import Budget
from tasks.spending.other_calls import first_questions_noted
from tasks.spending.prices import BATCH
from tasks.store import store

STOPPED = "Stopped at the budget"
"""Name of the state of a run that judged as many samples as its budget allowed."""


@asynccontextmanager
async def opened(flow: str, asked: Parameters, said: list[str]) -> AsyncGenerator["Session"]:
    """A session with its judge's client, for as long as the context lasts.

    Args:
        said: what the reader of the run should know of what it is asked for, a sentence each.
    """
    # One client for both: to make one takes 25 ms.
    async with (
        prompt_client() as client,
        sharing_findings(client, asked.judge) as serve,
        _client(client, asked.judge) as vlm,
    ):
        serve(vlm.gate)
        async with first_questions_noted(vlm, local_cache(asked.store), flow), AsyncExitStack() as stack:
            yield Session(flow, asked, said, vlm, stack)


@asynccontextmanager
async def _client(prefect: PrefectClient, judge: Judge) -> AsyncGenerator[Vlm]:
    """The judge's client that was made ahead, whose maker closes it; else one of the session's own."""
    if vlm := client_of(judge):
        yield vlm
        return
    async with shared_slots(prefect, judge) as slots, Vlm(judge, slots, secret_block) as vlm:
        yield vlm


class Session:
    """One run. `judging` makes its ledger; what is said of the run stands only after that."""

    run_id: str
    shown_as: str
    """Key of its artifacts."""
    warnings: list[str]
    """What the reader of the run should know, a sentence each."""
    waits: bool = False
    """The run does not end now: its replies come by batches."""
    spent_before: float = 0.0
    """Of its budget, by a pilot."""
    _stopped: BudgetStop | None = None
    """Where it stopped at its budget; None: it did not."""

    def __init__(self, flow: str, asked: Parameters, said: list[str], vlm: Vlm, stack: AsyncExitStack) -> None:
        self._flow, self._asked, self._vlm, self._stack = flow, asked, vlm, stack
        self._began = time.monotonic()
        keep_days()  # what it says wrongly is told before anything is asked
        may_have_pictures()
        self._rubric: Rubric = load_rubric(flow, asked.prompt_set)
        self.said = [*said, *shared_layout.check(asked, self._rubric)]
        """What of the warnings is known before anything is asked."""
        self.store, self.place = str(local_cache(asked.store)), asked.store
        """Folder of the store; a run on a remote one works on a local copy of it. And the store as it is named."""
        self.parameters = asked.model_copy(update={"store": self.store})
        self._thumbnails = stack.enter_context(Thumbnails(Path(self.store)))
        self.remote = remote_of(asked.store)
        """None: the store is a folder."""
        self.scheduled = is_scheduled()

    async def loading(self, step: Coroutine[Any, Any, Dataset | State]) -> Dataset:
        """Run the load step, and ask meanwhile whether the judge is there.

        What it says is waited for when it is needed. Whoever cancels the run meanwhile cancels the step, which has no
        dataset then.
        """
        asking = asyncio.create_task(first_question(self._vlm, self._flow, self._asked))
        try:
            dataset = await step
        finally:
            asking.cancel()  # the question itself goes on
            await asyncio.gather(asking, return_exceptions=True)
        if isinstance(dataset, State):
            raise asyncio.CancelledError
        return dataset

    @asynccontextmanager
    async def judging(self, dataset: Dataset, ledger: type[Ledger] = Ledger) -> AsyncGenerator[Chunks]:
        """The chunks of the dataset; when all are done, the run is ended in its ledger, unless it waits.

        A run that is stopped stays unfinished there, and is stored so: what was paid for until then is to be seen.
        """
        tariff = await asyncio.to_thread(tariff_of, self._asked)
        dataset = in_order(dataset, tariff)
        fetched = await fetch_replies(self.remote, self._asked.reuse_hours)
        anchors = await anchors_of_run(self._flow, self.parameters, dataset.samples, self.remote, self.scheduled)
        start = self._start(dataset, anchors.key)
        self.run_id, self.shown_as = start.run_id, await results_key(self._flow)
        log_start(start)
        self.said = [*dict.fromkeys([*self.said, *dataset.warnings, *fetched.warnings, *anchors.warnings])]
        self.said += await self._paid_again(start)
        money = budget_of(self._asked, tariff, Path(self.store), self.remote, start, self.spent_before)
        async with money as budget:
            run = await asyncio.to_thread(self._open, start, fetched.reuse_hours, budget, ledger)
            self._sending = await self._stack.enter_async_context(Sending(self.remote, start.run_id))
            title = f"{self._flow}, put down for a batch:" if self.waits else self._flow
            try:
                async with (
                    Progress(
                        title, len(dataset.samples), None, self._vlm.gate.words, self.shown_as, run.bill.words
                    ) as progress,
                    asyncio.TaskGroup() as group,
                ):
                    group.create_task(name_run(start))
                    controls, shards = self.parameters.controls, self.parameters.shards
                    kind = kind_of(self._flow)
                    shown = await asyncio.to_thread(
                        with_controls, dataset.samples, controls, kind, shards, bool(budget)
                    )
                    # With a budget the anchors come first: a night without them could not tell a judge that moved.
                    samples = [*anchors.samples, *shown] if budget else [*shown, *anchors.samples]
                    with current(run):
                        yield Chunks(run, samples, progress, self._sending)
                self._stopped = where_stopped(run, dataset.samples, sum(run.tally.outcomes.values()))
                await self._conclude(run)
            except* (InputError, OSError):
                if run.ledger.folder.exists():
                    await asyncio.gather(self.storing(store(self.store, self.run_id)), self._sending.finish())
                raise
            finally:
                run.close()
            await self._end(run, time.monotonic() - self._began)

    @asynccontextmanager
    async def going_on(self, start: RunStart, told: Event) -> AsyncGenerator[Run]:
        """A run that waited, as it was begun; afterwards it is ended in its ledger, unless it waits again.

        Raises:
            InputError: its prompts have changed since it was begun.
        """
        self.run_id, self.shown_as, self.scheduled = start.run_id, told.shown_as, start.scheduled
        check_prompts(start, self._rubric)
        fetched = await fetch_replies(self.remote, self._asked.reuse_hours)
        self.said = [*dict.fromkeys([*told.said, *fetched.warnings])]
        again = _live(self._asked) if self._asked.batch_rest == "live" else self._asked
        async with budget_after(again, Path(self.store), self.remote, start, told) as budget:
            run = await asyncio.to_thread(self._open, start, fetched.reuse_hours, budget)
            await asyncio.to_thread(run.ledger.go_on)
            sending = Sending(self.remote, start.run_id, held=True)
            self._sending = await self._stack.enter_async_context(sending)
            try:
                with current(run):
                    yield run
                await self._conclude(run)
            finally:
                run.close()
            if told.stopped and budget:
                self._stopped = told.stopped.model_copy(update={"spent": budget.spent})
            began = datetime.fromisoformat(start.started_at)
            await self._end(run, (datetime.now(UTC) - began).total_seconds())

    async def _paid_again(self, start: RunStart) -> list[str]:
        """That another run waits for replies to the very same calls; also told before the first of them is asked."""
        same = [] if self.waits else await asyncio.to_thread(asked_already, Path(self.store), start)
        if not same:
            return []
        told = (
            f"Run {same[0]} waits for a batch with these calls: what is asked now is paid for besides. `jury collect` "
            f"takes its replies in, `jury collect {same[0]} --cancel` gives it up"
        )
        get_run_logger().warning(told)
        return [told]

    async def _conclude(self, run: Run) -> None:
        if not self.waits:
            keep_results(run.results, [run.ledger.folder])
            ends = await ending_sentences(self.parameters.judge)
            self.warnings = [*self.said, *await self._warnings(run), *ends]

    async def _end(self, run: Run, seconds: float) -> None:
        if self.waits:
            return
        run.ledger.end(run_end(run, tuple(self.warnings), seconds, self._stopped))
        if run.start.shards == 1:  # of an evaluation in shards, the last to finish knows all scores
            # Not before the end is written: it tells whether scores are those of a whole run.
            with suppress(Exception):  # the report step draws it then, or tells why it cannot
                await asyncio.to_thread(begin_chart, run.start, run.results)

    @asynccontextmanager
    async def trying(self, dataset: Dataset) -> AsyncGenerator[tuple[Run, list[Sample]]]:
        """The run as it would begin, and all that it would judge, for a quote.

        What is asked in it is kept, sent and stored, but it never ends in its ledger: it is no result. Where calls go
        as a batch, it is asked live, for a batch takes hours.
        """
        wanted, self.parameters = self.parameters, _live(self.parameters)
        asks = self._asked.quote != "history"
        tariff = await asyncio.to_thread(tariff_of, _live(self._asked)) if asks else None
        fetched = await fetch_replies(self.remote, self._asked.reuse_hours)
        anchors = await anchors_of_run(self._flow, self.parameters, dataset.samples, self.remote, self.scheduled)
        start = _as_pilot(self._start(dataset, anchors.key))
        self.run_id, self.shown_as = start.run_id, await results_key(self._flow)
        await name_run(start)
        money = budget_of(self._asked, tariff, Path(self.store), self.remote, start)
        budget = await self._stack.enter_async_context(money)
        run = await asyncio.to_thread(self._open, start, fetched.reuse_hours, budget)
        self._sending = await self._stack.enter_async_context(Sending(self.remote, start.run_id))
        controls, shards = self.parameters.controls, self.parameters.shards
        shown = await asyncio.to_thread(with_controls, dataset.samples, controls, kind_of(self._flow), shards)
        self.warnings = [*self.said, *dataset.warnings, *fetched.warnings, *anchors.warnings]
        try:
            yield run, [*shown, *anchors.samples]
        finally:
            run.close()
            if run.ledger.folder.exists():
                unstored = await self.storing(store(self.store, self.run_id))
                self.warnings += [*unstored, *await self._sending.finish()]
            self.parameters = wanted

    @asynccontextmanager
    async def asking(self, run: Run, samples: Sequence[Sample], what: str) -> AsyncGenerator[Chunks]:
        """Some of the samples, to be judged now.

        Args:
            what: they are asked about for.
        """
        limited, spent = self._vlm.gate.words, run.bill.words
        async with Progress(self._flow, len(samples), None, limited, f"{self.shown_as}-{what}", spent) as progress:
            with current(run):
                yield Chunks(run, samples, progress, self._sending)

    def _start(self, dataset: Dataset, anchors_key: str) -> RunStart:
        record = own_run()
        prefect_id = str(record.id) if record else ""
        about = prefect_id, self.scheduled, anchors_key, made_for()
        return run_start(self._flow, self._asked, dataset, self._rubric, *about)

    def _open(
        self, start: RunStart, reuse_hours: float, budget: Budget | None, ledger_kind: type[Ledger] = Ledger
    ) -> Run:
        overlay.check()
        store, parameters = Path(self.store), self.parameters
        replies = earlier_replies(store, start, reuse_hours, kind_of(self._flow).confirms)
        export = kind_of(self._flow).open_export(parameters, start.candidates, self._rubric)
        policy, ledger = picture_policy(parameters), ledger_kind(store, start)
        results = Results(start, [ledger.folder])
        thumbnails = self._thumbnails
        return Run(
            start, self._rubric, parameters, policy, self._vlm, ledger, replies, results, export, thumbnails, budget
        )

    async def _warnings(self, run: Run) -> list[str]:
        left_out = run.export.close().left_out if run.export else 0
        unclear = f"{left_out} images without a score, or of which it is not clear whether they are as asked"
        exported = [f"{unclear}, are not in the export"] if left_out else []
        replies = run.replies
        words = f"{replies.unreadable:,} rows of earlier ledgers cannot be read: their replies were not reused"
        unused = [f"{words}. The first: {replies.first_unreadable}"] if replies.unreadable else []
        alone = run.start.shards == 1  # shards are compared with the last run once all of them are there
        unchanged = await unchanged_sentences(Path(self.store), run.start.run_id, self.scheduled) if alone else []
        cut = run.input_tokens.warnings(self.parameters.judge.base_url)
        untested = await self._untested()
        billed = run.tally.billed_otherwise(self._asked.judge.tier)
        money = run.budget.warnings if run.budget else []
        found = [*run.tally.unread.warnings(), *run.tally.comparability.warnings()]
        return [*exported, *unused, *money, *cut, *billed, *found, *unchanged, *untested]

    async def _untested(self) -> list[str]:
        """Why it is not known that the judge sees what the flow needs; nothing where it is, or cannot be found out."""
        judge, asked_store = self._asked.judge, self._asked.store
        if judge.base_url == EMBEDDED or not await fetch_passports(self.remote):
            return []
        words = await asyncio.to_thread(passport_warning, Path(self.store), self._flow, judge, asked_store)
        return [words] if words else []

    async def finish_thumbnails(self) -> None:
        """Make the thumbnails that wait, where there are too few for a process."""
        await asyncio.to_thread(self._thumbnails.finish_few)

    async def storing(self, step: Coroutine[Any, Any, None]) -> list[str]:
        """Run the store step; a history that stays in use costs a warning, for the ledger holds everything."""
        try:
            await step
        except (HistoryLocked, InputError, OSError) as error:
            return [f"{error}. The run is safe in its ledger; `jury sync` loads it into the history."]
        return []

    async def reporting(self, step: Coroutine[Any, Any, str]) -> str:
        """Run the report step; returns the run in one sentence. A finished run does not fail for want of a report."""
        try:
            return await step
        except Exception as error:
            get_run_logger().warning("The report could not be made", exc_info=error)
            return f"The run is complete, but its report could not be made: {error}."

    async def completed(self, storing: Coroutine[Any, Any, list[str]], reporting: Coroutine[Any, Any, str]) -> State:
        """Store, then report, and send beside it; the state that Prefect shows of it all."""
        sending, stored = asyncio.create_task(self._sending.finish()), asyncio.create_task(storing)
        shared = self.remote if self.scheduled else None
        await stored  # pages, trend and alarm are read from the history
        unfetched = await share_nights(shared)
        reported, unstored, unsent, _ = await asyncio.gather(reporting, stored, sending, self.finish_thumbnails())
        if not self.remote:  # of a remote store a sync removes it, which knows what other machines judged
            with suppress(OSError):  # the next run does it
                await asyncio.to_thread(remove_old, Path(self.store))
        said = [*unstored, *unsent, *(unfetched or await share_nights(shared))]  # what was told travels, too
        data = {"run_id": self.run_id, "warnings": [*self.warnings, *said]}
        return Completed(message=" ".join([reported, *said]), data=data, name=STOPPED if self._stopped else None)


def _live(parameters: Parameters) -> Parameters:
    """The same with calls that are answered at once."""
    if parameters.judge.tier != BATCH:
        return parameters
    return parameters.model_copy(update={"judge": parameters.judge.model_copy(update={"tier": STANDARD})})


def _as_pilot(start: RunStart) -> RunStart:
    """The same of a run that is no result, whatever it is asked for."""
    asked = start.parameters
    return start.model_copy(update={"parameters": {**asked, "quote": asked.get("quote") or "pilot"}})


async def unchanged_sentences(store: Path, run_id: str, scheduled: bool) -> list[str]:
    """What a scheduled run that judged the same pictures as the last one should say."""
    words = await asyncio.to_thread(unchanged_words, store, run_id) if scheduled else ""
    return [words] if words else []
