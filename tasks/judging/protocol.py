"""Identity of a run: its id, the protocol it follows, and the key by which a resumed run is recognized."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import uncut
from tasks.errors import InputError
from tasks.judging import questions
from tasks.judging.run import Run
from tasks.kinds.tier_rule import AGGREGATION
from tasks.kinds.values import REPLY_SCHEMA
from tasks.ledger.protocol_keys import PROMPT, digest, protocol_key
from tasks.parameters import Parameters
from tasks.pictures.prepare import Policy
from tasks.records import BudgetStop, MadeFor, RunEnd, RunStart
from tasks.rubrics.rubric import Rubric

CARRIED = {"carried stages": "the last picture before a content critic"}
"""Protocol item of a run in which pictures were carried forward to later stages."""
OWN_ORDER = {"order of data": "their own"}
"""Protocol item of a run whose data would read otherwise with sorted keys, as they once were sent."""


def picture_policy(parameters: Parameters) -> Policy:
    """Return the changes to pictures of this run before they are sent."""
    return Policy(
        max_bytes=int(parameters.max_picture_megabytes * 1_000_000),
        max_side=parameters.max_picture_side,
        normalize=parameters.normalize,
    )


def protocol_of_dataset(dataset: Dataset) -> dict[str, str]:
    """Return items that a dataset adds to the protocol; none if requests depend on the parameters alone."""
    return (CARRIED if dataset.carried else {}) | (OWN_ORDER if dataset.own_order else {})


def new_id(flow: str, now: datetime) -> str:
    """Return a unique name for a run or an evaluation; names sort by time."""
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}-{flow}-{secrets.token_hex(3)}"


def run_start(
    flow: str,
    parameters: Parameters,
    dataset: Dataset,
    rubric: Rubric,
    prefect_run_id: str,
    scheduled: bool,
    anchors_key: str = "",
    made_for: MadeFor = "",
) -> RunStart:
    """Return all facts about a run before its first call."""
    now = datetime.now(UTC)
    run_id = new_id(flow, now)
    protocol = asked_protocol(parameters, rubric) | protocol_of_dataset(dataset)
    asked = {"flow": flow, "dataset": dataset.key, "candidates": list(dataset.candidates), "protocol": protocol}
    return RunStart(
        run_id=run_id,
        evaluation_id=parameters.evaluation_id or run_id,
        shard=parameters.shard or 1,
        shards=parameters.shards,
        flow=flow,
        started_at=now.isoformat(),
        version=version("image-jury"),
        prefect_run_id=prefect_run_id,
        scheduled=scheduled,
        made_for=made_for,
        dataset=dataset.name,
        dataset_key=dataset.key,
        candidates=dataset.candidates,
        samples=len(dataset.samples),
        prompt_set=rubric.prompt_set,
        prompts={prompt.dimension: prompt.sha256 for prompt in rubric.prompts},
        dimensions=tuple(prompt.dimension for prompt in rubric.prompts),
        judge=parameters.judge.model,
        endpoint=parameters.judge.base_url,
        anchors_key=anchors_key,
        resume_key=digest(asked | ({"shard": [parameters.shard, parameters.shards]} if parameters.shard else {})),
        protocol=protocol,
        parameters=parameters.model_dump(mode="json"),
    )


def run_end(run: Run, warnings: tuple[str, ...], seconds: float, stopped: BudgetStop | None = None) -> RunEnd:
    """Return the totals of a run, with the protocol that it really followed."""
    tally = run.tally
    protocol = answered_protocol(run.start.protocol, tally.models, tally.rungs, tally.not_sent)
    return RunEnd(
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
        warnings=warnings,
    )


def check_prompts(start: RunStart, rubric: Rubric) -> None:
    """Raise InputError if the prompts have changed since a run was asked with them."""
    changed = [each.dimension for each in rubric.prompts if start.prompts.get(each.dimension) != each.sha256]
    if changed or len(rubric.prompts) != len(start.prompts):
        raise InputError(
            f"run {start.run_id} was asked with other prompts than {rubric.prompt_set!r} has now "
            f"({', '.join(changed) or 'their number'}): put back those that it was begun with, by version "
            f"{start.version}, and collect it again"
        )


def asked_protocol(parameters: Parameters, rubric: Rubric) -> dict[str, str]:
    """Return the requested protocol, item by item, in words that can be compared and shown."""
    settings = parameters.judge
    return {
        "model asked": settings.model,
        "endpoint": settings.base_url,
        "temperature": f"{settings.temperature:g}",
        "max output tokens": str(settings.max_output_tokens),
        "detail": settings.detail,
        **settings.asked_besides,
        "orders": ", ".join(parameters.order_list()),
        "votes": str(parameters.votes),
        **({"layout": questions.SHARED} if parameters.shares_beginnings else {}),
        **({"texts": "uncut"} if uncut(parameters) else {}),
        "pictures": picture_policy(parameters).model_dump_json(),
        "request layout": questions.LAYOUT,
        "reply schema": REPLY_SCHEMA,
        "aggregation": AGGREGATION,
        **{f"{PROMPT}{each.dimension}": each.digest for each in rubric.prompts},
    }


def answered_protocol(
    asked: Mapping[str, str], models: Iterable[str], rungs: Iterable[str], not_sent: Iterable[str]
) -> dict[str, str]:
    """Return the requested protocol with the judge's part: the model's own name, reply formats, refused parameters."""
    return {
        **asked,
        "model answered": ", ".join(sorted(models)),
        "reply formats": ", ".join(sorted(rungs)),
        "not sent": ", ".join(sorted(not_sent)),
    }
