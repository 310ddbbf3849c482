"""The rules catch what pixels show, at stated rates, and claim nothing where they do not."""

import json
import unicodedata
from base64 import b64decode
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from own_data import RESULTS

from tasks.embedded_judge.figure_rules import MANY_STROKES, QUESTIONS, VETOES, Veto, compare
from tasks.embedded_judge.measures import Measures, decode_rgb, measure
from tasks.synthetic.defects import DEFECTS, FORFEIT, spoilt
from tasks.synthetic.diagrams import random_diagram
from tasks.synthetic.samples import caught, draw_samples, read_labels

DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
NEEDS_READING = ("garbled", "reversed", "mislabeled")
FLOWS = ("diagram", "plot")

FIGURE = random_diagram(Random(1))
BASE = measure(FIGURE.draw())


def verdicts(flow: str, human: Measures, model: Measures) -> dict[str, str | None]:
    return {dimension: compare(f"{flow}_{dimension}", human, model).verdict for dimension in DIMENSIONS}


def judged(root: Path, flow: str, results: Path) -> list[tuple[str, dict[str, str | None]]]:
    """Kind and verdicts of every sample that has a Model figure."""
    images = {plain(path.name): path for path in (root / flow / "images").iterdir()}
    labels, found = read_labels(root, flow), []
    for row in json.loads(results.read_bytes()):
        if labels[row["id"]] not in FORFEIT:
            human = measure(decode_rgb(images[plain(Path(row["path_to_gt_image"]).name)].read_bytes()))
            model = measure(decode_rgb(b64decode(row[row["eval_image_field"]])))
            found.append((labels[row["id"]], verdicts(flow, human, model)))
    return found


def plain(name: str) -> str:
    kept = [letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf"]
    return "".join(kept)


@pytest.fixture(scope="module", params=FLOWS)
def rates(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bool | None]]:
    """Kind -> whether each sample of it was caught, over seeds that no limit was set by."""
    found: dict[str, list[bool | None]] = defaultdict(list)
    for seed in (301, 302, 303):
        root = tmp_path_factory.mktemp("drawn")
        draw_samples(root, request.param, seed=seed)
        for kind, given in judged(root, request.param, root / "results" / f"{request.param}.json"):
            found[kind].append(caught(kind, request.param, given))
    return found


def test_nineteen_in_twenty_defects_that_pixels_show_are_caught(rates: dict[str, list[bool | None]]) -> None:
    shown = [hit for kind, hits in rates.items() if kind in DEFECTS and kind not in NEEDS_READING for hit in hits]
    assert len(shown) == 48
    assert sum(hit is True for hit in shown) >= 0.95 * len(shown)


def test_no_winner_is_claimed_between_figures_of_equal_worth(rates: dict[str, list[bool | None]]) -> None:
    assert rates["copy"] == rates["restyled"] == [True] * 6


def test_defects_that_need_reading_are_missed(rates: dict[str, list[bool | None]]) -> None:
    hits = [hit for kind in NEEDS_READING for hit in rates.get(kind, [])]
    assert hits == [False] * 6


def test_defects_put_into_figures_of_a_benchmark_are_caught_and_copies_stay_without_a_winner(
    figure_benchmark: Path,
) -> None:
    found = judged(figure_benchmark, "diagram", figure_benchmark / RESULTS)
    assert len(found) == 10
    assert all(caught(kind, "diagram", given) for kind, given in found), found


def test_no_human_figure_of_a_benchmark_crosses_a_limit(figure_benchmark: Path) -> None:
    for path in sorted((figure_benchmark / "diagram" / "images").iterdir()):
        figure = measure(decode_rgb(path.read_bytes()))
        failed = [v.name for vetoes in VETOES.values() for v in vetoes if any(v.failures(figure, figure))]
        assert not failed, path.name


CASES = [
    ("diagram_readability", {"paper": 0.0}),
    ("diagram_readability", {"contrast": 1.5}),
    ("diagram_readability", {"word_height": 0.005}),
    ("diagram_readability", {"content": 0.3}),
    ("diagram_aesthetics", {"mosaic": 0.9}),
    ("diagram_aesthetics", {"neon": 0.8}),
    ("diagram_aesthetics", {"paper": 0.0}),
    ("plot_readability", {"contrast": 1.5}),
    ("plot_readability", {"word_height": 0.005}),
    ("plot_aesthetics", {"mosaic": 0.9}),
    ("plot_aesthetics", {"neon": 0.8}),
    ("plot_aesthetics", {"paper": 0.0}),
    ("plot_aesthetics", {"content": 0.3}),
]


@pytest.mark.parametrize(("question", "fault"), CASES)
def test_the_figure_that_crosses_a_limit_loses_and_two_that_do_are_both_bad(
    question: str, fault: dict[str, float]
) -> None:
    bad = replace(BASE, **fault)  # pyright: ignore
    pairs = ((BASE, BASE), (BASE, bad), (bad, BASE), (bad, bad))
    found = [compare(question, human, model).verdict for human, model in pairs]
    assert found == ["Both are good", "Human", "Model", "Both are bad"]


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ("plot_readability", {"paper": 0.0}),
        ("plot_readability", {"content": 0.3}),
        ("diagram_aesthetics", {"content": 0.3}),
        ("diagram_readability", {"neon": 0.9}),
        ("diagram_faithfulness", {"paper": 0.0, "contrast": 1.5, "mosaic": 0.9}),
        ("diagram_conciseness", {"content": 0.3, "neon": 0.9}),
    ],
)
def test_what_a_dimensions_prompt_does_not_forbid_does_not_count_in_it(question: str, fault: dict[str, float]) -> None:
    assert compare(question, BASE, replace(BASE, **fault)).verdict == "Both are good"  # pyright: ignore


@pytest.mark.parametrize(
    "veto", list(dict.fromkeys(veto for vetoes in VETOES.values() for veto in vetoes)), ids=lambda veto: veto.name
)
def test_a_hairs_breadth_about_a_limit_separates_no_two_figures(veto: Veto) -> None:
    step = veto.gap / 3
    below, above = (replace(BASE, **{veto.measure: veto.limit + sign * step}) for sign in (-1, 1))
    assert veto.failures(below, above) in ((True, True), (False, False))
    assert veto.failures(below, above) == veto.failures(above, below)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(
    ("strokes", "verdict"),
    [
        ((400, 500), "Both are good"),
        ((400, MANY_STROKES - 1), "Both are good"),
        ((1000, 1900), "Both are good"),
        ((1000, 2100), "Human"),
        ((2100, 1000), "Model"),
    ],
)
def test_the_wordier_figure_loses_only_when_it_has_much_more_and_much(
    flow: str, strokes: tuple[int, int], verdict: str
) -> None:
    human, model = (replace(BASE, strokes=count) for count in strokes)
    assert compare(f"{flow}_conciseness", human, model).verdict == verdict


@pytest.mark.parametrize("height", [float("nan"), 0.004])
def test_lettering_that_cannot_be_counted_is_no_reason_to_call_a_figure_concise(height: float) -> None:
    blurred = replace(BASE, strokes=10, word_height=height)
    wordy = replace(BASE, strokes=3000)
    assert compare("diagram_conciseness", wordy, blurred).verdict == "Both are good"


@pytest.mark.parametrize("flow", FLOWS)
def test_in_faithfulness_the_model_loses_with_another_figure_than_the_human_one(flow: str) -> None:
    other = measure(spoilt("other", FIGURE, Random(1)))
    pairs = ((BASE, other), (other, BASE), (BASE, BASE))
    found = [compare(f"{flow}_faithfulness", human, model).verdict for human, model in pairs]
    assert found == ["Human", "Human", "Both are good"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_finding_gives_numbers_of_the_model_figure(question: str) -> None:
    assert any(letter.isdigit() for letter in compare(question, BASE, BASE).model)
