"""The embedded judge: an ASGI app that answers Chat Completions requests by measuring pixels.

Owns which questions are answered and how a client is served: it cannot tell this judge from a model behind an endpoint,
except by the answered model's name. The wire format stands in `chat`. Of figures, `measures` has the measurements and
`figure_rules` what follows from them; of generated images, `blobs` and `image_scores`; `passport_answers` what it says
to the plain questions of a passport.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from http import HTTPStatus
from threading import Lock
from typing import Any, TypeAlias

from tasks.embedded_judge.blobs import survey
from tasks.embedded_judge.chat import ANSWERED_MODEL, PROBE, BadRequest, ChatRequest, completion, failure, read_request
from tasks.embedded_judge.figure_rules import QUESTIONS, compare
from tasks.embedded_judge.image_scores import ASPECTS, look, score
from tasks.embedded_judge.image_view import Survey
from tasks.embedded_judge.measures import Measures, decode_rgb, measure
from tasks.embedded_judge.passport_answers import PASSPORT, passport_answer
from tasks.parameters import T2I
from tasks.pictures.bad_picture import BadPicture
from tasks.records import OVERALL_SCORE, SEEN

NEUTRAL = "Both are good"
PROMPT, OBJECTS = "Generation Prompt", "Objects to Look For"
"""Labels of the texts that are read with a generated image."""
KEPT_MEASURES = 512
"""Pictures whose measures are kept: the questions about a picture come within one chunk of samples or two."""

_log = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class Gauge:
    """Measures every picture once, however many threads ask for it, and keeps the newest results."""

    def __init__(self, kept: int = KEPT_MEASURES) -> None:
        self._kept = kept
        self._measured: dict[str, Future[Measures]] = {}
        self._lock = Lock()

    def measure(self, data: bytes) -> Measures:
        """The measures of the picture in these bytes. Raises BadPicture when there is none."""
        key = hashlib.sha256(data).hexdigest()
        with self._lock:
            known = self._measured.get(key)
            result = known or self._measured.setdefault(key, Future())
            if len(self._measured) > self._kept:
                del self._measured[next(iter(self._measured))]
        if known is None:
            self._fill(result, key, data)
        return result.result()

    def _fill(self, result: Future[Measures], key: str, data: bytes) -> None:
        try:
            result.set_result(measure(decode_rgb(data)))
        except BaseException as error:  # Threads that wait for this picture must hear of it, whatever it is.
            self._measured.pop(key, None)
            result.set_exception(error)


_gauge = Gauge()


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Answer one HTTP request (ASGI 3): a POST to any path that ends in /chat/completions.

    Whatever goes wrong becomes an error body: an in-process transport would raise the app's exceptions in the client.
    """
    if scope["type"] != "http":
        return
    status, body = await _respond(scope, receive)
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


async def _respond(scope: Message, receive: Receive) -> tuple[HTTPStatus, dict[str, Any]]:
    status, words = HTTPStatus.OK, ""
    if not scope["path"].endswith("/chat/completions"):
        status, words = HTTPStatus.NOT_FOUND, f"There is nothing at {scope['path']}; ask at /v1/chat/completions"
    elif scope["method"] != "POST":
        status, words = HTTPStatus.METHOD_NOT_ALLOWED, f"{scope['method']} is not answered here; send a POST"
    else:
        try:
            reply = await asyncio.to_thread(answer, await _body(receive))
            return status, completion(ANSWERED_MODEL, reply)
        except (BadRequest, BadPicture) as error:
            status, words = HTTPStatus.BAD_REQUEST, str(error)
        except Exception as error:
            _log.exception("The pixel judge failed")
            status, words = HTTPStatus.INTERNAL_SERVER_ERROR, f"The pixel judge failed: {type(error).__name__}: {error}"
    return status, failure(status, words)


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


def answer(body: bytes) -> dict[str, Any]:
    """The reply to a request, as the object that its reply schema asks for.

    Raises:
        BadRequest: an unknown question, an unknown aspect, pictures that do not fit the question, or no verdict that
            fits.
        BadPicture: a picture that cannot be decoded.
    """
    request = read_request(body)
    schema = request.response_format.json_schema
    if schema.name == PROBE:
        return {"ready": True}
    if schema.name.startswith(PASSPORT):
        return passport_answer(request)
    if schema.name in QUESTIONS:
        return _compared(schema.name, schema.verdicts(), request.pictures())
    if schema.name.partition("_")[0] in T2I:
        return _scored(request)
    known = ", ".join((PROBE, *QUESTIONS, *(f"{flow}_<tag>" for flow in T2I)))
    raise BadRequest(f"The pixel judge knows no {schema.name!r}; it answers {known}")


def _scored(request: ChatRequest) -> dict[str, Any]:
    schema = request.response_format.json_schema
    aspects = [key for key in schema.properties() if key not in (OVERALL_SCORE, SEEN)]
    if unknown := [key for key in aspects if key not in ASPECTS]:
        raise BadRequest(f"The pixel judge knows no aspect {', '.join(unknown)}; it scores {', '.join(ASPECTS)}")
    if not aspects:
        raise BadRequest(f"The reply schema {schema.name!r} names no aspect to score")
    prompt, found = request.text(PROMPT), survey(decode_rgb(request.picture()))
    always = [key for key in aspects if "null" not in schema.properties(key).get("score", {}).get("type", ())]
    scored = score(aspects, prompt, found, always)
    reply: dict[str, Any] = {one.aspect: {"explanation": one.explanation, "score": one.score} for one in scored}
    if SEEN in schema.properties():
        with_relation = "relation_holds" in schema.properties(SEEN)
        reply[SEEN] = _sight(request.text(OBJECTS).splitlines(), prompt, found, with_relation)
    return reply


def _sight(names: list[str], prompt: str, found: Survey, with_relation: bool) -> dict[str, Any]:
    seen = look(names, prompt, found)
    objects = [{"object": one.name, **one.model_dump(exclude={"name"})} for one in seen.objects]
    return {"objects": objects, **({"relation_holds": seen.relation_holds} if with_relation else {})}


def _compared(question: str, allowed: list[str], pictures: dict[str, bytes]) -> dict[str, Any]:
    if len(pictures) != 2:
        raise BadRequest(f"The pixel judge compares a Human and a Model picture; found {', '.join(pictures) or 'none'}")
    found = compare(question, _gauge.measure(pictures["human"]), _gauge.measure(pictures["model"]))
    verdict = found.verdict if found.verdict in allowed else NEUTRAL
    if verdict not in allowed:
        raise BadRequest(f"The pixel judge needs {NEUTRAL!r} among the verdicts allowed; found {', '.join(allowed)}")
    name = question.partition("_")[2].capitalize()
    reasoning = (
        f"{name} of Human: {found.human}; {name} of Model: {found.model}; "
        f"Conclusion: {found.conclusion}: {verdict}. (Pixels were measured; nothing was read.)"
    )
    return {"comparison_reasoning": reasoning, "winner": verdict}
