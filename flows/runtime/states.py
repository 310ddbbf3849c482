"""From an evaluation to the state that Prefect shows: skipped, failed with a sentence, completed with counts.

Owns what is no step of the chain: standing back for an unfinished run, splitting into shards, and what stops a run.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from importlib import import_module

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from flows.runtime.evaluating import put_together, waiting_evaluation
from flows.runtime.given import Raw, given
from flows.runtime.log import tell_in_sentences
from flows.runtime.overlap import unfinished_before
from flows.runtime.prefect_run import results_key
from flows.runtime.process import end_quietly, settle_garbage_collector
from flows.runtime.shards import judge_in_shards
from flows.runtime.without_server import noting_end
from tasks.batches.checks import check_batch
from tasks.datasets.paths import resolved
from tasks.endpoint.known import addressed
from tasks.errors import InputError, first_of
from tasks.parameters import Parameters, at_store
from tasks.text import printable

IMPORTED_IN_RUNS = ("prefect.flow_engine", "prefect.task_engine", "fastapi.encoders")
"""What Prefect imports when a flow is called, and not before: a third of a second, which a run need not wait for."""

Chain = Callable[[str, Parameters, list[str]], Awaitable[State]]
"""Of a flow, what it is asked for, and what is to be said of that."""

for _name in IMPORTED_IN_RUNS:
    import_module(_name)


async def final_state(flow: str, parameters: Parameters | Raw, chain: Chain) -> State:
    """Run the chain, here or as the shards of a deployment.

    Returns:
        What the chain returns; `Skipped` where the scheduled run before this one is unfinished; Failed with one
        sentence where a mistake in the input, the judge or the machine stops the run. Any other exception is a fault
        of the program, and is raised.
    """
    if "PREFECT__FLOW_RUN_ID" in os.environ:  # a process that Prefect started for one run, as `jury` is its own
        end_quietly()
    tell_in_sentences()
    return await noting_end(_state(flow, parameters, chain))


async def _state(flow: str, parameters: Parameters | Raw, chain: Chain) -> State:
    try:
        if sentence := await unfinished_before():
            return Completed(name="Skipped", message=sentence)
        wanted, said = await given(flow, parameters)
        for sentence in said:
            get_run_logger().info(sentence)
        now = datetime.now().astimezone()
        asked = await asyncio.to_thread(resolved, addressed(at_store(wanted)), now)
        check_batch(asked)
        if asked.to_be_split:
            judged = await judge_in_shards(flow, asked.model_copy(update={"store": wanted.store}))
            if judged.waits:
                return waiting_evaluation(judged.evaluation, judged.waits, asked.shards, said)
            return await put_together(judged.evaluation, asked.store, now, said, await results_key(flow))
        with settle_garbage_collector():
            return await chain(flow, asked, said)
    except* (InputError, OSError) as stopped:
        get_run_logger().debug("The run was stopped", exc_info=stopped)
        sentence = str(first_of(stopped))
    return Failed(message=printable(sentence))  # Prefect logs it, and may do so to a terminal
