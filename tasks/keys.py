"""Which key goes to which host, and where it is found.

Owns the rule that a key goes only to a host it is listed for: whoever fills in a form must not be able to send the
worker's secrets elsewhere. A key is read here when a run starts, and kept by the client alone.
"""

import os
import sys
from urllib.parse import urlsplit

from tasks.parameters import EMBEDDED, Judge
from tasks.records import JudgeStopped

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
LISTED = {"api.openai.com": {"OPENAI_API_KEY"}}
"""Hosts that may receive a key without being listed in JURY_ENDPOINTS; loopback may receive any that is named."""


def find_key(judge: Judge) -> str:
    """The key for the judge's host, from the environment or else a Prefect Secret block; "" where none is needed.

    Raises:
        JudgeStopped: the named key is not listed for the host (whoever fills in a form must not be able to send the
            worker's secrets elsewhere), or it is listed and not set.
    """
    host = urlsplit(judge.base_url).hostname or ""
    listed = listed_keys(os.environ.get("JURY_ENDPOINTS", "")).get(host, set())
    name = judge.api_key_env or (min(listed) if len(listed) == 1 else "")
    if judge.base_url == EMBEDDED or not (name or listed):
        return ""
    if not name:
        raise JudgeStopped(f"{host} has several keys listed: set api_key_env to one of {', '.join(sorted(listed))}")
    if name not in listed and host not in LOOPBACK:
        allowed = f"listed for it: {', '.join(sorted(listed))}" if listed else "no key is listed for it"
        raise JudgeStopped(
            f"The key {name} may not go to {host}: {allowed}. "
            f"Whoever runs the worker allows it with JURY_ENDPOINTS={host}={name}"
        )
    key = os.environ.get(name) or _secret_block(name)
    if not key:
        raise JudgeStopped(
            f"The key {name} for {host} is not set: "
            f"export it, or create a Prefect Secret block named {block_name(name)}"
        )
    return key


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


def _secret_block(name: str) -> str:
    if not ("PREFECT_API_URL" in os.environ or "prefect" in sys.modules):
        return ""  # No server is there to be asked, and none is started for a question.
    from prefect.blocks.system import Secret

    try:
        return str(Secret.load(block_name(name), _sync=True).get())  # pyright: ignore
    except Exception:  # There is no such block, or no server to ask for it.
        return ""
