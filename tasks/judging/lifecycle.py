"""Beginning and end of a run, in memory and in its ledger."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from tasks.datasets.dataset import Dataset
from tasks.endpoint.client import Vlm
from tasks.judging.extension import Extension, Opening
from tasks.judging.protocol_items import answered_protocol, asked_protocol, dataset_items
from tasks.judging.results import Results, keep_results
from tasks.judging.run import Run
from tasks.ledger.evaluations import digest, protocol_key
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.reuse import earlier_replies
from tasks.pictures.thumbnails import Thumbnails
from tasks.records import BudgetStop, RunEnd, RunStart, new_id
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import load_rubric
from tasks.spending.bill import first_questions_noted
from tasks.spending.prices import check_price_files


def opening_of(flow: str, asked: Parameters, said: Sequence[str], scheduled: bool) -> Opening:
    """Return a run that is about to open. The calls of a quote are live, because a batch takes hours.

    Args:
        said: sentences about the parameters, for the reader of the run.

    Raises:
        InputError: the store, the prompts or the files of prices cannot be used.
    """
    check_price_files()
    asked = asked.with_live_calls() if asked.quote else asked
    parameters = asked.model_copy(update={"store": str(local_cache(asked.store))})
    rubric, remote = load_rubric(flow, asked.prompt_set, asked.prompts_asked()), remote_of(asked.store)
    return Opening(
        flow,
        asked=asked,
        parameters=parameters,
        rubric=rubric,
        remote=remote,
        scheduled=scheduled,
        said=[*said],
        reuse_hours=asked.reuse_hours,
    )


@asynccontextmanager
async def judge_client(opening: Opening, secret: Callable[[str], Awaitable[str]]) -> AsyncGenerator[Vlm]:
    """Yield a client of a run's judge, and store its first questions at the end, however the run ends."""
    async with Vlm(opening.asked.judge, secret) as vlm, first_questions_noted(vlm, opening.store, opening.flow):
        yield vlm


def start_record(opening: Opening, dataset: Dataset, prefect_run_id: str) -> RunStart:
    """Return all facts about a run before its first call."""
    flow, asked, rubric, now = opening.flow, opening.asked, opening.rubric, datetime.now(UTC)
    run_id = new_id(flow, now)
    protocol = asked_protocol(asked, rubric) | dataset_items(dataset)
    same = {"flow": flow, "dataset": dataset.key, "candidates": list(dataset.candidates), "protocol": protocol}
    return RunStart(
        run_id=run_id,
        evaluation_id=asked.evaluation_id or run_id,
        shard=asked.shard or 1,
        shards=asked.shards,
        flow=flow,
        started_at=now.isoformat(),
        version=version("image-jury"),
        prefect_run_id=prefect_run_id,
        scheduled=opening.scheduled,
        dataset=dataset.name,
        dataset_key=dataset.key,
        series_key=dataset.series_key,
        candidates=dataset.candidates,
        samples=len(dataset.samples),
        prompt_set=rubric.prompt_set,
        prompts={prompt.dimension: prompt.sha256 for prompt in rubric.prompts},
        dimensions=tuple(prompt.dimension for prompt in rubric.prompts),
        judge=asked.judge.model,
        endpoint=asked.judge.base_url,
        anchors_key=opening.anchors,
        resume_key=digest(same | ({"shard": [asked.shard, asked.shards]} if asked.shard else {})),
        protocol=protocol,
        parameters=asked.model_dump(mode="json"),
    )


def open_run(
    opening: Opening,
    start: RunStart,
    vlm: Vlm,
    thumbnails: Thumbnails,
    extensions: tuple[Extension, ...],
) -> Run:
    """Return the open run, with the earlier replies that it may reuse; close it at its end."""
    replies = earlier_replies(opening.store, start, opening.reuse_hours)
    ledger = opening.ledger(opening.store, start)
    parts = opening.rubric, opening.parameters, vlm, ledger, replies, Results(start, [ledger.folder])
    return Run(start, *parts, thumbnails, extensions)


def end_run(run: Run, warnings: Sequence[str], seconds: float, stopped: BudgetStop | None) -> RunEnd:
    """End a run in its ledger, and keep its results for the steps that follow; return its last record.

    Args:
        stopped: place at which it stopped at its budget; None: it did not stop.
    """
    keep_results(run.results, [run.ledger.folder])
    tally = run.tally
    protocol = answered_protocol(run.start.protocol, tally.models, tally.rungs, tally.not_sent)
    end = RunEnd(
        run_id=run.start.run_id,
        finished_at=datetime.now(UTC).isoformat(),
        seconds=round(seconds, 3),
        protocol_key=protocol_key(protocol),
        protocol=protocol,
        calls=tally.calls,
        control_calls=tally.control_calls,
        reused=tally.reused,
        judgments=dict(tally.judgments),
        outcomes=dict(tally.outcomes),
        limits=run.vlm.gate.found(),
        stopped=stopped,
        warnings=tuple(warnings),
    )
    run.ledger.end(end)
    return end
