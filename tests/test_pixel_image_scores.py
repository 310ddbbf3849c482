"""Scores follow what pixels show of a prompt, claim nothing where they do not, and tell defects from clean images."""

import json
from collections import defaultdict
from random import Random

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tasks.embedded_judge.blobs import survey
from tasks.embedded_judge.image_scores import ASPECTS, look, score
from tasks.embedded_judge.image_view import Survey
from tasks.parameters import T2I
from tasks.records import Requirement
from tasks.rubrics.rubric import holdings, load_rubric
from tasks.synthetic.images import draw_images, noticed, read_image_labels
from tasks.synthetic.prompt_words import prompt_text
from tasks.synthetic.scene_defects import CLEAN_SCENE, KINDS, spoilt_scene
from tasks.synthetic.scenes import random_scene

TAGS = {
    "single_object": ("object_completeness", "detectability", "occlusion_handling"),
    "two_object": ("separation_clarity", "individual_completeness", "relationship_accuracy"),
    "counting": ("count_accuracy", "object_uniformity", "spatial_legibility"),
    "colors": ("color_fidelity", "contrast_effectiveness", "multi_object_consistency"),
    "color_attr": ("attribute_binding", "contrast_effectiveness", "material_consistency"),
    "position": ("position_accuracy", "occlusion_management", "perspective_consistency"),
}
RING, STAR = Requirement(name="ring", color="red"), Requirement(name="star", color="blue")
LEFT = (RING, STAR.model_copy(update={"relation": "left of", "target": 0}))
THREE = (Requirement(name="heart", color="pink", count=3),)


def drawn(required: tuple[Requirement, ...], kind: str = CLEAN_SCENE) -> Survey:
    return survey(spoilt_scene(random_scene(required, Random(11)), kind, Random(12)).draw())


def scores(tag: str, prompt: str, found: Survey) -> dict[str, float | None]:
    return {one.aspect: one.score for one in score(TAGS[tag], prompt, found)}


def words(aspect: str, prompt: str, found: Survey) -> str:
    return score((aspect,), prompt, found)[0].explanation


def dots(*places: tuple[int, int, int], color: str = "red") -> Survey:
    """Ellipses, which are no drawn shape, at x and y with this width, 40 high."""
    picture = Image.new("RGB", (400, 400), "#e8ecf0")
    for x, y, width in places:
        ImageDraw.Draw(picture).ellipse((x, y, x + width, y + 40), fill=color)
    return survey(picture)


def photo() -> Survey:
    """What a busy picture gives."""
    small = np.random.default_rng(5).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    return survey(Image.fromarray(small).resize((512, 512), Image.Resampling.BICUBIC))


EMPTY = survey(Image.new("RGB", (300, 300), "white"))


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bool | None]]:
    """Kind -> whether it was noticed in each image that has it, over seeds that no limit was set by."""
    found: dict[str, list[bool | None]] = defaultdict(list)
    for seed in (301, 302):
        root = tmp_path_factory.mktemp("drawn")
        draw_images(root, seed=seed)
        for key, kind in read_image_labels(root).items():
            candidate, prompt, image = key.split("/")
            row = json.loads((root / candidate / prompt / "metadata.jsonl").read_text())
            with Image.open(root / candidate / prompt / "samples" / f"{image}.png") as picture:
                overall = scores(row["tag"], row["prompt"], survey(picture))["overall_score"]
            found[kind].append(noticed(kind, overall, 7))
    return found


def test_nineteen_in_twenty_defects_are_noticed_of_every_kind(rates: dict[str, list[bool | None]]) -> None:
    kinds = {kind for kinds in KINDS.values() for kind in kinds}
    assert rates.keys() == {*kinds, CLEAN_SCENE}
    for kind in kinds:
        assert sum(hit is True for hit in rates[kind]) >= 0.95 * len(rates[kind]), kind


def test_hardly_a_clean_image_scores_low(rates: dict[str, list[bool | None]]) -> None:
    assert len(rates[CLEAN_SCENE]) == 100
    assert sum(hit is False for hit in rates[CLEAN_SCENE]) <= 2


def test_every_aspect_of_the_default_rubrics_is_known() -> None:
    default = {tag: tuple(load_rubric(flow).prompt(tag).aspects) for flow in T2I for tag in holdings()[flow]}
    assert default == TAGS
    assert {aspect for aspects in default.values() for aspect in aspects} == {*ASPECTS}


@pytest.mark.parametrize(
    ("tag", "required", "kind", "aspect", "low", "high"),
    [
        ("single_object", (RING,), "clean", "object_completeness", 10, 10),
        ("single_object", (RING,), "fragmented", "object_completeness", 0, 3),
        ("single_object", (RING,), "hidden", "occlusion_handling", 0, 5),
        ("single_object", (RING,), "camouflaged", "detectability", 0, 4),
        ("two_object", (RING, STAR), "overlapping", "separation_clarity", 0, 4),
        ("two_object", (RING, STAR), "missing", "individual_completeness", 5, 5),
        ("two_object", (RING, STAR), "uneven", "relationship_accuracy", 3, 6),
        ("two_object", (RING, STAR), "clean", "relationship_accuracy", 10, 10),
        ("counting", THREE, "wrong_count", "count_accuracy", 0, 0),
        ("counting", THREE, "uneven", "object_uniformity", 3, 6),
        ("counting", THREE, "overlapping", "spatial_legibility", 0, 0),
        ("counting", THREE, "clean", "spatial_legibility", 10, 10),
        ("colors", (RING,), "wrong_color", "color_fidelity", 0, 1),
        ("colors", (RING,), "clean", "color_fidelity", 9, 10),
        ("colors", THREE, "clean", "multi_object_consistency", 10, 10),
        ("colors", THREE, "wrong_color", "multi_object_consistency", 6, 7),
        ("color_attr", (RING, STAR), "swapped_colors", "attribute_binding", 0, 0),
        ("color_attr", (RING, STAR), "wrong_color", "attribute_binding", 5, 5),
        ("color_attr", (RING, STAR), "clean", "attribute_binding", 10, 10),
        ("position", LEFT, "mirrored", "position_accuracy", 0, 0),
        ("position", LEFT, "clean", "position_accuracy", 10, 10),
        ("position", LEFT, "overlapping", "occlusion_management", 0, 4),
    ],
)
def test_an_aspect_falls_by_the_defect_it_asks_about(
    tag: str, required: tuple[Requirement, ...], kind: str, aspect: str, low: float, high: float
) -> None:
    found = scores(tag, prompt_text(required), drawn(required, kind))[aspect]
    assert found is not None
    assert low <= found <= high


@pytest.mark.parametrize(
    ("aspect", "required", "kind", "told"),
    [
        ("count_accuracy", THREE, "clean", "3 separate areas, asked 3."),
        ("object_completeness", (RING,), "fragmented", "4 separate areas, asked 1; the largest has 2"),
        ("color_fidelity", (RING,), "clean", "100% of the area is red, most is red; asked red."),
        ("attribute_binding", (RING, STAR), "swapped_colors", "0 of 2 as asked."),
        ("position_accuracy", LEFT, "clean", "the star's center is +0.4"),
        ("occlusion_handling", (RING,), "hidden", "a plain gray rectangle takes "),
    ],
)
def test_an_explanation_says_what_was_measured_in_numbers(
    aspect: str, required: tuple[Requirement, ...], kind: str, told: str
) -> None:
    assert told in words(aspect, prompt_text(required), drawn(required, kind))


@pytest.mark.parametrize(
    ("aspect", "prompt", "found", "expected"),
    [
        ("material_consistency", "a photo of a red ring and a blue star", drawn((RING, STAR)), 5),
        ("perspective_consistency", "a photo of a dog above a cat", drawn((RING, STAR)), 5),
        ("position_accuracy", "a photo of a dog left of a cat", dots((40, 180, 90), (260, 180, 90)), 5),
        ("position_accuracy", "a photo of a dog above a cat", dots((40, 180, 90), (260, 180, 90)), 0),
        ("position_accuracy", "a photo of two dogs", dots((40, 180, 90), (260, 180, 90)), 5),
        ("attribute_binding", "a photo of a red dog and a red cat", dots((40, 180, 90), (260, 180, 90)), 5),
        ("attribute_binding", "a photo of a red dog and a blue cat", dots((40, 180, 90), (260, 180, 90)), 5),
        ("attribute_binding", "a photo of a green dog and a blue cat", dots((40, 180, 90), (260, 180, 90)), 0),
        ("attribute_binding", "a photo of a dog", dots((40, 180, 90)), 5),
        ("color_fidelity", "a photo of a dog", dots((40, 180, 90)), 5),
        ("individual_completeness", "a photo of a dog and a cat", dots((40, 180, 90)), 5),
        ("individual_completeness", "a photo of a dog and a cat", dots((40, 180, 90), (260, 180, 90)), 10),
        ("object_completeness", "a photo of a dog", dots((40, 180, 90), (260, 180, 90)), 5),
        ("object_completeness", "a photo of a dog", dots((40, 180, 90)), 10),
        ("object_completeness", "a photo of a ring", dots((40, 180, 90)), 3),
        ("count_accuracy", "a photo of two dogs", dots((40, 180, 90), (260, 180, 90)), 10),
        ("count_accuracy", "a photo of three dogs", dots((40, 180, 90), (260, 180, 90)), 0),
        ("object_uniformity", "a photo of two dogs", dots((40, 180, 90)), 5),
        ("multi_object_consistency", "a photo of a red dog", dots((40, 180, 90)), None),
        ("multi_object_consistency", "a photo of a red dog", EMPTY, None),
        ("multi_object_consistency", "a photo of two red dogs", dots((40, 180, 90)), 5),
    ],
)
def test_of_objects_without_a_known_outline_only_what_pixels_tell_is_claimed(
    aspect: str, prompt: str, found: Survey, expected: float | None
) -> None:
    assert score((aspect,), prompt, found)[0].score == expected


def test_what_pixels_cannot_tell_is_said_in_these_words() -> None:
    assert words("material_consistency", "a red dog", dots((40, 180, 90))).endswith("pixels cannot tell.")
    assert words("position_accuracy", "a dog left of a cat", dots((40, 180, 90), (260, 180, 90))).endswith(
        "2 separate areas, asked 2; which of them is the dog: pixels cannot tell."
    )


@pytest.mark.parametrize("tag", TAGS)
def test_a_busy_picture_gets_middling_scores_with_the_reason(tag: str) -> None:
    found = {one.aspect: one for one in score(TAGS[tag], "a photo of two red dogs left of a cat", photo())}
    objects = [one for one in found.values() if one.aspect not in ("overall_score", *_OF_COLORS)]
    assert all(one.score == 5 and one.explanation.endswith("pixels cannot tell.") for one in objects)
    if tag == "counting":
        assert "on a ground that varies by " in found["count_accuracy"].explanation


_OF_COLORS = ("detectability", "contrast_effectiveness", "color_fidelity", "multi_object_consistency")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("prompt", ["a photo of a ring", "two dogs left of a cat", "", "!?", "white " * 3000])
def test_no_picture_and_no_prompt_is_too_odd_to_be_scored(tag: str, prompt: str) -> None:
    for found in (EMPTY, photo(), drawn(THREE), dots((40, 180, 90))):
        for one in score(TAGS[tag], prompt, found):
            assert one.score is None or 0 <= one.score <= 10
            assert one.explanation


def test_an_empty_picture_scores_nothing_that_can_be_measured() -> None:
    found = scores("single_object", "a photo of a ring", EMPTY)
    assert set(found.values()) == {0}
    assert words("detectability", "a photo of a ring", EMPTY) == "nothing differs from the ground."


def test_the_overall_score_is_the_mean_of_what_applies() -> None:
    prompt = prompt_text((RING,))
    found = score(TAGS["colors"], prompt, drawn((RING,)))
    assert [one.score for one in found] == [10, 10, None, 10]
    assert found[-1].explanation == "mean of the aspects; pixels were measured, nothing was recognised."
    position = scores("position", prompt_text(LEFT), drawn(LEFT))
    assert position["overall_score"] == pytest.approx((10 + 10 + 5) / 3, abs=0.05)


def test_an_aspect_that_fails_holds_the_overall_score_down() -> None:
    found = score(TAGS["counting"], "a photo of four hearts", drawn(THREE))
    assert [one.score for one in found] == [0, 10, 10, 1]
    assert "mean of the aspects 6.7, held at 1 above the lowest" in found[-1].explanation


def test_what_pixels_cannot_tell_does_not_hold_the_overall_score_down() -> None:
    assert scores("color_attr", prompt_text((RING, STAR)), drawn((RING, STAR)))["overall_score"] == 8.3


def test_where_no_aspect_applies_the_overall_score_is_middling() -> None:
    assert [one.score for one in score(("multi_object_consistency",), "a photo of a ring", EMPTY)] == [None, 5]


def test_drawn_shapes_are_seen_with_their_numbers_and_colors() -> None:
    (heart,) = look(["heart"], prompt_text(THREE), drawn(THREE)).objects
    assert (heart.present, heart.count, heart.color) == (True, 3, "pink")
    missing = look(["ring", "star"], prompt_text((RING, STAR)), drawn((RING, STAR), "missing")).objects
    assert [(one.name, one.present, one.count, one.color) for one in missing] == [
        ("ring", False, 0, ""),
        ("star", True, 1, "blue"),
    ]


@pytest.mark.parametrize(("kind", "holds"), [("clean", True), ("mirrored", False), ("overlapping", None)])
def test_a_relation_is_seen_to_hold_or_not(kind: str, holds: bool | None) -> None:
    assert look(["ring", "star"], prompt_text(LEFT), drawn(LEFT, kind)).relation_holds is holds


@pytest.mark.parametrize(
    ("names", "found", "seen"),
    [
        (["dog"], dots((40, 180, 90), (260, 180, 90)), [("dog", True, 2, "red")]),
        (["dog"], EMPTY, [("dog", False, 0, "")]),
        (["dog", "cat"], dots((40, 180, 90), (260, 180, 90)), []),
        (["dog", "ball"], dots((40, 180, 40), (260, 180, 90)), [("ball", True, 1, "red")]),
        (["dog"], photo(), []),
        (["ring", "star"], drawn((RING, STAR), "overlapping"), []),
    ],
)
def test_what_cannot_be_told_is_not_mentioned(
    names: list[str], found: Survey, seen: list[tuple[str, bool, int, str]]
) -> None:
    told = look(names, "a photo of a dog", found).objects
    assert [(one.name, one.present, one.count, one.color) for one in told] == seen


def test_an_aspect_that_must_have_a_score_gets_one_also_where_it_does_not_apply() -> None:
    aspect, prompt = "multi_object_consistency", "a photo of a red dog"
    found, overall = score((aspect,), prompt, dots((40, 180, 90)), always=(aspect,))
    assert (found.score, overall.score) == (5, 5)
    assert found.explanation == "the prompt asks for one object; what the score is then: pixels cannot tell."
