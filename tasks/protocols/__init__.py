"""Kinds of judging, pairwise figures and rubrics for generated images, with all code in which they differ."""

from collections.abc import Mapping
from typing import Any

from tasks.protocols.display import Terms
from tasks.protocols.figures.protocol import PairwiseKind
from tasks.protocols.images.protocol import RubricKind
from tasks.protocols.protocol import Kind
from tasks.rubrics.rubric import PROMPT_MODELS

KINDS: tuple[Kind, ...] = (PairwiseKind(), RubricKind())

_OF_FLOWS = {flow: kind for kind in KINDS for flow, model in PROMPT_MODELS.items() if model is kind.prompt_model}


def kind_of(flow: str) -> Kind:
    """Return the kind of judging of a flow."""
    return _OF_FLOWS[flow]


def terms_of(flow: str, endpoint: str, parameters: Mapping[str, Any]) -> Terms:
    """Return the terms for reading the scores of a run.

    Args:
        endpoint: address of the run's judge.
        parameters: parameters of the run, as it was started.
    """
    return Terms(flow, endpoint, kind_of(flow).good_from(parameters))
