"""Control samples: real samples shown once more with another picture, to test whether the judge looks at it."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from math import ceil

from PIL import Image, ImageDraw, ImageFont

from tasks.judging.extension import Extension
from tasks.pictures.decoding import BadPicture
from tasks.pictures.preparation import as_shown
from tasks.protocols import control_rules_of
from tasks.protocols.controls import ControlRules
from tasks.records import BLANK, INSTRUCTION, OTHER, REENCODED, SAME, Sample

TURNS = (SAME, OTHER, INSTRUCTION, REENCODED, BLANK, INSTRUCTION)
"""Controls that the drawn samples get in turn. Each of the three rates that decide the judge's status gets a third."""
FEWEST = 18
"""Least number of controls, if a run has any and at least twice as many samples. With 6 for each rate, 6 good answers
clear a judge, 3 bad ones convict it (7 of the 24 on equal figures)."""
SEED = "shams 1"
"""Arbitrary text, always the same: equal samples must give equal controls, so that replies can be reused."""

QUALITY = 90
"""JPEG quality of an altered picture; nobody sees the loss at a glance."""
FAST = 1
"""zlib's level for an altered PNG: half the time of its default, for 4% more bytes."""
LETTERS_ACROSS = 44
"""Letters in a painted line, which is half as wide as the picture."""

_JPEG = b"\xff\xd8"


def with_controls(
    samples: Sequence[Sample], share: float, rules: ControlRules, shards: int = 1, of_first: bool = False
) -> tuple[Sample, ...]:
    """Return the samples of a run, each drawn one followed by its control, so that both are judged at about one time.

    Samples with missing pictures are not drawn.

    Args:
        share: share of the samples that is drawn, 0 to 0.5; above 0 at least 18 are drawn, or half of fewer than 36.
        shards: shards of the evaluation, which share those 18.
        of_first: draw the first samples, because the run may stop before the last; the samples are in random order.
    """
    if not share:
        return tuple(samples)
    number = max(round(share * len(samples)), min(ceil(FEWEST / shards), len(samples) // 2))
    drawn = _controls(samples, number, rules, of_first)
    controls = {(control.candidate, control.sample_id): control for control in drawn}
    found = ((sample, controls.get((sample.candidate, sample.sample_id))) for sample in samples)
    return tuple(one for pair in found for one in pair if one)


def altered(control: Sample, role: str, data: bytes, rules: ControlRules) -> bytes:
    """Return the file that a control shows instead of a picture's own; raise BadPicture if it cannot be made."""
    alter, instruction = _ALTERED.get(control.control), rules.instructions.get(role)
    return alter(data, instruction) if alter and instruction else data


def _controls(samples: Sequence[Sample], number: int, rules: ControlRules, of_first: bool) -> list[Sample]:
    able = [sample for sample in samples if not any(source.problem for source in sample.pictures.values())]
    if not of_first:
        able.sort(key=lambda sample: sha256(f"{SEED}\n{sample.candidate}\n{sample.sample_id}".encode()).digest())
    found = (_control(able, place, rules) for place in range(min(number, len(able))))
    return [control for control in found if control]


def _control(drawn: Sequence[Sample], place: int, rules: ControlRules) -> Sample | None:
    """Return the control of the sample at a place, in its turn; None if no other sample has a picture for it."""
    base = giver = drawn[place]
    turn = TURNS[place % len(TURNS)]
    control = rules.replaced.get(turn, turn)
    if control == OTHER:
        others = (*drawn[place:], *drawn[:place])
        giver = next((one for one in others if _is_other(one, base, rules)), base)
    if control == OTHER and giver is base:
        return None
    picture = base.pictures[rules.tested] if control == INSTRUCTION else giver.pictures[rules.taken]
    pictures = {**base.pictures, rules.tested: picture}
    return replace(base, control=control, pictures=pictures, injected="", notes=())


def _is_other(giver: Sample, base: Sample, rules: ControlRules) -> bool:
    """Return whether a picture of one sample is wrong for another.

    It is not if both have one picture or one text, or if the same objects or checks are asked for.
    """
    return (
        giver.subject != base.subject
        and giver.pictures[rules.taken].place != base.pictures[rules.taken].place
        and (giver.required != base.required or not base.required)
        and (giver.checks != base.checks or not base.checks)
    )


def _reencoded(data: bytes, _: str) -> bytes:
    return _file(as_shown(data), "PNG" if data.startswith(_JPEG) else "JPEG")


def _blank(data: bytes, _: str) -> bytes:
    return _file(Image.new("1", as_shown(data).size, 1), "PNG")


def _painted(data: bytes, instruction: str) -> bytes:
    image = as_shown(data)
    size, pad = max(10.0, image.width / LETTERS_ACROSS), 6
    draw, font = ImageDraw.Draw(image), _font(size)
    words = "\n".join(textwrap.wrap(instruction, LETTERS_ACROSS))
    _, _, right, bottom = draw.multiline_textbbox((pad, pad), words, font)
    draw.rectangle((0, 0, right + pad, bottom + pad), "white", "black")
    draw.multiline_text((pad, pad), words, "black", font)
    return _file(image, "JPEG" if data.startswith(_JPEG) else "PNG")


_font = lru_cache(maxsize=64)(ImageFont.load_default)
_ALTERED: dict[str, Callable[[bytes, str], bytes]] = {REENCODED: _reencoded, BLANK: _blank, INSTRUCTION: _painted}


def _file(image: Image.Image, name: str) -> bytes:
    buffer = BytesIO()
    try:
        image.save(buffer, name, quality=QUALITY, compress_level=FAST)
    except OSError as error:  # A JPEG has at most 65,500 pixels a side.
        raise BadPicture(f"{image.width}x{image.height} cannot be written as {name}: {error}") from error
    return buffer.getvalue()


class Controls(Extension):
    """Extension for a run with controls."""

    def samples(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """See `Extension.samples`."""
        opening = self.opening
        asked = opening.asked
        return with_controls(samples, asked.controls, control_rules_of(opening.flow), asked.shards, opening.may_stop)

    def picture(self, sample: Sample, role: str, data: bytes) -> bytes:
        """See `Extension.picture`."""
        return altered(sample, role, data, control_rules_of(self.opening.flow))
