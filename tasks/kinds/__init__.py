"""The kinds of judging: all in which pairwise figures and rubrics for generated images differ."""

from tasks.kinds.kind import Kind
from tasks.kinds.pairwise import PairwiseKind
from tasks.kinds.rubric import RubricKind
from tasks.parameters import PAIRWISE, T2I

KINDS: dict[str, Kind] = {
    **dict.fromkeys(PAIRWISE, PairwiseKind()),
    **dict.fromkeys(T2I, RubricKind()),
}
"""Flow -> its kind of judging."""


def kind_of(flow: str) -> Kind:
    """The kind of judging of a flow."""
    return KINDS[flow]
