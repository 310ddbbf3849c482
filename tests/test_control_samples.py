"""Control samples: which samples become controls, and how their pictures are altered."""

import io
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat
from written_datasets import png

from tasks.extensions.controls import FEWEST, altered, with_controls
from tasks.pictures.decoding import BadPicture
from tasks.protocols import control_rules_of
from tasks.records import BLANK, INSTRUCTION, OTHER, REENCODED, SAME, Check, PictureSource, Place, Sample

FIGURES = control_rules_of("diagram")


def picture(name: str) -> PictureSource:
    return PictureSource(place=Place(path=f"/{name}"))


def pair(number: int, candidate: str = "a", **changes: object) -> Sample:
    values: dict[str, Any] = {
        "sample_id": f"s{number}", "candidate": candidate, "record": Place(path="/test.json"), "injected": "black",
        "pictures": {"human": picture(f"h{number}"), "model": picture(f"{candidate}{number}")},
    }  # fmt: skip
    return Sample(**{**values, **changes})


def image(prompt: int, number: int = 0) -> Sample:
    name = f"{prompt}/{number}"
    shown = {"image": picture(name)}
    return pair(0, sample_id=name, tag="counting", prompt_id=str(prompt), pictures=shown)


def controls(samples: list[Sample], share: float) -> list[Sample]:
    rules = control_rules_of(samples[0].tag or "diagram")
    return [sample for sample in with_controls(samples, share, rules) if sample.control]


def draw(mode: str = "RGB", size: tuple[int, int] = (400, 300), name: str = "PNG") -> bytes:
    gradient = Image.linear_gradient("L").resize(size)
    buffer = io.BytesIO()
    (gradient if mode == "L" else Image.merge("RGB", [gradient, gradient.rotate(90), gradient])).save(buffer, name)
    return buffer.getvalue()


def alter(kind: str, data: bytes, tag: str = "") -> Image.Image:
    role = "image" if tag else "model"
    rules = control_rules_of(tag or "diagram")
    found = Image.open(io.BytesIO(altered(pair(1, control=kind, tag=tag), role, data, rules)))
    found.load()
    return found


@pytest.mark.parametrize(
    ("samples", "share", "number"),
    [(60, 0.0, 0), (60, 0.05, 18), (60, 0.5, 30), (12, 0.05, 6), (1, 0.5, 0), (292, 0.05, 18), (2000, 0.05, 100)],
)
def test_controls_are_enough_to_decide_and_at_most_half(samples: int, share: float, number: int) -> None:
    found = controls([pair(n) for n in range(samples)], share)
    assert len(found) == number
    assert len({control.sample_id for control in found}) == number


def test_each_rate_gets_a_third_of_the_controls() -> None:
    kinds = Counter(control.control for control in controls([pair(n) for n in range(60)], 0.3))
    assert kinds == {SAME: 3, REENCODED: 3, OTHER: 3, BLANK: 3, INSTRUCTION: 6}
    kinds = Counter(control.control for control in controls([image(n // 2, n % 2) for n in range(60)], 0.3))
    assert kinds == {REENCODED: 6, OTHER: 3, BLANK: 3, INSTRUCTION: 6}


def test_real_samples_are_unchanged_and_controls_follow_theirs() -> None:
    samples = [pair(n, candidate) for candidate in "ab" for n in range(30)]
    found = with_controls(samples, 0.2, FIGURES)
    assert [sample for sample in found if not sample.control] == samples
    for before, control in pairwise(found):
        if control.control:
            assert (before.sample_id, before.candidate, before.control) == (control.sample_id, control.candidate, "")
            assert control.injected == "" and control.record == before.record


def test_controls_do_not_depend_on_sample_order() -> None:
    samples = [pair(n) for n in range(40)]
    found = {(control.sample_id, control.control) for control in controls(samples, 0.5)}
    assert found == {(control.sample_id, control.control) for control in controls(samples[::-1], 0.5)}


def test_each_kind_of_control_shows_its_picture() -> None:
    for control in controls([pair(n) for n in range(60)], 0.5):
        number = control.sample_id.removeprefix("s")
        assert control.pictures["human"] == picture(f"h{number}")
        own = {SAME: "h", REENCODED: "h", BLANK: "h", INSTRUCTION: "a"}.get(control.control)
        if own:
            assert control.pictures["model"] == picture(own + number)
        else:
            place = control.pictures["model"].place
            assert place and place.path.startswith("/h") and place.path != f"/h{number}"
    for control in controls([image(n // 2, n % 2) for n in range(60)], 0.5):
        place = control.pictures["image"].place
        assert place and (place.path.split("/")[1] == control.prompt_id) == (control.control != OTHER)


def test_samples_lacking_a_picture_become_no_controls() -> None:
    missing = PictureSource(problem="no picture")
    samples = [pair(n, pictures={"human": picture(f"h{n}"), "model": missing}) for n in range(40)]
    assert [control.sample_id for control in controls([*samples, pair(99), pair(98)], 0.5)] != []
    assert {control.sample_id for control in controls([*samples, pair(99), pair(98)], 0.5)} <= {"s98", "s99"}


def test_samples_with_one_human_figure_show_no_other_figure() -> None:
    seeds = [pair(number, pictures={"human": picture("h"), "model": picture(f"m{number}")}) for number in range(40)]
    assert OTHER not in {control.control for control in controls(seeds, 0.5)}


def test_images_of_one_prompt_or_with_equal_checks_show_no_other_image() -> None:
    checks = (Check("logo", "Is there a logo?", ("yes",)),)
    alike = [replace(image(number), tag="together", checks=checks) for number in range(40)]
    for samples in ([image(1, number) for number in range(40)], alike):
        rules = control_rules_of("facts" if samples[0].checks else "counting")
        found = [sample for sample in with_controls(samples, 0.5, rules) if sample.control]
        assert OTHER not in {control.control for control in found} and len(found) < FEWEST


@pytest.mark.parametrize(("name", "becomes"), [("PNG", "JPEG"), ("JPEG", "PNG"), ("WEBP", "JPEG")])
def test_re_encoded_picture_looks_the_same(name: str, becomes: str) -> None:
    data = draw(name=name)
    found = alter(REENCODED, data)
    assert found.format == becomes
    before = Image.open(io.BytesIO(data)).convert("RGB")
    assert max(ImageStat.Stat(ImageChops.difference(found.convert("RGB"), before)).mean) < 3


def test_blank_picture_is_white_and_of_the_same_size() -> None:
    found = alter(BLANK, draw(size=(300, 200)))
    assert found.size == (300, 200) and found.convert("L").getextrema() == (255, 255)


@pytest.mark.parametrize("size", [(1600, 900), (512, 512), (300, 800)])
@pytest.mark.parametrize("tag", ["", "counting"])
def test_instruction_is_painted_only_in_a_corner(size: tuple[int, int], tag: str) -> None:
    before = Image.open(io.BytesIO(draw(size=size)))
    found = alter(INSTRUCTION, draw(size=size), tag)
    changed = ImageChops.difference(found, before).convert("L").point(lambda value: 255 * (value > 0)).getbbox()
    assert changed and max(changed[:2]) <= 2
    assert 0.2 * size[0] <= changed[2] <= 0.8 * size[0] and changed[3] <= 0.4 * size[1]


def test_human_and_exchanged_pictures_keep_every_byte() -> None:
    data = draw()
    assert altered(pair(1, control=BLANK), "human", data, FIGURES) == data
    for kind in (SAME, OTHER, ""):
        assert altered(pair(1, control=kind), "model", data, FIGURES) == data


def test_picture_too_wide_for_the_other_format_is_refused() -> None:
    with pytest.raises(BadPicture, match=r"^66000x2 cannot be written as JPEG: "):
        altered(pair(1, control=REENCODED), "model", draw("L", size=(66_000, 2)), FIGURES)


def test_tiny_picture_is_altered_and_wrong_file_refused(tmp_path: Path) -> None:
    assert alter(INSTRUCTION, png(3)).size == (4, 4)
    with pytest.raises(ValueError, match="not a picture"):
        altered(pair(1, control=BLANK), "model", b"text", FIGURES)
