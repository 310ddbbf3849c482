"""API keys, the hosts that may receive them, and their removal from responses."""

import ipaddress
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from tasks.endpoint.catalog import endpoints, usual_keys
from tasks.errors import JudgeStopped
from tasks.records.judge import EMBEDDED, Judge, is_like_a_key
from tasks.records.parameters import ROOTS, roots
from tasks.text import one_line

ENDPOINTS = "JURY_ENDPOINTS"
"""Environment variable of the worker: comma-separated entries such as `judge.example:8443=KEY_NAME`."""
USUAL_PORTS = {"https": 443, "http": 80}

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::([0-9]{1,5}))?")

Secret = Callable[[str], Awaitable[str]]
"""Lookup of the text stored under a name; raises LookupError, with words that continue "… and", if there is none."""


class Place(NamedTuple):
    """A host and its port."""

    host: str
    port: int | None = None
    """Port number; None means the usual port of the address's scheme."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


async def no_secret(name: str) -> str:
    """Raise LookupError: only the environment stores secrets."""
    raise LookupError(f"nowhere else to look for {name}")


async def find_key(judge: Judge, secret: Secret = no_secret) -> str:
    """Return the key for the judge's host, from the environment or else a secret; "" if none is needed.

    Raises:
        JudgeStopped: this worker may not call the judge, the named key may not go to the host, or the key is missing.
            The message never contains the key.
    """
    if judge.base_url == EMBEDDED:
        return ""
    _check_fence(judge)
    name = _key_name(judge)
    return await _found(judge, name, f"key {name}", secret) if name else ""


async def find_headers(judge: Judge, secret: Secret = no_secret) -> dict[str, str]:
    """Return the headers of `judge.headers` with their values, which are looked up like the key."""
    if judge.base_url == EMBEDDED:
        return {}
    return {
        header: await _found(judge, name, f"value {name} of the header {header}", secret)
        for header, name in judge.headers.items()
    }


def is_loopback(host: str) -> bool:
    """Return whether the host of an address is this machine."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def listed_keys(entries: str) -> dict[Place, set[str]]:
    """Return the names of the keys that each host and port may receive, from `JURY_ENDPOINTS` and the known endpoints.

    An entry is `host:port=KEY_NAME` or, for a host without a key, `host:port`. The port defaults to the usual one.
    """
    found = {Place(host): set(names) for host, names in usual_keys().items()}
    for entry in _entries(entries):
        text, equals, name = (part.strip() for part in entry.partition("="))
        place = _place(text)
        # Not quoted: the text may be a key in place of its name.
        if equals and (not _NAME.fullmatch(name) or is_like_a_key(name)):
            raise JudgeStopped(
                f"{ENDPOINTS}: the entry for {place} does not read host:port=KEY_NAME, with the name of an environment "
                "variable or Secret block, which has letters, digits, _ and -"
            )
        found.setdefault(place, set()).update([name] if name else [])
    return found


def key_names() -> set[str]:
    """Return the names of all keys that any judge may receive: variables that no other process of ours needs."""
    usual = {each.key for each in endpoints().values() if each.key}
    return usual.union(*listed_keys(os.environ.get(ENDPOINTS, "")).values())


def _entries(text: str) -> list[str]:
    return [entry for part in text.split(",") if (entry := part.strip())]


def _place(text: str) -> Place:
    """Return the host and port of an entry; raise JudgeStopped if the text is anything else."""
    text = text.lower()
    if is_address(text):  # IPv6 without its brackets
        return Place(text)
    found = _PLACE.fullmatch(text)
    port = int(found[2]) if found and found[2] else None
    if found and port != 0 and (port or 0) < 2**16:
        return Place(found[1].strip("[]"), port)
    if not text:
        raise JudgeStopped(f"{ENDPOINTS}: an entry names no host; it reads host:port=KEY_NAME")
    raise JudgeStopped(
        f"{ENDPOINTS} lists {one_line(text)!r}, which is no host with its port: write host:port=KEY_NAME, without "
        "scheme and path"
    )


def _key_name(judge: Judge) -> str:
    """Return the name of the key: `judge.api_key_env`, else the one listed for the host; "" if there is none."""
    usual = usual_keys().get(_place_of(judge).host, set())
    listed = (_listed(judge) or set()) - {*judge.headers.values()}
    keys = sorted(listed - usual or listed)  # names that the worker lists override the usual name
    if judge.api_key_env or len(keys) < 2:
        return judge.api_key_env or "".join(keys)
    raise JudgeStopped(f"{_place_of(judge)} has several keys listed: set judge.api_key_env to one of {', '.join(keys)}")


async def _found(judge: Judge, name: str, what: str, secret: Secret) -> str:
    """Return the value stored under a name, after checking that the judge may receive it."""
    _check_may_go(judge, name, what)
    place = _place_of(judge)
    block = name.lower().replace("_", "-")  # names of Secret blocks have lower-case letters, digits and dashes
    try:
        # Files and forms easily add a line break. Headers refuse it, and the error would quote the key.
        value = os.environ.get(name, "").strip() or (await secret(block)).strip()
    except LookupError as nowhere:
        raise JudgeStopped(
            f"The {what} for {place} is not set: there is no environment variable {name}, and {nowhere}; set it with "
            f"`export {name}=…` before `jury` is started"
        ) from None
    if not (value and value.isascii() and value.isprintable()):
        raise JudgeStopped(f"The {what} for {place} is empty or holds characters other than printable ASCII")
    return value


def no_key_words(judge: Judge) -> str:
    """Return how to give a judge a key, if none is sent to it; empty: one is, or a header that may be one."""
    if _key_name(judge) or judge.headers:
        return ""
    return f"; no key was sent: list its name with {_with(f'{_place_of(judge)}=KEY_NAME')}"


def _check_may_go(judge: Judge, name: str, what: str) -> None:
    place, listed = _place_of(judge), _listed(judge) or set()
    if name not in listed:
        allowed = f"listed for it: {', '.join(sorted(listed))}" if listed else "no key is listed for it"
        raise JudgeStopped(
            f"The {what} may not go to {place}: {allowed}. "
            f"The operator of the worker allows it with {_with(f'{place}={name}')}"
        )
    if not judge.base_url.startswith("https:") and not is_loopback(place.host):
        raise JudgeStopped(
            f"The {what} may not go to {place} over http, where everyone on the way can read it: begin judge.base_url "
            "with https://, or reach the server through a tunnel to this machine"
        )


def _check_fence(judge: Judge) -> None:
    """Check that the judge of a fenced worker is a known or listed endpoint: it receives data from within the fence."""
    if roots() and _listed(judge) is None:
        place = _place_of(judge)
        raise JudgeStopped(
            f"The judge at {judge.base_url} may not be asked: {ROOTS} is set, so that a judge is embedded, a known "
            f"endpoint or a listed host, and {place} is none of these. The operator of the worker allows it with "
            f"{_with(str(place))}, or with its key {place}=KEY_NAME"
        )


def _with(entry: str) -> str:
    """Return the variable's assignment with one more entry."""
    return f"{ENDPOINTS}={','.join([*_entries(os.environ.get(ENDPOINTS, '')), entry])}"


def _listed(judge: Judge) -> set[str] | None:
    """Return the names of the keys that may go to the judge's host and port; None if these are not listed."""
    listed, place = listed_keys(os.environ.get(ENDPOINTS, "")), _place_of(judge)
    usual = USUAL_PORTS[urlsplit(judge.base_url).scheme]
    same = {place, place._replace(port=usual)} if place.port is None else {place}
    found = [listed[each] for each in same if each in listed]
    return set[str]().union(*found) if found else None


def _place_of(judge: Judge) -> Place:
    """Return the host and port of the judge's address; the usual port becomes None."""
    parts = urlsplit(judge.base_url)
    usual = parts.port in (None, USUAL_PORTS[parts.scheme])
    return Place(parts.hostname or "", None if usual else parts.port)


MASKED = b"[key]"
_LONG, _SHORT = 16, 8
"""Least length of a secret: of any value, and of a value with a digit."""
_RUN = re.compile(r"\\+|.", re.DOTALL)
"""A character of a value. A run of backslashes counts as one, since its length depends on the levels of escaping."""


class Mask:
    """The judge's key and the values of its headers, found in any form that JSON can give them."""

    def __init__(self, values: Iterable[str]) -> None:
        """Store the values to be removed, without empty ones."""
        given = sorted(filter(None, values), key=len, reverse=True)  # longest first: one may begin with another
        self._secrets = [_escaped(value) for value in given if _is_secret(value)]
        self._values = given

    def body(self, body: bytes) -> bytes:
        """Return a body without the secrets. Values as short as a word are kept: they may be words of the answer."""
        for secret in self._secrets:
            body = secret.sub(MASKED, body)
        return body

    def words(self, words: str) -> str:
        """Return an error message without any of the values, however short."""
        for value in self._values:
            words = words.replace(value, MASKED.decode())
        return words


def _is_secret(value: str) -> bool:
    return len(value) >= (_SHORT if any(sign.isdigit() for sign in value) else _LONG)


def _escaped(value: str) -> re.Pattern[bytes]:
    """Return a pattern of a value as it is, in JSON, and in JSON within JSON, with any of its characters escaped."""
    return re.compile(b"".join(_sign(run[0]) for run in _RUN.findall(value)))


def _sign(sign: str) -> bytes:
    # Backslashes are bounded, for a body may consist of them; four levels of JSON have fifteen.
    escaped = rb"\\{1,15}+u00(?i:%02x)" % ord(sign)
    if sign == "\\":
        return rb"(?:%b|\\{1,15}+)" % escaped
    plain = re.escape(sign).encode()
    return rb"(?:%b|%b%b)" % (escaped, rb"\\{0,15}+" if sign in '"/' else b"", plain)
