"""The project's own data for tests of published data, so that they run everywhere.

The forms are those of the published data, including their difficulties: a PaperBananaBench folder with figures drawn
here, a list of prompts like GenEval's, and prompt documents in both forms.
"""

from base64 import b64encode
from pathlib import Path
from random import Random

import pytest
from png_files import file
from written_datasets import write_json

from tasks.demo.defects import FORFEIT
from tasks.demo.samples import Diagram, random_diagram, spoil
from tasks.protocols.figures.tier_rule import pairwise_prompts
from tasks.records.parameters import PAIRWISE, T2I
from tasks.rubrics.rubric import PairwisePrompt, RubricPrompt, load_rubric

PUBLISHED = Path(__file__).parents[2] / "shared"
"""Published data beside the checkout; absent in most places."""
MINI = PUBLISHED / "data" / "paperbananabench-mini"
SEEDS = PUBLISHED / "seeds"
LISTS = {
    "own": Path(__file__).with_name("data") / "geneval" / "evaluation_metadata.jsonl",
    "published": PUBLISHED / "data" / "geneval" / "evaluation_metadata.jsonl",
}
RESULTS = "results/diagram_dev_full_test.json"
KINDS = ("copy", "other", "black", "pixelated", "copy", "margin", "other", "neon", "copy", "null", "missing", "black")
"""Defect of each sample in our benchmark; the published one has the same."""
STAGES = {
    "vanilla": "vanilla_diagram_base64_jpg",
    "planner": "target_diagram_desc0_base64_jpg",
    "critic0": "target_diagram_critic_desc0_base64_jpg",
    "critic2": "target_diagram_critic_desc2_base64_jpg",
}
_NAMES = {2: "images/drawn_2\u200c\u2011fig.jpg", 7: "drawn_7.jpg"}
"""Samples with a picture name that does not match the file: invisible characters, or no folder."""

each_list = pytest.mark.parametrize(
    "geneval_list",
    [
        pytest.param(path, id=name, marks=pytest.mark.skipif(not path.is_file(), reason=f"there is no {path}"))
        for name, path in LISTS.items()
    ],
)
"""Run a test with the project's own list of prompts, and with GenEval's if it is beside the checkout."""


def write_own_benchmark(root: Path) -> Path:
    """Write twelve drawn diagrams with typical errors: mismatched names, an image link in a text, an empty text.

    The result file has its records in another order than the samples, and several stages; two samples have no final
    picture, one null and one missing.
    """
    records, results = [], []
    for number, kind in enumerate(KINDS):
        random = Random(f"own {number}")
        figure = random_diagram(random)
        record = _record(number, figure)
        place = root / "diagram" / "images" / _file_name(number)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file(figure.draw(), "PNG" if place.suffix == ".png" else "JPEG", quality=90))
        records.append(record)
        results.append(record | _stages(figure, kind, random))
    write_json(root / "diagram" / "test.json", records)
    write_json(root / RESULTS, [*results[1:], results[0]])
    write_json(root / "labels.json", {record["id"]: kind for record, kind in zip(records, KINDS, strict=True)})
    return root


def write_markdown_document(path: Path) -> Path:
    """Write a Markdown prompt document, with a text for each dimension of figures and prose around them."""
    parts = ["# Prompts", "## Overview", "Four questions about each figure."]
    parts += ["## Overall Scoring: Two-Tier Decision Logic", "- The first tier decides\n- else the second"]
    for flow in PAIRWISE:
        parts.append(f"## {flow.capitalize()} Prompts")
        for prompt in pairwise_prompts(load_rubric(flow)):
            parts.append(f"### {prompt.dimension.capitalize()}\n\n```\n{_comparison(prompt)}\n```")
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def write_json_document(path: Path) -> Path:
    """Write a JSON prompt document, with a text for each tag of generated images."""
    prompts = [prompt for flow in T2I for prompt in load_rubric(flow).prompts]
    return write_json(path, {one.dimension: _rubric(one) for one in prompts if isinstance(one, RubricPrompt)})


def _record(number: int, figure: Diagram) -> dict[str, object]:
    link = f"![](images/{_file_name(number)})\n\n" if number == 4 else ""
    return {
        "id": f"test_{number}",
        "content": "" if number == 5 else link + figure.content(),
        "visual_intent": figure.intent(),
        "path_to_gt_image": _NAMES.get(number, f"images/{_file_name(number)}"),
        "category": figure.category,
        "split": "test",
        "additional_info": {"rounded_ratio": "16:9", "width": 720, "height": 400},
    }


def _file_name(number: int) -> str:
    if number == 2:
        return "drawn_2\u2011fig.jpg"
    return f"drawn_{number}.{'png' if number == 3 else 'jpg'}"


def _stages(figure: Diagram, kind: str, random: Random) -> dict[str, object]:
    """Return a generator's record of a sample; the final picture is that of the last stage, which is named."""
    key = STAGES["critic2"]
    if kind in FORFEIT:
        return {"eval_image_field": key} | ({key: None} if kind == "null" else {})
    model = b64encode(file(spoil(kind, figure, random), "JPEG", quality=90)).decode()
    return {
        "eval_image_field": key,
        key: model,
        **{STAGES[stage]: model for stage in ("vanilla", "planner", "critic0")},
    }


def _comparison(prompt: PairwisePrompt) -> str:
    inputs = "\n".join(f"{number}.  **{label}**: [content]" for number, label in enumerate(prompt.inputs.values(), 1))
    reply = "\\`\\`\\`json\n{}\n\\`\\`\\`"
    return (
        f"Compare two figures by their **{prompt.dimension.capitalize()}**.\n\n# Inputs\n{inputs}\n\n# Reply\n{reply}"
    )


def _rubric(prompt: RubricPrompt) -> str:
    keys = ", ".join(f"`{key}`" for key in (*prompt.aspects, "overall_score"))
    scales = "\n".join(f"Score: 0 ({one.zero}) to 10 ({one.ten})." for one in prompt.aspects.values())
    return f"Judge the image. The keys of the reply are {keys}.\n{scales}"
