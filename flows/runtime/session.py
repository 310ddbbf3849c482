"""Session of one run, from its judge's client to its last warning; failures of some steps cost only a warning."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.runtime.ahead import client_of
from flows.runtime.budgeting import announce_limit, budget_of, tariff_of, where_stopped
from flows.runtime.chunks import Chunks
from flows.runtime.prefect_run import is_scheduled, log_start, name_run, own_run, results_key
from flows.runtime.progress import Progress
from flows.runtime.secrets import secret_block
from flows.runtime.sending import Sending, fetch_passports, fetch_replies, in_daemon_thread, share_nights
from tasks.anchors.frozen import Anchors, anchors_of, folder
from tasks.batches.log import Event
from tasks.controls.samples import with_controls
from tasks.datasets.dataset import Dataset
from tasks.endpoint.client import Vlm
from tasks.endpoint.models import ending, today
from tasks.endpoint.usage import STANDARD
from tasks.errors import InputError, first_of
from tasks.forgetting.keeping import keep_days, remove_old
from tasks.judging import shared_layout
from tasks.judging.protocol import check_prompts, picture_policy, run_end, run_start
from tasks.judging.results import Results, keep_results
from tasks.judging.run import Run
from tasks.kinds import kind_of
from tasks.kinds.geneval_export import open_export
from tasks.kinds.loading import load_dataset
from tasks.ledger.remote import Remote, local_cache, remote_of, writable_folder
from tasks.ledger.reuse import earlier_replies
from tasks.ledger.writing import Ledger
from tasks.pages.artifact import begin_chart
from tasks.parameters import EMBEDDED, Judge, Parameters
from tasks.passport.wording import warning as passport_warning
from tasks.pictures.thumbnails import Thumbnails
from tasks.records import BudgetStop, MadeFor, RunStart, Sample
from tasks.rubrics.rubric import Rubric, load_rubric
from tasks.spending.budget import Budget
from tasks.spending.month import costs_of
from tasks.spending.order import in_random_order
from tasks.spending.other_calls import first_questions_noted
from tasks.spending.prices import BATCH, check_price_files
from tasks.store import store_or_warn

STOPPED = "Stopped at the budget"
"""State name of a run that judged as many samples as its budget allowed."""
_MADE_FOR: ContextVar[MadeFor] = ContextVar("made for", default="")


@contextmanager
def runs_made_for(purpose: MadeFor) -> Generator[None]:
    """Record a purpose in the ledgers of runs that begin within the context; the bill shows it."""
    token = _MADE_FOR.set(purpose)
    try:
        yield
    finally:
        _MADE_FOR.reset(token)


@asynccontextmanager
async def opened(flow: str, asked: Parameters, said: list[str]) -> AsyncGenerator["Session"]:
    """Yield a session with its judge's client, which is open inside the context.

    Args:
        said: sentences about the parameters, for the reader of the run.
    """
    made = client_of(asked.judge)  # made ahead, and closed by its maker
    async with (
        nullcontext(made) if made else Vlm(asked.judge, secret_block) as vlm,
        first_questions_noted(vlm, local_cache(asked.store), flow),
        AsyncExitStack() as stack,
    ):
        yield Session(flow, asked, said, vlm, stack)


class Session:
    """One run. Its id, key and warnings are set by `judging`, `going_on` or `trying`, and missing before."""

    run_id: str
    shown_as: str
    """Key of the run's artifacts."""
    warnings: list[str]
    """Sentences for the reader of the run."""
    waits: bool = False
    """True if the run does not end now, because its replies come by batches."""
    _stopped: BudgetStop | None = None
    """Place at which the run stopped at its budget; None: it did not stop."""

    def __init__(self, flow: str, asked: Parameters, said: list[str], vlm: Vlm, stack: AsyncExitStack) -> None:
        self._flow, self._asked, self._vlm, self._stack = flow, asked, vlm, stack
        self._began = time.monotonic()
        keep_days()  # an invalid value is reported before the first call
        self._rubric: Rubric = load_rubric(flow, asked.prompt_set)
        self.said = [*said, *shared_layout.check(asked, self._rubric)]
        """Warnings from before the first call."""
        self.store, self.place = str(writable_folder(asked.store)), asked.store
        """Folder of the store, which is the local cache of a remote one; and the store as its user names it."""
        self.parameters = asked.model_copy(update={"store": self.store})
        self._thumbnails = stack.enter_context(Thumbnails(Path(self.store)))
        self.remote = remote_of(asked.store)
        """Remote store; None: the store is a folder."""
        self.scheduled = is_scheduled()

    @asynccontextmanager
    async def judging(self, dataset: Dataset, ledger: type[Ledger] = Ledger) -> AsyncGenerator[Chunks]:
        """Yield the chunks of the dataset; afterwards, end the run in its ledger, unless it waits.

        A stopped run remains unfinished there, and is stored unfinished: the paid replies must be visible.
        """
        tariff = await asyncio.to_thread(tariff_of, self._asked)
        if tariff:  # a budget may end the run before its last sample
            samples = in_random_order(dataset.samples, dataset.key)
            dataset = dataset.model_copy(update={"samples": samples})
        start, reuse_hours, anchors = await self._begin(dataset)
        log_start(start)
        money = budget_of(self._asked, tariff, Path(self.store), self.remote, start)
        async with money as budget:
            run = await asyncio.to_thread(self._open, start, reuse_hours, budget, ledger)
            announce_limit(budget, run, self.remote)
            self._sending = await self._stack.enter_async_context(Sending(self.remote, start.run_id))
            title = f"{self._flow}, put down for a batch:" if self.waits else self._flow
            try:
                async with (
                    self._progress(title, len(dataset.samples), self.shown_as, run) as progress,
                    asyncio.TaskGroup() as group,
                ):
                    group.create_task(name_run(start))
                    shown = await asyncio.to_thread(self._with_controls, dataset, bool(budget))
                    # With a budget the anchors come first: a night without them could not detect a judge that moved.
                    samples = [*anchors.samples, *shown] if budget else [*shown, *anchors.samples]
                    yield Chunks(run, samples, progress, self._sending)
                self._stopped = where_stopped(run, dataset.samples, sum(run.tally.outcomes.values()))
                await self._conclude(run)
            except* (InputError, OSError) as stopped:
                if run.ledger.folder.exists():
                    await asyncio.gather(store_or_warn(self.store, self.run_id), self._sending.finish())
                    if isinstance(first := first_of(stopped), InputError):
                        first.run_id = self.run_id
                raise
            finally:
                run.close()
            await self._end(run, time.monotonic() - self._began)

    @asynccontextmanager
    async def going_on(self, start: RunStart, told: Event) -> AsyncGenerator[Run]:
        """Yield a run that waited, as it was begun; afterwards, end it in its ledger.

        Raises:
            InputError: its prompts have changed since it was begun.
        """
        self.run_id, self.shown_as, self.scheduled = start.run_id, told.shown_as, start.scheduled
        check_prompts(start, self._rubric)
        reuse_hours, unfetched = await fetch_replies(self.remote, self._asked.reuse_hours)
        self.said = [*dict.fromkeys([*told.said, *unfetched])]
        run = await asyncio.to_thread(self._open, start, reuse_hours, None)
        await asyncio.to_thread(run.ledger.go_on)
        self._sending = await self._stack.enter_async_context(Sending(self.remote, start.run_id))
        try:
            yield run
            await self._conclude(run)
        finally:
            run.close()
        if told.stopped:
            spent = await asyncio.to_thread(costs_of, run.ledger.folder)
            self._stopped = told.stopped.model_copy(update={"spent": sum(each.amount for each in spent.values())})
        began = datetime.fromisoformat(start.started_at)
        await self._end(run, (datetime.now(UTC) - began).total_seconds())

    async def _conclude(self, run: Run) -> None:
        if not self.waits:
            keep_results(run.results, [run.ledger.folder])
            self.warnings = [*self.said, *await self._warnings(run), *_ending_sentences(self.parameters.judge)]

    async def _end(self, run: Run, seconds: float) -> None:
        if self.waits:
            return
        run.ledger.end(run_end(run, tuple(self.warnings), seconds, self._stopped))
        if run.start.shards == 1:  # in an evaluation in shards, only the last to finish has all scores
            # Only after the end is written: it shows whether the scores are those of a whole run.
            with suppress(Exception):  # the report step draws it then, or reports the reason
                await asyncio.to_thread(begin_chart, run.start, run.results)

    @asynccontextmanager
    async def trying(self, dataset: Dataset) -> AsyncGenerator[tuple[Run, list[Sample]]]:
        """Yield the run as it would begin, and all samples that it would judge, for a quote.

        Its replies are kept, sent and stored, but it never ends in its ledger: it is no result. If the calls of the run
        would go as a batch, this one makes them live, because a batch takes hours.
        """
        self.parameters = _live(self.parameters)
        asks = self._asked.quote != "history"
        tariff = await asyncio.to_thread(tariff_of, _live(self._asked)) if asks else None
        start, reuse_hours, anchors = await self._begin(dataset)
        await name_run(start)
        money = budget_of(self._asked, tariff, Path(self.store), self.remote, start)
        budget = await self._stack.enter_async_context(money)
        run = await asyncio.to_thread(self._open, start, reuse_hours, budget)
        self._sending = await self._stack.enter_async_context(Sending(self.remote, start.run_id))
        shown = await asyncio.to_thread(self._with_controls, dataset, False)
        self.warnings = [*self.said]
        try:
            yield run, [*shown, *anchors.samples]
        finally:
            run.close()
            if run.ledger.folder.exists():
                unstored = await store_or_warn(self.store, self.run_id)
                self.warnings += [*unstored, *await self._sending.finish()]

    @asynccontextmanager
    async def asking(self, run: Run, samples: Sequence[Sample]) -> AsyncGenerator[Chunks]:
        """Yield chunks of some samples, to be judged now for a quote."""
        async with self._progress(self._flow, len(samples), f"{self.shown_as}-quote", run) as progress:
            yield Chunks(run, samples, progress, self._sending)

    async def _begin(self, dataset: Dataset) -> tuple[RunStart, float, Anchors]:
        """Return the run's first record, the age in hours up to which it may reuse replies, and its anchors."""
        reuse_hours, unfetched = await fetch_replies(self.remote, self._asked.reuse_hours)
        anchors = await anchors_of_run(self._flow, self.parameters, dataset.samples, self.remote, self.scheduled)
        record = own_run()
        about = str(record.id) if record else "", self.scheduled, anchors.key, _MADE_FOR.get()
        start = run_start(self._flow, self._asked, dataset, self._rubric, *about)
        self.run_id, self.shown_as = start.run_id, await results_key(self._flow)
        self.said = [*dict.fromkeys([*self.said, *dataset.warnings, *unfetched, *anchors.warnings])]
        return start, reuse_hours, anchors

    def _with_controls(self, dataset: Dataset, early: bool) -> Sequence[Sample]:
        controls, shards = self.parameters.controls, self.parameters.shards
        return with_controls(dataset.samples, controls, kind_of(self._flow), shards, early)

    def _progress(self, title: str, samples: int, key: str, run: Run) -> Progress:
        return Progress(title, samples, None, self._vlm.gate.words, key, run.bill.words)

    def _open(
        self, start: RunStart, reuse_hours: float, budget: Budget | None, ledger_kind: type[Ledger] = Ledger
    ) -> Run:
        check_price_files()
        store, parameters = Path(self.store), self.parameters
        replies = earlier_replies(store, start, reuse_hours)
        export = open_export(parameters, start.candidates, self._rubric)
        policy, ledger = picture_policy(parameters), ledger_kind(store, start)
        results = Results(start, [ledger.folder])
        thumbnails = self._thumbnails
        return Run(
            start, self._rubric, parameters, policy, self._vlm, ledger, replies, results, export, thumbnails, budget
        )

    async def _warnings(self, run: Run) -> list[str]:
        replies, judge = run.replies, self._asked.judge
        left_out = run.export.close().left_out if run.export else 0
        unclear = f"{left_out} images without a score, or of which it is not clear whether they are as asked"
        unused = f"{replies.unreadable:,} rows of earlier ledgers cannot be read: their replies were not reused"
        return [
            *([f"{unclear}, are not in the export"] if left_out else []),
            *([f"{unused}. The first: {replies.first_unreadable}"] if replies.unreadable else []),
            *(run.budget.warnings if run.budget else []),
            *run.input_tokens.warnings(self.parameters.judge.base_url),
            *run.tally.billed_otherwise(judge.service_tier),
            *_left_by_batch(run),
            *run.tally.unread.warnings(),
            *run.tally.comparability.warnings(),
            *await self._untested(judge),
        ]

    async def _untested(self, judge: Judge) -> list[str]:
        """Return a warning if the judge has no good passport for this flow; none if the passports cannot be fetched."""
        if judge.base_url == EMBEDDED or not await fetch_passports(self.remote):
            return []
        words = await asyncio.to_thread(passport_warning, Path(self.store), self._flow, judge, self._asked.store)
        return [words] if words else []

    async def finish_thumbnails(self) -> None:
        """Make the waiting thumbnails here, if they are too few for a process of their own."""
        await asyncio.to_thread(self._thumbnails.finish_few)

    async def send_rest(self) -> tuple[str, ...]:
        """Send the rest of the ledger, including its end, to a remote store; return warnings."""
        return await self._sending.finish()

    async def share_nights(self) -> tuple[str, ...]:
        """Exchange nights with other machines, for the alarms of scheduled runs; return warnings."""
        return await share_nights(self.remote if self.scheduled else None)

    async def completed(self, reported: str, said: list[str]) -> State:
        """Remove what is older than `JURY_KEEP_DAYS`; return the state in Prefect of a run that was reported.

        Args:
            said: warnings since the run was judged.
        """
        if not self.remote:  # for a remote store, a sync does it: only that has the judgments of other machines
            with suppress(OSError, InputError):  # the next run does it; `jury sync` reports refusals
                await asyncio.to_thread(remove_old, Path(self.store))
        data = {"run_id": self.run_id, "warnings": [*self.warnings, *said]}
        return Completed(message=" ".join([reported, *said]), data=data, name=STOPPED if self._stopped else None)


def _left_by_batch(run: Run) -> list[str]:
    left = sum(run.tally.judgments[status] for status in ("unavailable", "invalid"))
    if run.parameters.judge.service_tier != BATCH or not left:
        return []
    return [f"The batch left {left:,} calls without a reply that can be used: the same command asks for them"]


def _ending_sentences(judge: Judge) -> list[str]:
    """Return a warning if the judge ends soon, or has ended."""
    day = today()
    found = ending(judge.model, judge.base_url, day)
    cure = "`jury status` lists what it judges, `jury bridge` tells whether its history may be continued with another"
    return [f"The judge {found.words(day)}. {cure}. ({found.source})"] if found else []


def _live(parameters: Parameters) -> Parameters:
    """Return the parameters with live calls in place of a batch."""
    if parameters.judge.service_tier != BATCH:
        return parameters
    return parameters.model_copy(update={"judge": parameters.judge.model_copy(update={"service_tier": STANDARD})})


async def anchors_of_run(
    flow: str, parameters: Parameters, samples: Sequence[Sample], remote: Remote | None, scheduled: bool
) -> Anchors:
    """Return the anchors of a scheduled run, fetched or newly chosen, and send new ones; a failure is only a warning.

    A run by hand judges none, because the series is that of the schedule. The first of several shards judges them all.

    Args:
        parameters: their `store` is a folder: the store, or the local cache of a remote one.
        samples: samples of the run, the whole dataset or a shard of it.
    """
    if not parameters.anchors or parameters.shard > 1 or not scheduled:
        return Anchors()

    def choosable() -> Sequence[Sample]:
        whole = {"shards": 1, "shard": 0, "evaluation_id": ""}
        return load_dataset(flow, parameters.model_copy(update=whole)).samples if parameters.shard else samples

    sets = folder(Path(parameters.store), flow).relative_to(parameters.store).as_posix()
    try:
        if remote:
            await in_daemon_thread(lambda: remote.fetch_folder(sets))
        found = await asyncio.to_thread(anchors_of, flow, parameters, choosable, picture_policy(parameters))
        if remote:
            await in_daemon_thread(lambda: remote.send_folder(sets))
        return found
    except (InputError, OSError) as error:
        return Anchors(warnings=(f"No anchors were judged: {error}.",))
