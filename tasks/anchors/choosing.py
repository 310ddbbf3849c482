"""Which samples of a dataset become anchors: by reference, category and id, never by what a judge said of them.

Chosen by verdicts, they would be extreme by chance, and an unchanged judge would seem to fall by 9 points.
"""

from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256

from tasks.records import Sample

SEED = "anchors 1"
"""Any constant will do: the same dataset must give the same anchors."""


def in_turn(samples: Sequence[Sample]) -> list[Sample]:
    """The samples in the order in which they become anchors, one of each reference: of each Human figure, or prompt.

    However many are taken from the beginning, each category (or tag) has its share of them. Samples whose pictures are
    known to be missing are left out.
    """
    able = [sample for sample in samples if not any(source.problem for source in sample.pictures.values())]
    references: dict[str, Sample] = {}
    for sample in sorted(able, key=_drawn):
        references.setdefault(_reference(sample), sample)
    categories: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in references.values():
        categories[sample.category or sample.tag].append(sample)
    places = [((rank + 0.5) / len(its), sample) for its in categories.values() for rank, sample in enumerate(its)]
    return [sample for _, sample in sorted(places, key=lambda place: (place[0], _drawn(place[1])))]


def _reference(sample: Sample) -> str:
    return sample.prompt_id or sample.sample_id


def _drawn(sample: Sample) -> tuple[str, str]:
    """A random place that is the same each time: of the reference, then of what was made for it."""
    reference = _reference(sample)
    return _digest(reference), _digest(f"{reference}\n{sample.candidate}\n{sample.sample_id}")


def _digest(text: str) -> str:
    return sha256(f"{SEED}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
