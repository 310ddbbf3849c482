"""Settings of a judge, as a command, a form or a deployment gives them."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from tasks.errors import InputError
from tasks.records.forms import number_fields
from tasks.records.judge_checks import (
    check_address,
    check_extra,
    check_headers,
    check_key_name,
    check_prices,
    read_object,
)
from tasks.records.terms import Record

EMBEDDED = "embedded"
EMBEDDED_MODEL = "pixel-baseline"
Tier = Literal["standard", "flex", "batch"]
FLEX_WAITS = {"timeout_seconds": 900.0, "call_seconds": 1800.0, "patience_seconds": 3600.0}
"""Waits of a judge in the tier flex, in place of unchanged defaults: calls of that tier are queued."""


class Judge(Record):
    """A model behind an endpoint that speaks the OpenAI API."""

    model_config = ConfigDict(json_schema_extra=number_fields)

    model: str = Field(
        default=EMBEDDED_MODEL, min_length=1, description="Model that judges, by the endpoint's name for it."
    )
    base_url: str = Field(
        default=EMBEDDED,
        description='Address of the API, or a short name such as openai ("jury judge endpoints" lists them). '
        '"embedded": the pixel judge, which needs no key and no network, and is no model.',
    )
    api_key_env: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_-]*$",
        description="Name (never the value) of the environment variable or Secret block that holds the key; empty: "
        "the one that JURY_ENDPOINTS lists for the host.",
    )
    temperature: float = Field(
        default=1.0, ge=0, le=2, description="Sampling temperature; 1.0 is the published setting."
    )
    service_tier: Tier = Field(
        default="standard",
        description="What calls are bought as, where the endpoint has it. flex: cheaper, slower, with longer waits "
        "(timeout_seconds 900, call_seconds 1800, patience_seconds 3600, unless set to others); batch: cheaper, "
        "within hours.",
    )
    effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = Field(
        default="",
        description="How much a model reasons before it replies; empty: as it does by itself.",
    )
    seed: int = Field(
        default=-1,
        ge=-1,
        description="Seed of the sampling; further votes take those after it. -1: none.",
    )
    max_output_tokens: int = Field(default=10_000, ge=16, description="Longest reply, in tokens.")
    extra: Annotated[dict[str, Any], BeforeValidator(read_object), AfterValidator(check_extra)] = Field(
        default={}, description='Sent besides in the body of every call, as a JSON object: {"top_k": 1}.'
    )
    headers: Annotated[dict[str, str], BeforeValidator(read_object), AfterValidator(check_headers)] = Field(
        default={},
        description="Headers sent besides, as a JSON object: each with the name (never the value) of the environment "
        'variable or Secret block that holds its value, listed for the host as a key is: {"X-Team": "TEAM_NAME"}.',
    )
    timeout_seconds: float = Field(
        default=120.0,
        gt=0,
        le=3600,
        description="Longest time of one reply, from the first byte sent to the last received.",
    )
    call_seconds: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="How long a call is asked again that the judge is always too busy for, while it answers others.",
    )
    patience_seconds: float = Field(
        default=900.0,
        ge=0,
        le=86_400,
        description="How long a run waits for a judge that answers no call, before it stops.",
    )
    concurrency: int = Field(default=16, ge=1, le=1024, description="Most calls in flight at once.")
    detail: Literal["auto", "low", "high"] = Field(
        default="auto", description="How finely the judge looks at pictures."
    )
    price_in: float = Field(
        default=0.0,
        ge=0,
        description="Price of a million input tokens; 0, as price_out is: that of the table of public prices. Both "
        "or none are given.",
    )
    price_out: float = Field(default=0.0, ge=0, description="Price of a million output tokens.")
    price_cached: float = Field(
        default=0.0, ge=0, description="Of those that were read from a cache; 0: as price_in. Needs price_in."
    )
    price_written: float = Field(
        default=0.0, ge=0, description="Of those that were written to a cache; 0: as price_in. Needs price_in."
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        check_key_name(self.api_key_env)
        check_prices(self.price_in, self.price_out, self.price_cached or self.price_written)
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
            **({"seed": str(self.seed)} if self.seed >= 0 else {}),
        }
