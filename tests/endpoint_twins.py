"""Twins of the known endpoints on loopback: each accepts, refuses and counts as its documentation states."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from endpoint_habits import HABITS, Habits
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, completion, example

from tasks.endpoint import catalog

STANDARD = {"model", "messages", "temperature", "response_format", "stop", "top_p", "n", "stream", "tools"}
"""Fields that every endpoint accepts."""
LENGTHS = {"max_tokens", "max_completion_tokens"}
TOKENS_A_PICTURE = 258


def moved_to(monkeypatch: pytest.MonkeyPatch, name: str, address: str, **changes: object) -> None:
    """Move a known endpoint to this address for the duration of a test; `changes` are other facts about it."""
    table = catalog.endpoints()
    moved = table[name].model_copy(update={"address": address, **changes})
    monkeypatch.setattr(catalog, "endpoints", lambda: {**table, name: moved})


class Twin(LoopbackJudge):
    """A known endpoint on loopback, with its own or other habits."""

    def __init__(self, name: str, habits: Habits | None = None) -> None:
        super().__init__(self._answer)
        self.name = name
        self.root = urlsplit(catalog.endpoints()[name].address).path
        self.habits = habits or HABITS[name]
        self.refusals: list[Reply] = []
        self.tier = ""
        """Service tier that replies report."""

    def take_its_place(self, monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
        moved_to(monkeypatch, self.name, self.base_url, **changes)

    def _answer(self, request: Request) -> Reply:
        if refused := self._refused(request):
            self.refusals.append(refused)
            return refused
        body = {} if "response_format" in self.habits.ignored else request.schema
        content = json.dumps(example(body, {}) if body else in_words(request))
        # Without an enforced format, models wrap JSON in a code block.
        reply = completion(content if body else f"```json\n{content}\n```")
        tier = {"service_tier": self.tier} if self.tier else {}
        return replace(reply, body={**reply.body, "usage": self._usage(request), **tier}, headers=self.habits.headers)  # pyright: ignore

    def _refused(self, request: Request) -> Reply | None:
        habits = self.habits
        tier = {"service_tier"} if habits.flex_full else set[str]()
        unsupported = set(request.body) - STANDARD - tier - {*habits.token_limits, *habits.ignored}
        for name in sorted(unsupported if habits.unknown else unsupported & LENGTHS):
            words = "Extra inputs are not permitted" if habits.unknown == 422 else f"Unsupported parameter: '{name}'"
            return habits.error(habits.unknown or 400, words, name)
        if habits.pictures and len(request.images) > habits.pictures:
            return habits.error(400, habits.too_many.format(most=habits.pictures), "messages")
        bad = [] if habits.schema_words is None else [*not_strict(request.schema, habits.schema_words)]
        return habits.error(400, f"Invalid schema for response_format: {bad[0]}", "response_format") if bad else None

    def _usage(self, request: Request) -> dict[str, object]:
        characters = sum(map(len, request.texts))
        tokens = characters // 4 + TOKENS_A_PICTURE * len(request.images)
        read = self.habits.context // 2 + 2 if 0 < self.habits.context < tokens else tokens
        return {"prompt_tokens": read, "completion_tokens": 80, "total_tokens": read + 80, **self.habits.usage}


def not_strict(schema: Mapping[str, Any], words: frozenset[str]) -> Sequence[str]:
    """Return faults of a strict schema: optional or additional properties and unsupported keywords."""
    found = [f"'{word}' is not permitted" for word in words & set(schema)]
    properties: Mapping[str, Any] = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            found.append("'additionalProperties' is required to be supplied and to be false")
        if {*schema.get("required", ())} != {*properties}:
            found.append("'required' is required to be supplied and to include every key in properties")
    inner = [*properties.values(), *([schema["items"]] if "items" in schema else [])]
    return [*found, *(problem for each in inner for problem in not_strict(each, words))]


def in_words(request: Request) -> dict[str, Any]:
    """Return the plainest reply to a question that describes its format in words only."""
    text = request.texts[-1]
    if verdicts := re.search(r'exactly one of "([^"]+)"', text if "JSON object" in text else request.texts[0]):
        return {"comparison_reasoning": "As the words ask.", "winner": verdicts[1]}
    if keys := re.search(r"these keys, in this order: (.*?)\. Each", text):
        return {key: {"explanation": "As the words ask.", "score": 7} for key in re.findall('"([^"]+)"', keys[1])}
    return {"ready": True}
