"""Run of a command: checked before a server starts, then judged in this process."""

from typing import Any

from flows.process import ended_by_sigterm, run_here, settled, while_it_begins
from flows.server.server import prepare_prefect, temporary_server
from tasks.errors import InputError
from tasks.extensions import extensions_of
from tasks.ledger.remote import local_cache
from tasks.protocols.loading import load_ahead
from tasks.records.parameters import Parameters


def judged(flow: str, parameters: Parameters) -> dict[str, Any]:
    """Run a flow in this process, with the available Prefect server or a temporary one.

    Returns:
        The result of a completed run: `run_id`, `warnings`, and `quote`, `waits` or `also` if the flow returned them.

    Raises:
        InputError, Exception: see `run_here`.
    """
    prepare_prefect(local_cache(parameters.store))
    with ended_by_sigterm():
        asked = _checked(flow, parameters)
    server = temporary_server()
    return run_here(flow, parameters, while_it_begins(server, flow, asked) if server else None)


def _checked(flow: str, parameters: Parameters) -> Parameters:
    """Check the prompts and extensions of a run and load its dataset; return the settled parameters.

    Mistakes are thus reported before a server starts. Shards are checked by the processes that judge them.
    """
    asked = settled(parameters)
    if asked.to_be_split:
        if temporary_server():
            raise InputError(
                "shards are runs of a deployment, and there is no Prefect server that has any: start `jury up`, or set "
                "PREFECT_API_URL to the server of your workers"
            )
        return asked
    from tasks.judging.lifecycle import opening_of  # the judge's client, which takes a second to import

    opening = opening_of(flow, asked, (), scheduled=False)
    for each in extensions_of(opening):
        each.check()
    try:
        load_ahead(flow, opening.parameters)
    except OSError as error:
        raise InputError(str(error)) from error
    return asked
