"""The kinds of judging: all in which pairwise figures and rubrics for generated images differ."""

from tasks.kinds.kind import Kind
from tasks.kinds.pairwise import PairwiseKind
from tasks.kinds.rubric import RubricKind
from tasks.rubrics.rubric import PROMPT_MODELS

KINDS: tuple[Kind, ...] = (PairwiseKind(), RubricKind())

_OF_FLOWS = {flow: kind for kind in KINDS for flow, model in PROMPT_MODELS.items() if model is kind.prompt_model}


def kind_of(flow: str) -> Kind:
    """The kind of judging of a flow."""
    return _OF_FLOWS[flow]
