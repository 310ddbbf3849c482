"""`jury probe`: one cheap question that tests whether a judge answers, and how."""

import asyncio
from pathlib import Path
from typing import Any

from flows.commands.connection import find_prefect
from flows.commands.messages import left_to_sync, say
from flows.commands.options import model_options, parse_options, store_option
from flows.commands.sections import Command
from flows.runtime.secrets import secret_block
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.kinds import KINDS
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.remote import writable_folder
from tasks.parameters import Judge, Probe
from tasks.spending.other_calls import first_questions_noted
from tasks.text import one_line

MOST_PICTURES = max(len(kind.display.sides) for kind in KINDS)
"""Pictures of a question in the kind of flow that shows the most."""
LONGEST = 500
"""Most characters shown of a reply."""


def probe(store: str, **given: Any) -> int:
    """Ask the judge, and print its reply; return 3 if the reply cannot be used."""
    judge = parse_options(given, Probe).judge
    folder = writable_folder(store)
    find_prefect(folder)  # a key may be kept there, as a Secret block
    code = asyncio.run(_ask(judge, folder))
    _load(folder)
    return code


command = Command("probe", params=model_options(Probe), callback=probe)
store_option(command)


def _load(store: Path) -> None:
    """Load the cost of the question into the history; the embedded judge has none."""
    if not OTHER_CALLS.folders(store):
        return
    from tasks.history.landing import land  # DuckDB, not needed before the end

    with left_to_sync("`jury sync` loads what it cost"):
        land(store)


async def _ask(judge: Judge, store: Path) -> int:
    async with Vlm(judge, secret=secret_block) as vlm, first_questions_noted(vlm, store):
        reply = await vlm.probe(probe_request(MOST_PICTURES))
    print(f"{reply.status}: {one_line(reply.model or judge.model)} in {reply.seconds:g} s, reply format {reply.rung}")
    print(one_line(reply.error or f"reply: {reply.text}", LONGEST))
    if reply.not_sent:
        say(f"left out because the endpoint refuses it: {', '.join(reply.not_sent)}")
    return 0 if reply.status == "ok" else 3
