"""The prompt files carry every rule of their sources, and nothing beside.

`data/rules` has a table for each prompt. It names each rule, exception, threshold, example, default, definition, anchor
and reminder of the source documents, under the heading where it belongs: what one line of the prompt must say, in words
that stand there in this order with anything in between (`…`), and after `>>` where it is a sub-item of a line. Every
line of a prompt is claimed by an entry, so a rule that is deleted, moved, blunted or added fails.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from own_data import SEEDS

from tasks.records.parameters import T2I
from tasks.rubrics.prompts import Prompt
from tasks.rubrics.rubric import PROMPTS, load_rubric

RULES = Path(__file__).with_name("data") / "rules"
COPIED_WORDS = 8
"""So many consecutive words in common with a source count as copied; no passage is exempt."""

ALL_FOUR = ["Model", "Human", "Both are good", "Both are bad"]
DIAGRAMS = ["Human-drawn Diagram (Human)", "Model-generated Diagram (Model)"]
PLOTS = ["Human-Drawn Plot (Human)", "Model-Generated Plot (Model)"]
FRONT_MATTER = {
    "diagram/faithfulness": (1, ALL_FOUR, "", ["Method Section", "Diagram Caption", *DIAGRAMS]),
    "diagram/conciseness": (2, ALL_FOUR, "", ["Method Section", "Diagram Caption", *DIAGRAMS]),
    "diagram/readability": (1, ALL_FOUR, "Both are good", ["Diagram Caption", *DIAGRAMS]),
    "diagram/aesthetics": (2, ALL_FOUR, "", ["Diagram Caption", *DIAGRAMS]),
    "plot/faithfulness": (1, ["Human", "Both are good"], "", ["Raw Data", "Plot Brief Description", *PLOTS]),
    "plot/conciseness": (2, ALL_FOUR, "Both are good", ["Raw Data", "Plot Brief Description", *PLOTS]),
    "plot/readability": (1, ALL_FOUR, "Both are good", ["Plot Brief Description", *PLOTS]),
    "plot/aesthetics": (2, ALL_FOUR, "", ["Plot Brief Description", *PLOTS]),
}
FRONT_MATTER |= {f"paper/{name}": FRONT_MATTER[name] for name in ("diagram/readability", "diagram/aesthetics")}
ASPECTS = {
    "object/single_object": ["object_completeness", "detectability", "occlusion_handling"],
    "object/two_object": ["separation_clarity", "individual_completeness", "relationship_accuracy"],
    "counting/counting": ["count_accuracy", "object_uniformity", "spatial_legibility"],
    "colors/colors": ["color_fidelity", "contrast_effectiveness", "multi_object_consistency"],
    "colors/color_attr": ["attribute_binding", "contrast_effectiveness", "material_consistency"],
    "position/position": ["position_accuracy", "occlusion_management", "perspective_consistency"],
}
"""Aspects of each tag, in the order of the reply."""
IMAGES = [*ASPECTS, *(f"checked/{name}" for name in ASPECTS)]
OF_OURS = ["facts/single", "facts/soft", "facts/together"]
"""Prompts without a source."""


class Line(NamedTuple):
    """A line of a prompt, without its bold marks: the heading and the item it stands under, and its text."""

    heading: str
    parent: str
    text: str


def prompt(name: str) -> Prompt:
    *prompt_set, flow, dimension = name.split("/")
    return load_rubric(flow, *prompt_set).prompt(dimension)


def table(name: str) -> str:
    """The table of a prompt; those of generated images have parts in common."""
    parts = ["images", name.removeprefix("checked/")] if name in IMAGES else [name]
    if name.startswith("checked/"):
        parts += ["checked/seen", *["checked/relation"] * ("position" in name)]
    return "".join((RULES / f"{part}.txt").read_text(encoding="utf-8") for part in parts)


def lines(body: str) -> list[Line]:
    found: list[Line] = []
    heading, above = "", list[tuple[int, str]]()
    for raw in filter(str.strip, body.replace("*", "").splitlines()):
        if raw.startswith("#"):
            heading, above = raw, []
            continue
        depth = len(raw) - len(raw.lstrip())
        above = [(level, text) for level, text in above if level < depth]
        found.append(Line(heading, above[-1][1] if above else "", raw.strip()))
        above.append((depth, raw.strip()))
    return found


def entries(table: str) -> list[Line]:
    """The entries of a table; a line that ends in `…` goes on in the next."""
    found: list[Line] = []
    heading = ""
    for raw in filter(str.strip, table.replace("…\n", "…").splitlines()):
        if raw.startswith("#"):
            heading = raw
        else:
            parent, _, text = raw.rpartition(">>")
            found.append(Line(heading, parent.strip(), text.strip()))
    return found


def says(text: str, words: str) -> bool:
    return re.search(".*".join(re.escape(part.strip()) for part in words.split("…")), text) is not None


def holders(entry: Line, body: str) -> list[Line]:
    """The lines of a prompt that say what an entry of its table asks for."""
    return [
        line
        for line in lines(body)
        if line.heading == entry.heading
        and bool(line.parent) == bool(entry.parent)
        and says(line.parent, entry.parent)
        and says(line.text, entry.text)
    ]


@pytest.mark.parametrize("name", [*FRONT_MATTER, *IMAGES])
def test_the_prompt_says_what_its_table_names_once_each_and_nothing_beside(name: str):
    body = prompt(name).body
    found = {entry: holders(entry, body) for entry in entries(table(name))}
    assert {entry: len(held) for entry, held in found.items() if len(held) != 1} == {}
    claimed = [line for held in found.values() for line in held]
    assert [line.text for line in lines(body) if line not in claimed] == []


def test_every_prompt_file_has_a_table():
    names = {file.relative_to(PROMPTS).with_suffix("").as_posix() for file in PROMPTS.glob("**/*.md")}
    assert {name.removeprefix("sets/") for name in names} == {*FRONT_MATTER, *IMAGES, *OF_OURS}


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not here")
@pytest.mark.parametrize("name", [*FRONT_MATTER, *IMAGES, *OF_OURS])
def test_no_passage_is_copied_from_a_source(name: str):
    sources = {passage for file in SEEDS.glob("*.txt") for passage in passages(file.read_text(encoding="utf-8"))}
    assert sources
    assert sorted(sources & passages(prompt(name).body)) == []


def passages(text: str) -> set[str]:
    """Every run of `COPIED_WORDS` words, in small letters and without punctuation."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {" ".join(words[at : at + COPIED_WORDS]) for at in range(len(words) - COPIED_WORDS + 1)}


def test_a_copied_passage_would_be_found():
    body = prompt("diagram/aesthetics").body
    words = body.split()
    assert passages("Before. " + " ".join(words[40:80])) & passages(body)


# Figures


@pytest.mark.parametrize("name", FRONT_MATTER)
def test_front_matter(name: str):
    found = prompt(name)
    tier, verdicts, default, labels = FRONT_MATTER[name]
    fields = ["context", "caption", "human", "model"][-len(labels) :]
    assert (found.tier, list(found.verdicts), found.default) == (tier, verdicts, default)
    assert list(found.inputs.items()) == list(zip(fields, labels, strict=True))


@pytest.mark.parametrize("name", FRONT_MATTER)
def test_the_body_offers_exactly_the_verdicts_that_are_allowed_and_has_no_placeholder(name: str):
    found = prompt(name)
    decision = "\n".join(line.text for line in lines(found.body) if line.heading == "# Decision" and not line.parent)
    (winner,) = [line.text for line in lines(found.body) if line.text.startswith("`winner`")]
    assert sorted(re.findall(r"^- (.+?):", decision, re.MULTILINE)) == sorted(found.verdicts)
    assert re.findall(r'"(.+?)"', winner) == list(found.verdicts)
    assert not re.search(r"[{}\[\]]|\$\w|<\w", found.body)


def test_the_papers_readability_is_the_default_without_its_reminder():
    paragraphs = prompt("diagram/readability").body.split("\n\n")
    kept = [paragraph for paragraph in paragraphs if not paragraph.startswith("**Reminder**")]
    assert len(kept) == len(paragraphs) - 1
    assert prompt("paper/diagram/readability").body == "\n\n".join(kept)


OURS_ONLY = (
    "pixel forced need~not look~good bubbly amateur blog decorat typograph unrelated align hierarchy white~space "
    "palette scientific oversimplif reminder"
)


@pytest.mark.parametrize(
    ("name", "absent"),
    [("paper/diagram/aesthetics", OURS_ONLY), ("diagram/aesthetics", "comic~sans out~of~date how~it~functions agents")],
)
def test_the_default_aesthetics_and_the_papers_lack_what_only_the_other_says(name: str, absent: str):
    body = prompt(name).body.lower()
    assert [word for word in absent.split() if word.replace("~", " ") in body] == []


# Generated images


@pytest.mark.parametrize("prompt_set", ["default", "checked"])
def test_every_flow_has_the_tags_and_aspects_of_the_protocol(prompt_set: str):
    rubrics = [load_rubric(flow, prompt_set) for flow in T2I]
    found = {f"{asked.flow}/{asked.dimension}": list(asked.aspects) for rubric in rubrics for asked in rubric.prompts}
    assert list(found.items()) == list(ASPECTS.items())


@pytest.mark.parametrize("name", IMAGES)
def test_the_body_has_the_aspects_of_the_front_matter_with_the_same_anchors(name: str):
    found = prompt(name)
    items = re.findall(r"^\d\. \*\*(.+?)\*\* \(`(\w+)`\):", found.body, re.MULTILINE)
    assert [key for _, key in items] == list(found.aspects)
    assert [re.sub(r"\W", "_", title).lower() for title, _ in items] == [key for _, key in items]
    for key, aspect in found.aspects.items():
        anchors = [line.text for line in lines(found.body) if f"`{key}`" in line.parent]
        declared = [f"- 0: {aspect.zero}.", f"- 10: {aspect.ten}."]
        assert bool(aspect.not_applicable) == (key == "multi_object_consistency")
        if aspect.not_applicable:
            declared.append(f"- Not applicable: {aspect.not_applicable}. Its score is then null.")
        assert anchors == declared


@pytest.mark.parametrize("name", IMAGES)
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
