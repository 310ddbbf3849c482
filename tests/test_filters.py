"""Filters leave the samples that all of them match, the same ones of every candidate."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from written_datasets import write_two_stages

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import Entry
from tasks.datasets.filters import select
from tasks.kinds.loading import load_dataset
from tasks.parameters import PairwiseParameters
from tasks.records import Place, Sample


def load(source: Path, **parameters: object) -> Dataset:
    return load_dataset("diagram", PairwiseParameters.model_validate({"dataset": str(source)} | parameters))


def ids(dataset: Dataset) -> list[str]:
    return [sample.sample_id for sample in dataset.samples]


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return write_two_stages(tmp_path / "bench")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"limit": 3}, [0, 1, 2]),
        ({"limit": 9}, [0, 1, 2, 3]),
        ({"ids": ["test_3", "test_1"]}, [1, 3]),
        ({"category": ["vision"]}, [1, 3]),
        ({"category": ["vision", "agent"], "difficulty": ["hard"]}, [2, 3]),
        ({"category": ["vision"], "limit": 1}, [1]),
        ({"candidate": ["diagram"]}, [0, 1, 2, 3]),
    ],
)
def test_filters_leave_what_all_of_them_match(bench: Path, filters: dict[str, object], expected: list[int]):
    assert ids(load(bench, **filters)) == [f"test_{n}" for n in expected]


def test_the_limit_gives_every_candidate_the_same_samples(bench: Path):
    dataset = load(bench, stage=["vanilla", "critic0"], limit=2)
    assert [(sample.candidate, sample.sample_id) for sample in dataset.samples] == [
        ("diagram/vanilla", "test_0"),
        ("diagram/vanilla", "test_1"),
        ("diagram/critic0", "test_0"),
        ("diagram/critic0", "test_1"),
    ]
    assert load(bench, stage=["vanilla", "critic0"], candidate=["diagram/critic0"]).candidates == ("diagram/critic0",)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (
            {"ids": ["test_1", "test_9"]},
            "ids: 'test_9' is not among what this flow judges of the dataset: test_0, test_1, test_2, test_3",
        ),
        (
            {"category": ["visoin"]},
            "category: 'visoin' is not among what this flow judges of the dataset: agent, vision",
        ),
        ({"candidate": ["gpt"]}, "candidate: 'gpt' is not among what this flow judges of the dataset: diagram"),
        ({"ids": ["x"], "difficulty": ["y"]}, "the filter has 2 problems"),
        ({"ids": ["test_0"], "category": ["vision"]}, "no sample is left"),
    ],
)
def test_a_filter_that_matches_nothing_says_what_there_is(bench: Path, filters: dict[str, object], words: str):
    with pytest.raises(ValueError, match=words):
        load(bench, **filters)


class Counted(list[str]):
    """A list that counts how often it is walked through."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def test_the_values_of_a_filter_are_not_walked_through_for_each_sample():
    """Thousands of ids may be given for tens of thousands of samples."""
    entries = [
        Entry(Sample(sample_id=f"s{n}", candidate="a", record=Place(path="m.jsonl")), "", "") for n in range(300)
    ]
    wanted = Counted(f"s{n}" for n in range(0, 300, 2))
    found = select(entries, PairwiseParameters.model_construct(dataset="m.jsonl", ids=wanted))
    assert [entry.sample.sample_id for entry in found] == list(wanted)
    assert wanted.walks < 10
