"""Which samples of a dataset a run judges: those that its filters leave, and of these the ones of its shard.

Owns what each filter compares, and what is said of a filter that the dataset has no such value for.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.datasets.entries import Entry
from tasks.errors import InputError, Problems
from tasks.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.records import Sample
from tasks.text import listed


class _Filter(NamedTuple):
    """One filter: its parameter, the values asked for (none: all pass), and those that a sample has."""

    name: str
    wanted: list[str]
    values_of: Callable[[Sample], set[str]]


def select(entries: Sequence[Entry], parameters: Parameters) -> list[Entry]:
    """The entries that all filters leave.

    `limit` counts ids, of generated images those of prompts, so that every candidate is judged on the same ones; `ids`
    may name prompts, too.

    Raises InputError, which lists every filter value the dataset does not have, or says that nothing is left.
    """
    filters = _filters(parameters)
    _check_values(entries, filters)
    left = [entry for entry in entries if all(_passes(entry, one) for one in filters)]
    if not left:
        raise InputError("no sample is left: each filter matches some, but none matches all of them")
    counted = [entry.sample.prompt_id or entry.sample.sample_id for entry in left]
    kept = set(list(dict.fromkeys(counted))[: parameters.limit or None])
    return [entry for entry, one in zip(left, counted, strict=True) if one in kept]


def _filters(parameters: Parameters) -> list[_Filter]:
    filters = [
        _Filter("ids", parameters.ids, lambda sample: {sample.sample_id, sample.prompt_id}),
        _Filter("candidate", parameters.candidate, lambda sample: {sample.candidate}),
    ]
    if isinstance(parameters, PairwiseParameters):
        filters.append(_Filter("category", parameters.category, lambda sample: {sample.category}))
        filters.append(_Filter("difficulty", parameters.difficulty, lambda sample: {sample.difficulty}))
    if isinstance(parameters, RubricParameters):
        filters.append(_Filter("tag", parameters.tag, lambda sample: {sample.tag}))
    return filters


def _check_values(entries: Sequence[Entry], filters: Sequence[_Filter]) -> None:
    problems = Problems()
    for one in filters:
        there = dict.fromkeys(value for entry in entries for value in sorted(one.values_of(entry.sample)))
        known = listed(filter(None, there))
        for value in one.wanted:
            if value not in there:
                problems.add(one.name, f"{value!r} is not among what this flow judges of the dataset: {known}")
    problems.stop("the filter")


def _passes(entry: Entry, one: _Filter) -> bool:
    return not one.wanted or bool(one.values_of(entry.sample) & set(one.wanted))


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
