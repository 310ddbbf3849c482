"""The embedded judge on figures: it catches defects that pixels show and reports nothing else."""

import json
from base64 import b64decode
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from own_data import RESULTS
from PIL import Image, ImageDraw

from tasks.datasets.benchmark import read_labels
from tasks.datasets.paths import plain_name
from tasks.demo.canvas import encode
from tasks.demo.defects import DEFECTS, FORFEIT
from tasks.demo.pixel_judge import QUESTIONS, compare_figures, look_at_diagram, measure_figure
from tasks.demo.samples import BOXES, draw_samples, random_diagram, spoil
from tasks.pictures.preparation import as_shown
from tasks.protocols.figures.protocol import caught

DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
UNSEEN = ("garbled", "reversed", "mislabeled", "tiny_text", "human_tiny_text", "pixelated", "human_pixelated")
"""Defects that can only be seen by reading, or that are not measured."""
FIGURE = random_diagram(Random(1))
PICTURE = FIGURE.draw()
BASE = measure_figure(PICTURE)

Judged = list[tuple[str, bool | None]]


def judge(root: Path, flow: str, results: Path) -> Judged:
    """Return the defect of each sample with a Model figure, and whether it was caught."""
    images = {plain_name(path.name): path for path in (root / flow / "images").iterdir()}
    labels, found = read_labels(root, flow), []
    for row in json.loads(results.read_bytes()):
        if (kind := labels[row["id"]]) not in FORFEIT:
            human = measure_figure(as_shown(images[plain_name(Path(row["path_to_gt_image"]).name)].read_bytes()))
            model = measure_figure(as_shown(b64decode(row[row["eval_image_field"]])))
            given = {
                dimension: compare_figures(f"{flow}_{dimension}", human, model).verdict for dimension in DIMENSIONS
            }
            found.append((kind, caught(kind, flow, given)))
    return found


@pytest.mark.parametrize("flow", ["diagram", "plot"])
def test_visible_defects_of_drawn_figures_are_caught(flow: str, tmp_path: Path) -> None:
    rates: dict[str, list[bool | None]] = defaultdict(list)
    draw_samples(tmp_path, flow, seed=301)  # no threshold was tuned on this seed
    for kind, hit in judge(tmp_path, flow, tmp_path / f"results/{flow}.json"):
        rates[kind].append(hit)
    shown = [hit for kind, hits in rates.items() if kind in DEFECTS and kind not in UNSEEN for hit in hits]
    assert len(shown) == 12 and sum(hit is True for hit in shown) >= 0.95 * len(shown)
    assert rates["copy"] == rates["restyled"] == [True] * 2
    assert [hit for kind in UNSEEN for hit in rates.get(kind, [])] == [False] * 6


def test_visible_defects_of_a_benchmark_are_caught(figure_benchmark: Path) -> None:
    found = judge(figure_benchmark, "diagram", figure_benchmark / RESULTS)
    assert len(found) == 10
    assert all(hit for kind, hit in found if kind not in UNSEEN), found


FAULTS = {"paper": 0.0, "contrast": 1.5, "content": 0.3, "calm": 0.2}
FORBIDDEN = {
    "diagram_readability": ("paper", "contrast", "content"),
    "diagram_aesthetics": ("calm", "paper"),
    "plot_readability": ("contrast",),
    "plot_aesthetics": ("calm", "paper", "content"),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_figure_loses_only_by_faults_that_its_prompt_names(question: str, fault: str) -> None:
    bad = replace(BASE, **{fault: FAULTS[fault]})  # pyright: ignore
    found = [compare_figures(question, *pair).verdict for pair in ((BASE, BASE), (BASE, bad), (bad, BASE), (bad, bad))]
    if fault in FORBIDDEN.get(question, ()):
        assert found == ["Both are good", "Human", "Model", "Both are bad"]
    else:
        assert found == ["Both are good"] * 4


def test_only_the_model_loses_faithfulness_with_another_figure() -> None:
    other = measure_figure(spoil("other", FIGURE, Random(1)))
    pairs = ((BASE, other), (other, BASE), (BASE, BASE))
    found = [compare_figures("diagram_faithfulness", human, model).verdict for human, model in pairs]
    assert found == ["Human", "Human", "Both are good"]


@pytest.mark.parametrize("seed", range(3))
def test_checks_of_a_diagram_show_another_figure_or_paper_and_no_other_defect(seed: int) -> None:
    figure = random_diagram(Random(f"{seed} checked"))
    kinds = ("restyled", "low_contrast", "pixelated", "margin", "black", "other")
    *same, black, other = (
        look_at_diagram(as_shown(encode(spoil(kind, figure, Random(seed)), "JPEG"))) for kind in kinds
    )
    right = figure.answers()
    assert same == [right] * 4 and black == right | {"Is the paper black?": "yes"}
    assert other[BOXES] != right[BOXES] or other["How many boxes are in the top row?"] != str(figure.columns)


# Measures


@pytest.mark.parametrize(("ink", "ratio"), [("#000000", 21.0), ("#767676", 4.54), ("#949494", 3.03), ("#ffffff", 1.0)])
def test_contrast_follows_wcag_and_content_is_the_drawn_share(ink: str, ratio: float) -> None:
    picture = Image.new("RGB", (800, 500), "white")
    ImageDraw.Draw(picture).rectangle((0, 0, 480, 500), outline=ink, width=4)
    found = measure_figure(picture)
    assert found.contrast == pytest.approx(ratio, abs=0.02)
    assert found.content == pytest.approx(0.6 if ratio > 1 else 0, abs=0.02)
    assert found.lettering == pytest.approx(0, abs=0.01)
