"""Soft answers: how probable each answer is, by the alternatives to the first token of a reply.

The rule is that of Soft-TIFA (GenEval 2, arXiv 2512.16853). Its wording is not ours, so its name is no name of a score.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from tasks.endpoint.replies import FIRST_TOKEN, TEXT, bare_word, shown
from tasks.protocols.checklist.prompts import NUMBERS
from tasks.protocols.checklist.reply import RIGHT, answer_in_form, score_of
from tasks.protocols.protocol import Reading
from tasks.records import AspectScore, Check, Sample

LOWER_BOUND = "lower bound"
"""Note on a reply whose right answer may be more probable than its score."""
LEAST_ALLOWED = 0.5
"""Least probability that all allowed answers have together; with less, the reply is no answer."""
MOST_UNSEEN = 0.01
"""Probability beside the alternatives from which on they may lack a point of the score."""
_MOST_TOLD = 3
_WORD = re.compile(r"\w+")


def read(text: str, sample: Sample) -> Reading:
    """Return the score of a check: 100 times the probability of the right answer, over all of its spellings.

    An ordinal has the mean worth of its answers. The note `LOWER_BOUND` is on a score that may be too low, because the
    right answer is not among the alternatives, or these leave a hundredth or more to others.

    Args:
        text: a reply of one word, as `Reply.of_one_word` returns it.
    """
    [check] = sample.checks
    reply: dict[str, Any] = json.loads(text)
    tokens = {token: math.exp(logarithm) for token, logarithm in reply[FIRST_TOKEN]}
    if not tokens:
        return Reading(error=f"the reply has no probabilities of its first token: {shown(reply[TEXT])}")
    first, word = next(iter(tokens)), _WORD.search(reply[TEXT])
    if word and answer_begun(check, word[0]) not in (None, answer_begun(check, first)):
        return Reading(error=f"the first token, {shown(first)}, is only a part of the answer in {shown(reply[TEXT])}")
    answers: dict[str, float] = {}
    for token, probability in tokens.items():
        if (answer := answer_begun(check, token)) is not None:
            answers[answer] = answers.get(answer, 0.0) + probability
    if (allowed := sum(answers.values())) < LEAST_ALLOWED:
        return Reading(error=f"allowed answers have {allowed:.1%} of the probability in {shown(reply[TEXT])}")
    score = min(RIGHT, sum(probability * score_of(check, answer) for answer, probability in answers.items()))
    is_bound = not any(score_of(check, answer) for answer in answers) or 1 - sum(tokens.values()) >= MOST_UNSEEN
    likely = sorted(answers.items(), key=lambda each: -each[1])[:_MOST_TOLD]
    words = ", ".join(f"{answer} {probability:.1%}" for answer, probability in likely)
    words += f" ({LOWER_BOUND})" * is_bound
    scores = (AspectScore(aspect=check.check_id, score=score, explanation=words),)
    return Reading(scores=scores, reasoning=words, recovery=LOWER_BOUND if is_bound else "strict")


def answer_begun(check: Check, token: str) -> str | None:
    """Return the answer that a first token is, or begins if no other begins so; None for any other token."""
    word = bare_word(token).casefold()
    answer = answer_in_form(check, word)
    if answer is not None or not word:
        return answer
    begun = {answer for spelling, answer in _spellings(check) if spelling.startswith(word)}
    return begun.pop() if len(begun) == 1 else None


def _spellings(check: Check) -> Iterator[tuple[str, str]]:
    """Yield the words of each answer that a check may have, and the answer; digits are whole answers, never begun."""
    if check.form == "choice":
        yield from ((words.strip().casefold(), letter) for letter, words in check.options)
    elif check.form == "yes_no":
        yield from (("yes", "yes"), ("no", "no"))
    else:
        words = NUMBERS[:3] if check.form == "ordinal" else NUMBERS
        yield from ((word, str(number)) for number, word in enumerate(words))
