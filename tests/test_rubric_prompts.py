"""The text-to-image prompts carry every rule of their source, and nothing that a table does not name.

The tables are in the form of `test_prompts`: an entry names what one line of the prompt must say, under the heading
and after `>>` the item where it belongs, and every line is claimed by an entry. So a definition, anchor, parenthesis
or default that is deleted, moved or added fails.
"""

import re

import pytest
from test_prompt_files import SEEDS, Line, entries, holders, lines, passages, prompt

from tasks.parameters import T2I
from tasks.rubrics.rubric import PROMPTS, load_rubric

ASPECTS = {
    "object/single_object": ["object_completeness", "detectability", "occlusion_handling"],
    "object/two_object": ["separation_clarity", "individual_completeness", "relationship_accuracy"],
    "counting/counting": ["count_accuracy", "object_uniformity", "spatial_legibility"],
    "colors/colors": ["color_fidelity", "contrast_effectiveness", "multi_object_consistency"],
    "colors/color_attr": ["attribute_binding", "contrast_effectiveness", "material_consistency"],
    "position/position": ["position_accuracy", "occlusion_management", "perspective_consistency"],
}
"""Aspects of each tag, in the order of the reply."""

COMMON = """
    # Task
    multimodal large language model, … judge what a text-to-image model has generated. … aspect by aspect: …
    detailed critique, … scores
    # Material
    Generation Prompt: text
    Generated Image: picture
    # Aspects
    each aspect from 0 to 10, where 0 … poor performance … 10 … excellent … each score … 1-2 sentences … why
    # Overall score
    Once every aspect has a score of its own, … overall score (`overall_score`). …
    text-to-image model performs on this image in general, … should be one of these two:
    Weighted average: every aspect … importance to the Generation Prompt
    Plain average: all aspects
    # Reply
    Keep strictly to the JSON form
    Each score … under the key given for it here, … first the explanation, then the score
    """
CONTRAST = """
    # Aspects
    2. Contrast Effectiveness … colors of the foreground differ from those of the background
    `contrast_effectiveness` >> 0: … similar and hard to tell apart
    `contrast_effectiveness` >> 10: … contrast is high
    """
RULES = {
    "object/single_object": """
    # Aspects
    1. Object Completeness … sound the structure … (no defects, no deformations), … clear and legible its details
    `object_completeness` >> 0: … come apart severely
    `object_completeness` >> 10: … flawlessly whole
    2. Detectability … analyze the contrast, … distinct objects and backgrounds are, … salient
    `detectability` >> 0: … camouflaged
    `detectability` >> 10: … catches the object at once
    3. Occlusion Handling … occluded without good reason (natural occlusion … leave the subject visible)
    `occlusion_handling` >> 0: key parts are hidden
    `occlusion_handling` >> 10: nothing is hidden, or only in a natural and reasonable way
    """,
    "object/two_object": """
    # Aspects
    1. Separation Clarity … two objects are separated in space, … clear their boundaries
    `separation_clarity` >> 0: … overlap fully
    `separation_clarity` >> 10: … completely apart, … boundaries are clearly defined
    2. Individual Completeness … each object by itself: … intact … details are retained
    `individual_completeness` >> 0: neither … complete
    `individual_completeness` >> 10: each of the two … complete
    3. Relationship Accuracy … rational the proportions of size
    `relationship_accuracy` >> 0: … proportions are wrong
    `relationship_accuracy` >> 10: … perfectly with the laws of physics
    """,
    "counting/counting": """
    # Aspects
    1. Count Accuracy … number of objects generated … exactly … Generation Prompt
    `count_accuracy` >> 0: … number is wrong
    `count_accuracy` >> 10: … number is correct
    2. Object Uniformity … consistent objects of the same kind … shape, size and color
    `object_uniformity` >> 0: … same kind, … totally different in shape, size and color
    `object_uniformity` >> 10: … same kind, … same shape, size and color
    3. Spatial Legibility … plausibly the objects are distributed, … visible … (overlap is not excessive)
    `spatial_legibility` >> 0: … overlap heavily
    `spatial_legibility` >> 10: … displayed perfectly, … all of them are easy to see
    """,
    "colors/colors": CONTRAST
    + """
    1. Color Fidelity … color of the object matches the Generation Prompt exactly
    `color_fidelity` >> 0: … color is wrong
    `color_fidelity` >> 10: … color is correct
    3. Multi-Object Consistency … consistent the color … several objects of the same kind
    `multi_object_consistency` >> 0: … same kind, … colors are totally different
    `multi_object_consistency` >> 10: … same kind, … same color
    `multi_object_consistency` >> Not applicable: … asks for one object only, …
    no several objects of one kind to compare. … score is then null
    # Overall score
    not applicable has no part in either
    """,
    "colors/color_attr": CONTRAST
    + """
    1. Attribute Binding … colors are bound correctly to the objects designated … (no mismatch of colors)
    `attribute_binding` >> 0: … mismatched
    `attribute_binding` >> 10: … binding is correct
    3. Material Consistency … color is coordinated with the way the material is rendered
    `material_consistency` >> 0: … materials conflict
    `material_consistency` >> 10: … harmony is perfect
    """,
    "position/position": """
    # Aspects
    1. Position Accuracy … accurately positions in space match what the Generation Prompt describes
    `position_accuracy` >> 0: … totally wrong
    `position_accuracy` >> 10: … position is correct
    2. Occlusion Management … positions can be discerned where something is occluded
    `occlusion_management` >> 0: … occlusion is full
    `occlusion_management` >> 10: … relationship is clearly displayed
    3. Perspective Consistency … rational the relationships of perspective and the depth of the space
    `perspective_consistency` >> 0: … perspective contradicts itself
    `perspective_consistency` >> 10: … completely reasonable
    """,
}
SEEN = """
    # What is seen
    further material
    Objects to Look For: text, one name a line
    Beside the scores, … Generated Image … last of all … `seen`. … independent: neither may change the other. …
    what is seen, and not what was asked for: … the image need not show any of it
    `objects` has one entry for each of the Objects to Look For, in their order
    `object`: the name, as the list gives it
    `present`: true when the image shows … else false
    `count`: how many … a whole number; 0 when absent
    `color`: the main color, … most of them where there are several, … one plain color word: …
    red, orange, yellow, green, blue, purple, pink, brown, black or white where one of these fits, …
    else another; an empty string when absent
    """
RELATION = """
    Stated Relation: text
    `relation_holds` … Stated Relation holds in the image, with left and right as the viewer sees them
    true: it holds
    false: it does not hold, or an object that it names is missing
    null: it cannot be told, and only then
    """

TABLES = {name: COMMON + rules for name, rules in RULES.items()}
TABLES |= {f"checked/{name}": table + SEEN + RELATION * ("position" in name) for name, table in TABLES.items()}
ENTRIES = [(name, entry) for name, table in TABLES.items() for entry in entries(table)]


@pytest.mark.parametrize(("name", "entry"), ENTRIES, ids=[f"{name}: {entry.text[:60]}" for name, entry in ENTRIES])
def test_the_prompt_says(name: str, entry: Line):
    assert len(holders(entry, prompt(name).body)) == 1


@pytest.mark.parametrize("name", TABLES)
def test_the_prompt_says_nothing_beside(name: str):
    body = prompt(name).body
    claimed = [line for entry in entries(TABLES[name]) for line in holders(entry, body)]
    assert [line.text for line in lines(body) if line not in claimed] == []


@pytest.mark.parametrize("prompt_set", ["default", "checked"])
def test_every_flow_has_the_tags_and_aspects_of_the_protocol(prompt_set: str):
    rubrics = [load_rubric(flow, prompt_set) for flow in T2I]
    found = {f"{asked.flow}/{asked.dimension}": list(asked.aspects) for rubric in rubrics for asked in rubric.prompts}
    assert list(found.items()) == list(ASPECTS.items())


def test_the_checked_set_holds_every_tag():
    files = (PROMPTS / "sets" / "checked").glob("*/*.md")
    assert {f"{file.parent.name}/{file.stem}" for file in files} == set(ASPECTS)


@pytest.mark.parametrize("name", TABLES)
def test_the_body_lists_the_aspects_by_their_keys(name: str):
    items = re.findall(r"^\d\. \*\*(.+?)\*\* \(`(\w+)`\):", prompt(name).body, re.MULTILINE)
    assert [key for _, key in items] == list(prompt(name).aspects)
    assert [re.sub(r"\W", "_", title).lower() for title, _ in items] == [key for _, key in items]


@pytest.mark.parametrize("name", TABLES)
def test_the_body_and_the_front_matter_anchor_the_scores_alike(name: str):
    found = prompt(name)
    for key, aspect in found.aspects.items():
        anchors = [line.text for line in lines(found.body) if f"`{key}`" in line.parent]
        declared = [f"- 0: {aspect.zero}.", f"- 10: {aspect.ten}."]
        if aspect.not_applicable:
            declared.append(f"- Not applicable: {aspect.not_applicable}. Its score is then null.")
        assert anchors == declared


@pytest.mark.parametrize("name", TABLES)
def test_only_the_consistency_of_several_objects_may_not_apply(name: str):
    optional = [key for key, aspect in prompt(name).aspects.items() if aspect.not_applicable]
    assert optional == [key for key in prompt(name).aspects if key == "multi_object_consistency"]


@pytest.mark.parametrize("name", TABLES)
def test_the_request_holds_what_the_body_names_as_its_material(name: str):
    found = prompt(name)
    fields = ["prompt", "objects", "relation", "image"] if "position" in name else ["prompt", "objects", "image"]
    assert list(found.inputs) == (fields if name.startswith("checked/") else ["prompt", "image"])
    material = re.findall(r"^- \*\*([\w ]+)\*\*: (?:text|picture)", found.body, re.MULTILINE)
    assert sorted(material) == sorted(found.inputs.values())


@pytest.mark.parametrize("name", ASPECTS)
def test_the_checked_prompt_is_the_default_one_and_a_section_more(name: str):
    default, checked = prompt(name), prompt(f"checked/{name}")
    assert checked.body.startswith(f"{default.body}\n\n# What is seen\n")
    assert checked.aspects == default.aspects


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not here")
@pytest.mark.parametrize("name", TABLES)
def test_no_passage_is_copied_from_a_source(name: str):
    sources = {passage for file in SEEDS.glob("*.txt") for passage in passages(file.read_text(encoding="utf-8"))}
    assert sources
    assert sorted(sources & passages(prompt(name).body)) == []
