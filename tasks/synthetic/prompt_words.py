"""The wording of text-to-image prompts, as far as the drawn samples and the embedded judge understand it.

Owns the wording that GenEval uses, in both directions: what is asked for becomes a sentence, and a sentence becomes
what is asked for. Of other prompts it understands what is worded in the same way, and it guesses nothing.
"""

import re
from collections.abc import Sequence

from tasks.records import Requirement

COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
"""The colors of GenEval's prompts."""
RELATIONS = ("left of", "right of", "above", "below")
"""The relations of GenEval's prompts."""
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_OPENING = re.compile(r"^(an?|the) (photo|picture|image|drawing|painting) of ")
_RELATION = re.compile(r"(?: (?:is|to the|on the))* (left of|right of|above|below) ")
_AND = re.compile(r" and |, ")
_COUNTS = {"a": 1, "an": 1, "the": 1, **{word: number for number, word in enumerate(NUMBERS, 1)}}
_DIGITS = re.compile(r"[0-9]{1,3}")
_PLURAL = re.compile(r"(?<=ss|.x|ch|sh)es$|(?<=\bbus)es$|s$")


def prompt_text(required: Sequence[Requirement]) -> str:
    """The prompt for these objects. An object with a relation is named before the one it relates to."""
    placed = next((one for one in required if one.relation and one.target is not None), None)
    if placed is None or placed.target is None:
        return f"a photo of {' and '.join(map(_phrase, required))}"
    return f"a photo of {_phrase(placed)} {placed.relation} {_phrase(required[placed.target])}"


def read_prompt(text: str) -> tuple[Requirement, ...]:
    """What a prompt asks for, in GenEval's order: an object that others relate to comes first."""
    plain = _OPENING.sub("", " ".join(text.lower().split()).rstrip("."))
    placed, relation, target = (*_RELATION.split(f" {plain}", maxsplit=1), "", "")[:3]
    if not (placed.strip() and target):
        return tuple(one for phrase in _AND.split(plain) if (one := _requirement(phrase)).name)
    return _requirement(target), _requirement(placed).model_copy(update={"relation": relation, "target": 0})


def _phrase(one: Requirement) -> str:
    words = f"{one.color} {one.name}".strip()
    if one.count == 1:
        return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
    return f"{NUMBERS[one.count - 1]} {words}{'es' if words.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def _requirement(phrase: str) -> Requirement:
    words = phrase.split()
    number = words.pop(0) if words and (words[0] in _COUNTS or _DIGITS.fullmatch(words[0])) else "a"
    # The last word names the object, whatever else it means: an orange is a fruit.
    color = words.pop(0) if len(words) > 1 and words[0] in COLORS else ""
    count = _COUNTS[number] if number in _COUNTS else int(number)
    name = " ".join(words)
    return Requirement(name=_PLURAL.sub("", name) if count > 1 else name, count=count, color=color)
