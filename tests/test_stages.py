"""Which key holds the picture of a stage, and which picture stands for one that the critic made needless."""

import pytest

from tasks.datasets.stages import Carried, carried, stage_key, stages_among

DONE = "No changes needed."


@pytest.mark.parametrize(
    ("stage", "flow", "key"),
    [
        ("vanilla", "plot", "vanilla_plot_base64_jpg"),
        ("planner", "diagram", "target_diagram_desc0_base64_jpg"),
        ("stylist", "diagram", "target_diagram_stylist_desc0_base64_jpg"),
        ("critic0", "diagram", "target_diagram_critic_desc0_base64_jpg"),
        ("critic12", "plot", "target_plot_critic_desc12_base64_jpg"),
        ("polished", "diagram", "polished_diagram_base64_jpg"),
    ],
)
def test_a_stage_is_the_key_that_paperbanana_gives_it(stage: str, flow: str, key: str):
    assert stage_key(stage, flow) == key


@pytest.mark.parametrize("stage", ["", "critic", "critic-1", "Vanilla", "final"])
def test_a_stage_that_does_not_exist_is_refused_with_those_that_do(stage: str):
    with pytest.raises(ValueError, match="allowed are vanilla, planner, stylist, polished, critic0"):
        stage_key(stage, "diagram")


def record(**changes: object) -> dict[str, object]:
    """What a generator with planner and stylist leaves, in the short words of this module: said, text, and pictures."""
    names = {
        "planner": "target_diagram_desc0_base64_jpg",
        "stylist": "target_diagram_stylist_desc0_base64_jpg",
        "named": "eval_image_field",
        "rounds": "max_critic_rounds",
        **{f"said{n}": f"target_diagram_critic_suggestions{n}" for n in range(4)},
        **{f"text{n}": f"target_diagram_critic_desc{n}" for n in range(4)},
        **{f"critic{n}": f"target_diagram_critic_desc{n}_base64_jpg" for n in range(4)},
    }
    made = {"planner": "p", "stylist": "s"} | changes
    return {names[name]: names.get(value, value) if name == "named" else value for name, value in made.items()}


FIRST = {"said0": "Larger type.", "text0": "Larger.", "critic0": "c"}
"""A first round that changed something."""


@pytest.mark.parametrize(
    ("left", "stage", "found"),
    [
        ({"said0": DONE, "text0": "as before"}, "critic0", Carried("stylist", True)),
        ({"said0": DONE, "stylist": None}, "critic2", Carried("planner", True)),
        ({**FIRST, "said1": DONE, "text1": "as before"}, "critic1", Carried("critic0", True)),
        ({**FIRST, "said1": DONE, "critic1": None, "critic2": ""}, "critic2", Carried("critic0", True)),
        ({**FIRST, "said1": f" **{DONE[:-1].upper()}** \n", "rounds": 3}, "critic2", Carried("critic0", True)),
        ({**FIRST, "said1": "No change is required", "named": "critic0"}, "critic2", Carried("critic0", True)),
        ({**FIRST, "named": "critic0"}, "critic2", Carried("critic0", True)),
        ({**FIRST, "said1": DONE}, "critic3", Carried("critic0", False)),
        ({**FIRST, "said1": DONE, "rounds": 5}, "critic3", Carried("critic0", True)),
        ({"named": "stylist"}, "critic0", Carried("stylist", True)),
    ],
)
def test_the_last_picture_before_a_content_critic_is_carried_forward(
    left: dict[str, object], stage: str, found: Carried
):
    assert carried(record(**left), stage, "diagram") == found


@pytest.mark.parametrize(
    ("left", "stage"),
    [
        ({}, "critic0"),
        ({"said0": DONE, "planner": None, "stylist": None}, "critic0"),
        ({**FIRST, "said1": "No changes needed to the colors, but the type is small."}, "critic1"),
        ({**FIRST, "said1": "Larger type.", "text1": "Larger.", "named": "critic0"}, "critic1"),
        ({**FIRST, "said1": "Larger type.", "text1": "Larger.", "named": "critic0"}, "critic2"),
        ({**FIRST, "critic1": None, "named": "critic0"}, "critic1"),
        ({**FIRST, "critic2": None, "named": "critic2"}, "critic2"),
        ({**FIRST, "named": "critic2"}, "critic2"),
        ({**FIRST, "named": "critic0", "rounds": 1}, "critic1"),
        ({**FIRST, "said1": DONE, "rounds": 2}, "critic2"),
        ({**FIRST, "said1": None, "named": None}, "critic1"),
        ({**FIRST, "critic0": None, "said1": DONE}, "critic0"),
        ({"said0": DONE}, "polished"),
        ({"said0": DONE, "stylist": None, "named": "planner"}, "stylist"),
    ],
)
def test_a_picture_that_is_missing_for_any_other_reason_is_not_replaced(left: dict[str, object], stage: str):
    assert carried(record(**left), stage, "diagram") is None


def test_the_critic_of_another_task_says_nothing():
    assert carried(record(said0=DONE), "critic0", "plot") is None


def test_stages_are_told_by_name():
    assert stages_among(record(**FIRST), "diagram") == "critic0, planner, stylist"
    assert stages_among(record(**FIRST), "plot") == "none"
