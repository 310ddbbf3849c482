"""The stages of a PaperBanana result file: where each keeps its picture, and which one stands for a needless one.

Owns the keys of a record and what they tell of the critic, who ends a generator's run when nothing must change. Rows
and files are for `model_outputs`.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tasks.errors import InputError
from tasks.text import listed

NAMED = "eval_image_field"
"""Key of a result record that names the key of the picture to judge."""
ROUNDS = "max_critic_rounds"
"""Key that tells how many rounds the critic had, where the generator tells it."""
USUAL_ROUNDS = 3
"""What PaperBanana gives its critic unless told otherwise."""

_STAGES = {
    "vanilla": "vanilla_{flow}_base64_jpg",
    "planner": "target_{flow}_desc0_base64_jpg",
    "stylist": "target_{flow}_stylist_desc0_base64_jpg",
    "polished": "polished_{flow}_base64_jpg",
}
_BEFORE_THE_CRITIC = ("planner", "stylist")
"""Stages whose picture the critic looks at first, the later one last."""
_CRITIC = "target_{flow}_critic_desc{round}_base64_jpg"
_SUGGESTIONS = "target_{flow}_critic_suggestions{round}"
_OF_A_ROUND = "target_{flow}_critic_(?:desc|suggestions)([0-9]+)(?:_.*)?"
_CONTENT = re.compile(r"\W*no changes? (?:(?:is|are) )?(?:needed|required|necessary)\W*", re.IGNORECASE)


class Carried(NamedTuple):
    """An earlier stage whose picture stands for one that the generator had no reason to make."""

    stage: str
    due: bool
    """The generator had such a round, as far as is known: so says the record, or it is one of the usual ones."""


def stage_key(stage: str, flow: str) -> str:
    """Key of a result record that holds the picture of a stage. Raises InputError for a stage that does not exist."""
    if stage in _STAGES:
        return _STAGES[stage].format(flow=flow)
    if (number := _round(stage)) is not None:
        return _CRITIC.format(flow=flow, round=number)
    raise InputError(f"stage {stage!r} does not exist, allowed are {', '.join(_STAGES)}, critic0, critic1, …")


def stages_among(keys: Collection[str], flow: str) -> str:
    """The stages whose pictures stand under some of these keys, in words."""
    return listed(sorted(filter(None, (_stage_of(key, flow) for key in keys))))


def carried(record: Mapping[str, object], stage: str, flow: str) -> Carried | None:
    """The last picture before a round that the critic's contentment made needless; None where no such end is shown.

    It is shown where the critic says in that round or before that no changes are needed, or where the record names the
    picture of an earlier stage as its last and holds nothing of a later round: PaperBanana leaves both behind. A round
    that failed leaves its text without a picture, and one beyond the rounds that the critic had was never due.
    """
    number, rounds = _round(stage), record.get(ROUNDS)
    if number is None or (isinstance(rounds, int) and number >= rounds):
        return None
    due = isinstance(rounds, int) or number < USUAL_ROUNDS
    if (content := _content_round(record, number, flow)) is not None:
        last = _pictured(record, content, flow)[-1:]
        return Carried(last[0], due) if last else None
    named = _stage_of(str(record.get(NAMED)), flow)
    if named in _pictured(record, number, flow) and _last_round(record, flow) <= _ordinal(named):
        return Carried(named, due)
    return None


def _round(stage: str) -> int | None:
    """Number of a critic's round; None for another stage."""
    found = re.fullmatch(r"critic([0-9]{1,4})", stage)
    return int(found[1]) if found else None


def _ordinal(stage: str) -> int:
    found = _round(stage)
    return -1 if found is None else found


def _stage_of(key: str, flow: str) -> str:
    """Stage whose picture stands under a key; empty when it is the key of no stage."""
    if critic := re.fullmatch(_CRITIC.format(flow=flow, round="([0-9]+)"), key):
        return f"critic{critic[1]}"
    return next((stage for stage, pattern in _STAGES.items() if pattern.format(flow=flow) == key), "")


def _content_round(record: Mapping[str, object], last: int, flow: str) -> int | None:
    """The first round, up to this one, in which the critic said that nothing must change."""
    said = (str(record.get(_SUGGESTIONS.format(flow=flow, round=number), "")) for number in range(last + 1))
    return next((number for number, words in enumerate(said) if _CONTENT.fullmatch(words)), None)


def _pictured(record: Mapping[str, object], number: int, flow: str) -> list[str]:
    """Stages before a round that have a picture, the last one last."""
    stages = [*_BEFORE_THE_CRITIC, *(f"critic{earlier}" for earlier in range(number))]
    return [stage for stage in stages if record.get(stage_key(stage, flow))]


def _last_round(record: Mapping[str, object], flow: str) -> int:
    """The last round of which the record holds anything, be it null; -1: none."""
    met = (re.fullmatch(_OF_A_ROUND.format(flow=flow), key) for key in record)
    return max((int(found[1]) for found in met if found), default=-1)
