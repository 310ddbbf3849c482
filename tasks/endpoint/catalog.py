"""Endpoints with a short name, from `known.toml`, and the model that commands and docs recommend."""

import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from tasks.errors import InputError, Problems, first_fault
from tasks.records import Record
from tasks.records.judge import EMBEDDED, EMBEDDED_MODEL, FLEX_WAITS, Judge
from tasks.records.parameters import Parameters, Probe
from tasks.text import listed

TABLE = Path(__file__).with_name("known.toml")
RECOMMENDED_MODEL, RECOMMENDED_ENDPOINT = "gpt-6.1-terra", "openai"
"""Model that documentation, help and demo name as a judge, and the short name of its endpoint."""
RESOURCE = "RESOURCE"
"""Placeholder in an address for a name that differs for each user."""

CacheField = Literal["prompt_cache_key", "prompt_cache_breakpoint", "cache_control"]

P = TypeVar("P", bound=Parameters | Probe)
R = TypeVar("R", bound=Record)


class Endpoint(Record):
    """Documented facts about one endpoint, as of the day they were looked up; empty or 0 if undocumented."""

    name: str = Field(pattern="^[a-z][a-z0-9]*$")
    title: str = Field(min_length=1)
    address: str = Field(pattern=r"^https?://[^/\s]+(/[^/\s]+)*$")
    """URL without a slash at its end. Plain http: a server on the user's own machine, at its usual port."""
    key: str = Field(default="", pattern="^[A-Z][A-Z0-9_]*$|^$")
    """Environment variable that usually holds the key."""
    token_limit: Literal["max_completion_tokens", "max_tokens"]
    """Name of the parameter that limits reply tokens."""
    reply_format: Literal["json_schema", "json_object", "plain"]
    """Strictest reply format that is promised."""
    pictures: int = Field(default=0, ge=0)
    """Most pictures in one request."""
    tiers: tuple[Literal["flex", "batch"], ...] = ()
    """Service tiers besides standard, requested by the field (flex) or the endpoint (batch) of OpenAI's API."""
    limits: str = ""
    """Signs that calls are too many."""
    moderation: str = ""
    """Signs that a question or a reply is not allowed."""
    worth_knowing: tuple[str, ...] = ()
    """Ignored or refused parameters, and other surprises."""
    caches: Literal["", "yes", "no"] = ""
    """`yes` if a cache serves prefixes of earlier requests."""
    caching: str = ""
    """Terms of the cache, or the reason why there is none."""
    cache_fields: tuple[CacheField, ...] = ()
    """Fields by which a request may mark the prefix that it shares with others."""
    on_cut_input: str = ""
    """Advice if the server cuts questions longer than its context."""
    page: str = Field(pattern="^https://")
    looked_up: date

    @property
    def is_local(self) -> bool:
        """Return whether users run this server themselves."""
        return self.address.startswith("http://")

    @property
    def has_resources(self) -> bool:
        """Return whether every user has an address of their own."""
        return RESOURCE in self.address

    def stands_at(self, base_url: str) -> bool:
        """Return whether an address belongs to this endpoint: by its host, or by its port if users run the server."""
        found, own = urlsplit(base_url), urlsplit(self.address)
        if self.is_local:
            return found.netloc.endswith(f":{own.port}")
        if self.has_resources:
            return (found.hostname or "").endswith((own.hostname or "").removeprefix(RESOURCE.lower()))
        return found.hostname == own.hostname


@cache
def endpoints() -> dict[str, Endpoint]:
    """Return short name -> endpoint, in display order."""
    return read_tables(TABLE, Endpoint)


def known_at(base_url: str) -> Endpoint | None:
    """Return the known endpoint at an address; None for any other server."""
    return next((each for each in endpoints().values() if each.stands_at(base_url)), None)


def judge_named(name: str) -> dict[str, str]:
    """Return endpoint and model of a judge's short name, such as `openai/gpt-6.1-terra`, as fields of a `Judge`.

    `embedded` alone is the embedded judge.

    Raises:
        InputError: the part before the first slash is no known endpoint, or there is no model behind it.
    """
    endpoint, _, model = name.partition("/")
    if name == EMBEDDED:
        model = EMBEDDED_MODEL
    if not model or endpoint not in (EMBEDDED, *endpoints()):
        raise InputError(
            f"judge {name!r} names no known endpoint before its model: write ENDPOINT/MODEL, such as "
            f"{RECOMMENDED_ENDPOINT}/{RECOMMENDED_MODEL} (known endpoints: {listed(endpoints())}), or `embedded`, the "
            "pixel judge; or give judge.base_url, the address of any other server, and judge.model"
        )
    return {"base_url": endpoint, "model": model}


def addressed(asked: P) -> P:
    """Return the parameters with the judge's address in its one spelling, and with the waits of its tier.

    An address takes the place of a short name, and loses a slash at its end, so that keys and series stay one.

    Raises:
        InputError: the name is unknown, or each user has an own address; model and address do not fit; no such tier.
    """
    name = asked.judge.base_url
    if name == EMBEDDED and asked.judge.api_key_env:
        raise InputError(
            "judge.api_key_env is given, and the embedded judge needs no key: set judge.base_url and judge.model to "
            "the judge that is meant, or leave it out"
        )
    address = _address(name) if name.isalnum() and name != EMBEDDED else name.rstrip("/")
    if name != EMBEDDED and asked.judge.model == EMBEDDED_MODEL:  # the default of a field that nobody filled in
        raise InputError(
            f"judge.base_url is {name!r}, and judge.model names no model there: set it to one that sees pictures, by "
            f"the name that {address}/models lists"
        )
    judge = in_its_tier(asked.judge if address == name else asked.judge.model_copy(update={"base_url": address}))
    return asked if judge is asked.judge else asked.model_copy(update={"judge": judge})


def in_its_tier(judge: Judge) -> Judge:
    """Return the judge with its tier's waits in place of default ones; a form sends defaults, too.

    Raises:
        InputError: `known.toml` has no such tier of the endpoint.
    """
    if judge.service_tier == "standard":
        return judge
    known = known_at(judge.base_url)
    if not known or judge.service_tier not in known.tiers:
        raise InputError(f"judge.service_tier is {judge.service_tier!r}: {_without_tier(judge, known)}")
    if judge.service_tier != "flex":
        return judge
    usual = {name: Judge.model_fields[name].default for name in FLEX_WAITS}
    waits = {name: wait for name, wait in FLEX_WAITS.items() if getattr(judge, name) == usual[name]}
    return judge.model_copy(update=waits) if waits else judge


def _without_tier(judge: Judge, known: Endpoint | None) -> str:
    """Return a message: why the tier is missing, which endpoints have it, and what to do."""
    here = (
        f"{known.title} does not document it"
        if known
        else f"the service tiers of the endpoint {judge.base_url} are unknown"
    )
    having = [each.title for each in endpoints().values() if judge.service_tier in each.tiers]
    return f"{here}; it is available from {', '.join(having)}. Leave judge.service_tier out for the standard price"


def usual_keys() -> dict[str, set[str]]:
    """Return host -> the usual name of its key, for hosts that are the same for every user."""
    hosts = [each for each in endpoints().values() if each.key and not (each.is_local or each.has_resources)]
    return {urlsplit(each.address).hostname or "": {each.key} for each in hosts}


def _address(name: str) -> str:
    known = endpoints().get(name)
    if not known:
        raise InputError(
            f"judge.base_url {name!r} is no address: allowed are `embedded`, http://… and https://…, and the short "
            f"names that `jury judge endpoints` lists: {listed(endpoints())}"
        )
    if known.has_resources:
        raise InputError(
            f"judge.base_url {name!r}: every user of {known.title} has an address of their own. Write {known.address} "
            f"with the name of your resource in the place of {RESOURCE}; the worker lets your key go there with "
            f"JURY_ENDPOINTS={urlsplit(known.address).netloc}={known.key}"
        )
    return known.address


def read_tables(file: Path, record: type[R]) -> dict[str, R]:
    """Return name -> its table in a TOML file as a record with that name in its field `name`, in file order.

    Raises:
        InputError: the file is not TOML, or tables are invalid; the first fault of each is listed.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file} is not TOML: {error}") from error
    problems, found = Problems(), dict[str, R]()
    for name, table in tables.items():
        if not isinstance(table, dict):
            problems.add(name, f"found {table!r}; allowed is a table")
            continue
        try:
            found[name] = record.model_validate({**table, "name": name})
        except ValidationError as error:
            problems.add(name, first_fault(error))
    problems.stop(str(file))
    return found
