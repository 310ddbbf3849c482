"""`jury probe`: one cheap question, to see whether a judge answers and how."""

import asyncio
from typing import Any

from flows.commands.connection import find_prefect
from flows.commands.messages import say
from flows.commands.options import model_options, parse_options
from flows.commands.sections import Command
from flows.runtime.secrets import secret_block
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.kinds import KINDS
from tasks.ledger.remote import local_cache
from tasks.parameters import Judge, Probe, default_store
from tasks.text import one_line

MOST_PICTURES = max(len(kind.display.sides) for kind in KINDS)
"""Pictures of a question, in the kind of flow that shows the most."""
LONGEST = 500
"""Most characters shown of a reply."""


def probe(**given: Any) -> int:
    """Ask, and print what came; 3 where the judge gave no answer that could be used."""
    judge = parse_options(given, Probe).judge
    find_prefect(local_cache(default_store()))  # a key may be kept there, as a Secret block
    return asyncio.run(_ask(judge))


command = Command("probe", params=model_options(Probe), callback=probe)


async def _ask(judge: Judge) -> int:
    async with Vlm(judge, secret=secret_block) as vlm:
        reply = await vlm.probe(probe_request(MOST_PICTURES))
    print(f"{reply.status}: {one_line(reply.model or judge.model)} in {reply.seconds:g} s, reply format {reply.rung}")
    print(one_line(reply.error or f"reply: {reply.text}", LONGEST))
    if reply.not_sent:
        say(f"left out because the endpoint refuses it: {', '.join(reply.not_sent)}")
    return 0 if reply.status == "ok" else 3
