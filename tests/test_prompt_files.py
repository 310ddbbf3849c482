"""The prompt files contain every rule of their sources, and nothing else.

`data/rules` has a table for each prompt. It lists each rule, exception, threshold, example, default, definition, anchor
and reminder of the source documents, under the heading where it belongs. An entry gives the words that one line of the
prompt must contain, in this order, with anything in between (`…`); the part before `>>` names the parent item of a
sub-item.

Every line of a prompt must match an entry. A rule that is deleted, moved, weakened or added therefore fails.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from own_data import SEEDS

from tasks.records.parameters import T2I
from tasks.rubrics.rubric import PROMPTS, Prompt, load_rubric

RULES = Path(__file__).with_name("data") / "rules"
COPIED_WORDS = 8
"""Number of consecutive words shared with a source that count as copied; no passage is exempt."""

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
WITHOUT_SOURCE = ["facts/single", "facts/soft", "facts/together"]


class Line(NamedTuple):
    """A line of a prompt without bold marks: its heading, its parent item, its text."""

    heading: str
    parent: str
    text: str


def prompt(name: str) -> Prompt:
    *prompt_set, flow, dimension = name.split("/")
    return load_rubric(flow, *prompt_set).prompt(dimension)


def table(name: str) -> str:
    """Return the table of a prompt; those of generated images share parts."""
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
    """Return the entries of a table; a line that ends in `…` continues in the next."""
    found: list[Line] = []
    heading = ""
    for raw in filter(str.strip, table.replace("…\n", "…").splitlines()):
        if raw.startswith("#"):
            heading = raw
        else:
            parent, _, text = raw.rpartition(">>")
            found.append(Line(heading, parent.strip(), text.strip()))
    return found


def matches(text: str, words: str) -> bool:
    return re.search(".*".join(re.escape(part.strip()) for part in words.split("…")), text) is not None


def matching_lines(entry: Line, body: str) -> list[Line]:
    """Return the lines of a prompt that contain the words of an entry."""
    return [
        line
        for line in lines(body)
        if line.heading == entry.heading
        and bool(line.parent) == bool(entry.parent)
        and matches(line.parent, entry.parent)
        and matches(line.text, entry.text)
    ]


@pytest.mark.parametrize("name", [*FRONT_MATTER, *IMAGES])
def test_prompt_has_one_line_for_each_rule_and_no_other(name: str):
    body = prompt(name).body
    found = {entry: matching_lines(entry, body) for entry in entries(table(name))}
    assert {entry: len(held) for entry, held in found.items() if len(held) != 1} == {}
    claimed = [line for held in found.values() for line in held]
    assert [line.text for line in lines(body) if line not in claimed] == []


def test_every_prompt_file_has_a_rule_table():
    names = {file.relative_to(PROMPTS).with_suffix("").as_posix() for file in PROMPTS.glob("*/**/*.md")}
    assert {name.removeprefix("sets/") for name in names} == {*FRONT_MATTER, *IMAGES, *WITHOUT_SOURCE}


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not here")
@pytest.mark.parametrize("name", [*FRONT_MATTER, *IMAGES, *WITHOUT_SOURCE])
def test_prompt_copies_no_passage_of_a_source(name: str):
    sources = {passage for file in SEEDS.glob("*.txt") for passage in passages(file.read_text(encoding="utf-8"))}
    assert sources
    assert sorted(sources & passages(prompt(name).body)) == []


def passages(text: str) -> set[str]:
    """Return every run of `COPIED_WORDS` words, in lower case and without punctuation."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {" ".join(words[at : at + COPIED_WORDS]) for at in range(len(words) - COPIED_WORDS + 1)}


# Figures


@pytest.mark.parametrize("name", FRONT_MATTER)
def test_front_matter_has_tier_verdicts_default_and_labels(name: str):
    found = prompt(name)
    tier, verdicts, default, labels = FRONT_MATTER[name]
    fields = ["context", "caption", "human", "model"][-len(labels) :]
    assert (found.tier, list(found.verdicts), found.default) == (tier, verdicts, default)
    assert list(found.inputs.items()) == list(zip(fields, labels, strict=True))


@pytest.mark.parametrize("name", FRONT_MATTER)
def test_body_offers_exactly_the_allowed_verdicts_and_no_placeholder(name: str):
    found = prompt(name)
    decision = "\n".join(line.text for line in lines(found.body) if line.heading == "# Decision" and not line.parent)
    (winner,) = [line.text for line in lines(found.body) if line.text.startswith("`winner`")]
    assert sorted(re.findall(r"^- (.+?):", decision, re.MULTILINE)) == sorted(found.verdicts)
    assert re.findall(r'"(.+?)"', winner) == list(found.verdicts)
    assert not re.search(r"[{}\[\]]|\$\w|<\w", found.body)


def test_paper_readability_is_the_default_without_the_reminder():
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
def test_default_and_paper_aesthetics_keep_their_own_words(name: str, absent: str):
    body = prompt(name).body.lower()
    assert [word for word in absent.split() if word.replace("~", " ") in body] == []


# Generated images


@pytest.mark.parametrize("prompt_set", ["default", "checked"])
def test_flows_have_the_protocols_tags_and_aspects(prompt_set: str):
    rubrics = [load_rubric(flow, prompt_set) for flow in T2I]
    found = {f"{asked.flow}/{asked.dimension}": list(asked.aspects) for rubric in rubrics for asked in rubric.prompts}
    assert list(found.items()) == list(ASPECTS.items())


@pytest.mark.parametrize("name", IMAGES)
def test_body_and_front_matter_have_equal_aspects_and_anchors(name: str):
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
def test_request_contains_the_material_the_body_names(name: str):
    found = prompt(name)
    fields = ["prompt", "objects", "relation", "image"] if "position" in name else ["prompt", "objects", "image"]
    assert list(found.inputs) == (fields if name.startswith("checked/") else ["prompt", "image"])
    material = re.findall(r"^- \*\*([\w ]+)\*\*: (?:text|picture)", found.body, re.MULTILINE)
    assert sorted(material) == sorted(found.inputs.values())


@pytest.mark.parametrize("name", ASPECTS)
def test_checked_prompt_is_the_default_plus_one_section(name: str):
    default, checked = prompt(name), prompt(f"checked/{name}")
    assert checked.body.startswith(f"{default.body}\n\n# What is seen\n")
    assert checked.aspects == default.aspects
