"""Which samples of a dataset a run judges: those that its filters leave, and of these the ones of its shard.

Owns what each filter compares, and what is said of a filter that the dataset has no such value for.
"""

from collections.abc import Mapping, Sequence

from tasks.datasets.entries import Entry
from tasks.errors import InputError, Problems
from tasks.parameters import Parameters
from tasks.records import Sample
from tasks.text import listed

FILTERS = ("ids", "candidate", "category", "difficulty", "tag")
"""Parameters that are filters, each a list of values of which a sample must have one; empty: every sample passes."""


def select(entries: Sequence[Entry], parameters: Parameters) -> list[Entry]:
    """The entries that all filters leave.

    `limit` counts ids, of generated images those of prompts, so that every candidate is judged on the same ones; `ids`
    may name prompts, too.

    Raises InputError, which lists every filter value the dataset does not have, or says that nothing is left.
    """
    wanted: dict[str, list[str]] = {name: given for name in FILTERS if (given := getattr(parameters, name, []))}
    _check_values(entries, wanted)
    sets = {name: set(values) for name, values in wanted.items()}
    left = [entry for entry in entries if _passes(entry.sample, sets)]
    if not left:
        raise InputError("no sample is left: each filter matches some, but none matches all of them")
    counted = [entry.sample.prompt_id or entry.sample.sample_id for entry in left]
    kept = set(list(dict.fromkeys(counted))[: parameters.limit or None])
    return [entry for entry, one in zip(left, counted, strict=True) if one in kept]


def _check_values(entries: Sequence[Entry], wanted: Mapping[str, list[str]]) -> None:
    problems = Problems()
    for name, values in wanted.items():
        there = dict.fromkeys(value for entry in entries for value in sorted(_values(entry.sample, name)))
        known = listed(filter(None, there))
        for value in values:
            if value not in there:
                problems.add(name, f"{value!r} is not among what this flow judges of the dataset: {known}")
    problems.stop("the filter")


def _passes(sample: Sample, wanted: Mapping[str, set[str]]) -> bool:
    return all(_values(sample, name) & values for name, values in wanted.items())


def _values(sample: Sample, name: str) -> set[str]:
    return {sample.sample_id, sample.prompt_id} if name == "ids" else {getattr(sample, name)}


def of_shard(samples: Sequence[Sample], shard: int, shards: int) -> tuple[Sample, ...]:
    """The part of the samples that a shard judges: every so many-th id, with all candidates and images of it.

    Args:
        shard: its number, from 1; 0: the dataset is not split.
        shards: how many there are.
    """
    if not shard:
        return tuple(samples)
    ids = sorted({sample.prompt_id or sample.sample_id for sample in samples})
    ours = set(ids[shard - 1 :: shards])
    return tuple(sample for sample in samples if (sample.prompt_id or sample.sample_id) in ours)
