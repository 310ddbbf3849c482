"""The anchors of a scheduled run: fetched from a remote store, or chosen and sent there.

A run by hand judges none: people try things out, and the series is that of the schedule. Of an evaluation in shards the
first judges them all.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from flows.runtime.sending import in_daemon_thread
from tasks.anchors.frozen import Anchors, anchors_of, folder
from tasks.errors import InputError
from tasks.judging.protocol import picture_policy
from tasks.kinds.loading import load_dataset
from tasks.ledger.remote import Remote
from tasks.parameters import Parameters
from tasks.records import Sample


async def anchors_of_run(
    flow: str, parameters: Parameters, samples: Sequence[Sample], remote: Remote | None, scheduled: bool
) -> Anchors:
    """The anchors that this run judges, with what there is to warn of; that there are none costs no run.

    Args:
        parameters: with the folder of the store, or of the local cache of a remote one.
        samples: of the run, all of the dataset or a shard of it.
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
