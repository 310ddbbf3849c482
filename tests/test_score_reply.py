"""Replies to rubrics: the schema, and the scores that can be read."""

import json
from typing import Any

import pytest

from tasks.protocols.images.reply import format_words, read, schema
from tasks.records import Seen
from tasks.rubrics.rubric import load_rubric

COUNTING = load_rubric("counting").prompt("counting")
COLORS = load_rubric("colors").prompt("colors")
CHECKED = load_rubric("position", "checked").prompt("position")
KEYS = ("count_accuracy", "object_uniformity", "spatial_legibility", "overall_score")


def body(**scores: Any) -> dict[str, Any]:
    """Return a reply to the counting rubric with scores 3, 8, 9 and 5, or the given ones."""
    values = {**dict(zip(KEYS, (3, 8, 9, 5), strict=True)), **scores}
    return {key: {"explanation": f"why {key}", "score": value} for key, value in values.items()}


def scores(text: str, prompt: Any = COUNTING) -> list[float | None]:
    reading = read(text, prompt)
    assert not reading.error, reading.error
    return [each.score for each in reading.scores]


def test_scores_are_read_with_explanations_in_prompt_order() -> None:
    shuffled = dict(reversed(body(object_uniformity=7.5).items()))
    reading = read(json.dumps(shuffled), COUNTING)
    assert [(each.aspect, each.score) for each in reading.scores] == list(zip(KEYS, (3, 7.5, 9, 5), strict=True))
    assert reading.scores[1].explanation == "why object_uniformity"
    assert (reading.reasoning, reading.recovery, reading.error) == ("why overall_score", "strict", "")


@pytest.mark.parametrize(
    ("reply", "recovery"),
    [
        (f"```json\n{json.dumps(body())}\n```", "fence removed"),
        (f"Here you are: {json.dumps(body())} Done.", "taken out of prose"),
        (f"<think>{{}}</think>{json.dumps(body())}", "thinking dropped"),
        (json.dumps(body())[:-2] + ",}}", "broken JSON mended"),
        (json.dumps({**body(), "count_accuracy": 3}), "bare score"),
        (json.dumps(body(count_accuracy="3/10")), "score read from text"),
        (json.dumps({**body(), "count_accuracy": "3 / 10"}), "bare score + score read from text"),
        (json.dumps({**body(), "style": "fine"}), "strict"),
        (json.dumps({**body(), "count_accuracy": {"explanation": "x", "score": 3, "unit": "points"}}), "strict"),
        (json.dumps({"result": body()}), "strict"),
        (json.dumps({key.replace("_", " ").title(): value for key, value in body().items()}), "strict"),
        (json.dumps(body()) + json.dumps(body()), "taken out of prose"),
        (f"{json.dumps(body())} Overall score: 5/10, count accuracy: 3.", "taken out of prose"),
        (f"{json.dumps(body())}\nScore: 5\n10 clocks were asked for, 12 are there.", "taken out of prose"),
        (f'Overall score: 9? No.\n{json.dumps(body())}{{"note": 4}}', "taken out of prose"),
        (json.dumps(body()).replace('"score": 3', '"score": 3, "score": 3'), "strict"),
        (json.dumps(body()).replace('"score": 3', '"score": "3/10", "score": 3.0'), "score read from text"),
        (json.dumps(body()) + json.dumps(body()).replace("why", "since"), "taken out of prose"),
    ],
)
def test_repairable_reply_is_read_and_the_repair_noted(reply: str, recovery: str) -> None:
    assert scores(reply) == [3, 8, 9, 5]
    assert recovery in read(reply, COUNTING).recovery


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("", "`count_accuracy` is missing"),
        ("The count is wrong, I would say 3 of 10.", "The count is wrong"),
        (json.dumps(body())[:-40], "`overall_score` is missing"),
        (json.dumps({key: value for key, value in body().items() if key != "overall_score"}), "`overall_score` is mis"),
        (json.dumps(body(count_accuracy=11)), "`count_accuracy` has score 11, allowed is a number from 0 to 10"),
        (json.dumps(body(count_accuracy="good")), "`count_accuracy` has score 'good'"),
        (json.dumps(body(count_accuracy="8/100")), "`count_accuracy` has score '8/100'"),
        (json.dumps(body(overall_score=None)), "`overall_score` has score None"),
        (json.dumps(body(count_accuracy=float("nan"))), "`count_accuracy` has score nan"),
        (json.dumps({**body(), "count_accuracy": {"explanation": "none"}}), "`count_accuracy` has score 'nothing'"),
        (json.dumps(body()) + json.dumps(body(count_accuracy=4)), "`count_accuracy` has 2 different scores"),
        (json.dumps(body()).replace('"score": 3', '"score": 3, "score": 2'), "`count_accuracy` has 2 differ"),
        (json.dumps(body()).replace('"score": 3', '"score": 3, "Score": null'), "`count_accuracy` has 2 diff"),
        (f"{json.dumps(body())} Overall score: 6", "`overall_score` is repeated as 6 after the JSON"),
        (f"{json.dumps(body())} The count accuracy is 4.", "`count_accuracy` is repeated as 4"),
        (f"{json.dumps(body())}\n**Final score**: 6.5", "a score is repeated as 6.5"),
        (f"{json.dumps(body())} I would say 7/10.", "a score is repeated as 7"),
        (json.dumps(body(count_accuracy=11, overall_score=12)), "`overall_score` has score 12"),
    ],
)
def test_missing_out_of_scale_or_contradictory_scores_are_invalid(reply: str, words: str) -> None:
    reading = read(reply, COUNTING)
    assert words in reading.error and reading.scores == ()


def test_aspect_may_be_null_if_the_prompt_allows_it() -> None:
    keys = ("color_fidelity", "contrast_effectiveness", "multi_object_consistency", "overall_score")
    reply = {key: {"explanation": "", "score": 9} for key in keys}
    reply["multi_object_consistency"]["score"] = None
    assert scores(json.dumps(reply), COLORS) == [9, 9, None, 9]


def checked(seen: Any) -> str:
    keys = ("position_accuracy", "occlusion_management", "perspective_consistency", "overall_score")
    return json.dumps({**{key: {"explanation": "", "score": 6} for key in keys}, "seen": seen})


def test_seen_objects_are_read_beside_the_scores() -> None:
    dog = {"object": "dog", "present": True, "count": 2, "color": "brown"}
    cat, owl = ({"object": name, "present": False} for name in ("cat", "owl"))
    told = [dog, cat | {"count": 0}, owl | {"count": None, "color": None}]
    reading = read(checked({"objects": told, "relation_holds": False}), CHECKED)
    assert reading.seen and reading.seen.relation_holds is False
    seen = [tuple(each.model_dump().values()) for each in reading.seen.objects]
    assert seen == [("dog", True, 2, "brown"), ("cat", False, 0, ""), ("owl", False, 0, "")]
    assert read(checked({"objects": []}), CHECKED).seen == Seen(objects=())


@pytest.mark.parametrize(
    "seen",
    [
        None, "a dog", {"objects": "a dog"}, {"objects": [{"object": "dog", "present": True}]},
        {"objects": [{"object": "dog", "present": "yes", "count": 1}]},
        {"objects": [{"object": "dog", "present": True, "count": -1}]}, {"objects": [], "relation_holds": "perhaps"},
    ],
)  # fmt: skip
def test_unreadable_seen_part_keeps_the_scores(seen: Any) -> None:
    reading = read(checked(seen), CHECKED)
    assert not reading.error and len(reading.scores) == 4
    assert reading.seen is None and "no readable `seen`" in reading.recovery


def test_schema_and_instructions_request_explanation_before_score_only() -> None:
    made = schema(COUNTING)
    assert tuple(made["properties"]) == tuple(made["required"]) == KEYS
    for part in made["properties"].values():
        assert list(part["properties"]) == part["required"] == ["explanation", "score"]
        assert part["additionalProperties"] is False
    assert schema(COLORS)["properties"]["multi_object_consistency"]["properties"]["score"]["type"] == ["number", "null"]
    assert "JSON" in format_words(COUNTING) and all(f'"{key}"' in format_words(COUNTING) for key in KEYS)
    assert '"multi_object_consistency" is null' in format_words(COLORS)


def test_seen_part_comes_last_in_schema_and_instructions() -> None:
    assert list(schema(CHECKED)["properties"])[-2:] == ["overall_score", "seen"]
    assert list(schema(CHECKED)["properties"]["seen"]["properties"]) == ["objects", "relation_holds"]
    assert "relation_holds" in format_words(CHECKED)
    assert "seen" not in schema(COUNTING)["properties"] and "seen" not in format_words(COUNTING)
    assert "relation_holds" not in format_words(load_rubric("counting", "checked").prompt("counting"))
