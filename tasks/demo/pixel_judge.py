"""The embedded judge, which measures pixels, understands nothing, and states that in every answer."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import httpx2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor
from scipy import ndimage as untyped_ndimage  # pyright: ignore[reportMissingTypeStubs]

from tasks.demo.canvas import PAINTS, SHAPES, silhouette
from tasks.demo.chat import ONE_WORD, PROBE, BadRequest, Question, completion, read_request
from tasks.demo.samples import ARROWS, BOXES, DIAGRAM_QUESTIONS, diagram_answers, plural, read_prompt
from tasks.pictures.decoding import BadPicture
from tasks.pictures.preparation import as_shown
from tasks.records import OVERALL_SCORE, SEEN, AspectScore, Requirement, Verdict
from tasks.records.parameters import CHECKLIST, PAIRWISE, T2I

ndimage: Any = untyped_ndimage

FIGURE_SIDE = 1000
"""Longest side, in pixels, at which figures are measured."""
LEAST_COLOR = 0.002
"""Share of colored pixels below which a picture counts as one without color."""
EMPTY_LINE = 0.004
"""Share of ink below which a row or column is empty; so many specks survive in the margins of a JPEG."""
LAYOUT_GRID = (32, 20)
"""Columns and rows of the map of where things are."""
STROKE_WIDTH, STROKE_DEPTH = 7, 40
"""Width below which strokes are of letters, and depth (of 255) by which they are darker than the gaps beside them."""
MUCH_LETTERING, LEAST_LETTERING = 0.03, 0.002
"""Share of strokes below which no figure is wordy, and below which letters may be too faint to be measured."""
WORDIER = 2.0
"""Ratio of lettering from which on a figure is the wordier one. Two drawings of one method differ by less."""
SAME_LAYOUT = {"diagram": 0.6, "plot": 0.8}
"""Flow -> agreement from which two figures count as the same. Any two plots agree in their frames and axes."""

Result = TypeVar("Result")
Pixels = NDArray[np.uint8]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measures:
    """Measures of one picture."""

    paper: float
    """Relative luminance of the paper: 0 black, 1 white."""
    content: float
    """Share of the area in the smallest rectangle around all that is drawn."""
    contrast: float
    """WCAG contrast ratio (1 to 21) that the sharpest hundredth of the content reaches."""
    lettering: float
    """Share of the area that narrow strokes cover, such as those of letters."""
    calm: float
    """Share of the picture's color that is not nearly as bright and saturated as a screen can make it."""
    layout: tuple[Numbers, Numbers]
    """Places of ink and of edges within the content, as two coarse maps."""


LIMITS = {
    # Dark themes go up to about #333333, which is 0.03; the darkest pure color, blue, is 0.07.
    "paper": ("black paper", 0.04),
    # WCAG 2 asks for 3:1 at the least, for large letters and for lines.
    "contrast": ("low contrast", 3.0),
    # Published figures are cropped: the drawing covers more than four fifths of the area.
    "content": ("wide margins", 0.6),
    # Published figures use neon colors for single marks, for less than a tenth of all their color.
    "calm": ("neon colors", 0.75),
}
"""Measure -> the fault of a figure that has less, and the limit. No good figure crosses one."""
VETOES = {
    "diagram_readability": ("paper", "contrast", "content"),
    "diagram_aesthetics": ("calm", "paper"),
    "plot_readability": ("contrast",),
    "plot_aesthetics": ("calm", "paper", "content"),
}
"""Question -> the vetoes of its prompt that pixels show. The plot prompts ask for a harmonious layout."""
QUESTIONS = ("diagram_faithfulness", "diagram_conciseness", "plot_faithfulness", "plot_conciseness", *VETOES)


class Finding(NamedTuple):
    """The measures of both figures in words, and the verdict."""

    human: str
    model: str
    conclusion: str
    verdict: Verdict


def compare_figures(question: str, human: Measures, model: Measures) -> Finding:
    """Answer a question, `<flow>_<dimension>`, about two figures. Questions not in `QUESTIONS` go by all faults."""
    flow, _, dimension = question.partition("_")
    if question not in QUESTIONS:
        found = _compare_faults(tuple(LIMITS), human, model)
        return found._replace(conclusion=f"pixels do not show {dimension}, so all faults count; {found.conclusion}")
    if dimension == "faithfulness":
        return _compare_layout(SAME_LAYOUT[flow], human, model)
    if dimension == "conciseness":
        return _compare_lettering(human, model)
    return _compare_faults(VETOES[question], human, model)


def _compare_layout(limit: float, human: Measures, model: Measures) -> Finding:
    agreed = agreement(human, model)
    parts = "taken as the reference", f"agrees to {agreed:.2f} in where things are (below {limit}: another figure)"
    if agreed >= limit:
        return Finding(*parts, "things are in the same places", "Both are good")
    return Finding(*parts, "things are elsewhere, as they would be in a true drawing of another layout too", "Human")


def _compare_lettering(human: Measures, model: Measures) -> Finding:
    few, many = sorted((human.lettering, model.lettering))
    parts = f"narrow strokes on {human.lettering:.1%} of the area", f"on {model.lettering:.1%}"
    if few < LEAST_LETTERING or many < max(MUCH_LETTERING, WORDIER * few):
        return Finding(*parts, f"neither clearly has {WORDIER:g} times the other's strokes", "Both are good")
    winner, wordy = ("Human", "Model") if model.lettering == many else ("Model", "Human")
    return Finding(*parts, f"the {wordy} figure has at least {WORDIER:g} times the other's strokes", winner)


def _compare_faults(vetoes: Sequence[str], human: Measures, model: Measures) -> Finding:
    numbers = [{name: float(getattr(one, name)) for name in vetoes} for one in (human, model)]
    described = [
        ", ".join(f"{name} {n:.3f} (at least {LIMITS[name][1]:g})" for name, n in one.items()) for one in numbers
    ]
    bad_human, bad_model = ([LIMITS[name][0] for name, n in one.items() if n < LIMITS[name][1]] for one in numbers)
    blamed = [f"{who} has {' and '.join(bad)}" for who, bad in (("Human", bad_human), ("Model", bad_model)) if bad]
    verdict: Verdict = "Both are bad" if bad_model else "Model"
    if not bad_human:
        verdict = "Human" if bad_model else "Both are good"
    return Finding(described[0], described[1], "; ".join(blamed) or "no limit is crossed", verdict)


def measure_figure(picture: Image.Image) -> Measures:
    """Measure one RGB picture."""
    picture = picture.copy()
    picture.thumbnail((FIGURE_SIDE, FIGURE_SIDE), Image.Resampling.BOX)
    pixels, gray = np.asarray(picture), np.asarray(picture.convert("L"))
    paper, light = _paper(pixels)
    ink = _ink(pixels, paper)
    window = _content(ink)
    inner = gray[window]
    low, high = (_luminance(pick(inner, 5)[::2, ::2]) for pick in (ndimage.minimum_filter, ndimage.maximum_filter))
    return Measures(
        paper=light,
        content=inner.size / gray.size,
        contrast=float(np.percentile((high + 0.05) / (low + 0.05), 99)),
        # On paper of a higher luminance black letters have more contrast than white ones, so letters are dark.
        lettering=_lettering(gray if light > 0.18 else 255 - gray),
        calm=_calm(pixels[::2, ::2]),
        layout=(_map(ink[window]), _map(_edges(inner))),
    )


def agreement(one: Measures, other: Measures) -> float:
    """Return the agreement of two pictures on the places of things: 1 entirely, about 0 not at all.

    The better of both maps counts: margins, other colors, inversion and coarseness spoil one of them at most.
    """
    return max(_correlation(*maps) for maps in zip(one.layout, other.layout, strict=True))


def _correlation(one: Numbers, other: Numbers) -> float:
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else float(np.allclose(one, other))


def _luminance(values: NDArray[Any]) -> Numbers:
    """Linearize levels of 0 to 255 by the sRGB curve, as in the WCAG definition of relative luminance."""
    value = values / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _paper(pixels: Pixels) -> tuple[NDArray[Any], float]:
    """Return the usual color along the border, and its relative luminance."""
    depth = max(2, min(pixels.shape[:2]) // 50)
    sides = pixels[:depth], pixels[-depth:], pixels[:, :depth], pixels[:, -depth:]
    paper = np.median(np.concatenate([side.reshape(-1, 3) for side in sides]), axis=0)
    return paper, float(_luminance(paper) @ (0.2126, 0.7152, 0.0722))


def _of_channels(pick: np.ufunc, pixels: NDArray[Any]) -> NDArray[Any]:
    """Return the largest or least channel of each pixel. numpy's own `max(axis=2)` takes many times as long."""
    return pick(pick(pixels[..., 0], pixels[..., 1]), pixels[..., 2])


def _ink(pixels: Pixels, paper: NDArray[Any]) -> NDArray[np.bool_]:
    # Relative to the strongest ink there is, so that a pale figure has ink as well.
    distance = _of_channels(np.maximum, np.abs(pixels - paper.astype(np.int16)))
    return distance > max(8.0, 0.1 * float(np.percentile(distance[::2, ::2], 99)))


def _content(ink: NDArray[np.bool_]) -> tuple["slice[int, int, None]", "slice[int, int, None]"]:
    rows, columns = (np.flatnonzero(ink.mean(axis=axis) > EMPTY_LINE) for axis in (1, 0))
    if not len(rows) or not len(columns):
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _lettering(gray: Pixels) -> float:
    gaps_closed = ndimage.grey_closing(gray, (1, STROKE_WIDTH)).astype(np.int16)
    return float((gaps_closed - gray > STROKE_DEPTH).mean())


def _calm(pixels: Pixels) -> float:
    brightest = _of_channels(np.maximum, pixels)
    chroma = brightest - _of_channels(np.minimum, pixels)
    colored = chroma > 0.15 * 255
    if colored.mean() < LEAST_COLOR:
        return 1.0
    neon = (brightest > 0.9 * 255) & (chroma > 0.5 * 255)
    return 1 - float(chroma[neon].sum() / chroma[colored].sum())


def _edges(gray: Pixels) -> Numbers:
    steps = ndimage.maximum_filter(gray, 3) - ndimage.minimum_filter(gray, 3)
    # Cut off, so that a pale line counts like a dark one.
    return np.minimum(steps / max(8.0, 0.4 * float(np.percentile(steps[::2, ::2], 99))), 1)


def _map(values: NDArray[Any]) -> Numbers:
    # The filter reaches into the neighboring cells, so that a small move changes little.
    image = Image.fromarray(values.astype(np.float32))
    return np.asarray(image.resize(LAYOUT_GRID, Image.Resampling.BILINEAR), np.float64)


IMAGE_SIDE = 256
"""Longest side, in pixels, at which blobs are looked for."""
LEAST_DIFFERENCE = 10
"""Levels of 255 beyond which a pixel differs from the ground."""
LEAST_AREA = 0.0007
"""Share of the picture below which an area is a speck."""
MOST_BLOBS = 12
"""Number of largest areas that are examined: a picture with more is no scene of a few plain shapes."""
FIT = 0.82
"""Share of common area from which two outlines are the same. No two drawn shapes have more than 0.8 in common."""
OUTLINE_SIDE = 24  # of the masks as which outlines are compared, in pixels

MARGIN = 0.1
"""Share of both sizes that the centers of objects beside each other must be apart, as in GenEval."""
MIDDLING = 5.0
"""Score of an aspect that pixels cannot show."""
CHECKS = {
    **dict.fromkeys(("object_completeness", "detectability", "individual_completeness"), "object"),
    **dict.fromkeys(("occlusion_handling", "separation_clarity", "occlusion_management"), "count"),
    **dict.fromkeys(("spatial_legibility", "count_accuracy"), "count"),
    **dict.fromkeys(("color_fidelity", "attribute_binding"), "color"),
    "position_accuracy": "position",
}
"""Aspect -> the checks that it is scored by. Objects that touch are one area, and counted as one."""


NAMES = (*PAINTS, "gray")
"""Color names by number. A color has the name of the paint that it differs from least."""
_COLORS = np.array([*map(ImageColor.getrgb, PAINTS.values()), (128, 128, 128)])


class Blob(NamedTuple):
    """One area. Its sides are shares of the picture's longest side."""

    left: float
    top: float
    right: float
    bottom: float
    color: str
    shape: str
    """Name of the drawn shape with this outline; empty: none."""

    @property
    def center(self) -> tuple[float, float]:
        """Middle of the bounding box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


Blobs = Sequence[Blob]


def find_blobs(picture: Image.Image) -> list[Blob]:
    """Return the areas of an RGB picture that differ from the usual color along the border, the largest first."""
    picture = picture.copy()
    picture.thumbnail((IMAGE_SIDE, IMAGE_SIDE), Image.Resampling.BOX)
    pixels = np.asarray(picture)
    ground = np.median(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]), axis=0)
    groups, _ = ndimage.label(
        _of_channels(np.maximum, np.abs(pixels - np.float32(ground))) > LEAST_DIFFERENCE, np.ones((3, 3))
    )
    sizes, boxes = np.bincount(groups.ravel()), ndimage.find_objects(groups)
    large = [group for group in np.argsort(-sizes[1:]) + 1 if sizes[group] >= LEAST_AREA * groups.size]
    return [_blob(pixels, groups == group, *boxes[group - 1]) for group in large[:MOST_BLOBS]]


def _blob(pixels: NDArray[np.uint8], mask: NDArray[np.bool_], rows: slice, columns: slice) -> Blob:
    # Squares of distances, without the square of the pixel, which they have in common.
    names = ((_COLORS**2).sum(axis=1) - pixels[mask] @ (2 * _COLORS.T)).argmin(axis=1)
    sides = (side / max(mask.shape) for side in (columns.start, rows.start, columns.stop, rows.stop))
    at_border = mask[[0, -1]].any() or mask[:, [0, -1]].any()  # as in a photo
    shape = "" if at_border else _shape(mask[rows, columns])
    return Blob(*sides, color=NAMES[np.bincount(names).argmax()], shape=shape)


def _shape(box: NDArray[np.bool_]) -> str:
    """Return the drawn shape that fills its bounding box as this area does; empty: none."""
    small = Image.fromarray(box).convert("L").resize((OUTLINE_SIDE, OUTLINE_SIDE), Image.Resampling.BOX)
    mask = np.asarray(small)
    fits = {name: np.minimum(mask, other).sum() / np.maximum(mask, other).sum() for name, other in _masks().items()}
    best = max(fits, key=lambda name: fits[name])
    return best if fits[best] >= FIT else ""


@cache
def _masks() -> dict[str, NDArray[np.uint8]]:
    return {name: np.asarray(silhouette(name, (OUTLINE_SIDE, OUTLINE_SIDE))) for name in SHAPES}


def score_image(aspects: Sequence[str], prompt: str, blobs: Blobs) -> tuple[AspectScore, ...]:
    """Score these aspects, in their order, and last the image as a whole: by the lowest that pixels can show."""
    checks = _check(read_prompt(prompt), blobs)
    shares = {aspect: _share(checks, CHECKS.get(aspect, "")) for aspect in aspects}
    shares[OVERALL_SCORE] = min((share for share in shares.values() if share is not None), default=None)
    words = f"pixels show {name_blobs(blobs)}; nothing was recognized"
    return tuple(
        AspectScore(
            aspect=aspect,
            score=MIDDLING if share is None else round(10 * share, 1),
            explanation=f"{words}{': pixels cannot tell' if share is None else ''}.",
        )
        for aspect, share in shares.items()
    )


def _check(asked: Sequence[Requirement], blobs: Blobs) -> list[tuple[str, bool]]:
    """Return each check of the prompt that pixels can decide, with its result."""
    found = [_find(one.name, blobs) for one in asked]
    checks: list[tuple[str, bool]] = []
    for one, its in zip(asked, found, strict=True):
        if its is None:
            continue
        checks += [("object", bool(its)), ("count", len(its) == one.count)]
        if one.color:
            checks.append(("color", any(blob.color == one.color for blob in its)))
        target = None if one.target is None else found[one.target]
        if target is not None:
            checks.append(("position", bool(its and target) and _lies(its[0], one.relation, target[0])))
    return checks


def _share(checks: Sequence[tuple[str, bool]], group: str) -> float | None:
    right = [result for name, result in checks if name == group]
    return sum(right) / len(right) if right else None


def _find(name: str, blobs: Blobs) -> Blobs | None:
    """Return the blobs of an object; None: pixels cannot show it, since it or something else is no drawn shape.

    An area without an outline of a shape may be two shapes that touch.
    """
    known = name in SHAPES and all(blob.shape for blob in blobs)
    return [blob for blob in blobs if blob.shape == name] if known else None


def _usual_color(blobs: Blobs) -> str:
    return Counter(blob.color for blob in blobs).most_common(1)[0][0] if blobs else ""


def _lies(one: Blob, where: str, other: Blob) -> bool:
    axis, sign = (0 if where in ("left of", "right of") else 1), (-1 if where in ("left of", "above") else 1)
    sizes = [(blob.right - blob.left, blob.bottom - blob.top)[axis] for blob in (one, other)]
    return sign * (one.center[axis] - other.center[axis]) > MARGIN * sum(sizes)


def name_blobs(blobs: Blobs) -> str:
    """Return colors and shapes of the blobs in words."""
    return ", ".join(f"{blob.color} {blob.shape or 'area'}" for blob in blobs) or "one color all over"


NEUTRAL = "Both are good"
PROMPT, OBJECTS = "Generation Prompt", "Objects to Look For"
"""Labels of the texts that are read with a generated image."""
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


def answer(body: bytes) -> dict[str, Any] | str:
    """Return the reply to a request, as the object that its reply schema asks for, or as one word.

    Raises BadRequest where the question cannot be answered, and BadPicture where a picture cannot be decoded.
    """
    question = read_request(body)
    if question.name == PROBE:
        return {"ready": True}
    if question.name == ONE_WORD:
        is_check = any(part.startswith(f"{ONE_CHECK}:\n") for part in question.texts)
        return _check_facts(question)["answer"] if is_check else "yes"
    flow = question.name.partition("_")[0]
    if flow in PAIRWISE:
        return _compare(question)
    if flow in T2I:
        return _score(question)
    if flow in CHECKLIST:
        return _check_facts(question)
    raise BadRequest(f"The pixel judge knows no {question.name!r}")


def _compare(question: Question) -> dict[str, Any]:
    pictures, allowed = question.roles(), question.properties["winner"]["enum"]
    found = compare_figures(question.name, *(_look(measure_figure, pictures[role]) for role in ("human", "model")))
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
def _look_once(measure: Callable[[Image.Image], Result], data: bytes) -> Result:
    return measure(as_shown(data))


def _look(measure: Callable[[Image.Image], Result], data: bytes) -> Result:
    with _lock:  # the questions about a picture come at the same time
        return _look_once(measure, data)


def _score(question: Question) -> dict[str, Any]:
    aspects = [key for key in question.properties if key not in (OVERALL_SCORE, SEEN)]
    prompt, found = question.text(PROMPT), _look(find_blobs, question.pictures[0][1])
    scored = score_image(aspects, prompt, found)
    reply: dict[str, Any] = {one.aspect: {"explanation": one.explanation, "score": one.score} for one in scored}
    if SEEN in question.properties:
        named = ((name, _find(name, found)) for name in question.text(OBJECTS).splitlines())
        reply[SEEN] = {
            "objects": [
                {"object": name, "present": bool(its), "count": len(its), "color": _usual_color(its)}
                for name, its in named
                if its is not None
            ]
        }
        if "relation_holds" in question.properties[SEEN].get("properties", {}):
            share = _share(_check(read_prompt(prompt), found), "position")
            reply[SEEN]["relation_holds"] = None if share is None else share == 1
    return reply


# Checks

LEAST_BOX, EDGE = 15, 3
"""Least side of a box, and width of the soft edge around it, in pixels."""
ONE_CHECK, CHECK_LIST = "Question", "Questions"
"""Labels of the text with one check, and with several."""
_ASKED = re.compile(
    r"(?:\d+\. )?(?:Is there an? (?P<present>[^?]+)"
    r"|How many (?P<counted>[^?]+) are there"
    r"|What color is the (?P<colored>[^?]+)"
    r"|Is the (?P<placed>[^?]+?) (?P<relation>left of|right of|above|below) the (?P<target>[^?]+))"
    r"\? \((?P<allowed>.+)\)"
)
"""Question about a drawn image, with the answers that are allowed."""
_NUMBERED = re.compile(r"(?:\d+\. )?(.+\?) \(.+\)")
"""Question with the answers that are allowed, perhaps in a list."""
_OPTION = re.compile(r"\b([A-Z]): ([^;)]+)")


def _check_facts(question: Question) -> dict[str, Any]:
    is_list = "answers" in question.properties  # else one check, perhaps to be answered in one word
    lines = question.text(CHECK_LIST).splitlines() if is_list else [question.text(ONE_CHECK)]
    is_diagram = any(_NUMBERED.sub(r"\1", line) in DIAGRAM_QUESTIONS for line in lines)
    found = _look(look_at_diagram if is_diagram else find_blobs, question.pictures[0][1])
    answers = [_answered(line, found) for line in lines]
    return {"answers": [{"number": n, **each} for n, each in enumerate(answers, 1)]} if is_list else answers[0]


def _answered(line: str, found: dict[str, str] | Blobs) -> dict[str, str]:
    """Return reason and answer of a check about a drawing; `no`, 0 or the first option if pixels cannot tell."""
    if isinstance(found, dict):
        counts = [(found[BOXES], "box"), (found[ARROWS], "arrow")]
        shown = " and ".join(f"{count} {name if count == '1' else plural(name)}" for count, name in counts)
        answer = found.get(_NUMBERED.sub(r"\1", line))
    else:
        asked, shown = _ASKED.fullmatch(line), name_blobs(found)
        answer = answer_check(asked, found) if asked else None
    words = f"pixels show {shown}; nothing was recognized"
    if answer is None:
        allowed = line.rpartition(" (")[2]
        answer = "0" if allowed.startswith(("a whole", "0")) else "A" if allowed.startswith("a letter") else "no"
        words += ": pixels cannot tell"
    return {"reason": f"{words}.", "answer": answer}


def look_at_diagram(picture: Image.Image) -> dict[str, str]:
    """Return each question about a diagram with its answer. Boxes are closed and solid, arrows join two of them."""
    picture = picture.copy()
    picture.thumbnail((FIGURE_SIDE, FIGURE_SIDE), Image.Resampling.BOX)
    pixels = np.asarray(picture)
    paper, light = _paper(pixels)
    ink = ndimage.binary_fill_holes(_ink(pixels, paper))
    boxes, count = ndimage.label(ndimage.maximum_filter(ndimage.minimum_filter(ink, LEAST_BOX), LEAST_BOX))
    places = [rows for rows, _ in ndimage.find_objects(boxes)]
    first, last = min((rows.stop for rows in places), default=0), max((rows.start for rows in places), default=0)
    arrows = _find_arrows(ink, boxes)
    bottom_right = any(rightward and row > last for row, rightward in arrows)
    top_row = sum(rows.start < first for rows in places)
    return diagram_answers(count, top_row, len(arrows), bottom_right, light < LIMITS["paper"][1])


def _find_arrows(ink: NDArray[np.bool_], boxes: NDArray[np.int32]) -> list[tuple[int, bool]]:
    """Return, for each area that joins two boxes, its first row of pixels and whether it points to the right."""
    lines, _ = ndimage.label(ink & (ndimage.maximum_filter(boxes, 2 * EDGE + 1) == 0), np.ones((3, 3)))
    around = ndimage.maximum_filter(boxes, 4 * EDGE + 1)
    touching = np.unique(np.stack([lines, around])[:, (lines > 0) & (around > 0)], axis=1)
    places, found = ndimage.find_objects(lines), list[tuple[int, bool]]()
    for number in np.flatnonzero(np.bincount(touching[0]) == 2):
        rows, columns = places[number - 1]
        thickness = (lines[rows, columns] == number).sum(axis=0)  # the head is the thickest part
        found.append((rows.start, bool(rows.stop - rows.start < len(thickness) < 2 * thickness.argmax())))
    return found


def answer_check(asked: re.Match[str], blobs: Blobs) -> str | None:
    """Return the answer to a check about drawn shapes; None: pixels cannot tell."""
    name = asked["present"] or asked["colored"] or asked["placed"]
    if asked["counted"]:
        name = next((shape for shape in SHAPES if plural(shape) == asked["counted"]), "")
    found = _find(name, blobs)
    if found is None:
        return None
    if asked["counted"]:
        return str(len(found))
    if asked["colored"]:
        color = _usual_color(found)
        return next((letter for letter, words in _OPTION.findall(asked["allowed"]) if words.strip() == color), None)
    if asked["placed"]:
        target = _find(asked["target"], blobs)
        return "yes" if found and target and _lies(found[0], asked["relation"], target[0]) else "no"
    return "yes" if found else "no"
