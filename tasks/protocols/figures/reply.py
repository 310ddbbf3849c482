"""Reply to a pairwise question: its form and its verdict. Two winners make it invalid; no verdict is guessed."""

import json
import re
from collections.abc import Sequence
from typing import Any

from tasks.endpoint.replies import objects, plain, recovery, reply_words, shown, unwrapped
from tasks.endpoint.requests import object_schema
from tasks.protocols.protocol import Reading
from tasks.records import VERDICTS, Verdict
from tasks.rubrics.rubric import PairwisePrompt
from tasks.text import listed

REASONING, WINNER = "comparison_reasoning", "winner"

_ANY = "|".join(map(re.escape, VERDICTS))
# A terminator must follow the value, so that an echoed list of options or a cut-off word is no winner.
_WINNER = re.compile(r"winner[\"'*_]*+\s*+:\s*+[\"']([^\"'\n]*+)[\"'](?=[^\S\n]*+(?:[,}\]\n]|\Z))", re.IGNORECASE)
_SAID = re.compile(
    rf"(?:winner|verdict|answer)[\"'*_`]{{0,4}}+\s{{0,4}}+(?:is\b|:|=)[\s\"'*_`]{{0,8}}+(?:the )?({_ANY})\b"
    rf"|^[^\w\n]{{0,8}}+({_ANY})[^\w\n]{{0,8}}$"
    rf"|\b({_ANY})(?: figure)? wins\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Verdict in words: after its name, alone on a line, or before `wins`."""
_REASONING = re.compile(r"[\"']comparison_reasoning[\"']\s*+:\s*+[\"']")
_END_OF_REASONING = re.compile(r"[\"']\s*+,?\s*+[\"']winner")


def schema(verdicts: Sequence[Verdict] = VERDICTS) -> dict[str, Any]:
    """Return the JSON schema of the reply, reasoning first. It has no bounds, because some servers refuse them."""
    return object_schema({REASONING: {"type": "string"}, WINNER: {"type": "string", "enum": list(verdicts)}})


def format_words(verdicts: Sequence[Verdict] = VERDICTS) -> str:
    """Return the request for the reply format, sent on every rung of the ladder."""
    return (
        "Reply with a single JSON object and nothing around it. It has two keys, in this order: "
        f'"{REASONING}", a string with your reasoning in the structure asked for, then '
        f'"{WINNER}", a string that is exactly one of {_quoted(verdicts)}.'
    )


def limit_words(verdicts: Sequence[Verdict]) -> str:
    """Return the limit of a prompt on a format that allows all verdicts; empty: it allows all of them, too."""
    return "" if {*verdicts} == {*VERDICTS} else f"{WINNER} is one of {_quoted(verdicts)} alone"


def _quoted(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(json.dumps(verdict) for verdict in verdicts)


def read(text: str, prompt: PairwisePrompt) -> Reading:
    """Return the verdict in a reply. It may differ from an allowed one only in case and surrounding punctuation."""
    allowed = prompt.verdicts
    body, taken_off = unwrapped(text)
    winners, reasoning, how = _fields(body)
    read = Reading(reasoning=reasoning, recovery=recovery(*taken_off, how))
    if not winners:
        return read._replace(error=f"no winner found in {reply_words(text, taken_off)}")
    verdicts = {_allowed(winner, allowed) for winner in winners}
    if len(verdicts) > 1:
        return read._replace(error=f"several winners in one reply: {listed(map(shown, winners), 5)}")
    verdict = verdicts.pop()
    if verdict is None:
        return read._replace(error=f"winner {shown(winners[0])} is not one of {', '.join(allowed)}")
    return read._replace(verdict=verdict)


def _fields(body: str) -> tuple[list[Any], str, str]:
    """Return all winners in a reply, the reasoning, and a note on how they were found."""
    found = objects(body)
    winners = [value for key, value in found.pairs if key == WINNER]
    if winners:
        reasoning = next((value for key, value in found.pairs if key == REASONING), "")
        winners += (said for match in _SAID.finditer(found.after(WINNER.__eq__)) for said in match.groups() if said)
        return winners, plain(reasoning), "" if found.whole else "taken out of prose"
    return _WINNER.findall(body), _reasoning(body), "broken JSON mended"


def _reasoning(body: str) -> str:
    """Return the reasoning in broken JSON: the text between its key and that of the winner."""
    begin = _REASONING.search(body)
    end = begin and _END_OF_REASONING.search(body, begin.end())
    return body[begin.end() : end.start()] if begin and end else ""


def _allowed(winner: Any, allowed: tuple[Verdict, ...]) -> str | None:
    if not isinstance(winner, str):
        return None
    plain = winner.strip(" \t\n.*_`'\"").casefold()
    return next((verdict for verdict in allowed if verdict.casefold() == plain), None)
