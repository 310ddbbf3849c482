"""Model pictures of a result file or a folder: each where it stands, or the reason why there is none."""

import base64
import unicodedata
from pathlib import Path

import pytest
from written_datasets import inline, png, record, result, write_json

from tasks.datasets.contents import read_picture
from tasks.datasets.folders import NO_PICTURE
from tasks.datasets.model_outputs import Pictures, read_picture_folder, read_results
from tasks.errors import Problems

EPS = base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0").decode()
KEY = "target_diagram_critic_desc0_base64_jpg"


def results(
    folder: Path, records: object, *stages: str, ids: tuple[str, ...] = ("test_0", "test_1")
) -> dict[str, Pictures]:
    problems = Problems()
    found = read_results(write_json(folder / "run.json", records), "diagram", stages, ids, problems)
    problems.stop("run.json")
    return found


def images(folder: Path, *names: str, ids: tuple[str, ...] = ("a", "é")) -> tuple[Pictures, list[str]]:
    for name in names:
        path = folder / "figures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(len(name)))
    problems, warnings = Problems(), []
    found = read_picture_folder(folder / "figures", ids, problems, warnings)
    problems.stop("figures")
    return found, warnings


def test_each_record_is_judged_by_the_picture_it_names(tmp_path: Path):
    other = result(1, eval_image_field="polished_diagram_base64_jpg", polished_diagram_base64_jpg=inline(7))
    found = results(tmp_path, [other, result(0)])[""]
    assert read_picture(found["test_0"]) == png(100)
    assert read_picture(found["test_1"]) == png(7)


def test_several_stages_are_several_candidates(tmp_path: Path):
    records = [result(n, vanilla_diagram_base64_jpg=inline(n)) for n in range(2)]
    found = results(tmp_path, records, "vanilla", "critic0")
    assert [(stage, read_picture(pictures["test_1"])) for stage, pictures in found.items()] == [
        ("vanilla", png(1)),
        ("critic0", png(101)),
    ]


SAYS = "target_diagram_critic_suggestions1"


def test_a_stage_that_a_content_critic_made_needless_has_the_last_picture_before_it(tmp_path: Path):
    found = results(tmp_path, [result(0, **{SAYS: "No changes needed."}), result(1)], "critic0", "critic2")
    assert [found[stage]["test_0"].carried_from for stage in found] == ["", "critic0"]
    assert read_picture(found["critic2"]["test_0"]) == read_picture(found["critic0"]["test_0"]) == png(100)


def test_a_stage_that_was_not_reached_for_another_reason_says_why_it_has_no_picture(tmp_path: Path):
    failed = result(1, **{SAYS: "The legend is cut off.", "target_diagram_critic_desc1": "A legend."})
    picture = results(tmp_path, [result(0, **{SAYS: "No changes needed."}), failed], "critic1")["critic1"]["test_1"]
    assert (
        picture.problem == f"{NO_PICTURE}key 'target_diagram_critic_desc1_base64_jpg' is missing in run.json, record 2"
    )
    assert picture.carried_from == ""


def test_a_round_that_generators_usually_do_not_have_is_none_when_no_record_holds_it(tmp_path: Path):
    with pytest.raises(ValueError, match="no record holds stage 'critic7'"):
        results(tmp_path, [result(0, **{SAYS: "No changes needed."}), result(1)], "critic7")


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
def test_a_record_without_a_picture_says_why(tmp_path: Path, changed: dict[str, object], problem: str):
    pictures = results(tmp_path, [result(0), changed])[""]
    assert pictures["test_0"].problem == ""
    assert pictures["test_1"].problem.startswith(problem)


def test_a_sample_without_a_record_says_so(tmp_path: Path):
    assert results(tmp_path, [result(0)])[""]["test_1"].problem == f"{NO_PICTURE}run.json has no record of this sample"


@pytest.mark.parametrize(
    ("records", "stages", "words"),
    [
        ([result(0), result(5)], (), "run.json, record 2: id 'test_5' is not in the dataset"),
        (
            [result(0), result(1), result(0)],
            (),
            "run.json, record 3: id 'test_0' stands in run.json, record 1 before: keep one of them",
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
        ([], (), "run.json: holds no record"),
        (
            [result(n, **{KEY: f"https://x.org/{n}.png"}) for n in range(2)],
            (),
            f"record 1: key '{KEY}' holds a URL, and no URL is fetched: it must hold the picture (1 more like it)",
        ),
        ([result(0, **{KEY: EPS})], (), f"run.json, record 1: '{KEY}' is not a picture that can be judged: found Post"),
    ],
)
def test_what_is_wrong_with_a_result_file_is_named(
    tmp_path: Path, records: list[object], stages: tuple[str, ...], words: str
):
    with pytest.raises(ValueError) as error:
        results(tmp_path, records, *stages)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "name", ["a.png", "a.jpg", "a.JPEG", "a.webp", "a.gif", "a/final_output.png", "a/final_output.jpg"]
)
def test_a_picture_is_found_by_its_id(tmp_path: Path, name: str):
    found, warnings = images(tmp_path, name)
    assert read_picture(found["a"]) == png(len(name))
    assert found["é"].problem.startswith(NO_PICTURE)
    assert warnings == []


def test_an_id_matches_in_any_unicode_form_and_exact_names_go_first(tmp_path: Path):
    decomposed = unicodedata.normalize("NFD", "é")
    found, _ = images(tmp_path, f"{decomposed}/final_output.png", "a\u200c.png", "a.png")
    assert read_picture(found["é"]) == png(len(decomposed) + 17)
    assert read_picture(found["a"]) == png(5)


@pytest.mark.parametrize("names", [("a.png", "a.jpg"), ("a.png", "a/final_output.png"), ("a\u200c.png", "a\u200d.png")])
def test_two_pictures_of_one_sample_are_both_named(tmp_path: Path, names: tuple[str, str]):
    with pytest.raises(ValueError, match="sample 'a' has several pictures") as error:
        images(tmp_path, *names)
    assert all(name in str(error.value) for name in names)


def test_pictures_of_no_sample_are_a_warning_and_other_files_are_none(tmp_path: Path):
    _, warnings = images(tmp_path, "a.png", "stray.png", "notes.txt", "logs/run.txt")
    assert warnings == ["figures holds pictures of no sample: stray"]


def test_a_folder_without_any_picture_of_a_sample_is_an_error(tmp_path: Path):
    with pytest.raises(ValueError, match=r"holds no <id>.png .* for any of a, é"):
        images(tmp_path, "stray.png")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "secret.png").write_bytes(png(1))
    (tmp_path / "figures" / "a.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(ValueError, match=r"figures: path 'a\.png' leaves the dataset folder"):
        images(tmp_path, "é.png")


def test_a_picture_of_another_case_or_a_format_without_a_reader_is_told_with_its_cure(tmp_path: Path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "b.eps").write_bytes(b"%!PS-Adobe-3.0")
    with pytest.raises(ValueError) as error:
        images(tmp_path, "A.png", ids=("a", "b"))
    assert str(error.value).splitlines()[1:] == [
        "  figures: b.eps is not a picture that can be judged: found PostScript (EPS): convert it to PDF, PNG or JPEG; "
        "allowed are PNG, JPEG, WebP, GIF, AVIF, TIFF, BMP, and PDF and SVG by the extra `vector`",
        "  figures: A.png has other letters than sample 'a', large or small: rename it",
    ]


def test_a_picture_in_two_formats_is_the_one_that_is_sent_as_it_is(tmp_path: Path):
    names = ("a.pdf", "a.png", "b.svg", "c/final_output.pdf", "c/final_output.png")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    problems = Problems()
    found = read_picture_folder(tmp_path, ["a", "b", "c"], problems, [])
    problems.stop("folder")
    places = {name: Path(source.place.path).name for name, source in found.items() if source.place}
    assert places == {"a": "a.png", "b": "b.svg", "c": "final_output.png"}
