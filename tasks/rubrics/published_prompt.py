"""What a published prompt declares: which question it asks, and the front matter that its text amounts to.

Owns how the question is found in its headings or its key, and the TOML that is written. What is taken from the
text, and what from the default prompt of that question, is for the model of the prompt.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.rubrics.rubric import PROMPT_MODELS, Prompt


def question_named(names: Sequence[str], known: Iterable[str]) -> str:
    """The question, `<flow>/<dimension>`, that headings or the parts of a key name; empty when none or several.

    A dimension is named under its flow, and its heading may say more. A tag stands for itself, and, being a common
    word, must be all of its heading.
    """
    last = names[-1] if names else ""
    tag = "_".join(re.findall(r"[a-z0-9]+", last.lower()))
    by_flow = [flow for flow, model in PROMPT_MODELS.items() if model.named_by_flow]
    said = ([flow for flow in by_flow if _says(name, flow)] for name in reversed(names))
    flows = next(filter(None, said), list[str]())
    matches = list[str]()
    for question in known:
        flow, _, dimension = question.partition("/")
        if (flow in flows and _says(last, dimension)) if flow in by_flow else (not flows and dimension == tag):
            matches.append(question)
    return matches[0] if len(matches) == 1 else ""


def names_allowed(known: Iterable[str]) -> str:
    """What may name a question, in words: a flow with one of its dimensions, or a tag."""
    of_flows, tags = dict[str, list[str]](), list[str]()
    for question in known:
        flow, _, dimension = question.partition("/")
        if PROMPT_MODELS[flow].named_by_flow:
            of_flows.setdefault(flow, []).append(dimension)
        else:
            tags.append(dimension)
    found = [f"{flow} with {', '.join(dimensions[:-1])} or {dimensions[-1]}" for flow, dimensions in of_flows.items()]
    return "; ".join([*found, *([f"alone {', '.join(tags[:-1])} or {tags[-1]}"] if tags else [])])


def _says(name: str, word: str) -> bool:
    return re.search(rf"\b{word}s?\b", name, re.IGNORECASE) is not None


def front_matter(text: str, default: Prompt) -> str:
    """The front matter of a published text that asks what the default prompt asks, in TOML.

    Raises:
        InputError: what the text declares does not fit, with what was found and what is allowed.
    """
    return "\n".join(_toml(default.of_published(text))).strip() + "\n"


def _toml(values: Mapping[str, Any], name: str = "") -> Iterator[str]:
    """Lines of a table, then those of the tables in it; one that holds nothing else has no heading."""
    own = {key: value for key, value in values.items() if not isinstance(value, dict)}
    if name and own:
        yield f"\n[{name}]"
    for key, value in own.items():
        # TOML writes texts and arrays as JSON does, but has no surrogate pairs: nothing may be escaped to one.
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in values.items():
        if key not in own:
            yield from _toml(value, f"{name}.{key}" if name else key)
