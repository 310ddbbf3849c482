"""Which key goes to which host, and where it is found.

Owns the rule that a key, or a header's value, goes only to a host it is listed for, and over https unless that is this
machine: whoever fills in a form must not be able to send the worker's secrets elsewhere. They are read here when a run
starts, and kept by the client alone. What there is beside the environment to look in, whoever runs the judge provides.
"""

import ipaddress
import os
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from tasks.endpoint.known import usual_keys
from tasks.errors import JudgeStopped
from tasks.parameters import EMBEDDED, Judge
from tasks.text import one_line

LISTED = usual_keys()
"""Hosts that may receive a key without being listed in JURY_ENDPOINTS."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")

Secret = Callable[[str], Awaitable[str]]
"""Gives the text kept under a name; raises LookupError where there is none, in words that go on from "… and"."""


async def no_secret(name: str) -> str:
    """Where nothing but the environment keeps secrets."""
    raise LookupError(f"nowhere else to look for {name}")


async def find_key(judge: Judge, secret: Secret = no_secret) -> str:
    """The key for the judge's host, from the environment or else a secret; "" where none is needed.

    Args:
        secret: asked for `block_name` of the key's name.

    Raises:
        JudgeStopped: the named key may not go to the host, it is found in neither place, or what is found is no key.
            The sentence names both places and never holds the key.
    """
    name = "" if judge.base_url == EMBEDDED else _key_name(judge)
    return await _found(judge, name, f"key {name}", secret) if name else ""


async def find_headers(judge: Judge, secret: Secret = no_secret) -> dict[str, str]:
    """The headers of `judge.headers` with their values, found like the key.

    Raises:
        JudgeStopped: as for a key.
    """
    if judge.base_url == EMBEDDED:
        return {}
    named = {header: (name, f"value {name} of the header {header}") for header, name in judge.headers.items()}
    return {header: await _found(judge, name, what, secret) for header, (name, what) in named.items()}


def is_loopback(host: str) -> bool:
    """Whether a host, as it stands in an address, is this machine."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(host: str) -> bool:
    """Whether a host is a number and no name."""
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def listed_keys(endpoints: str) -> dict[str, set[str]]:
    """Host -> names of the keys it may receive, from `host=KEY_NAME,…` and the built-in list.

    Raises:
        JudgeStopped: an entry is not of that form.
    """
    hosts = {host: set(names) for host, names in LISTED.items()}
    for entry in filter(None, (part.strip() for part in endpoints.split(","))):
        host, _, name = (part.strip() for part in entry.partition("="))
        bare = _bare(host)
        if not bare or not _NAME.fullmatch(name):  # It stays unsaid: it may be a key, put where its name belongs.
            raise JudgeStopped(
                f"JURY_ENDPOINTS: what stands for {bare or 'a host'} does not read host=KEY_NAME, with the name of an "
                "environment variable or Secret block, which has letters, digits, _ and -"
            )
        hosts.setdefault(bare, set()).add(name)
    return hosts


def _bare(host: str) -> str:
    """The host of an entry, in lower case and without brackets.

    Raises:
        JudgeStopped: it is no host alone: nothing would ever match it.
    """
    bare = host.lower().removeprefix("[").removesuffix("]")
    if not bare or _HOST.fullmatch(bare) or is_address(bare):
        return bare
    meant = urlsplit(host if "://" in host else f"//{host}").hostname or "host"
    raise JudgeStopped(
        f"JURY_ENDPOINTS lists a key for {one_line(host)!r}, which is no host alone: write {one_line(meant)}=KEY_NAME, "
        "without scheme, port and path"
    )


def block_name(name: str) -> str:
    """Name of the Secret block for a key's name: blocks take lower-case letters, digits and dashes."""
    return name.lower().replace("_", "-")


def _key_name(judge: Judge) -> str:
    """Name of the key: the one that is set, else the one listed for the host; "" where there is none."""
    listed = _listed(judge) - {*judge.headers.values()}
    keys = sorted(listed - LISTED.get(_host(judge), set()) or listed)  # what the worker lists goes before what is usual
    if judge.api_key_env or len(keys) < 2:
        return judge.api_key_env or "".join(keys)
    raise JudgeStopped(f"{_host(judge)} has several keys listed: set judge.api_key_env to one of {', '.join(keys)}")


async def _found(judge: Judge, name: str, what: str, secret: Secret) -> str:
    """What is kept under a name, once it is sure that it may go to the judge."""
    _check_may_go(judge, name, what)
    host = _host(judge)
    try:
        # A file or a form easily adds a line break, which no header takes and whose refusal would quote the key.
        value = os.environ.get(name, "").strip() or (await secret(block_name(name))).strip()
    except LookupError as nowhere:
        raise JudgeStopped(
            f"The {what} for {host} is not set: there is no environment variable {name}, and {nowhere}; set it with "
            f"`export {name}=…` before `jury` is started"
        ) from None
    if not (value and value.isascii() and value.isprintable()):
        raise JudgeStopped(f"The {what} for {host} is empty or holds characters other than printable ASCII")
    return value


def _check_may_go(judge: Judge, name: str, what: str) -> None:
    host, listed = _host(judge), _listed(judge)
    if name not in listed:
        allowed = f"listed for it: {', '.join(sorted(listed))}" if listed else "no key is listed for it"
        raise JudgeStopped(
            f"The {what} may not go to {host}: {allowed}. "
            f"Whoever runs the worker allows it with JURY_ENDPOINTS={host}={name}"
        )
    if not judge.base_url.startswith("https:") and not is_loopback(host):
        raise JudgeStopped(
            f"The {what} may not go to {host} over http, where everyone on the way can read it: begin judge.base_url "
            "with https://, or reach the server through a tunnel to this machine"
        )


def _listed(judge: Judge) -> set[str]:
    return listed_keys(os.environ.get("JURY_ENDPOINTS", "")).get(_host(judge), set())


def _host(judge: Judge) -> str:
    return urlsplit(judge.base_url).hostname or ""
