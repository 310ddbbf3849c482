"""Kinds of judging, a folder each, with all code in which they differ; the modules beside are their interfaces.

A folder has the modules `protocol`, `display`, `labels` and `controls`, each with an object of the same name in
capitals. They are imported on request: a plain run needs neither labels nor controls.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import PROMPT_MODELS, InstrumentPrompt, PairwisePrompt, Prompt, RubricPrompt

if TYPE_CHECKING:
    from tasks.protocols.controls import ControlRules
    from tasks.protocols.display import Display
    from tasks.protocols.labels import LabelRules
    from tasks.protocols.protocol import Protocol

PACKAGES: dict[type[Prompt], str] = {
    PairwisePrompt: "tasks.protocols.figures",
    RubricPrompt: "tasks.protocols.images",
    InstrumentPrompt: "tasks.protocols.checklist",
}
"""Model of the prompts of a kind -> its package."""


def protocol_of(flow: str) -> "Protocol[Any, Any]":
    """Return the protocol of a flow's kind of judging."""
    return _module(flow, "protocol").PROTOCOL


def parameters_of(flow: str) -> type[Parameters]:
    """Return the model of a flow's parameters."""
    return protocol_of(flow).parameters


def earlier_parameters(flow: str, kept: Mapping[str, Any]) -> Parameters:
    """Return the parameters of an earlier run, without those removed since. Raises ValidationError if one is wrong."""
    model = parameters_of(flow)
    return model.model_validate({name: value for name, value in kept.items() if name in model.model_fields})


def display_of(flow: str) -> "Display[Any]":
    """Return the display of a flow's scores and samples."""
    return _module(flow, "display").DISPLAY


def label_rules_of(flow: str) -> "LabelRules":
    """Return the rules for labels of a flow's samples."""
    return _module(flow, "labels").LABELS


def control_rules_of(flow: str) -> "ControlRules":
    """Return the rules for controls and anchors of a flow."""
    return _module(flow, "controls").CONTROLS


def _module(flow: str, name: str) -> ModuleType:
    return import_module(f"{PACKAGES[PROMPT_MODELS[flow]]}.{name}")
