"""Items of a passport: questions, drawn pictures and right answers; how they are asked, read and counted."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple, TypeVar

from PIL import Image

from tasks.demo.canvas import PALETTES, Area, Canvas, encode, paste_shape
from tasks.demo.defects import CLEAN_SCENE
from tasks.demo.samples import Scene, checked_scene
from tasks.endpoint.replies import objects, reply_words, shown, unwrapped
from tasks.endpoint.requests import Image as SentPicture
from tasks.endpoint.requests import Request, object_schema
from tasks.ledger.evaluations import digest
from tasks.ledger.passports import CardLine, LineState, PassportReply
from tasks.passport import lines
from tasks.passport.lines import COLORS, LINE, LINES, NOTHING, PLACES, SHAPES, WHICH, Line
from tasks.pictures.preparation import Picture, Policy, prepare
from tasks.records.judge import Judge
from tasks.text import one_line

SEEN, ANSWER = "seen", "answer"
SYSTEM = (
    "You look at pictures and answer a plain question about them. Say first what you see, then answer. Answer by what "
    "the pictures show and by nothing else."
)
POLICY = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
"""Policy of a run with its defaults."""
_LABELS = {1: ("Picture",), 2: ("First picture", "Second picture")}
FIGURE = 960, 640
"""Size of figures, in pixels: no known endpoint shrinks it, unless it makes all pictures small."""
SCENE = 480, 320
INK = "#23262d"
PAPERS = ("#ffffff", "#f4f2ee", "#eef2f6")
"""Light papers, on which dark ink and all colors are distinct."""
BLANKS = ("#ffffff", "#d9d9d9", "#1b1d22", "#dfe8f2")
GAP = 18
"""Gap in a broken outline, in pixels."""
_LINE = 3
_BOXES = 4

_kept = lru_cache(maxsize=512)
"""Cache of pictures, a third of a megabyte each: several questions are asked about one."""


class Thing(NamedTuple):
    """A shape on a scene; its centre in pixels, and its longer side."""

    shape: str
    x: float
    y: float
    size: float = 90
    color: str = INK


@_kept
def scene(things: tuple[Thing, ...], paper: str) -> bytes:
    """Draw shapes on a plain sheet."""
    sheet = Image.new("RGB", SCENE, paper)
    for thing in things:
        paste_shape(sheet, thing.shape, (thing.x, thing.y), thing.size, thing.color)
    return encode(sheet, "PNG")


@_kept
def written(word: str, letters: float, seed: float) -> bytes:
    """Draw a word in a box, in letters of so many pixels, somewhere on a figure."""
    random, canvas = Random(seed), Canvas(*FIGURE, PAPERS[0])
    tone = random.choice(random.choice(PALETTES))
    left, top = random.randrange(40, FIGURE[0] - 340), random.randrange(40, FIGURE[1] - 140)
    box = Area(left, top, left + 300, top + 100)
    canvas.box(box, tone.fill, tone.edge, radius=10)
    canvas.text(box.center, word, letters, INK)
    return encode(canvas.finish(), "PNG")


def blank(color: str) -> bytes:
    """Draw one color all over."""
    return encode(Image.new("RGB", SCENE, color), "PNG")


@_kept
def linked_boxes(broken: bool, headless: bool, seed: float) -> bytes:
    """Draw boxes in a row that arrows link: one outline may have a gap, and one arrow no head."""
    random = Random(seed)
    canvas, top = Canvas(*FIGURE, PAPERS[0]), random.randrange(120, 400)
    boxes = [box._replace(top=top, bottom=top + 110) for box in Area(60, 0, FIGURE[0] - 60, 0).columns(_BOXES, 100)]
    gap, bare = random.randrange(_BOXES), random.randrange(_BOXES - 1)
    for box in boxes:
        canvas.box(box, None, INK, width=_LINE)
    if broken:
        _break(canvas, boxes[gap], random)
    for number, (one, other) in enumerate(pairwise(boxes)):
        start, end = (one.right, one.center[1]), (other.left - 2, other.center[1])
        if headless and number == bare:
            canvas.line((start, end), INK, _LINE)
        else:
            canvas.arrow(start, end, INK, _LINE)
    return encode(canvas.finish(), "PNG")


def _break(canvas: Canvas, box: Area, random: Random) -> None:
    """Paint the paper over a piece of the upper or lower side."""
    middle, y = random.uniform(box.left + 30, box.right - 30), random.choice((box.top, box.bottom))
    canvas.box(Area(middle - GAP / 2, y - 5, middle + GAP / 2, y + 5), PAPERS[0], None)


SIZES = (28, 20, 16, 12)
"""Sizes in pixels of letters that must be read: those of figures in papers, shown at their width in print."""
SMALLER = 9
"""Size in pixels of further letters, shown to find the smallest that is read."""

T = TypeVar("T")
Answer = str | int | tuple[str, ...]
Draw = Callable[[], bytes]


class Item(NamedTuple):
    """One question with its answer."""

    line: str
    number: int
    question: str
    draws: tuple[Draw, ...]
    """Makers of the pictures, as PNG files, in the order in which they are shown."""
    answer: Answer
    allowed: tuple[str, ...] = ()
    """Words that an answer is made of; empty: any, or a number."""
    counts: bool = True
    """True if it enters the line's right answers."""
    letters: int = 0
    """Pixels of the letters to be read; 0: there are none."""

    def is_right(self, answer: Answer | None) -> bool:
        """Return whether this is the answer: for two pictures in any order, for words in capitals or small letters."""
        if self.line == lines.TWO and isinstance(answer, tuple):
            return sorted(answer) == sorted(self.answer if isinstance(self.answer, tuple) else ())
        if isinstance(answer, str) and isinstance(self.answer, str):
            return answer.strip(" .'\"").casefold() == self.answer.casefold()
        return answer == self.answer


def items_of(seed: int) -> list[Item]:
    """Return all items of a passport, line by line."""
    return [item for name, make in _MAKERS.items() for item in make(Random(f"{lines.EDITION} {seed} {name}"))]


def _dealt(values: Sequence[T], line: str, random: Random) -> list[T]:
    """Deal answers to the items of a line: each value as often as any other, or once more, in random order."""
    number = LINE[line].items
    full = [*values] * (number // len(values))
    dealt = [*full, *random.sample(values, number - len(full))]
    random.shuffle(dealt)
    return dealt


def _words(random: Random) -> Iterator[Item]:
    sizes = [size for size in (*SIZES, SMALLER) for _ in range(LINE[lines.TEXT].items // len(SIZES))]
    for number, size in enumerate(sizes):
        syllables = [random.choice(lines.CONSONANTS) + random.choice(lines.VOWELS) for _ in range(lines.SYLLABLES)]
        word = "".join(syllables).capitalize()
        draw = partial(written, word, size, random.random())
        question = "What is written in the picture? It is one word, which means nothing."
        yield Item(lines.TEXT, number, question, (draw,), word, counts=size != SMALLER, letters=size)


def _counts(random: Random) -> Iterator[Item]:
    counts = range(lines.LEAST_COUNTED, lines.MOST_COUNTED + 1)
    for number, count in enumerate(_dealt(counts, lines.COUNTING, random)):
        shape, color = random.choice(SHAPES), random.choice([*COLORS.values()])
        places = random.sample([(x, y) for x in (60, 180, 300, 420) for y in (53, 160, 267)], count)
        things = [Thing(shape, *_near(place, random), random.randint(54, 70), color) for place in places]
        draw = partial(scene, tuple(things), random.choice(PAPERS))
        question = f"How many objects are in the picture? There are {counts[0]} to {counts[-1]}."
        yield Item(lines.COUNTING, number, question, (draw,), count)


def _near(place: tuple[int, int], random: Random) -> tuple[float, float]:
    return place[0] + random.randint(-14, 14), place[1] + random.randint(-10, 10)


def _colors(random: Random) -> Iterator[Item]:
    for number, color in enumerate(_dealt(lines.ASKED_COLORS, lines.COLOR, random)):
        shapes = random.sample(SHAPES, 3)
        others = random.sample([name for name in COLORS if name != color], 2)
        painted = list(zip(shapes, (color, *others), (90, 240, 390), strict=True))
        places = random.sample([x for *_, x in painted], 3)
        things = [Thing(shape, x, 160, 100, COLORS[name]) for (shape, name, _), x in zip(painted, places, strict=True)]
        draw = partial(scene, tuple(things), PAPERS[0])
        question = f"Which color does the {shapes[0]} have?"
        yield Item(lines.COLOR, number, question, (draw,), color, tuple(COLORS))


_STEPS = {"left": (-1, 0), "right": (1, 0), "above": (0, -1), "below": (0, 1)}


def _positions(random: Random) -> Iterator[Item]:
    for number, place in enumerate(_dealt(PLACES, lines.POSITION, random)):
        one, other = random.sample(SHAPES, 2)
        across, down = _STEPS[place]
        x, y = _near((240, 160), random)
        things = [
            Thing(one, x + 90 * across, y + 72 * down, 96),
            Thing(other, x - 90 * across, y - 72 * down, 96),
        ]
        draw = partial(scene, tuple(things), random.choice(PAPERS))
        question = f"Where is the {one}, seen from the {other}?"
        yield Item(lines.POSITION, number, question, (draw,), place, PLACES)


def _two_pictures(random: Random) -> Iterator[Item]:
    for number in range(LINE[lines.TWO].items):
        shown = tuple(random.sample(SHAPES, 2))
        draws = tuple(_alone(shape, random) for shape in shown)
        yield Item(lines.TWO, number, "Which shape does each of the two pictures show?", draws, shown, SHAPES)


def _alone(shape: str, random: Random) -> Draw:
    place = _near((240, 160), random)
    return partial(scene, (Thing(shape, *place, random.randint(130, 190)),), random.choice(PAPERS))


def _which_is_first(random: Random) -> Iterator[Item]:
    for number, answer in enumerate(_dealt(WHICH, lines.FIRST, random)):
        wanted, *others = random.sample(SHAPES, 5)
        draws = tuple(
            partial(
                scene, _pair([wanted, others[side]] if is_there else others[side * 2 : side * 2 + 2], random), paper
            )
            for side, is_there in enumerate(marks(answer))
            for paper in [random.choice(PAPERS)]
        )
        yield Item(lines.FIRST, number, f"In which of the two pictures is a {wanted}?", draws, answer, WHICH)


def _pair(shapes: Sequence[str], random: Random) -> tuple[Thing, ...]:
    places = random.sample([(130, 160), (350, 160)], 2)
    return tuple(Thing(shape, *_near(place, random), 120) for shape, place in zip(shapes, places, strict=True))


def _blanks(random: Random) -> Iterator[Item]:
    number_of_blanks = LINE[lines.BLANK].items // 2
    shown = random.sample(SHAPES, LINE[lines.BLANK].items - number_of_blanks)
    blanks = random.sample(BLANKS, number_of_blanks)
    made = [(NOTHING, partial(blank, color)) for color in blanks] + [(shape, _alone(shape, random)) for shape in shown]
    random.shuffle(made)
    question = "What does the picture show?"
    for number, (answer, draw) in enumerate(made):
        yield Item(lines.BLANK, number, question, (draw,), answer, (*SHAPES, NOTHING))


def _orders(random: Random) -> Iterator[Item]:
    for number in range(LINE[lines.ORDER].items):
        row = random.sample(SHAPES, 4)
        things = tuple(Thing(shape, *_near((60 + 120 * place, 160), random), 84) for place, shape in enumerate(row))
        draw = partial(scene, things, random.choice(PAPERS))
        question = "In which order do the shapes stand, from left to right?"
        yield Item(lines.ORDER, number, question, (draw,), tuple(row), tuple(sorted(row)))


_FAULTS = {
    "broken": "Both pictures show boxes that arrows link. In which of them does the outline of a box have a gap?",
    "headless": "Both pictures show boxes that arrows link. In which of them does an arrow have no head?",
}


def _faint_faults(random: Random) -> Iterator[Item]:
    for number, answer in enumerate(_dealt(WHICH, lines.FAINT, random)):
        fault, question = random.choice([*_FAULTS.items()])
        draws = tuple(
            partial(linked_boxes, has and fault == "broken", has and fault == "headless", random.random())
            for has in marks(answer)
        )
        yield Item(lines.FAINT, number, question, draws, answer, WHICH)


_YES_NO = (
    *(("two_object", "object", CLEAN_SCENE, "yes"), ("two_object", "object", "absent", "no")),
    *(("position", "position", CLEAN_SCENE, "yes"), ("position", "position", "mirrored", "no")),
)
"""Tag of a demo prompt, group of its check, kind of the scene, answer: as often yes as no, so the line's share of right
answers is the balanced accuracy."""


def _yes_or_no(random: Random) -> Iterator[Item]:
    for number, (tag, group, kind, answer) in enumerate(_dealt(_YES_NO, lines.YES_NO, random)):
        drawn, question = checked_scene(tag, group, kind, random)
        yield Item(lines.YES_NO, number, question, (partial(demo_scene, drawn),), answer, ("yes", "no"))


@_kept
def demo_scene(drawn: Scene) -> bytes:
    """Draw a scene of the demo."""
    return encode(drawn.draw(), "PNG")


def marks(answer: str) -> tuple[bool, bool]:
    """Return whether an answer of `WHICH` names the first picture, and whether it names the second."""
    return answer in ("first", "both"), answer in ("second", "both")


_MAKERS = {
    lines.TEXT: _words,
    lines.COUNTING: _counts,
    lines.COLOR: _colors,
    lines.POSITION: _positions,
    lines.TWO: _two_pictures,
    lines.FIRST: _which_is_first,
    lines.BLANK: _blanks,
    lines.ORDER: _orders,
    lines.FAINT: _faint_faults,
    lines.YES_NO: _yes_or_no,
}


LONGEST = 160
"""Longest text on a line, in characters."""
READABLE = 0.9
"""Least share of replies in the form asked for: a run asks again for the others, and pays for them again."""


def card_lines(items: Sequence[Item], rows: Sequence[PassportReply]) -> tuple[CardLine, ...]:
    """Return all lines of a card, in their order."""
    counting = {(item.line, item.number) for item in items if item.counts}
    found: list[CardLine] = []
    for line in LINES:
        if line.name == lines.FORMAT:
            found.append(_line(line, *_format(rows)))
            continue
        asked = [row for row in rows if (row.line, row.item) in counting and row.line == line.name]
        words = smallest_words(items, rows) if line.name == lines.TEXT else ""
        found.append(_line(line, state_of(line, asked), "; ".join(filter(None, (words, _trouble(asked)))), asked))
    return tuple(found)


def state_of(line: Line, asked: Sequence[PassportReply]) -> LineState:
    """Return whether a line is passed or failed, or not measured if the missing replies could change that."""
    right = sum(row.right for row in asked)
    missing = line.items - len(asked) + sum(row.status == "unavailable" for row in asked)
    if right >= line.pass_mark:
        return "passed"
    return "not measured" if right + missing >= line.pass_mark else "failed"


def smallest_words(items: Sequence[Item], rows: Sequence[PassportReply]) -> str:
    """Name the smallest letters read: of that size, and of each larger one, at least half of the words."""
    right = {(row.line, row.item): row.right for row in rows}
    by_size: dict[int, list[bool]] = {}
    for item in items:
        if item.letters:
            by_size.setdefault(item.letters, []).append(right.get((item.line, item.number), False))
    smallest = 0
    for size in sorted(by_size, reverse=True):
        if sum(by_size[size]) * 2 < len(by_size[size]):
            break
        smallest = size
    return f"smallest letters read: {smallest} pixels" if smallest else "no letters were read"


def _line(line: Line, state: LineState, words: str, asked: Sequence[PassportReply] = ()) -> CardLine:
    return CardLine(
        line=line.name,
        title=line.title,
        state=state,
        items=line.items,
        right_answers=sum(row.right for row in asked),
        unanswered=sum(row.status == "unavailable" for row in asked),
        pass_mark=line.pass_mark if line.items else 0,
        chance=line.chance,
        guessing=line.guessing if line.items else 0.0,
        found=one_line(words, LONGEST),
        needed_by=line.flows,
    )


def _trouble(asked: Sequence[PassportReply]) -> str:
    """Describe the most frequent trouble with answers: one given again and again, or none at all."""
    wrong = [row for row in asked if not row.right]
    unread = [row for row in wrong if row.status != "ok"]
    if unread:
        status, number = Counter(row.status for row in unread).most_common(1)[0]
        return f"{number} {status}: {next(row.error for row in unread if row.status == status)}"
    given = Counter(str(row.answer) for row in asked if row.answer != "")
    answer, number = given.most_common(1)[0] if wrong and given else ("", 0)
    return f"answered {answer} {number} of {len(asked)} times" if number * 2 > len(asked) else ""


def _format(rows: Sequence[PassportReply]) -> tuple[LineState, str]:
    """Return the result of the line on the form of replies, over all replies of a passport, and its words."""
    came = [row for row in rows if row.status in ("ok", "invalid", "truncated")]
    if not came:
        return "not measured", "no reply"
    readable = sum(row.status == "ok" for row in came)
    left_out = sorted({name for row in came for name in row.not_sent})
    words = f"{came[-1].rung}, {readable} of {len(came)} read"
    without = f"; without {', '.join(left_out)}" if left_out else ""
    return "passed" if readable >= READABLE * len(came) else "failed", words + without


# The question of an item, and the answer in a reply


def prepared(item: Item) -> list[Picture]:
    """Draw the pictures of an item, and prepare them for sending; takes some hundredths of a second."""
    return [prepare(draw(), POLICY) for draw in item.draws]


def question_of(item: Item, pictures: Sequence[Picture]) -> Request:
    """Return the question as it is sent."""
    content: list[str | SentPicture] = [f"Question:\n{item.question}"]
    for label, picture in zip(_LABELS[len(pictures)], pictures, strict=True):
        content += [f"{label}:", SentPicture(picture.media_type, picture.encoded)]
    form, words = _form(item)
    content.append(
        "Reply with a single JSON object and nothing around it. It has two keys, in this order: "
        f'"{SEEN}", a string with what you see, then "{ANSWER}", {words}.'
    )
    schema = object_schema({SEEN: {"type": "string"}, ANSWER: form})
    return Request(SYSTEM, tuple(content), f"passport_{item.line}", schema)


def question_key(asked: Request, pictures: Sequence[Picture], judge: Judge) -> str:
    """Return the SHA-256 of all that identifies this question; time-outs, concurrency and prices do not count."""
    named = judge.model_dump(include={"model", "base_url", "temperature", "max_output_tokens", "detail"})
    return digest(
        {
            "texts": [asked.system, *(part for part in asked.content if isinstance(part, str))],
            "schema": asked.schema,
            "pictures": [picture.note.sent_sha256 for picture in pictures],
            "judge": {name: str(value) for name, value in named.items()} | judge.asked_besides,
        }
    )


def read_reply(text: str, item: Item) -> tuple[Answer | None, str]:
    """Return the answer in a reply, and the problem: one of the two is there."""
    body, taken_off = unwrapped(text)
    found = [value for name, value in objects(body).pairs if name == ANSWER]
    answers = [_answer(value, item) for value in found]
    if not found:
        return None, f"no answer found in {reply_words(text, taken_off)}"
    if len(set(answers)) > 1:
        return None, "several answers in one reply"
    return answers[0], "" if answers[0] is not None else f"the answer {shown(found[0])} is not of the form asked for"


def _form(item: Item) -> tuple[dict[str, Any], str]:
    """Return the schema of an answer, and the same in words."""
    words = ", ".join(map(json.dumps, item.allowed))
    if isinstance(item.answer, tuple):
        each = {"type": "string", "enum": list(item.allowed)}
        return {"type": "array", "items": each}, f"an array of {len(item.answer)} strings, each one of {words}"
    if isinstance(item.answer, int):
        return {"type": "integer"}, "a whole number"
    if item.allowed:
        return {"type": "string", "enum": list(item.allowed)}, f"a string that is exactly one of {words}"
    return {"type": "string"}, "a string with what is written and nothing else"


def _answer(value: Any, item: Item) -> Answer | None:
    """Convert a value of a reply to an answer of the item's form; None: it has another form."""
    if isinstance(item.answer, tuple):
        parts = [_word(each, item) for each in value] if isinstance(value, list) else [None]  # pyright: ignore
        words = () if None in parts else tuple(filter(None, parts))
        return words or None  # an empty array answers nothing
    if isinstance(item.answer, int):
        digits = value.strip() if isinstance(value, str) else value
        whole = str(digits).isdecimal() and len(str(digits)) < 10 and not isinstance(digits, bool)
        return int(digits) if whole else None
    return _word(value, item)


def _word(value: Any, item: Item) -> str | None:
    """Return the allowed word, in any case of letters; for a text that is read, return the text."""
    if not isinstance(value, str):
        return None
    plain = value.strip(" \t\n.*_`'\"").casefold()
    return value.strip() if not item.allowed else next((word for word in item.allowed if word == plain), None)
