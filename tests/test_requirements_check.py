"""The rule check of GenEval prompts, one case a line: the prompt's row, the objects seen, the answer."""

from pathlib import Path

import pytest
from geneval_rows import sample
from own_data import each_list

from tasks.protocols.images.requirements import objects_text, relation_text, satisfied
from tasks.records import Seen, SeenObject

BENCH = '{"tag": "single_object", "include": [{"class": "bench", "count": 1}], "prompt": "a photo of a bench"}'
PAIR = '{"tag": "two_object", "include": [{"class": "bench", "count": 1}, {"class": "sports ball", "count": 1}]}'
CLOCKS = '{"include": [{"class": "clock", "count": 2}], "exclude": [{"class": "clock", "count": 3}]}'
HYDRANT = '{"tag": "colors", "include": [{"class": "fire hydrant", "count": 1, "color": "blue"}]}'
GLASS = '{"tag": "colors", "include": [{"class": "wine glass", "count": 1, "color": "purple"}]}'
DOG = '{"include": [{"class": "teddy bear", "count": 1}, {"class": "dog", "count": 1, "position": ["right of", 0]}]}'
TWO_COLORS = (
    '{"include": [{"class": "wine glass", "count": 1, "color": "purple"}, '
    '{"class": "apple", "count": 1, "color": "black"}]}'
)
CARS = '{"include": [{"class": "car", "count": 1, "color": "red"}, {"class": "car", "count": 1, "color": "blue"}]}'
RED_CARS = '{"include": [{"class": "car", "count": 2, "color": "red"}]}'
GRAY_CAR = '{"include": [{"class": "car", "count": 1, "color": "gray"}]}'
NO_CAT = '{"include": [{"class": "dog", "count": 1}], "exclude": [{"class": "cat", "count": 1}]}'


def seen(entries: str, holds: bool | None = None) -> Seen:
    """Parse objects seen, such as `2 clock, 1 fire hydrant: blue`; the count 0 means declared absent."""
    objects = list[SeenObject]()
    for entry in filter(None, entries.split(", ")):
        count, _, words = entry.partition(" ")
        name, _, color = words.partition(": ")
        objects.append(SeenObject(name=name, present=count != "0", count=int(count), color=color))
    return Seen(objects=tuple(objects), relation_holds=holds)


@pytest.mark.parametrize(
    ("row", "entries", "answer"),
    [
        (BENCH, "1 bench", True),
        ('{"include": [{"class": "person", "count": 1}]}', "1 people", True),
        ('{"include": [{"class": "knife", "count": 1}]}', "1 knives", True),
        ('{"include": [{"class": "bus", "count": 1}]}', "1 buses", True),
        ('{"include": [{"class": "toothbrush", "count": 1}]}', "1 toothbrushes", True),
        ('{"include": [{"class": "skis", "count": 1}]}', "1 ski", True),
        (BENCH, "0 bench", False),
        (BENCH, "", None),
        (BENCH, "2 benches", True),
        (BENCH, "1 park bench", None),
        (PAIR, "1 bench, 1 sports ball: white", True),
        (PAIR, "1 bench, 0 sports ball", False),
        (CLOCKS, "2 clock", True),
        (CLOCKS, "3 clock", False),
        (CLOCKS, "2 clock, 1 clocks", False),
        (HYDRANT, "1 fire hydrant: blue", True),
        (HYDRANT, "1 fire hydrant: ControlRate Blue", True),
        (HYDRANT, "1 fire hydrant: blue and white", True),
        (HYDRANT, "1 fire hydrant: bluish", False),
        (HYDRANT, "1 fire hydrant: red", False),
        (HYDRANT, "1 fire hydrant: red, 1 fire hydrant: blue", True),
        (HYDRANT, "1 fire hydrant", None),
        (GLASS, "1 wine glass: violet", True),
        (GLASS, "1 wine: purple", None),
        (GRAY_CAR, "1 car: grey", True),
        (TWO_COLORS, "1 wine glass: purple, 1 apple: black", True),
        (TWO_COLORS, "1 wine glass: black, 1 apple: purple", False),
        (RED_CARS, "2 car: red", True),
        (RED_CARS, "1 car: red", False),
        (NO_CAT, "1 dog, 0 cat", True),
        (NO_CAT, "1 dog, 1 cat", False),
        (NO_CAT, "1 dog", None),
        # Two colors of one class need two objects.
        (CARS, "1 car: red, 1 car: blue", True),
        (CARS, "2 car: red and blue", True),
        (CARS, "1 car: red and blue", False),
        (CARS, "1 car: red", False),
        (CARS, "2 car: red", None),
        (CARS, "2 car", None),
        (CARS, "0 car", False),
    ],
)
def test_names_counts_and_colors_decide(row: str, entries: str, answer: bool | None):
    assert satisfied(sample(row), seen(entries)) is answer


@pytest.mark.parametrize(
    ("row", "entries", "holds", "answer"),
    [
        (DOG, "1 teddy bear, 1 dog", True, True),
        (DOG, "1 teddy bear, 1 dog", False, False),
        (DOG, "1 teddy bear, 1 dog", None, None),
        (DOG, "1 teddy bear, 0 dog", True, False),
        (DOG, "1 teddy bear, 0 dog", None, False),
        (DOG, "1 teddy bear", True, None),
        (BENCH, "1 bench", False, True),
    ],
)
def test_relation_must_hold_if_it_is_required(row: str, entries: str, holds: bool | None, answer: bool | None):
    assert satisfied(sample(row), seen(entries, holds)) is answer


@pytest.mark.parametrize(("present", "count"), [(True, 0), (False, 2)])
def test_contradictory_entry_gives_no_answer(present: bool, count: int):
    contradiction = Seen(objects=(SeenObject(name="fire hydrant", present=present, count=count, color="red"),))
    assert satisfied(sample(HYDRANT), contradiction) is None


def test_missing_reply_or_requirement_gives_no_answer():
    assert satisfied(sample(BENCH), None) is None
    assert satisfied(sample(NO_CAT, required=()), seen("1 cat")) is None


@pytest.mark.parametrize(
    ("row", "names", "relation"),
    [
        (BENCH, "bench", ""),
        (CLOCKS, "clock", ""),
        (TWO_COLORS, "wine glass\napple", ""),
        (CARS, "car", ""),
        (NO_CAT, "dog\ncat", ""),
        (DOG, "teddy bear\ndog", "the dog is right of the teddy bear"),
    ],
)
def test_judge_gets_only_names_and_relation(row: str, names: str, relation: str):
    assert (objects_text(sample(row)), relation_text(sample(row))) == (names, relation)


@each_list
def test_every_geneval_prompt_is_satisfied_only_by_all_its_objects(geneval_list: Path):
    for row in geneval_list.read_text(encoding="utf-8").splitlines():
        asked = sample(row)
        objects = tuple(
            SeenObject(name=each.name, present=True, count=each.count, color=each.color) for each in asked.required
        )
        missing = objects[-1].model_copy(update={"present": False, "count": 0})
        assert satisfied(asked, Seen(objects=objects, relation_holds=True)) is True
        assert satisfied(asked, Seen(objects=(*objects[:-1], missing), relation_holds=True)) is False
