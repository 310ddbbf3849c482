"""`jury gate`: whether a candidate may go on, for a check of a pull request."""

from collections.abc import Sequence

import click

from flows.commands.behind import tell_if_behind
from flows.commands.messages import printable_json
from flows.commands.options import json_option, store_option
from flows.commands.sections import Command
from tasks.comparing.candidate_gate import Gate, least_score, no_worse
from tasks.comparing.candidate_gate_words import markdown
from tasks.errors import InputError
from tasks.ledger.remote import local_cache
from tasks.parameters import FLOWS
from tasks.text import printable

CODES = {"passes": 0, "fails": 4, "cannot tell": 5}
"""Exit codes; 2 stays that of a mistake in what was asked."""


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
def command(
    flow: str,
    candidate: str,
    against: str,
    margin: float | None,
    least: float | None,
    across: Sequence[str],
    as_json: bool,
    store: str,
) -> int:
    """Print the decision as Markdown; the exit code says it, too.

    Raises:
        InputError: it is not clear what is asked, or there is no such candidate.
    """
    folder = local_cache(store)
    tell_if_behind(folder)
    if against and margin is not None and least is None:
        found = no_worse(folder, flow, candidate, against, margin, across)
    elif least is not None and not against and margin is None and not across:
        found = least_score(folder, flow, candidate, least)
    else:
        raise InputError("a gate takes --against NAME with --margin POINTS, or --min SCORE alone")
    _print(found, as_json)
    return CODES[found.decision]


def _print(found: Gate, as_json: bool) -> None:
    if as_json:
        print(printable_json(found.model_dump(mode="json")))
    else:
        print("\n".join(map(printable, markdown(found).splitlines())))
