"""`jury gate`: check whether a candidate may pass, by its score or against another."""

from collections.abc import Sequence

import click

from flows.commands.messages import printable_json
from flows.commands.options import json_option, store_option
from flows.commands.sections import Command
from tasks.comparing.candidate_gate import least_score, markdown, no_worse
from tasks.errors import InputError
from tasks.ledger.remote import local_cache
from tasks.parameters import FLOWS
from tasks.text import printable

CODES = {"passes": 0, "fails": 4, "cannot tell": 5}
"""Exit codes of `jury gate`; 2 remains the code of mistakes in the input."""


@click.command(cls=Command)
@click.option("--flow", type=click.Choice(FLOWS), required=True, help="Flow whose newest runs are meant.")
@click.option("--candidate", required=True, metavar="NAME", help="Who is to pass, by its newest finished run.")
@click.option("--against", default="", metavar="NAME", help="Whom it is compared with; itself: its run before.")
@click.option(
    "--margin",
    type=click.FloatRange(0),
    metavar="POINTS",
    help="How far below the other it may be: passes where the whole interval lies above that, fails where all of it "
    "lies below.",
)
@click.option("--min", "least", type=float, metavar="SCORE", help="The least score, in place of --against.")
@click.option(
    "--across",
    multiple=True,
    metavar="NAME",
    help="A difference between the two runs that is meant, as for jury compare; repeatable.",
)
@json_option("Print everything as JSON.")
@store_option
def gate(
    flow: str,
    candidate: str,
    against: str,
    margin: float | None,
    least: float | None,
    across: Sequence[str],
    as_json: bool,
    store: str,
) -> int:
    """Print the decision as Markdown or JSON, and return its exit code."""
    folder = local_cache(store)
    if against and margin is not None and least is None:
        found = no_worse(folder, flow, candidate, against, margin, across)
    elif least is not None and not against and margin is None and not across:
        found = least_score(folder, flow, candidate, least)
    else:
        raise InputError("a gate takes --against NAME with --margin POINTS, or --min SCORE alone")
    if as_json:
        print(printable_json(found.model_dump(mode="json")))
    else:
        print("\n".join(map(printable, markdown(found).splitlines())))
    return CODES[found.decision]
