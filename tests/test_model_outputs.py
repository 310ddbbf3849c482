"""Model pictures in a result file or a folder: the location of each, or why there is none."""

import base64
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from written_datasets import inline, png, record, result, write_json

from tasks.datasets.benchmark import carried, read_picture_folder, read_results, stage_key
from tasks.datasets.entries import read_picture
from tasks.datasets.paths import NO_PICTURE
from tasks.errors import Problems

EPS = base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0").decode()
KEY = "target_diagram_critic_desc0_base64_jpg"


def load(folder: Path, records: object, *stages: str) -> dict[str, Any]:
    problems, ids = Problems(), ("test_0", "test_1")
    found = read_results(write_json(folder / "run.json", records), "diagram", stages, ids, problems)
    problems.stop("run.json")
    return found


def load_images(folder: Path, *names: str, ids: tuple[str, ...] = ("a", "é")) -> tuple[Any, list[str]]:
    for name in names:
        path = folder / "figures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(len(name)))
    problems, warnings = Problems(), []
    found = read_picture_folder(folder / "figures", ids, problems, warnings)
    problems.stop("figures")
    return found, warnings


def test_record_names_the_picture_to_judge(tmp_path: Path):
    other = result(1, eval_image_field="polished_diagram_base64_jpg", polished_diagram_base64_jpg=inline(7))
    found = load(tmp_path, [other, result(0)])[""]
    assert read_picture(found["test_0"]) == png(100)
    assert read_picture(found["test_1"]) == png(7)


def test_each_stage_is_a_candidate(tmp_path: Path):
    records = [result(n, vanilla_diagram_base64_jpg=inline(n)) for n in range(2)]
    found = load(tmp_path, records, "vanilla", "critic0")
    shown = [(stage, read_picture(pictures["test_1"])) for stage, pictures in found.items()]
    assert shown == [("vanilla", png(1)), ("critic0", png(101))]


ADVICE = "target_diagram_critic_suggestions1"


def test_stage_missing_after_a_critical_round_is_a_forfeit(tmp_path: Path):
    failed = result(1, **{ADVICE: "The legend is cut off.", "target_diagram_critic_desc1": "A legend."})
    found = load(tmp_path, [result(0, **{ADVICE: "No changes needed."}), failed], "critic1")["critic1"]["test_1"]
    assert found.problem == f"{NO_PICTURE}key 'target_diagram_critic_desc1_base64_jpg' is missing in run.json, record 2"
    assert found.carried_from == ""


def test_round_beyond_the_usual_ones_that_no_record_holds_is_refused_unless_it_was_due(tmp_path: Path):
    ended = result(0, **{ADVICE: "No changes needed."})
    with pytest.raises(ValueError, match="no record holds stage 'critic7'"):
        load(tmp_path, [ended, result(1)], "critic7")
    found = load(tmp_path, [ended | {"max_critic_rounds": 8}, result(1)], "critic7")["critic7"]
    assert found["test_0"].carried_from == "critic0"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (result(1, **{KEY: None}), f"{NO_PICTURE}key '{KEY}' is null in run.json, record 2"),
        (result(1, **{KEY: ""}), f"{NO_PICTURE}key '{KEY}' is empty in run.json, record 2"),
        (record(1, eval_image_field=KEY), f"{NO_PICTURE}key '{KEY}' is missing in run.json, record 2"),
        (record(1), f"{NO_PICTURE}key 'eval_image_field' is missing in run.json, record 2"),
        (result(1, eval_image_field=None), f"{NO_PICTURE}key 'eval_image_field' is null in run.json, record 2"),
        (result(1, **{KEY: "no base64"}), "not a picture that can be judged: found first bytes"),
    ],
)
def test_record_without_picture_gives_the_reason(tmp_path: Path, changed: dict[str, object], problem: str):
    pictures = load(tmp_path, [result(0), changed])[""]
    assert pictures["test_0"].problem == ""
    assert pictures["test_1"].problem.startswith(problem)


def test_sample_without_record_gives_the_reason(tmp_path: Path):
    assert load(tmp_path, [result(0)])[""]["test_1"].problem == f"{NO_PICTURE}run.json has no record of this sample"


@pytest.mark.parametrize(
    ("records", "stages", "words"),
    [
        ([result(0), result(5)], (), "run.json, record 2: id 'test_5' is not in the dataset"),
        (
            [result(0), result(1), result(0)],
            (),
            "run.json, record 3: id 'test_0' is already in run.json, record 1: keep one of them",
        ),
        ([result(0, id=None)], (), "run.json, record 1: id is null, must be text"),
        ([result(0, **{KEY: 5})], (), f"run.json, record 1: '{KEY}' is a number, must be text or null"),
        ([result(0, eval_image_field=[1])], (), "'eval_image_field' is a list, must be text or null"),
        (
            [result(0)],
            ("polished",),
            "no record holds stage 'polished' (key 'polished_diagram_base64_jpg'), the file holds critic0",
        ),
        (
            [record(0) | {KEY: inline(1)}],
            (),
            "no record names its picture in 'eval_image_field': choose a stage, the file holds critic0",
        ),
        (
            [record(0) | {"eval_image_field": "vanilla_plot_base64_jpg", "vanilla_plot_base64_jpg": inline(1)}],
            (),
            "run.json: holds Model figures for plot, none for diagram",
        ),
        ([], (), "run.json: holds no record"),
        (
            [result(n, **{KEY: f"https://x.org/{n}.png"}) for n in range(2)],
            (),
            f"record 1: key '{KEY}' holds a URL, and no URL is fetched: it must hold the picture (1 more like it)",
        ),
        ([result(0, **{KEY: EPS})], (), f"run.json, record 1: '{KEY}' is not a picture that can be judged: found Post"),
    ],
)
def test_invalid_result_file_is_reported(tmp_path: Path, records: object, stages: tuple[str, ...], words: str):
    with pytest.raises(ValueError) as error:
        load(tmp_path, records, *stages)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "name", ["a.png", "a.jpg", "a.JPEG", "a.webp", "a.gif", "a/final_output.png", "a/final_output.jpg"]
)
def test_picture_is_found_by_sample_id(tmp_path: Path, name: str):
    found, warnings = load_images(tmp_path, name)
    assert read_picture(found["a"]) == png(len(name))
    assert found["é"].problem.startswith(NO_PICTURE)
    assert warnings == []


def test_ids_match_in_any_unicode_form_but_exact_names_win(tmp_path: Path):
    decomposed = unicodedata.normalize("NFD", "é")
    found, _ = load_images(tmp_path, f"{decomposed}/final_output.png", "a\u200c.png", "a.png")
    assert read_picture(found["é"]) == png(len(decomposed) + 17)
    assert read_picture(found["a"]) == png(5)


@pytest.mark.parametrize("names", [("a.png", "a.jpg"), ("a.png", "a/final_output.png"), ("a\u200c.png", "a\u200d.png")])
def test_two_pictures_of_one_sample_are_an_error(tmp_path: Path, names: tuple[str, str]):
    with pytest.raises(ValueError, match="sample 'a' has several pictures") as error:
        load_images(tmp_path, *names)
    assert all(name in str(error.value) for name in names)


def test_unknown_pictures_give_a_warning_and_only_unknown_ones_an_error(tmp_path: Path):
    _, warnings = load_images(tmp_path, "a.png", "stray.png", "notes.txt", "logs/run.txt")
    assert warnings == ["figures holds pictures of no sample: stray"]
    with pytest.raises(ValueError, match=r"holds no <id>.png .* for any of b, é"):
        load_images(tmp_path, ids=("b", "é"))


def test_wrong_case_and_unreadable_format_are_reported_with_advice(tmp_path: Path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "b.eps").write_bytes(b"%!PS-Adobe-3.0")
    with pytest.raises(ValueError) as error:
        load_images(tmp_path, "A.png", ids=("a", "b"))
    assert str(error.value).splitlines()[1:] == [
        "  figures: b.eps is not a picture that can be judged: found PostScript (EPS): convert it to PDF, PNG or JPEG; "
        "allowed are PNG, JPEG, WebP, GIF, AVIF, TIFF, BMP, and PDF and SVG by the extra `vector`",
        "  figures: A.png differs from sample 'a' only in case: rename it",
    ]


def test_raster_picture_is_preferred_to_its_vector_version(tmp_path: Path):
    names = ("a.pdf", "a.png", "b.svg", "c/final_output.pdf", "c/final_output.png")
    found, _ = load_images(tmp_path, *names, ids=("a", "b", "c"))
    places = {name: Path(source.place.path).name for name, source in found.items() if source.place}
    assert places == {"a": "a.png", "b": "b.svg", "c": "final_output.png"}


# Stages

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
def test_stages_map_to_paperbanana_keys(stage: str, flow: str, key: str):
    assert stage_key(stage, flow) == key


@pytest.mark.parametrize("stage", ["", "critic", "critic-1", "Vanilla", "final"])
def test_unknown_stage_is_refused_with_the_allowed_ones(stage: str):
    with pytest.raises(ValueError, match="allowed are vanilla, planner, stylist, polished, critic0"):
        stage_key(stage, "diagram")


def generator_record(**changes: object) -> dict[str, object]:
    """Return the record of a generator with planner and stylist, from the short keys of this module."""
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
"""A first round that changed the figure."""


@pytest.mark.parametrize(
    ("left", "stage", "found"),
    [
        ({"said0": DONE, "text0": "as before"}, "critic0", "stylist"),
        ({"said0": DONE, "stylist": None}, "critic2", "planner"),
        ({**FIRST, "said1": DONE, "text1": "as before"}, "critic1", "critic0"),
        ({**FIRST, "said1": DONE, "critic1": None, "critic2": ""}, "critic2", "critic0"),
        ({**FIRST, "said1": f" **{DONE[:-1].upper()}** \n", "rounds": 3}, "critic2", "critic0"),
        ({**FIRST, "said1": "No change is required", "named": "critic0"}, "critic2", "critic0"),
        ({**FIRST, "named": "critic0"}, "critic2", "critic0"),
        ({**FIRST, "said1": DONE}, "critic3", "critic0"),
        ({**FIRST, "said1": DONE, "rounds": 5}, "critic3", "critic0"),
        ({"named": "stylist"}, "critic0", "stylist"),
    ],
)
def test_last_picture_before_a_satisfied_critic_is_carried_forward(left: dict[str, object], stage: str, found: str):
    assert carried(generator_record(**left), stage, "diagram") == found


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
def test_picture_missing_for_another_reason_is_not_replaced(left: dict[str, object], stage: str):
    assert carried(generator_record(**left), stage, "diagram") == ""
