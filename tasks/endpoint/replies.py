"""Reply to a call, from any bytes of a body: its text, the JSON in it, and its tokens; no value is ever guessed."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from tasks.endpoint.catalog import known_at
from tasks.endpoint.refusals import BUSY_STATUSES, Refusal, read_refusal
from tasks.endpoint.requests import ALTERNATIVES, Request
from tasks.records import token_count
from tasks.text import one_line, well_formed

STANDARD = "standard"
"""Tier of calls without a request for another."""
_STANDARD_TOO = {"default", "on_demand"}
"""OpenAI's and Groq's names of it."""
_NOT_SAID = {"", "auto"}


class Usage(NamedTuple):
    """Token counts of one call; 0 if missing or impossible. No part is more than its whole."""

    tokens_in: int = 0
    """All input tokens, cached or not."""
    tokens_cached: int = 0
    """Input tokens read from a cache."""
    tokens_written: int = 0
    """Input tokens written to a cache."""
    tokens_pictures: int = 0
    """Input tokens of pictures."""
    tokens_out: int = 0
    """All output tokens, including reasoning."""
    tokens_reasoning: int = 0
    """Output tokens of reasoning."""


def read_usage(told: Any) -> Usage:
    """Return the counts in the `usage` of a reply. Never raises: an invalid count is treated as missing."""
    usage = as_object(told)
    parts = as_object(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    reasons = as_object(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    sent = _first(usage, "prompt_tokens", "input_tokens")
    said = _first(usage, "completion_tokens", "output_tokens")
    cached = _first(parts, "cached_tokens") or _first(
        usage, "cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens"
    )
    written = _first(parts, "cache_write_tokens", "cache_creation_tokens") or _first(
        usage, "cache_creation_input_tokens"
    )
    reasoned = _first(reasons, "reasoning_tokens", "thinking_tokens")
    beside = max(0, _first(usage, "total_tokens") - sent - said)
    if beside == cached + written or ("cache_read_input_tokens" in usage and "prompt_tokens" not in usage):
        sent, beside = token_count(sent + cached + written), 0
    said, cached = token_count(said + beside), min(cached, sent)
    return Usage(
        tokens_in=sent,
        tokens_cached=cached,
        tokens_written=min(written, sent - cached),
        tokens_pictures=min(_first(parts, "image_tokens"), sent),
        tokens_out=said,
        tokens_reasoning=min(max(reasoned, beside), said),
    )


def billed_tier(completion: Mapping[str, Any]) -> str:
    """Return the tier in which a reply was served, in lower case: `standard`, `flex`, …; empty if it names none."""
    told = completion.get("service_tier") or as_object(completion.get("usage")).get("service_tier")
    name = told.strip().lower()[:20] if isinstance(told, str) else ""
    if name in _NOT_SAID or not name.isascii() or not name.replace("_", "").isalnum():
        return ""
    return STANDARD if name in _STANDARD_TOO else name


def _first(told: Mapping[str, Any], *names: str) -> int:
    """Return the first of these counts that is present and not 0, else 0."""
    return next((count for name in names if (count := token_count(told.get(name)))), 0)


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object unchanged, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


CUT_THINKING = "thinking cut off"
"""Note on a reply whose thinking has no end: no text after its beginning is an answer."""

_MOST_OBJECTS = 1000
"""Most objects in a text. A text with more is no reply to our questions, and is not read."""
_MOST_PAIRS = 10_000
_MOST_REPEATED = 3
"""Distinct values kept of one repeated key: two different ones are enough to show a conflict."""
_THINKING = re.compile(r"<(/?)think(?:ing)?>")
_COMMA = re.compile(r",(?=\s*+[}\]])")
"""Comma after the last value of an object or list."""
_OBJECT = re.compile(r'\{\s*+["}]')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)
"""Escape in JSON; its group has an unpaired surrogate, which no file can store."""


class Span(NamedTuple):
    """An outermost JSON object in a text."""

    start: int
    end: int
    pairs: range
    """Indices of its pairs in `Objects.pairs`."""


class Repeated(NamedTuple):
    """Distinct values of a key that occurs several times in one object."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Objects:
    """The JSON objects in a text."""

    pairs: list[tuple[str, Any]]
    """All key-value pairs, at any depth."""
    text: str = ""
    spans: Sequence[Span] = ()

    @property
    def whole(self) -> bool:
        """Return whether the whole text is one such object."""
        return [span[:2] for span in self.spans] == [(0, len(self.text))]

    def in_lists(self, name: str) -> list[dict[str, Any]]:
        """Return the objects in all lists with this key."""
        lists = [cast(list[Any], value) for key, value in self.pairs if key == name and isinstance(value, list)]
        return [cast(dict[str, Any], each) for value in lists for each in value if isinstance(each, dict)]

    def after(self, is_answer: Callable[[str], bool]) -> str:
        """Return the text after the object with the first key of an answer; empty if that object is broken."""
        first = next((index for index, (key, _) in enumerate(self.pairs) if is_answer(key)), -1)
        return next((self.text[span.end :] for span in self.spans if first in span.pairs), "")


def number(digits: str) -> int | float:
    """Return a whole number in JSON; from 20 digits on, which no count or score has, a float, perhaps infinite."""
    return int(digits) if len(digits) < 20 else float(digits)


def unwrapped(text: str) -> tuple[str, list[str]]:
    """Return a reply without its thinking and the fence around it, and notes on the removed parts."""
    text = well_formed(text)
    body, thought = _without_thinking(text) if "<" in text and _THINKING.search(text) else (text, "")
    body, fence = _without_fence(body.strip())
    return body, [*filter(None, (thought, fence))]


def _without_thinking(text: str) -> tuple[str, str]:
    """Return the text outside of thinking, and a note. An end tag without a start tag ends the endpoint's own thinking.

    Tags within the JSON of an answer are plain text.
    """
    said, begun, position = list[str](), False, 0
    for mark in _outside(_THINKING.finditer(text), _spans(text, []) or ()):
        if not mark[1] and not begun:
            said.append(text[position : mark.start()])
            begun = True
        elif mark[1]:
            said = said if begun else []
            begun, position = False, mark.end()
    if begun:
        return "".join(said), CUT_THINKING
    return "".join([*said, text[position:]]), "thinking dropped" if position else ""


def _outside(marks: Iterator[re.Match[str]], spans: Sequence[Span]) -> Iterator[re.Match[str]]:
    """Yield the tags outside of all spans; both are in their order."""
    ends, none = iter(spans), Span(0, 0, range(0))
    start, end, _ = next(ends, none)
    for mark in marks:
        while end and end <= mark.start():
            start, end, _ = next(ends, none)
        if not start <= mark.start() < end:
            yield mark


def _without_fence(body: str) -> tuple[str, str]:
    if not (len(body) >= 6 and body.startswith("```") and body.endswith("```")):
        return body, ""
    language, line_break, fenced = body[3:-3].partition("\n")
    if not line_break or (language.strip() and not language.strip().isalpha()):
        return body, ""
    return fenced.strip(), "fence removed"


def objects(body: str) -> Objects:
    """Return the JSON objects in a text; none if they are too many or too deep for a reply to our questions."""
    if "\\u" in body and _SURROGATE.search(body):
        body = _ESCAPE.sub(lambda escape: "?" if escape[1] else escape[0], body)
    collected: list[tuple[str, Any]] = []
    spans = _spans(body, collected)
    if spans is None or len(collected) > _MOST_PAIRS:
        return Objects([])
    return Objects(collected, body, spans)


def mended_objects(body: str) -> tuple[Objects, str]:
    """Return the JSON objects in a text, without commas that break them, and a note on how they were read."""
    found = objects(body)
    if found.whole:
        return found, ""
    mended, commas = _COMMA.subn("", body)
    again = objects(mended)
    if commas and len(again.pairs) > len(found.pairs):
        return again, "broken JSON mended"
    return found, "taken out of prose"


def _spans(text: str, collected: list[tuple[str, Any]]) -> list[Span] | None:
    """Return the outermost JSON objects in a text; None if they are too many or too deep.

    After a broken object the search continues at the break: whole objects within it are decoded already. All pairs are
    added to `collected`, including those of objects within broken ones.
    """

    def collect(found: list[tuple[str, Any]]) -> dict[str, Any]:
        collected.extend(found)
        made = dict(found)
        return made if len(made) == len(found) else _with_repeated(found)

    # strict=False accepts raw line breaks in strings, the most common slip.
    decoder = json.JSONDecoder(object_pairs_hook=collect, parse_int=number, strict=False)
    spans, start = list[Span](), 0
    for _ in range(_MOST_OBJECTS):
        found = _OBJECT.search(text, start)
        if not found:
            return spans
        first = len(collected)
        try:
            _, start = decoder.raw_decode(text, found.start())
            spans.append(Span(found.start(), start, range(first, len(collected))))
        except json.JSONDecodeError as broken:
            start = max(broken.pos, found.start() + 1)
        except RecursionError:
            return None
    return None


def _with_repeated(found: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object that keeps all values of a repeated key, up to a limit: nothing shows which one is meant."""
    values: dict[str, list[Any]] = {}
    for key, value in found:
        known = values.setdefault(key, [])
        if len(known) < _MOST_REPEATED and value not in known:
            known.append(value)
    return {key: Repeated(tuple(each)) if len(each) > 1 else each[0] for key, each in values.items()}


def recovery(*mended: str) -> str:
    """Return the stored note on how a reply was read: its repairs, or `strict` if there were none."""
    return " + ".join(filter(None, mended)) or "strict"


def reply_words(text: str, taken_off: Sequence[str]) -> str:
    """Quote the reply in a message that nothing was found in it."""
    cut = ", which breaks off while thinking" if CUT_THINKING in taken_off else ""
    return f"the reply{cut}: {_ends(text)!r}"


def _ends(words: str) -> str:
    return words if len(words) <= 160 else words[:80] + " … " + words[-70:]


def shown(value: Any) -> str:
    """Quote a value of a reply for a message about it."""
    try:
        return _ends(repr(value))
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


def plain(value: Any) -> str:
    """Return a value of a reply as a text to store: a string unchanged, other values as JSON, empty for None."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return shown(value)


FILTERED = {
    "content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "image_safety", "image_recitation", "image_prohibited_content", "refusal", "sensitive", "guardrail_intervened",
}  # fmt: skip
"""Finish reasons of withheld replies, in lower case: OpenAI's, Gemini's, Anthropic's and others'."""
CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""Finish reasons of replies cut at a limit."""
BROKEN = {"error", "network_error", "abort", "insufficient_system_resource"}
"""Finish reasons of replies that the endpoint lost halfway."""
BUSY = {
    *("rate_limit_exceeded", "rate_limit_error", "rate_limit_reached", "rate_limited", "too_many_requests"),
    *("resource_exhausted", "overloaded_error", "server_is_overloaded", "engine_overloaded"),
}
"""Lower-case names of errors within a reply that are equivalent to status 429."""
SHOWN = 200
"""Most characters shown of a body that is not a completion, and most characters of a name."""

TEXT, FIRST_TOKEN = "text", "first_token"
"""Keys of a reply of one word, as it is stored."""
_LEAST_LOGARITHM = -9999.0
"""OpenAI's logarithm of a negligible probability."""
_WORD_MARKS = " \t\r\n\u0120\u2581.()*_`'\""
"""Characters around the word in a token: blanks, the signs for them in vocabularies, and punctuation."""

_THOUGHT = re.compile("reason|think|thought", re.IGNORECASE)
_NO_TEXT = dict.fromkeys({*range(32)} - {*b"\t\n\r"}, "\ufffd")
"""Replacements for control characters, each of which takes six bytes in a ledger."""
_DECODER = json.JSONDecoder(parse_int=number)


class Reply(NamedTuple):
    """Reply to a call. Status `ok` means that a text arrived; it may still contain no verdict."""

    status: Literal["ok", "refused", "truncated", "invalid", "rejected", "unavailable"]
    text: str = ""
    """Text as received, without the key."""
    error: str = ""
    finish_reason: str = ""
    rung: str = ""
    model: str = ""
    fingerprint: str = ""
    """The endpoint's `system_fingerprint`: the configuration that the model runs on, as far as it is reported."""
    usage: Usage = Usage()
    tier: str = ""
    """Service tier of the reply, if the endpoint reports it: `standard`, `flex`, …"""
    seconds: float = 0.0
    given_up: bool = False
    """True if no reply came in all attempts that the client makes; a reply that cannot be read is no such end."""
    http_retries: int = 0
    timed_out: int = 0
    """Attempts without a reply in time; the endpoint may have generated a reply, and have billed it."""
    waits: int = 0
    """Times that the call returned to the queue because the endpoint was busy or away."""
    waited_seconds: float = 0.0
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refuses, and that were therefore left to its defaults."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Most likely first tokens of the text, the chosen one first, with the natural logarithms of their probabilities;
    empty: the endpoint reports none."""

    def of_one_word(self) -> "Reply":
        """Return the reply to a question about one word, its text as a JSON object with the first token's alternatives.

        The limit of tokens is ours and cuts nothing that is read, so a cut reply is ok.
        """
        plain = self._replace(rung="plain")
        if self.status != "ok" and not (self.status == "truncated" and self.alternatives):
            return plain
        said = {TEXT: self.text, FIRST_TOKEN: self.alternatives}
        return plain._replace(status="ok", error="", text=json.dumps(said, ensure_ascii=False))


def read_completion(body: bytes, problem: str = "") -> Reply:
    """Return the reply in a body received with status 200; any bytes give a reply with a status.

    A body that is not a chat completion is `unavailable`: it may be a proxy's page, or the server may be in trouble.
    The client's own types are not used: they check nothing, and take ten times as long.

    Args:
        problem: reason why the body is incomplete; empty if it is whole.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        completion = {} if problem else as_object(_DECODER.decode(text))
        choice = _choice(completion)
        if isinstance(choice.get("message"), dict) or choice.get("error"):
            reply = _said(choice, text)
            return reply._replace(
                model=_name(completion.get("model")),
                fingerprint=_name(completion.get("system_fingerprint")),
                tier=billed_tier(completion),
                usage=read_usage(completion.get("usage")),
                alternatives=_alternatives(choice, reply.text),
            )
        failed = _error_words(completion.get("error") or choice.get("finish_reason"))
    except (ValueError, RecursionError):  # not JSON, or nested too deeply to be meant
        failed = ""
    shown = problem or failed or one_line(text, SHOWN) or "it is empty"
    return Reply("unavailable", text=text.translate(_NO_TEXT), error=f"the reply is no chat completion: {shown}")


def busy_within(body: bytes, headers: Mapping[str, str]) -> Refusal | None:
    """Return a rate limit received with status 200, as the error of the body or of its choice; None if there is none.

    Routers send it if the endpoint behind them refuses after they have sent the status.
    """
    try:
        completion = as_object(_DECODER.decode(body.decode("utf-8", "replace").removeprefix("\ufeff")))
    except (ValueError, RecursionError):
        return None
    for error in (as_object(completion.get("error")), as_object(_choice(completion).get("error"))):
        marks = {_name(error.get(name)).lower() for name in ("code", "status", "type")}
        status = next((each for each in BUSY_STATUSES if str(each) in marks), 429 if marks & BUSY else 0)
        if status:
            return read_refusal(status, headers, json.dumps({"error": error}).encode())
    return None


def _choice(completion: dict[str, Any]) -> dict[str, Any]:
    choices = completion.get("choices")
    return as_object(choices[0]) if isinstance(choices, list) and choices else {}  # pyright: ignore


def _said(choice: dict[str, Any], body: str) -> Reply:
    message, finish = as_object(choice.get("message")), _name(choice.get("finish_reason"))
    reason = finish.lower().partition(":")[0].strip()
    said, refusal = _text(message.get("content")), _text(message.get("refusal"))
    error = as_object(choice.get("error"))
    if refusal or reason in FILTERED or _name(error.get("code")).lower() in FILTERED:
        words = refusal or f"the endpoint filtered the content ({_error_words(error) or finish})"
        return Reply("refused", text="\n".join(filter(None, (said, refusal))), error=words, finish_reason=finish)
    if choice.get("error") or reason in BROKEN:
        words = f"the endpoint failed within its reply: {_error_words(choice.get('error')) or finish}"
        return Reply("unavailable", text=said or body, error=words, finish_reason=finish)
    if reason in CUT:
        return Reply("truncated", text=said, error="the reply hit the token limit", finish_reason=finish)
    if not said.strip():
        return _without_answer(message, finish)
    return Reply("ok", text=said, finish_reason=finish)


def _alternatives(choice: dict[str, Any], text: str) -> tuple[tuple[str, float], ...]:
    """Return the alternatives to the first token of a text; none if they are no probabilities, or of another text."""
    content = as_object(choice.get("logprobs")).get("content")
    first = as_object(content[0]) if isinstance(content, list) and content else {}  # pyright: ignore
    top = cast("list[Any]", top) if isinstance(top := first.get("top_logprobs"), list) else []
    found: dict[str, float] = {}
    for each in map(as_object, [first, *top[:ALTERNATIVES]] if top else ()):
        token, logarithm = each.get("token"), each.get("logprob")
        if not isinstance(token, str) or type(logarithm) not in (int, float) or not cast(float, logarithm) <= 0:
            return ()
        found.setdefault(well_formed(token[:SHOWN]), max(cast(float, logarithm), _LEAST_LOGARITHM))
    begin = bare_word(next(iter(found), ""))
    if not begin or not text.lstrip(_WORD_MARKS).startswith(begin) or sum(map(math.exp, found.values())) > 1.01:
        return ()
    return tuple(found.items())


def bare_word(token: str) -> str:
    """Return the word in a token, without blanks and punctuation around it."""
    return token.strip(_WORD_MARKS)


def _without_answer(message: dict[str, Any], finish: str) -> Reply:
    """Return the reply for a message without text. Reasoning is never an answer: it may discuss rejected verdicts."""
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning")) or _reasoning(message)
    kind = "only calls tools" if message.get("tool_calls") else "is empty"
    words = f"the reply {kind}" + (f" beside {len(reasoning):,} characters of reasoning" if reasoning else "")
    return Reply("invalid", text=reasoning, error=f"{words} (finish reason: {finish or 'none'})", finish_reason=finish)


def _text(value: Any) -> str:
    """Return a text, the joined texts of parts (meant for requests only), or any other value as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (part for part in cast("list[Any]", value) if not _is_reasoning(part))
        return "".join(part if isinstance(part, str) else _text(as_object(part).get("text")) for part in parts)
    return json.dumps(value, ensure_ascii=False) if value else ""


def _reasoning(message: dict[str, Any]) -> str:
    """Return the reasoning parts of a content as JSON, since their form differs by endpoint."""
    content = message.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return "".join(json.dumps(part, ensure_ascii=False) for part in parts if _is_reasoning(part))


def _is_reasoning(part: Any) -> bool:
    """Return whether a part of a content is reasoning: of type `reasoning`, `thinking`, `redacted_thinking` …"""
    parts = as_object(part)
    return bool(_THOUGHT.search(_name(parts.get("type")))) or parts.get("thought") is True  # Gemini's mark


def _name(value: Any) -> str:
    """Return a short value of the endpoint (a model, a finish reason, a code) as a string."""
    return well_formed(str(value)[:SHOWN]) if isinstance(value, str | int | float) else ""


def _error_words(error: Any) -> str:
    """Return an error object's code, its message, and a router's quote of the provider's error, as one text."""
    parts = as_object(error)
    told = (parts.get("code"), parts.get("message"), as_object(parts.get("metadata")).get("raw"))
    return ": ".join(filter(None, map(_text, told))) or _text(error)


UNIT, SPARE = 1024, 2
"""Unit of context lengths, and the most tokens that a cut question has above a multiple of it."""
ALIKE, SHARE, LONGER = 3, 0.05, 1.1
"""Least number and share of replies with equal input tokens, and least ratio of their longest question to the shortest,
for that number to look like a limit. Chance alone makes no such pile."""
MEND = "Raise the context length of its server."
"""Advice for an unknown endpoint."""


class _Pile(NamedTuple):
    """Number of replies that report the same input tokens, and the lengths of their questions in characters."""

    replies: int
    shortest: int
    longest: int


class InputTokens:
    """Input tokens that a judge reports in one run; its size does not grow with the number of replies."""

    def __init__(self) -> None:
        self._replies = 0
        self._piles: dict[int, _Pile] = {}

    def note(self, request: Request, reply: Reply) -> None:
        """Add a reply to a question; one that reports no tokens is ignored."""
        tokens = reply.usage.tokens_in
        self._replies += bool(tokens)
        if tokens >= UNIT and tokens % UNIT <= SPARE:
            length = len(request.system) + sum(len(part) for part in request.content if isinstance(part, str))
            replies, shortest, longest = self._piles.get(tokens, _Pile(0, length, length))
            self._piles[tokens] = _Pile(replies + 1, min(shortest, length), max(longest, length))

    def warnings(self, base_url: str) -> list[str]:
        """Return at most one warning for the reader of the run, with advice."""
        least = max(ALIKE, SHARE * self._replies)
        often = ((tokens, pile) for tokens, pile in self._piles.items() if pile.replies >= least)
        limits = [tokens for tokens, pile in often if pile.longest >= LONGER * pile.shortest]
        known = known_at(base_url)
        mend = known.on_cut_input if known else ""
        return [
            "the judge seems to read only the beginning of its questions: questions of different lengths all report "
            f"{tokens:,} input tokens. {mend or MEND}"
            for tokens in limits[:1]
        ]
