"""`jury endpoints`: endpoints with a short name, and the documented facts about each."""

import json
from collections.abc import Iterator
from itertools import zip_longest

import click

from flows.commands.messages import aligned
from flows.commands.options import json_option
from flows.commands.sections import Command
from tasks.endpoint.known import RESOURCE, Endpoint, endpoints
from tasks.errors import InputError
from tasks.text import listed


@click.command(cls=Command)
@click.argument("name", default="", metavar="[NAME]", help="Empty: list them all.")
@json_option("Print an array of objects, with all that is known.")
def command(name: str, as_json: bool) -> int:
    """Print all endpoints, or the documented facts about one."""
    if name and name not in endpoints():
        raise InputError(f"there is no endpoint {name!r}; known names: {listed(endpoints())}")
    shown = [each for each in endpoints().values() if name in ("", each.name)]
    if as_json:
        print(json.dumps([each.model_dump(mode="json") for each in shown], indent=1, ensure_ascii=False))
    elif name:
        print("\n".join(_details(shown[0])))
    else:
        rows = [(each.name, each.title, each.address, each.key) for each in shown]
        print("\n".join(aligned([("name", "what", "address", "key"), *rows])))
        print("\n`jury endpoints NAME` prints the documented facts about one.")
    return 0


def _details(known: Endpoint) -> Iterator[str]:
    """Yield the lines about one endpoint, one per fact; undocumented facts have none."""
    yield f"{known.title}: --judge.base-url {known.address if known.has_resources else known.name}"
    resource = f" ({RESOURCE}: the name of yours)" if known.has_resources else ""
    facts = [
        ("  address", known.address + resource),
        ("  key", known.key),
        ("  token limit", known.token_limit),
        ("  reply format", known.reply_format),
        ("  pictures", f"{known.pictures:,} a request" if known.pictures else ""),
        ("  tiers", ", ".join(("standard", *known.tiers))),
        ("  limits", known.limits),
        ("  moderation", known.moderation),
        ("  cache", known.caching),
        *zip_longest(["  worth knowing"], known.worth_knowing, fillvalue=""),
        ("  documentation", f"{known.page}, looked up {known.looked_up}"),
    ]
    yield from aligned([(fact, words) for fact, words in facts if words])
