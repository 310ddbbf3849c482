"""Control samples: real samples shown once more with another picture, to find out whether the judge looks."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from math import ceil

from PIL import Image, ImageDraw, ImageFont

from tasks.kinds.kind import Kind
from tasks.pictures.bad_picture import BadPicture
from tasks.pictures.prepare import as_shown
from tasks.records import BLANK, INSTRUCTION, OTHER, REENCODED, SAME, Sample

TURNS = (SAME, OTHER, INSTRUCTION, REENCODED, BLANK, INSTRUCTION)
"""Controls that the drawn samples get in turn. Each of the three rates that `status` makes of them gets a third."""
FEWEST = 18
"""Least controls of a run that has any: with 6 for each rate, 6 good answers clear a judge, 3 bad ones convict it (7 of
the 24 on equal figures)."""
SEED = "shams 1"
"""Any constant will do: the same samples must give the same controls, so that replies can be reused."""

QUALITY = 90
"""Of the JPEG that another picture becomes: what nobody sees at a glance."""
LETTERS_ACROSS = 44
"""Letters of a painted line: half the width of the picture."""

_JPEG = b"\xff\xd8"


def with_controls(
    samples: Sequence[Sample], share: float, kind: Kind, shards: int = 1, of_first: bool = False
) -> tuple[Sample, ...]:
    """Return the samples of a run, each drawn one followed by its control, so that both are judged at about one time.

    Samples whose pictures are known to be missing are not drawn.

    Args:
        share: of the samples, 0 to 0.5; above 0 at least 18 are drawn, or half of fewer samples.
        shards: of the evaluation, which share those 18.
        of_first: draw the first samples: they stand in a random order, and the run may stop before the last.
    """
    if not share:
        return tuple(samples)
    number = _number(len(samples), share, ceil(FEWEST / shards))
    drawn = _controls(samples, number, kind, of_first)
    controls = {(control.candidate, control.sample_id): control for control in drawn}
    found = ((sample, controls.get((sample.candidate, sample.sample_id))) for sample in samples)
    return tuple(one for pair in found for one in pair if one)


def altered(control: Sample, role: str, data: bytes, kind: Kind) -> bytes:
    """Return the file that a control shows in place of a picture's own; raises BadPicture where it cannot be made."""
    alter, instruction = _ALTERED.get(control.control), kind.instructions.get(role)
    return alter(data, instruction) if alter and instruction else data


def _number(samples: int, share: float, fewest: int) -> int:
    return max(round(share * samples), min(fewest, samples // 2))


def _controls(samples: Sequence[Sample], number: int, kind: Kind, of_first: bool) -> list[Sample]:
    able = [sample for sample in samples if not any(source.problem for source in sample.pictures.values())]
    if not of_first:
        able.sort(key=lambda sample: sha256(f"{SEED}\n{sample.candidate}\n{sample.sample_id}".encode()).digest())
    found = (_control(able, place, kind) for place in range(min(number, len(able))))
    return [control for control in found if control]


def _control(drawn: Sequence[Sample], place: int, kind: Kind) -> Sample | None:
    """The control of the sample at a place, in its turn; None where it takes a picture of another and there is none."""
    base = giver = drawn[place]
    control = kind.control_of(TURNS[place % len(TURNS)])
    if control == OTHER:
        giver = next((one for one in (*drawn[place:], *drawn[:place]) if one.subject != base.subject), base)
    if control == OTHER and giver is base:
        return None
    pictures = {**base.pictures, **kind.shown_in(control, base, giver)}
    return replace(base, control=control, pictures=pictures, injected="", notes=())


def _reencoded(data: bytes, _: str) -> bytes:
    return _file(as_shown(data), "PNG" if data.startswith(_JPEG) else "JPEG")


def _blank(data: bytes, _: str) -> bytes:
    return _file(Image.new("RGB", as_shown(data).size, "white"), "PNG")


def _painted(data: bytes, instruction: str) -> bytes:
    image = as_shown(data)
    size, pad = max(10.0, image.width / LETTERS_ACROSS), 6
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    words = "\n".join(textwrap.wrap(instruction, LETTERS_ACROSS))
    _, _, right, bottom = draw.multiline_textbbox((pad, pad), words, font)
    draw.rectangle((0, 0, right + pad, bottom + pad), "white", "black")
    draw.multiline_text((pad, pad), words, "black", font)
    return _file(image, "JPEG" if data.startswith(_JPEG) else "PNG")


_ALTERED: dict[str, Callable[[bytes, str], bytes]] = {REENCODED: _reencoded, BLANK: _blank, INSTRUCTION: _painted}


def _file(image: Image.Image, name: str) -> bytes:
    buffer = BytesIO()
    try:
        image.save(buffer, name, quality=QUALITY)
    except OSError as error:  # A JPEG has at most 65,500 pixels a side.
        raise BadPicture(f"{image.width}x{image.height} cannot be written as {name}: {error}") from error
    return buffer.getvalue()
