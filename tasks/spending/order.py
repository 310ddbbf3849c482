"""Random order for a run with a budget, so that the samples judged are a random part of all.

A unit is judged whole: a sample with all its candidates, or all images of a prompt.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import TypeVar

from tasks.records import ANCHOR, Sample

T = TypeVar("T")


def in_random_order(samples: Sequence[Sample], seed: str) -> tuple[Sample, ...]:
    """Return the samples unit by unit, in an order that depends on the seed and the ids alone.

    Added or removed samples change nothing for the others. The seed is the dataset's key, so that the same command with
    more budget goes on where this one stops.
    """
    return tuple(sorted(samples, key=lambda sample: _place(f"{seed}\n{sample.subject}")))


def _place(name: str) -> bytes:
    return sha256(name.encode("utf-8", "surrogatepass")).digest()


def units(ordered: Iterable[T], sample_of: Callable[[T], Sample]) -> Iterator[list[T]]:
    """Return the items of such an order, unit by unit; a control belongs to its sample's unit, an anchor to none."""

    def unit_of(one: T) -> tuple[bool, str]:
        sample = sample_of(one)
        return sample.control == ANCHOR, sample.subject

    return (list(unit) for _, unit in groupby(ordered, key=unit_of))


def chunks(ordered: Sequence[Sample], size: int, whole_units: bool) -> Iterator[Sequence[Sample]]:
    """Yield chunks of samples in their order: of `size` samples, or a few more to keep a unit whole."""
    if not whole_units:
        yield from (ordered[first : first + size] for first in range(0, len(ordered), size))
        return
    chunk: list[Sample] = []
    for unit in units(ordered, lambda sample: sample):
        chunk += unit
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
