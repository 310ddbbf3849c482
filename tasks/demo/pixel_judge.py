"""The embedded judge, which measures pixels, understands nothing, and states that in every answer."""

import asyncio
import logging
import re
from functools import lru_cache
from http import HTTPStatus
from threading import Lock
from typing import Any

import httpx2

from tasks.demo.chat import PROBE, BadRequest, Question, completion, read_request
from tasks.demo.figure_judge import Measures, compare, measure
from tasks.demo.image_judge import answer_exam, find_blobs, look, name_blobs, score
from tasks.parameters import PAIRWISE, T2I
from tasks.pictures.bad_picture import BadPicture
from tasks.pictures.prepare import as_shown
from tasks.records import OVERALL_SCORE, SEEN

NEUTRAL = "Both are good"
PROMPT, OBJECTS = "Generation Prompt", "Objects to Look For"
"""Labels of the texts that are read with a generated image."""
PASSPORT = "passport_"  # begins the names of the reply schemas of the judge exam
KEPT_PICTURES = 128
"""Pictures whose measures are kept: the questions about a picture come within one chunk of samples or two."""

_log = logging.getLogger(__name__)
_lock = Lock()


async def respond(request: httpx2.Request) -> httpx2.Response:
    """Respond to a request as an endpoint would, errors included; the handler of an `httpx2.MockTransport`."""
    try:
        body = completion(await asyncio.to_thread(answer, await request.aread()))
        return httpx2.Response(HTTPStatus.OK, json=body)
    except (BadRequest, BadPicture) as error:
        status, kind, words = HTTPStatus.BAD_REQUEST, "invalid_request_error", str(error)
    except Exception as error:
        _log.exception("The pixel judge failed")
        status, kind = HTTPStatus.INTERNAL_SERVER_ERROR, "server_error"
        words = f"The pixel judge failed: {type(error).__name__}: {error}"
    return httpx2.Response(status, json={"error": {"message": words, "type": kind, "code": None, "param": None}})


def answer(body: bytes) -> dict[str, Any]:
    """Return the reply to a request, as the object that its reply schema asks for.

    Raises BadRequest where the question cannot be answered, and BadPicture where a picture cannot be decoded.
    """
    question = read_request(body)
    if question.name == PROBE:
        return {"ready": True}
    if question.name.startswith(PASSPORT):
        return _answer_exam(question)
    flow = question.name.partition("_")[0]
    if flow in PAIRWISE:
        return _compare(question)
    if flow in T2I:
        return _score(question)
    known = ", ".join((PROBE, *(f"{flow}_<dimension>" for flow in PAIRWISE), *(f"{flow}_<tag>" for flow in T2I)))
    raise BadRequest(f"The pixel judge knows no {question.name!r}; it answers {known}")


def _compare(question: Question) -> dict[str, Any]:
    pictures, allowed = question.roles(), question.properties["winner"]["enum"]
    found = compare(question.name, _measure(pictures["human"]), _measure(pictures["model"]))
    verdict = found.verdict if found.verdict in allowed else NEUTRAL
    if verdict not in allowed:
        raise BadRequest(f"The pixel judge needs {NEUTRAL!r} among the verdicts allowed; found {', '.join(allowed)}")
    name = question.name.partition("_")[2].capitalize()
    reasoning = (
        f"{name} of Human: {found.human}; {name} of Model: {found.model}; "
        f"Conclusion: {found.conclusion}: {verdict}. (Pixels were measured; nothing was read.)"
    )
    return {"comparison_reasoning": reasoning, "winner": verdict}


@lru_cache(maxsize=KEPT_PICTURES)
def _measure_once(data: bytes) -> Measures:
    return measure(as_shown(data))


def _measure(data: bytes) -> Measures:
    with _lock:  # the questions about a picture come at the same time
        return _measure_once(data)


def _score(question: Question) -> dict[str, Any]:
    if len(question.pictures) != 1:
        raise BadRequest(f"A generated image is judged alone; found {len(question.pictures)} pictures")
    aspects = [key for key in question.properties if key not in (OVERALL_SCORE, SEEN)]
    prompt, found = question.text(PROMPT), find_blobs(as_shown(question.pictures[0][1]))
    scored = score(aspects, prompt, found)
    reply: dict[str, Any] = {one.aspect: {"explanation": one.explanation, "score": one.score} for one in scored}
    if SEEN in question.properties:
        seen = look(question.text(OBJECTS).splitlines(), prompt, found).model_dump()
        objects = [{"object": one.pop("name"), **one} for one in seen["objects"]]
        asked = question.properties[SEEN].get("properties", {})
        relation = {"relation_holds": seen["relation_holds"]} if "relation_holds" in asked else {}
        reply[SEEN] = {"objects": objects} | relation
    return reply


def _answer_exam(question: Question) -> dict[str, Any]:
    """Answer a question of the judge exam with words that its form allows."""
    seen = [find_blobs(as_shown(data)) for _, data in question.pictures]
    found = answer_exam(question.name.removeprefix(PASSPORT), re.findall(r"\w+", question.texts[0]), seen)
    form = question.properties["answer"]
    if allowed := form.get("enum") or form.get("items", {}).get("enum"):
        # Each list ends with the word that claims least: nothing, neither.
        words = [word if word in allowed else allowed[-1] for word in (found if isinstance(found, list) else [found])]
        found = words if isinstance(found, list) else words[0]
    return {"seen": f"{'; '.join(map(name_blobs, seen))}. (Pixels were measured; nothing was read.)", "answer": found}
