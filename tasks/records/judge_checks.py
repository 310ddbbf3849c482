"""Checks of a judge's settings before anything is sent: its address, its key, and what a call holds besides."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from tasks.errors import InputError

OWN_ARGUMENTS = {
    *("model", "messages", "max_completion_tokens", "max_tokens", "temperature", "reasoning_effort", "seed"),
    *("response_format", "stream", "n"),
}
"""Fields of a call's body that the program sets itself."""
OWN_HEADERS = {
    *("authorization", "host", "content-length", "content-type", "content-encoding", "accept", "accept-encoding"),
    *("connection", "transfer-encoding", "proxy-authorization"),
}
"""Headers that the program sends itself, in lower case."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = re.compile(r"[A-Za-z0-9_-]+")
_LIKE_A_KEY = re.compile(r"(sk|gsk|xai|hf|pk|AIza)[-_]?\w[\w-]{15}|(?=\w*[a-z])(?=\w*\d)\w{32}")
"""Beginnings of providers' keys, and long mixtures of letters and digits; names of variables are in capitals."""


def read_object(given: Any) -> Any:
    """Parse JSON text, since a command line has no other way to give an object."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError('Input should be a JSON object, such as {"top_k": 1}')
    return found  # pyright: ignore[reportUnknownVariableType]


def check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a call's body; InputError if the program sends one itself, or no JSON holds them."""
    if own := sorted(OWN_ARGUMENTS & extra.keys()):
        raise InputError(
            f"judge.extra holds {', '.join(own)}, which the program sends or leaves out by itself: take it out"
        )
    try:
        json.dumps(extra, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"judge.extra holds what no JSON does: {error}") from None
    return extra


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return header -> name of its secret; InputError if the program sends one itself, or a name is none."""
    for name, secret in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise InputError(
                f"judge.headers holds {name!r}, which is no name of a header or one that the program sends itself"
            )
        if not _SECRET.fullmatch(secret):  # It is not quoted: it may be a key in the place of its name.
            raise InputError(
                f"judge.headers: what stands for {name} is no name of an environment variable or Secret block, "
                "which have letters, digits, _ and -; the value itself is never given here"
            )
    return headers


def check_key_name(name: str) -> None:
    """Raise InputError, without quoting it, if a key stands in the place of its name."""
    if _LIKE_A_KEY.match(name):
        raise InputError(
            "judge.api_key_env holds what looks like a key: it takes the name of the variable or Secret block that "
            "holds the key, such as OPENAI_API_KEY; replace a key that was put into a form"
        )


def check_prices(price_in: float, price_out: float, price_of_cache: float) -> None:
    """Raise InputError if a price is given without one that it needs."""
    if price_of_cache and not price_in:
        raise InputError("judge.price_cached and judge.price_written need judge.price_in beside them")
    if bool(price_in) != bool(price_out):
        given, lacking = ("in", "out") if price_in else ("out", "in")
        raise InputError(
            f"judge.price_{given} is given and judge.price_{lacking} is not, so that part of each call would count "
            "as free: give both, or none for the table of public prices"
        )


def check_address(base_url: str) -> None:
    """Raise InputError if an address is neither a short name nor a plain one of an API."""
    if base_url.isalnum():  # a short name, which `endpoint.catalog` looks up when a run begins
        return
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise InputError(f"judge.base_url {base_url!r} is no address: allowed are `embedded`, http://… and https://…")
    if "api-version" in parts.query or "/openai/deployments/" in parts.path:
        raise InputError(
            "judge.base_url is the older address of Azure OpenAI, which takes other requests: set it to "
            f"https://{parts.hostname}/openai/v1, without a query, and judge.model to the name of the deployment"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            "judge.base_url must hold no user, password, query or fragment: a key is named in judge.api_key_env"
        )
