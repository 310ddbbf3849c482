"""Which key goes to which host, and where it is found.

Owns the rule that a key goes only to a host it is listed for: whoever fills in a form must not be able to send the
worker's secrets elsewhere. A key is read here when a run starts, and kept by the client alone. What there is beside the
environment to look in, whoever runs the judge provides.
"""

import os
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from tasks.endpoint.known import usual_keys
from tasks.errors import JudgeStopped
from tasks.parameters import EMBEDDED, Judge

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
LISTED = usual_keys()
"""Hosts that may receive a key without being listed in JURY_ENDPOINTS; loopback may receive any that is named."""


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
        JudgeStopped: the named key is not listed for the host, it is found in neither place, or what is found is no
            key. The sentence names both places and never holds the key.
    """
    host = urlsplit(judge.base_url).hostname or ""
    name = _key_name(judge, host)
    if not name:
        return ""
    try:
        # A file or a form easily adds a line break, which no header takes and whose refusal would quote the key.
        key = os.environ.get(name, "").strip() or (await secret(block_name(name))).strip()
    except LookupError as nowhere:
        raise JudgeStopped(
            f"The key {name} for {host} is not set: there is no environment variable {name}, and {nowhere}"
        ) from None
    if not (key and key.isascii() and key.isprintable()):
        raise JudgeStopped(f"The key {name} for {host} is empty or holds characters other than printable ASCII")
    return key


def _key_name(judge: Judge, host: str) -> str:
    """Name of the key that goes to the host; "" where none is needed."""
    listed = listed_keys(os.environ.get("JURY_ENDPOINTS", "")).get(host, set())
    own = listed - LISTED.get(host, set()) or listed  # what the worker lists goes before what is usual
    name = judge.api_key_env or (min(own) if len(own) == 1 else "")
    if judge.base_url == EMBEDDED or not (name or listed):
        return ""
    if not name:
        raise JudgeStopped(
            f"{host} has several keys listed: set judge.api_key_env to one of {', '.join(sorted(listed))}"
        )
    if name not in listed and host not in LOOPBACK:
        allowed = f"listed for it: {', '.join(sorted(listed))}" if listed else "no key is listed for it"
        raise JudgeStopped(
            f"The key {name} may not go to {host}: {allowed}. "
            f"Whoever runs the worker allows it with JURY_ENDPOINTS={host}={name}"
        )
    return name


def listed_keys(endpoints: str) -> dict[str, set[str]]:
    """Host -> names of the keys it may receive, from `host=KEY_NAME,…` and the built-in list.

    Raises:
        JudgeStopped: an entry is not of that form.
    """
    hosts = {host: set(names) for host, names in LISTED.items()}
    for entry in filter(None, (part.strip() for part in endpoints.split(","))):
        host, _, name = entry.partition("=")
        if not host or not name:
            raise JudgeStopped(f"JURY_ENDPOINTS holds {entry!r}; each entry must read host=KEY_NAME")
        hosts.setdefault(host.strip().lower(), set()).add(name.strip())
    return hosts


def block_name(name: str) -> str:
    """Name of the Secret block for a key's name: blocks take lower-case letters, digits and dashes."""
    return name.lower().replace("_", "-")
