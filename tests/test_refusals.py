"""Classification of refused calls: one case a line, named after the documentation or public thread that shows it."""

import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import pytest

from tasks.endpoint.refusals import LONGEST_WAIT, MOST_WORDS, Kind, Refusal, read_refusal

DATE = "Sun, 22 Nov 2026 05:00:00 GMT"
"""Time of every response below; waits until a given moment count from it."""
EPOCH = 1795323600
"""The same time in seconds since 1970."""


class Case(NamedTuple):
    source: str
    status: int
    body: Any
    kind: Kind
    words: str = ""
    wait: float | None = None
    headers: Mapping[str, str] = {}
    param: str = ""


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error", param: str | None = None) -> Any:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def gemini(message: str, *quota_ids: str, delay: str = "", status: str = "RESOURCE_EXHAUSTED", code: int = 429) -> Any:
    violations = [{"quotaMetric": "generate_content_free_tier_requests", "quotaId": each} for each in quota_ids]
    details: list[Any] = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}]
    if delay:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


def openrouter(message: str, code: int, **metadata: Any) -> Any:
    return {"error": {"message": message, "code": code, "metadata": metadata}, "user_id": "user_1"}


def anthropic(kind: str, message: str, **details: Any) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_1"}


def vllm(message: str, kind: str = "BadRequestError", code: int = 400, param: str | None = None) -> Any:
    return {"object": "error", "message": message, "type": kind, "param": param, "code": code}


MINUTE = "GenerateContentInputTokensPerModelPerMinute-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
OVER = "You exceeded your current quota, please check your plan and billing details."
AZURE_FILTER = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
FLAGGED = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."

WAITS = [
    Case("no wait given", 429, "", "busy"),
    Case("RFC 9110: seconds", 429, "", "busy", wait=7, headers={"Retry-After": "7"}),
    Case("RFC 9110: a date", 503, "", "busy", wait=90, headers={"Retry-After": "Sun, 22 Nov 2026 05:01:30 GMT"}),
    Case("a date that has passed", 503, "", "busy", headers={"Retry-After": "Sun, 22 Nov 2026 04:00:00 GMT"}),
    Case("cloud_controller_ng#2544: since 1970", 429, "", "busy", wait=30, headers={"retry-after": str(EPOCH + 30)}),
    Case("negative", 429, "", "busy", headers={"retry-after": "-5"}),
    Case("no number", 429, "", "busy", headers={"retry-after": "nan"}),
    Case("decades", 429, "", "busy", wait=LONGEST_WAIT, headers={"retry-after": "9" * 400}),
    Case("OpenAI SDK: milliseconds before seconds", 429, "", "busy", wait=0.25, headers={"retry-after-ms": "250"}),
    Case("OpenAI, rate limits: 6m0s for the exhausted limit", 429, "", "busy", wait=360,
         headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s",
         "x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "20m0s"}),
    Case("Groq, rate limits: both exhausted", 429, "", "busy", wait=179.56,
         headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s",
         "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s"}),
    Case("Anthropic, rate limits: RFC 3339", 429, anthropic("rate_limit_error",
         "This request would exceed your account's rate limit."), "busy",
         words="This request would exceed your account's rate limit.", wait=12,
         headers={"anthropic-ratelimit-requests-remaining": "0",
         "anthropic-ratelimit-requests-reset": "2026-11-22T05:00:12Z"}),
    Case("python-genai#2044: a list, the wait in the body", 429, [gemini(OVER, MINUTE, delay="37s")], "busy",
         words=OVER, wait=37),
    Case("Roo-Code#3883: the same as JSON within the message of a proxy", 429,
         {"error": {"message": json.dumps(gemini(OVER, MINUTE, delay="26s")), "code": 429,
         "status": "Too Many Requests"}}, "busy", words=OVER, wait=26),
    Case("continue#11693: in words", 429, [gemini(f"{OVER}\nPlease retry in 38.962214405s.")], "busy",
         wait=38.962214405),
    Case("OpenAI: words", 429, openai("Rate limit reached. Please try again in 1.2s. Visit …", "rate_limit_exceeded"),
         "busy", wait=1.2),
    Case("OpenAI: milliseconds in words", 429, openai("Please try again in 20ms."), "busy", wait=0.02),
    Case("Azure, pollinations#6260", 429, {"error": {"code": "429", "message": "Please retry after 20 seconds."}},
         "busy", words="Please retry after 20 seconds.", wait=20),
    Case("in minutes", 503, "Try again in 3 minutes", "busy", words="Try again in 3 minutes", wait=180),
    Case("OpenRouter, openclaude#936: headers within the body", 429,
         openrouter("Rate limit exceeded: free-models-per-min.", 429, headers={"X-RateLimit-Limit": "20",
         "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{EPOCH + 40}000"}), "busy", wait=40),
    Case("a fault may ask for a wait too", 500, "", "unavailable", wait=3, headers={"retry-after": "3"}),
    Case("a final refusal has no wait", 400, "", "rejected", headers={"retry-after": "3"}),
]  # fmt: skip

BUSY = [
    Case("LiteLLM, exception mapping", 429, openai("litellm.RateLimitError", "429", "throttling_error"), "busy"),
    Case("Together, error codes", 429, openai("You have been rate limited.", kind="credit_limit"), "busy"),
    Case("Groq, flex processing", 498, openai("over capacity", "capacity_exceeded"), "busy"),
    Case("Anthropic, errors", 529, anthropic("overloaded_error", "Overloaded"), "busy"),
    Case("Mistral, cline#9085", 429, vllm("Rate limit exceeded", "rate_limited", code=1300), "busy"),
    Case("Ollama#15934", 503, {"error": "Server overloaded, please retry shortly"}, "busy", "Server overloaded"),
    Case("OpenAI, climb#1: one request above the limit per minute, so no wait helps", 429,
         openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 30601.",
         "rate_limit_exceeded"), "rejected"),
]  # fmt: skip

QUOTA = [
    Case("OpenAI, error codes", 429, openai(OVER, "insufficient_quota"), "quota", OVER),
    Case("OpenAI, only the type", 429, openai(OVER, kind="insufficient_quota"), "quota"),
    *(
        Case(f"OpenAI, error codes: {code}", 429, openai(OVER, code), "quota")
        for code in (
            *("organization_spend_limit_exceeded", "project_spend_limit_exceeded"),
            *("organization_usage_limit_exceeded", "credit_balance_exhausted"),
        )
    ),
    Case("OpenAI, images", 400, openai("Billing hard limit has been reached", "billing_hard_limit_reached"), "quota"),
    Case("OpenAI, billing", 429, openai("Your account is not active", "billing_not_active"), "quota"),
    Case("Anthropic, claude-code#66314", 400, anthropic("invalid_request_error",
         "Your credit balance is too low to access the Anthropic API."), "quota"),
    Case("Anthropic, errors", 402, anthropic("billing_error", "There's an issue with billing"), "quota"),
    Case("Anthropic, a month's limit", 429, anthropic("rate_limit_error", "…",
         details={"error_code": "enforced_spend_limit_reached"}), "quota"),
    Case("Anthropic, litellm#37592", 400, anthropic("invalid_request_error",
         "You have reached your specified API usage limits. You will regain access on …"), "quota"),
    Case("Gemini, python-genai#2044: a day's quota, despite the wait it names", 429, [gemini(OVER, DAY, MINUTE,
         delay="47s")], "quota"),
    Case("Gemini, gemini-cli#22486: a limit of 0", 429, [gemini("* Quota exceeded for metric: x, limit: 0, model: y")],
         "quota"),
    Case("OpenRouter, atlas#543", 429, openrouter("…", 429, limit_source="openrouter_free_tier_daily"), "quota"),
    Case("OpenRouter, openclaude#1549", 429, openai("Rate limit exceeded: free-models-per-day-high-balance."), "quota"),
    Case("OpenRouter, budgets", 403, openrouter("…", 403, limit_source="openrouter_key_limit"), "quota"),
    Case("LiteLLM, error reference", 400, openai("Budget has been exceeded!", "400", "budget_exceeded"), "quota"),
    Case("Together, error codes: 402 with any body", 402, "<html></html>", "quota"),
]  # fmt: skip

MODERATED = [
    Case("Azure, compl-ai#20", 400, {"error": {"message": AZURE_FILTER, "type": None, "param": "prompt",
         "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation",
         "content_filter_result": {"violence": {"filtered": True, "severity": "medium"}}}}}, "moderated",
         words=AZURE_FILTER, param="prompt"),
    Case("LiteLLM, error reference: from any endpoint", 400,
         openai("litellm.ContentPolicyViolationError: the prompt was filtered", "400"), "moderated"),
    Case("Azure through LiteLLM, litellm#16231", 400,
         {"error": {"message": "litellm.ContentPolicyViolationError: AzureException", "type": None, "code": "400",
         "provider_specific_fields": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}}, "moderated"),
    Case("OpenAI, images", 400, openai("Your request was rejected by our safety system", "moderation_blocked"),
         "moderated"),
    Case("OpenAI, images", 400, openai("…", "content_policy_violation"), "moderated"),
    Case("OpenAI, t0-1#69", 400, openai(FLAGGED, "invalid_prompt"), "moderated", FLAGGED),
    Case("OpenRouter, errors", 403, openrouter("…", 403, reasons=["violence"], flagged_input="…"), "moderated"),
    Case("OpenRouter, errors", 403, openrouter('Your input was flagged for "sexual".', 403), "moderated"),
    Case("OpenRouter, a guardrail", 403, openrouter("Request blocked: prompt injection patterns detected", 403),
         "moderated"),
    Case("OpenRouter, error types", 403, openrouter("…", 403, error_type="content_policy_violation"), "moderated"),
    Case("Gemini", 400, [gemini("PROHIBITED_CONTENT", status="INVALID_ARGUMENT", code=400)], "moderated"),
    Case("Gemini behind a proxy", 400, gemini("…", status="PROHIBITED_CONTENT", code=400), "moderated"),
    Case("Mistral, guardrails (403 is documented, its text is not)", 403,
         {"message": "Request blocked by guardrail"}, "moderated"),
    Case("DashScope, owl#432", 400, openai("…", "data_inspection_failed"), "moderated"),
    Case("DashScope, qwen-code#2905", 400, openai("Input text data may contain inappropriate content."), "moderated"),
]  # fmt: skip

REFUSED = [
    Case("OpenAI", 401, openai("Incorrect API key provided: sk-…", "invalid_api_key"), "denied", "Incorrect API key"),
    Case("OpenAI, a region", 403, openai("Country not supported", "unsupported_country_region_territory"), "denied"),
    Case("a proxy", 407, "", "denied"),
    Case("OpenAI", 404, openai("The model gpt-x does not exist", "model_not_found"), "absent"),
    Case("OpenRouter", 404, openrouter("No endpoints found matching your guardrail restrictions", 404), "absent"),
    Case("FastAPI", 405, {"detail": "Method Not Allowed"}, "absent", "Method Not Allowed"),
    Case("a model that is gone", 410, "", "absent"),
    Case("a gateway that has moved", 307, "<html><title>307</title></html>", "redirected",
         words="it redirects to https://elsewhere.example/v1", headers={"Location": "https://elsewhere.example/v1"}),
]  # fmt: skip

REJECTED = [
    Case("OpenAI, livekit#3966", 400, openai("Unsupported value: 'reasoning_effort'", "unsupported_value",
         param="reasoning_effort"), "rejected", words="Unsupported value: 'reasoning_effort'",
         param="reasoning_effort"),
    Case("vLLM since 0.10", 400, {"error": vllm("too many pictures")}, "rejected", "too many pictures"),
    Case("FastAPI: detail as a list", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"],
         "msg": "Extra inputs are not permitted"}]}, "rejected", words="body.seed: Extra inputs are not permitted",
         param="seed"),
    Case("FastAPI: the echoed input does not classify the refusal", 422, {"detail": [{"loc": ["body", "n"],
         "msg": "bad", "input": {"code": "content_filter", "message": "retry in 9s"}}]}, "rejected",
         words="body.n: bad", param="n"),
    Case("Mistral: a detail within the message", 422, {"object": "error", "message": {"detail": [{"loc": ["body",
         "top_k"], "msg": "not permitted"}]}}, "rejected", words="body.top_k: not permitted", param="top_k"),
    Case("Scaleway, understanding errors", 400, {"error": "bad", "status": 400, "message": "body too large"},
         "rejected", "body"),
    Case("Anthropic, errors", 413, anthropic("request_too_large", "Request exceeds 32 MB"), "rejected",
         "Request exceeds"),
    Case("a question that is too long for the address or the headers", 431, "", "rejected", ""),
    Case("nginx", 413, "<html><head><title>413 Too\nLarge</title></head></html>", "rejected", "413 Too Large"),
    Case("words of the question", 400, openai("Invalid image for the prompt: 'Does it read Insufficient balance?'"),
         "rejected"),
    Case("plain words", 400, "no pictures, please\n", "rejected", "no pictures, please"),
    Case("an OpenAI error about a parameter of that name", 400, openai("Unknown parameter: 'moderation'."), "rejected"),
]  # fmt: skip

FAULTS = [
    Case("a time-out", 408, "", "unavailable"),
    Case("a fault", 500, openai("The server had an error", kind="server_error"), "unavailable",
         "The server had an error"),
    Case("a gateway", 502, "<h1>Bad\ngateway</h1><hr>nginx", "unavailable", "Bad gateway nginx"),
    Case("OpenRouter, errors: the provider's own message", 502, openrouter("Provider returned error", 502,
         provider_name="X", raw='{"error":{"message":"boom"}}'), "unavailable", words="Provider returned error; boom"),
    Case("invalid HTTP status", 999, "", "unavailable"),
]  # fmt: skip
CASES = WAITS + BUSY + QUOTA + MODERATED + REFUSED + REJECTED + FAULTS


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.status} {case.source}")
def test_refusal_gives_kind_wait_and_message(case: Case) -> None:
    body = case.body if isinstance(case.body, str) else json.dumps(case.body)
    found = read_refusal(case.status, {"Date": DATE, **case.headers}, body.encode())
    assert found.kind == case.kind
    assert found.wait == (None if case.wait is None else pytest.approx(case.wait))
    assert found.words.startswith(case.words)
    assert case.param in ("", found.param)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"error":' * 200_000,
        b'{"error":' * 900 + b"1" + b"}" * 900,
        b'{"error": NaN}',
        b'{"error": {"code": 1e999, "message": -Infinity}}',
        b'{"error": {"code": ' + b"9" * 10_000 + b"}}",
        b"[[[[[[]]]]]]",
        b"null",
        b"\xff\xfe\x00[1]",
        b"\xef\xbb\xbf{}",
        b'{"error": {"message": "half \\ud835 of x", "code": "\\udc00", "param": "\\ud800"}}',
        b'{"error": {"message": {"detail": [[{"loc": [[]], "msg": []}]]}, "metadata": [], "details": {}}}',
        b'{"error": [' + b'{"message": "x"},' * 100_000 + b"{}]}",
        b"<title" * 200_000,
        b"<" * 1_000_000,
        b"try again in " * 100_000,
        b'{"error": "' + b"retry after 1h" * 100_000 + b'"}',
        b'{"error": {"message": "' + b"flagged " * 200_000 + b'"}}',
        json.dumps({"error": json.dumps({"error": json.dumps({"error": "{" * 100_000})})}).encode(),
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_hostile_bodies_give_a_valid_refusal(body: bytes) -> None:
    for status in (200, 302, 400, 403, 429, 500):
        check(read_refusal(status, {"retry-after": "\udcff", "x-ratelimit-remaining": "", "date": "yesterday"}, body))


def test_random_bytes_give_a_valid_refusal() -> None:
    draw = random.Random(5)
    pieces = [json.dumps(case.body).encode() for case in QUOTA + MODERATED + REJECTED]
    for _ in range(2_000):
        whole = bytearray(draw.choice(pieces))
        for _ in range(draw.randrange(1, 6)):
            whole[draw.randrange(len(whole))] = draw.randrange(256)
        check(read_refusal(draw.randrange(100, 600), {}, bytes(whole[: draw.randrange(len(whole))])))


def check(found: Refusal) -> None:
    assert found.kind in get_args(Kind)
    assert found.wait is None or 0 <= found.wait <= LONGEST_WAIT
    assert len(found.words) <= MOST_WORDS
    for text in (found.words, found.param):
        text.encode()
