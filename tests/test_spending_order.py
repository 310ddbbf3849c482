"""The order of samples in a run with a budget, and the units that stay together."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from flows.chunks import cut
from tasks.extensions.controls import with_controls
from tasks.protocols import control_rules_of
from tasks.records import ANCHOR, PictureSource, Place, Sample
from tasks.spending.budget import in_random_order, units


def sample(name: str, candidate: str = "alpha", prompt_id: str = "", control: str = "") -> Sample:
    at, sides = Place("test.json"), {role: PictureSource(Place(f"{role}/{name}")) for role in ("human", "model")}
    return Sample(sample_id=name, candidate=candidate, prompt_id=prompt_id, control=control, record=at, pictures=sides)


def ids(samples: Sequence[Sample]) -> list[str]:
    return [each.sample_id for each in samples]


NAMES = [f"s{number}" for number in range(40)]


def test_order_depends_only_on_dataset_key_and_ids() -> None:
    samples = [sample(name) for name in NAMES]
    order = ids(in_random_order(samples, "key"))
    assert sorted(order) == sorted(NAMES) and order != NAMES
    assert ids(in_random_order(samples[::-1], "key")) == order != ids(in_random_order(samples, "other key"))
    assert ids(in_random_order(samples[:20], "key")) == [name for name in order if name in NAMES[:20]]


def test_order_is_uniform() -> None:
    samples = [sample(name) for name in NAMES]
    places = [ids(in_random_order(samples, f"key {seed}")).index("s7") for seed in range(400)]
    assert abs(np.mean(places) - 19.5) < 4 * np.std(range(40)) / 20


def test_candidates_and_images_of_a_prompt_are_one_unit() -> None:
    samples = [sample(f"{p}/{n}", name, prompt_id=str(p)) for name in ("a", "b") for p in range(5) for n in range(3)]
    order = in_random_order(samples, "key")
    found = [Counter(each.subject for each in unit) for unit in units(order, lambda each: each)]
    assert [list(unit.values()) for unit in found] == [[6]] * 5
    assert [len(chunk) for chunk in cut(order, 4, whole_units=True)] == [6] * 5
    assert [len(chunk) for chunk in cut(order, 8, whole_units=True)] == [12, 12, 6]
    assert [len(chunk) for chunk in cut(order, 8, whole_units=False)] == [8, 8, 8, 6]


def test_controls_are_made_of_the_first_samples_and_follow_them() -> None:
    order = in_random_order([sample(name) for name in NAMES], "key")
    shown = with_controls(order, 0.1, control_rules_of("diagram"), of_first=True)
    found = list(units(shown, lambda each: each))
    assert [len(unit) for unit in found] == [2] * 18 + [1] * 22
    assert all(unit[1].control and unit[0].sample_id == unit[1].sample_id for unit in found[:18])


def test_anchor_and_sample_of_one_name_are_separate_units() -> None:
    shown = [sample("s1", control=ANCHOR), sample("s1"), sample("s1", "beta")]
    assert [len(unit) for unit in units(shown, lambda each: each)] == [1, 2]
