"""Settings of a judge, as a command, a form or a deployment gives them, and their checks before anything is sent."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from tasks.errors import InputError
from tasks.records.terms import Record, number_fields

EMBEDDED = "embedded"
EMBEDDED_MODEL = "pixel-baseline"
Tier = Literal["standard", "flex", "batch"]
FLEX_WAITS = {"timeout_seconds": 900.0, "call_seconds": 1800.0, "patience_seconds": 3600.0}
"""Waits of a judge in the tier flex, in place of unchanged defaults: calls of that tier are queued."""
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
        if not _SECRET.fullmatch(secret) or is_like_a_key(secret):  # Not quoted: it may be a key in place of its name.
            raise InputError(
                f"judge.headers: what stands for {name} is no name of an environment variable or Secret block, "
                "which have letters, digits, _ and -; the value itself is never given here"
            )
    return headers


def is_like_a_key(text: str) -> bool:
    """Return whether a text is like a key itself, where the name of one belongs."""
    return _LIKE_A_KEY.match(text) is not None


def check_prices(price_in: float | None, price_out: float | None, of_cache: Sequence[float | None]) -> None:
    """Raise InputError if a price is given without one that it needs."""
    if price_in is None and any(price is not None for price in of_cache):
        raise InputError("judge.price_cached and judge.price_written need judge.price_in beside them")
    if (price_in is None) != (price_out is None):
        given, lacking = ("out", "in") if price_in is None else ("in", "out")
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
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise InputError("judge.base_url ends in /chat/completions, which each call adds: leave that out")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(
            "judge.base_url must hold no user, password, query or fragment: a key is named in judge.api_key_env"
        )


class Judge(Record):
    """A model behind an endpoint that speaks the OpenAI API."""

    model_config = ConfigDict(json_schema_extra=number_fields, use_attribute_docstrings=True)

    model: str = Field(default=EMBEDDED_MODEL, min_length=1)
    """Model that judges, by the endpoint's name for it."""
    base_url: str = EMBEDDED
    """Address of the API or a short name such as openai; "embedded": the pixel judge, no model."""
    # The pattern is for forms alone: a message of Pydantic would quote a key.
    api_key_env: str = Field(default="", json_schema_extra={"pattern": r"^[A-Za-z0-9_-]*$"})
    """Name (not value) of the variable or Secret block with the key; empty: as JURY_ENDPOINTS lists."""
    temperature: float = Field(default=1.0, ge=0, le=2)
    """Sampling temperature; 1.0 is the published setting."""
    service_tier: Tier = "standard"
    """flex: cheaper, slower, with longer waits; batch: cheaper, within hours. Not everywhere."""
    effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = ""
    """How much a model reasons before it replies; empty: as it does by itself."""
    seed: int | None = Field(default=None, ge=0)
    """Seed of the sampling; further votes take those after it. Empty: none."""
    max_output_tokens: int = Field(default=10_000, ge=16)
    """Longest reply, in tokens."""
    extra: Annotated[dict[str, Any], BeforeValidator(read_object), AfterValidator(check_extra)] = Field(default={})
    """Sent besides in the body of every call, as a JSON object: {"top_k": 1}."""
    headers: Annotated[dict[str, str], BeforeValidator(read_object), AfterValidator(check_headers)] = Field(default={})
    """Headers, with names of variables or Secret blocks for their values: {"X-Team": "TEAM_NAME"}."""
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600)
    """Longest time of one reply, from the first byte sent to the last received."""
    call_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """How long a call is asked again while the judge is too busy for it alone."""
    patience_seconds: float = Field(default=900.0, ge=0, le=86_400)
    """How long a run waits for a judge that answers no call, before it stops."""
    concurrency: int = Field(default=16, ge=1, le=1024)
    """Most calls in flight at once."""
    detail: Literal["auto", "low", "high"] = "auto"
    """How finely the judge looks at pictures."""
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a million input tokens; empty: that of the table of public prices."""
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a million output tokens; given with price_in."""
    price_cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a million input tokens read from a cache; empty: as price_in."""
    price_written: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a million input tokens written to a cache; empty: as price_in."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        name = self.api_key_env
        if name and (not _SECRET.fullmatch(name) or is_like_a_key(name)):  # a key is not quoted
            raise InputError(
                "judge.api_key_env holds no name, or what looks like a key: it takes the name of the variable or "
                "Secret block that holds the key, such as OPENAI_API_KEY; replace a key that was put into a form"
            )
        check_prices(self.price_in, self.price_out, (self.price_cached, self.price_written))
        if self.base_url != EMBEDDED:
            check_address(self.base_url)
        elif self.model != EMBEDDED_MODEL:
            raise InputError(
                f"judge.model is {self.model!r} and needs an address, the embedded judge is {EMBEDDED_MODEL!r}: "
                "set judge.base_url to a short name, such as openai (`jury judge endpoints` lists them), or to an "
                "address, such as http://localhost:8000/v1"
            )
        return self

    @property
    def asked_besides(self) -> dict[str, str]:
        """Return the given settings of every call that not all judges need; they are part of each call's key."""
        objects = {"extra": self.extra, "headers": self.headers}
        return {
            **({"effort": self.effort} if self.effort else {}),
            **{name: json.dumps(each, sort_keys=True, ensure_ascii=False) for name, each in objects.items() if each},
            **({} if self.seed is None else {"seed": str(self.seed)}),
        }
