"""A judge's reasoning taken apart into what it says of Human, of Model, and its conclusion.

The prompts ask for one string of three parts: `Faithfulness of Human: …; Faithfulness of Model: …; Conclusion: …`. A
judge that writes otherwise is shown whole.
"""

import re

_HEADS = re.compile(
    r"[\s;*_]{0,8}(?:\b[A-Za-z]+ of (?:the )?(Human|Model)|\b(Conclusion))\b[\s*_]*:[\s*_]*", re.IGNORECASE
)
_WANTED = ["Human", "Model", "Conclusion"]


def split(text: str) -> list[tuple[str, str]]:
    """(heading, text) of the three parts, or the whole text under no heading where it has other parts."""
    heads = list(_HEADS.finditer(text))
    found = [(head[1] or head[2]).capitalize() for head in heads]
    # A conclusion may speak of either side once more; what follows the first three heads belongs to it.
    if found[:3] != _WANTED or text[: heads[0].start()].strip():
        return [("", text)]
    begins = [head.end() for head in heads[:3]]
    ends = [heads[1].start(), heads[2].start(), len(text)]
    return [(name, text[begin:end].strip()) for name, begin, end in zip(_WANTED, begins, ends, strict=True)]


def cut(text: str, limit: int) -> str:
    """The text itself where it has at most so many bytes of UTF-8, else its beginning and a word on the rest."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode('utf-8', 'ignore')}… (cut; the history holds all {len(text):,} characters)"
