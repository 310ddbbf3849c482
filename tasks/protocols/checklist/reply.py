"""Reply to the checks of a picture: its form and its answers.

An answer outside its form is no answer: the call is asked again, and nothing is guessed.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.endpoint.replies import (
    FIRST_TOKEN,
    TEXT,
    bare_word,
    mended_objects,
    plain,
    recovery,
    reply_words,
    shown,
    unwrapped,
)
from tasks.endpoint.requests import object_schema
from tasks.protocols.checklist.parameters import ONE_BY_ONE, SINGLE, SOFT
from tasks.protocols.checklist.prompts import NUMBERS, as_number
from tasks.protocols.protocol import Reading, ReplyForm
from tasks.records import AspectScore, Check, Sample
from tasks.text import bounded, listed

RIGHT = 100.0
"""Score of a right answer; that of a wrong one is 0."""
ANSWERS, NUMBER, REASON, ANSWER = "answers", "number", "reason", "answer"
"""Keys of a reply."""
_ALLOWED = {"yes_no": "yes or no", "number": "a whole number in digits", "ordinal": "0, 1 or 2"}
"""Form of a check -> its answers in words; a choice names its options."""
MOST_NAMED = 5
"""Most faults of a reply that its error names."""
LOWER_BOUND = "lower bound"
"""Note on a reply whose right answer may be more probable than its score."""
LEAST_ALLOWED = 0.5
"""Least probability that all allowed answers have together; with less, the reply is no answer."""
MOST_UNSEEN = 0.01
"""Probability beside the alternatives from which on they may lack a point of the score."""
_MOST_TOLD = 3
_WORD = re.compile(r"\w+")
_MARKS = " \t\r\n()*_`'\""
"""Marks around an answer. So is a full stop behind it; before a number it is a decimal point."""


def questions_text(sample: Sample) -> str:
    """Return the checks as they are asked, each with the answers that are allowed; several are numbered from 1."""
    lines = [_asked(check) for check in sample.checks]
    if sample.tag in ONE_BY_ONE:
        return lines[0]
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _asked(check: Check) -> str:
    if check.form == "choice":
        options = "; ".join(f"{letter}: {words}" for letter, words in check.options)
        return f"{check.question} (a letter: {options})"
    return f"{check.question} ({_ALLOWED[check.form]})"


def reply_form(sample: Sample) -> ReplyForm:
    """Return the form of the reply, reasons before answers. Its schema has no bounds: some servers refuse them."""
    # A reply that is reused names the checks by the ids of its time.
    allowed = [[each.check_id, each.question, each.form, each.options, each.expected] for each in sample.checks]
    if sample.tag == SOFT:
        return ReplyForm({}, "Reply with one word, an allowed answer, and nothing around it.", allowed)
    properties = {REASON: {"type": "string"}, ANSWER: {"type": "string"}}
    answer = f'"{REASON}", a string of one sentence, and then "{ANSWER}", a string that is one of the allowed answers'
    opening = "Reply with a single JSON object and nothing around it."
    if sample.tag == SINGLE:
        return ReplyForm(object_schema(properties), f"{opening} It has two keys: {answer}.", allowed)
    each = object_schema({NUMBER: {"type": "integer"}, **properties})
    words = (
        f'{opening} Its key "{ANSWERS}" holds an array with one object for each of the {len(sample.checks)} questions, '
        f'in their order: "{NUMBER}", the number of the question, {answer}.'
    )
    return ReplyForm(object_schema({ANSWERS: {"type": "array", "items": each}}), words, allowed)


def read(text: str, sample: Sample) -> Reading:
    """Return the scores of the answers in a reply; with an error, those of the answers that have their form."""
    if sample.tag == SOFT:
        return _read_one_word(text, *sample.checks)
    body, taken_off = unwrapped(text)
    given, how = _answers(body, sample)
    read = Reading(recovery=recovery(*taken_off, how))
    if not given:
        return read._replace(error=f"no answer found in {reply_words(text, taken_off)}")
    numbers, known = Counter(number for number, _ in given), range(1, len(sample.checks) + 1)
    problems = [f"question {shown(number)} is answered {times} times" for number, times in numbers.items() if times > 1]
    problems += [f"there is no question {shown(each)}" for each in numbers if each not in known]
    scores: list[AspectScore] = []
    for number, check in enumerate(sample.checks, 1):
        its = [values for asked, values in given if asked == number]
        answer = answer_in_form(check, its[0].get(ANSWER)) if len(its) == 1 else None
        if answer is not None:
            reason = plain(its[0].get(REASON, ""))
            named = " ".join([answer, *(f"({words})" for letter, words in check.options if letter == answer)])
            words = f"{named}: {reason}" if reason else named
            scores.append(AspectScore(aspect=check.check_id, score=score_of(check, answer), explanation=words))
        elif len(its) == 1:
            problems.append(f"question {number} is answered {shown(its[0].get(ANSWER))}, allowed is {_allowed(check)}")
        elif not its:
            problems.append(f"question {number} has no answer")
    first = scores[0].explanation if len(sample.checks) == len(scores) == 1 else ""
    error = "; ".join(bounded(problems[:MOST_NAMED], len(problems)))
    return read._replace(scores=tuple(scores), reasoning=first, error=error)


def _answers(body: str, sample: Sample) -> tuple[list[tuple[int | str, Mapping[str, Any]]], str]:
    """Return (number of the question, its answer with the reason) for each answer, and a note on how it was read."""
    found, how = mended_objects(body)
    if sample.tag != SINGLE:
        return [(_number(item.get(NUMBER)), item) for item in found.in_lists(ANSWERS)], how
    given = [value for key, value in found.pairs if key == ANSWER]
    reason = next((value for key, value in found.pairs if key == REASON), "")
    different = {str(value): value for value in map(_scalar, given)}
    return [(1, {REASON: reason, ANSWER: value}) for value in different.values()], how


def _scalar(value: object) -> str | int | float:
    """Return a value of a reply that can be compared: itself, or its text if it is an object or a list."""
    return value if isinstance(value, str | int | float) else shown(value)


def _number(value: object) -> int | str:
    """Return the number of a question, which some models write as text; the text of anything else."""
    text = _bare(str(_scalar(value)))
    return int(text) if text.isdecimal() and len(text) < 6 else text


def _allowed(check: Check) -> str:
    return listed(letter for letter, _ in check.options) if check.form == "choice" else _ALLOWED[check.form]


def answer_in_form(check: Check, given: object) -> str | None:
    """Return an answer as its form spells it; None for anything else. `two` is 2, and a choice may be its words."""
    if isinstance(given, bool):
        given = "yes" if given else "no"
    if not isinstance(given, str | int | float):
        return None
    text = _bare(str(given))
    if check.form == "yes_no":
        return text if text in ("yes", "no") else None
    if check.form == "choice":
        return _letter(check.options, text)
    number = as_number(text)
    if number is None or number < 0 or number != int(number) or (check.form == "ordinal" and number > 2):
        return None
    return str(int(number))


def _bare(text: str) -> str:
    """Return a text without marks around it, in small letters."""
    return text.lstrip(_MARKS).rstrip(_MARKS + ".").casefold()


def _letter(options: Sequence[tuple[str, str]], text: str) -> str | None:
    """Return the option that is meant. A letter alone is the option's own, even if it is the words of another."""
    by_letter = {letter.casefold(): letter for letter, _ in options}
    if text in by_letter:
        return by_letter[text]
    for letter, words in options:
        wording = _bare(words)
        if text == wording or re.fullmatch(rf"{letter}[).:\s]+{re.escape(wording)}", text, re.I):
            return letter
    return None


def score_of(check: Check, answer: str) -> float:
    """Return the score of an answer in its form: 100 if it is expected, else 0; an ordinal is worth half its value."""
    if check.form == "ordinal":
        return RIGHT * int(answer) / 2
    if check.form == "number":
        return RIGHT * (float(answer) in {as_number(each) for each in check.expected})
    return RIGHT * (answer.casefold() in {each.strip().casefold() for each in check.expected})


def _read_one_word(text: str, check: Check) -> Reading:
    """Return the score of a soft check: 100 times the probability of the right answer, over all of its spellings.

    The rule is that of Soft-TIFA (GenEval 2, arXiv 2512.16853); the wording is ours, so its name is no name of a score.
    An ordinal has the mean worth of its answers. The note `LOWER_BOUND` is on a score that may be too low, because the
    right answer is not among the alternatives, or these leave a hundredth or more to others.

    Args:
        text: a reply of one word, as `Reply.of_one_word` returns it.
    """
    reply: dict[str, Any] = json.loads(text)
    tokens = {token: math.exp(logarithm) for token, logarithm in reply[FIRST_TOKEN]}
    if not tokens:
        return Reading(error=f"the reply has no probabilities of its first token: {shown(reply[TEXT])}")
    first, word = next(iter(tokens)), _WORD.search(reply[TEXT])
    if word and _answer_begun(check, word[0]) not in (None, _answer_begun(check, first)):
        return Reading(error=f"the first token, {shown(first)}, is only a part of the answer in {shown(reply[TEXT])}")
    answers: dict[str, float] = {}
    for token, probability in tokens.items():
        if (answer := _answer_begun(check, token)) is not None:
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


def _answer_begun(check: Check, token: str) -> str | None:
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
