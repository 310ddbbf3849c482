"""Habits of the known endpoints, from their documentation: fields, schemas, and the forms of errors and usage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from loopback_replies import Reply, error

LIMIT_HEADERS = {
    f"x-ratelimit-{what}-{of}": value
    for of in ("requests", "tokens")
    for what, value in (("limit", "60"), ("remaining", "59"), ("reset", "1s"))
}
SCHEMA_WORDS = {"allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"}
"""Keywords that no strict schema may contain."""
BOUND_WORDS = {
    *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "multipleOf"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
    *("contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems"),
}
"""More keywords that Azure's strict schemas may not contain."""

ErrorForm = Callable[[int, str, str], Reply]
"""(status, message, name of the offending parameter) -> an error in the endpoint's form."""


# Errors


def openai_error(status: int, words: str, param: str = "") -> Reply:
    return error(status, words, type="invalid_request_error", param=param or None)


def gemini_error(status: int, words: str, _param: str = "") -> Reply:
    """A list with one error."""
    error = {"code": status, "message": words, "status": "INVALID_ARGUMENT", "details": []}
    return Reply([{"error": error}], status)


def openrouter_error(status: int, words: str, _param: str = "") -> Reply:
    return Reply({"error": {"message": words, "code": status, "metadata": {}}}, status)


def vllm_error(status: int, words: str, param: str = "") -> Reply:
    """The form of older versions: fields are not nested in an `error` object."""
    kind = "BadRequestError" if status == 400 else "InternalServerError"
    return Reply({"object": "error", "message": words, "type": kind, "param": param or None, "code": status}, status)


def litellm_error(status: int, words: str, param: str = "") -> Reply:
    return error(status, words, code=str(status), type="invalid_request_error", param=param or None)


def mistral_error(status: int, words: str, param: str = "") -> Reply:
    """An unknown field is reported by its location, any other error by a message."""
    if status == 422:
        return Reply({"detail": [{"type": "extra_forbidden", "loc": ["body", param], "msg": words}]}, status)
    body = {"object": "error", "message": words, "type": "invalid_request_error", "param": None, "code": "3051"}
    return Reply(body, status)


# Habits of each endpoint


@dataclass(frozen=True)
class Habits:
    """Parameters that an endpoint accepts, and its errors for others."""

    error: ErrorForm = openai_error
    token_limits: tuple[str, ...] = ("max_completion_tokens", "max_tokens")
    """Parameters that limit the length of a reply."""
    ignored: tuple[str, ...] = ()
    """Parameters that are accepted without effect."""
    unknown: int = 0
    """Status of the error for an unknown field; 0: unknown fields are ignored."""
    pictures: int = 0
    """Most pictures in a request; 0: no limit."""
    too_many: str = "Too many images in request."
    schema_words: frozenset[str] | None = None
    """Keywords that its strict schemas may not contain; None: schemas need not be strict."""
    context: int = 0
    """Longest prompt in tokens; a longer one is cut to half as many and two more; 0: no limit."""
    usage: Mapping[str, object] = field(default_factory=dict)
    """Usage fields besides the three token counts."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of every reply."""
    flex_full: Reply | None = None
    """Error when flex processing is full; None: there is no flex tier, and its field is unknown."""


def _strict(*more: str) -> frozenset[str]:
    return frozenset(SCHEMA_WORDS | {*more})


CACHED = {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}

HABITS: dict[str, Habits] = {
    "openai": Habits(
        token_limits=("max_completion_tokens",),
        pictures=1500,
        schema_words=_strict(),
        usage=CACHED,
        headers=LIMIT_HEADERS,
        flex_full=error(429, "Resource unavailable. Please try again later.", "resource_unavailable"),
    ),
    "azure": Habits(
        token_limits=("max_completion_tokens",),
        pictures=50,
        schema_words=_strict(*BOUND_WORDS),
        usage=CACHED,
        headers=LIMIT_HEADERS,
        flex_full=error(429, "Resource unavailable.", "429"),
    ),
    "gemini": Habits(
        error=gemini_error,
        unknown=400,
        pictures=3600,
        flex_full=gemini_error(503, "The model is overloaded. Please try again later."),
    ),
    "anthropic": Habits(
        ignored=("response_format", "seed", "reasoning_effort"),
        pictures=100,
        usage={"prompt_tokens_details": None, "completion_tokens_details": None},
        headers=LIMIT_HEADERS,
    ),
    "openrouter": Habits(error=openrouter_error, usage={"cost": 0.0012}),
    "vllm": Habits(
        error=vllm_error,
        pictures=999,
        too_many="At most {most} image(s) may be provided in one prompt.",
        usage={"prompt_tokens_details": None},
    ),
    "ollama": Habits(token_limits=("max_tokens",), ignored=("max_completion_tokens",)),
    "litellm": Habits(error=litellm_error, headers=LIMIT_HEADERS),
    "groq": Habits(
        pictures=3,
        too_many="Too many images provided. This model supports up to {most} images",
        schema_words=_strict(),
        flex_full=error(498, "Flex tier capacity exceeded", "capacity_exceeded"),
        usage={"queue_time": 0.01, "prompt_time": 0.02, "completion_time": 0.1, "total_time": 0.13},
        headers=LIMIT_HEADERS,
    ),
    "together": Habits(token_limits=("max_tokens",), ignored=("max_completion_tokens",), headers=LIMIT_HEADERS),
    "mistral": Habits(
        error=mistral_error, token_limits=("max_tokens",), unknown=422, pictures=8, headers=LIMIT_HEADERS
    ),
}
OLD_VLLM = replace(HABITS["vllm"], pictures=1, too_many="At most {most} image(s) may be provided in one request.")
SMALL_OLLAMA = replace(HABITS["ollama"], context=4096)
