"""What a Prefect server that is not the store's own recorded of runs, told so that people can delete it there.

Its database is not ours to change; that of the store's own servers is for `prefect_database`.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

ANSWER_SECONDS = 20.0
"""Longest wait for the server."""
PAGE = 200
"""Most artifacts that a server tells of at once."""


def deletions(runs: Sequence[str]) -> list[str]:
    """What is to be deleted there, and by which commands, a line each.

    Args:
        runs: ids of flow runs; what is none, as a stranger's ledger may have, is named in no command.
    """
    known = [run for run in runs if _is_id(run)]
    if not known:
        return []
    found = _artifacts(known)
    several = f"{len(known):,} flow runs" if len(known) > 1 else "a flow run"
    return [
        f"Prefect keeps names, parameters, logs and artifacts of {several} in a database that was not changed. Delete "
        "them where PREFECT_API_URL leads to the server that has them:",
        *(f"  prefect flow-run delete {run}" for run in known),
        *(f"  prefect artifact delete --id {artifact}" for run in known for artifact in found.get(run, ())),
        *_others([run for run in known if run not in found]),
        "What its events say of them goes there by itself, after 7 days unless that server is set otherwise.",
    ]


def _others(runs: Sequence[str]) -> Iterator[str]:
    """How the artifacts of runs are found that no server told of here."""
    if runs:
        yield (
            f"  and the artifacts of {', '.join(runs)}, which stay when a run goes: `prefect artifact ls --all --limit "
            f"{PAGE} --output json` tells each `id` and `flow_run_id`, `prefect artifact delete --id ID` deletes one"
        )


def _is_id(run: str) -> bool:
    try:
        return str(UUID(run)) == run
    except ValueError:
        return False


def _artifacts(runs: Sequence[str]) -> dict[str, list[str]]:
    """Flow run -> its artifacts, as far as the server of PREFECT_API_URL has any and answers."""
    if not os.environ.get("PREFECT_API_URL"):
        return {}
    with suppress(Exception):  # whatever keeps it from answering, people are told how to find them
        return asyncio.run(asyncio.wait_for(_asked(runs), ANSWER_SECONDS))
    return {}


async def _asked(runs: Sequence[str]) -> dict[str, list[str]]:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(run) for run in runs]))
    found: dict[str, list[str]] = {}
    async with get_client() as client:
        while told := await client.read_artifacts(
            artifact_filter=wanted, limit=PAGE, offset=sum(map(len, found.values()))
        ):
            for each in told:
                found.setdefault(str(each.flow_run_id), []).append(str(each.id))
    return found
