"""`jury judge ping` and `endpoints`: one cheap question to a judge, and the list of known endpoints."""

import asyncio
from pathlib import Path
from typing import Any

import click

from flows.commands.console import Command, aligned, left_to_sync, printable_json, say
from flows.commands.options import json_option, model_options, parse_options, store_option
from flows.server.server import find_prefect, secret_block
from tasks.endpoint.catalog import endpoints
from tasks.ledger.remote import local_cache
from tasks.ledger.side_records import OTHER_CALLS
from tasks.records.judge import Judge
from tasks.records.parameters import Probe
from tasks.text import one_line

LONGEST = 500
"""Most characters shown of a reply."""


@click.command(cls=Command)
@store_option
def ping(store: str, **given: Any) -> int:
    """Ask the judge, and print its reply; return 3 if the reply cannot be used."""
    judge = parse_options(given, Probe).judge
    folder = local_cache(store)
    find_prefect(folder)  # a key may be kept there, as a Secret block
    code = asyncio.run(_ask(judge, folder))
    if OTHER_CALLS.folders(folder):  # the embedded judge costs nothing
        from tasks.history.landing import land  # DuckDB, not needed before the end

        with left_to_sync("`jury store sync` loads what it cost"):
            land(folder)
    return code


ping.params[:0] = model_options(Probe)


async def _ask(judge: Judge, store: Path) -> int:
    # The judge's client and the displays of all flows, which a list of endpoints does not need.
    from tasks.endpoint.client import Vlm
    from tasks.endpoint.requests import probe_request
    from tasks.protocols import display_of
    from tasks.records.parameters import FLOWS
    from tasks.spending.bill import first_questions_noted

    most_pictures = max(len(display_of(flow).sides) for flow in FLOWS)
    async with Vlm(judge, secret=secret_block) as vlm, first_questions_noted(vlm, store):
        reply = await vlm.probe(probe_request(most_pictures))
    print(f"{reply.status}: {one_line(reply.model or judge.model)} in {reply.seconds:g} s, reply format {reply.rung}")
    print(one_line(reply.error or f"reply: {reply.text}", LONGEST))
    if reply.not_sent:
        say(f"left out because the endpoint refuses it: {', '.join(reply.not_sent)}")
    return 0 if reply.status == "ok" else 3


@click.command(cls=Command)
@json_option("Print an array of objects, with all that is known.")
def list_endpoints(as_json: bool) -> int:
    """Print all endpoints, with their address and the usual name of their key."""
    shown = [*endpoints().values()]
    if as_json:
        print(printable_json([each.model_dump(mode="json") for each in shown]))
        return 0
    rows = [(each.name, each.title, each.address, each.key) for each in shown]
    print("\n".join(aligned([("name", "what", "address", "key"), *rows])))
    print("\nThe documented facts about each: --json, or docs/reference/endpoints.md.")
    return 0
