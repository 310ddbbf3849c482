"""What a published prompt declares: which question it asks, and the front matter that its text amounts to.

Owns what is taken from where. The question comes from its headings or its key. The labels of its inputs, or its aspects
and the meaning of 0 and 10, come from its text. Which inputs there are, the tier, the verdicts, and when an aspect does
not apply come from the default prompt of that question.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from tasks.errors import InputError
from tasks.parameters import PAIRWISE
from tasks.records import OVERALL_SCORE
from tasks.rubrics.rubric import PairwisePrompt, Prompt, RubricPrompt
from tasks.text import listed

_LABEL = re.compile(r"^\d+\.[ \t]+\*\*(.+?)\*\*: \[", re.MULTILINE)
_KEYS = re.compile(r"\bkeys\b[^`.\n]*(`[^.\n]*)")
_KEY = re.compile(r"`([A-Za-z0-9_]+)`")
_SCALE = re.compile(r"^Score: 0 \((.+)\) to 10 \((.+)\)\.?[ \t\r]*$", re.MULTILINE)


def question_named(names: Sequence[str], known: Iterable[str]) -> str:
    """The question, `<flow>/<dimension>`, that headings or the parts of a key name; empty when none or several.

    A dimension is named under its flow, and its heading may say more. A tag stands for itself, and, being a common
    word, must be all of its heading.
    """
    last = names[-1] if names else ""
    tag = "_".join(re.findall(r"[a-z0-9]+", last.lower()))
    said = ([flow for flow in PAIRWISE if _says(name, flow)] for name in reversed(names))
    flows = next(filter(None, said), list[str]())
    matches = list[str]()
    for question in known:
        flow, _, dimension = question.partition("/")
        pairwise = flow in PAIRWISE
        if (flow in flows and _says(last, dimension)) if pairwise else (not flows and dimension == tag):
            matches.append(question)
    return matches[0] if len(matches) == 1 else ""


def _says(name: str, word: str) -> bool:
    return re.search(rf"\b{word}s?\b", name, re.IGNORECASE) is not None


def front_matter(text: str, default: Prompt) -> str:
    """The front matter of a published text that asks what the default prompt asks, in TOML.

    Raises:
        InputError: what the text declares does not fit, with what was found and what is allowed.
    """
    lines = _comparison(text, default) if isinstance(default, PairwisePrompt) else _scales(text, default)
    return "\n".join(lines).strip() + "\n"


def _comparison(text: str, default: PairwisePrompt) -> Iterator[str]:
    """Labels as the published prompts list their inputs: `1.  **Diagram Caption**: [content]`."""
    labels: list[str] = _LABEL.findall(text)
    inputs = dict(zip(default.inputs, labels, strict=False))
    figures = all(role in inputs.get(role, "").lower() for role in ("human", "model"))
    if len(labels) != len(default.inputs) or not figures:
        raise InputError(
            f"found the inputs {listed(labels)}; allowed: a numbered list with a line `1. **Label**: [...]` "
            f"for each of {listed(default.inputs)}, in this order"
        )
    yield f"tier = {default.tier}"
    yield f"verdicts = {_toml(default.verdicts)}"
    if default.default:
        yield f"default = {_toml(default.default)}"
    yield from _table("inputs", inputs.items())


def _scales(text: str, default: RubricPrompt) -> Iterator[str]:
    """Aspects as the published rubrics name and anchor them: keys in backticks, then a `Score:` line each, in order."""
    sentence = _KEYS.search(text)
    keys = [key for key in _KEY.findall(sentence[1] if sentence else "") if key != OVERALL_SCORE]
    scales: list[tuple[str, str]] = _SCALE.findall(text)
    if not keys or len(keys) != len(scales):
        raise InputError(
            f"found the keys {listed(keys)} and lines `Score: 0 (...) to 10 (...)`: {len(scales)}; allowed: a "
            "sentence that names the keys in backticks, and one such line for each, in this order"
        )
    yield from _table("inputs", default.inputs.items())
    for key, (zero, ten) in zip(keys, scales, strict=True):
        known = default.aspects.get(key)
        exception = [("not_applicable", known.not_applicable)] if known and known.not_applicable else []
        yield from _table(f"aspects.{key}", [("zero", zero), ("ten", ten), *exception])


def _table(name: str, values: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"\n[{name}]"
    yield from (f"{key} = {_toml(value)}" for key, value in values)


def _toml(value: str | Sequence[str]) -> str:
    # TOML writes texts and arrays of them as JSON does, but has no surrogate pairs: nothing may be escaped to one.
    return json.dumps(value, ensure_ascii=False)
