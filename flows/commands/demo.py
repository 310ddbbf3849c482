"""`jury demo`: every flow on drawn samples, judged by the embedded judge, and what to try next."""

import click

from flows.commands.messages import command_line
from flows.commands.options import store_option
from flows.commands.run import run_flow
from flows.commands.sections import Command
from tasks.endpoint.models import recommended
from tasks.ledger.remote import local_cache
from tasks.parameters import FLOWS, PAIRWISE, default_store, parameters_of

CANDIDATE = "drawn"
"""Whose the figures are; the drawn images have candidates of their own."""


@click.command(cls=Command)
@store_option
def command(store: str) -> int:
    """A drawn sample without its picture is a forfeit on purpose, so the demo ends well when every reply came."""
    codes: list[int] = []
    for flow in FLOWS:
        print(f"\n{flow}: drawn samples, judged by pixels\n")
        named = {"candidate_name": CANDIDATE} if flow in PAIRWISE else {}
        codes.append(run_flow(flow, parameters_of(flow).model_validate({"store": store, "reuse_hours": 0} | named)))
    model = next(iter(recommended().values()))
    print(f"\nThe history is {local_cache(store) / 'history.duckdb'}. Next:\n")
    for words in (
        "query leaderboard",
        "query t2i_leaderboard",
        "report -o report.html",
        "query \"SELECT sample_id, overall, path FROM outcomes WHERE injected = 'black'\"",
        f"run diagram --judge.model {model.name} --judge.base-url {model.endpoint} --limit 4",
    ):
        print(f"  {command_line(words)}" + ("" if store == default_store() else f" --store {store}"))
    return max(codes)
