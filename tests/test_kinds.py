"""The kinds of judging: which flow is of which, and that one table of prompt models decides it."""

import pytest

from tasks.kinds import KINDS, kind_of
from tasks.parameters import PAIRWISE, T2I
from tasks.rubrics.rubric import PROMPT_MODELS, load_rubric


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_a_flow_is_of_the_kind_that_asks_with_its_prompts(flow: str) -> None:
    kind = kind_of(flow)
    assert kind in KINDS and kind.prompt_model is PROMPT_MODELS[flow]
    assert {type(prompt) for prompt in load_rubric(flow).prompts} == {kind.prompt_model}


def test_figures_are_of_one_kind_and_generated_images_of_another() -> None:
    assert len(KINDS) == len({kind_of(flow) for flow in (*PAIRWISE, *T2I)}) == 2
    assert len({kind_of(flow) for flow in PAIRWISE}) == len({kind_of(flow) for flow in T2I}) == 1


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_controls_alter_pictures_that_the_prompts_show_and_never_the_human_one(flow: str) -> None:
    altered = set(kind_of(flow).instructions)
    assert altered and "human" not in altered
    assert all(altered <= set(prompt.inputs) for prompt in load_rubric(flow).prompts)
