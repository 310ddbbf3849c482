"""Links in a dataset are followed out of it only into folders that a user names, and the cure is told."""

import json
from pathlib import Path

import pytest
from written_datasets import png, record, write_benchmark
from written_images import write_geneval

from tasks.datasets.contents import read_picture
from tasks.datasets.dataset import Dataset
from tasks.datasets.links import Links
from tasks.datasets.paths import absolute
from tasks.kinds.loading import load_dataset
from tasks.parameters import PAIRWISE, PairwiseParameters, RubricParameters

PROMPT = {"tag": "counting", "include": [{"class": "clock", "count": 2}], "prompt": "a photo of two clocks"}


def load(flow: str, dataset: Path, **given: object) -> Dataset:
    model = PairwiseParameters if flow in PAIRWISE else RubricParameters
    return load_dataset(flow, model.model_validate({"dataset": str(dataset)} | given))


def told(flow: str, dataset: Path, **given: object) -> str:
    """What is said of a dataset whose pictures are not read."""
    with pytest.raises(ValueError) as error:
        load(flow, dataset, **given)
    return str(error.value)


def pictures(dataset: Dataset, role: str) -> list[bytes]:
    return [read_picture(sample.pictures[role]) for sample in dataset.samples]


def hugging_face_cache(root: Path) -> tuple[Path, Path]:
    """A manifest in a snapshot of a cache, whose files are links to blobs; and the folder of those."""
    blobs, snapshot = root / "datasets--a--b" / "blobs", root / "datasets--a--b" / "snapshots" / "1f"
    rows = [{"id": f"s{n}", "task": "diagram", "context": "c", "caption": "c", "human_image": "h.png",
             "model_image": f"img/{n}.png"} for n in range(2)]  # fmt: skip
    files = {"data.jsonl": "\n".join(map(json.dumps, rows)).encode(), "h.png": png(9)}
    files |= {f"img/{n}.png": png(n) for n in range(2)}
    blobs.mkdir(parents=True)
    for number, (name, data) in enumerate(files.items()):
        (blobs / f"sha{number}").write_bytes(data)
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).symlink_to(blobs / f"sha{number}")
    return snapshot / "data.jsonl", blobs


def test_a_hugging_face_cache_is_read_once_its_blobs_are_named(tmp_path: Path):
    manifest, blobs = hugging_face_cache(tmp_path)
    words = told("diagram", manifest)
    assert f"path 'h.png' leaves the dataset folder {manifest.parent}, for a link leads to {blobs}/sha1" in words
    assert f"give --follow-links {blobs} if links may lead there" in words
    dataset = load("diagram", manifest, follow_links=[str(blobs)])
    assert pictures(dataset, "human") == [png(9), png(9)]
    assert pictures(dataset, "model") == [png(0), png(1)]


def test_a_candidate_that_is_linked_in_is_read_once_its_folder_is_named(tmp_path: Path):
    write_geneval(tmp_path / "elsewhere", [PROMPT], 2, with_list=False)
    root = write_geneval(tmp_path / "set", [PROMPT], 2, ["b"])
    (root / "a").symlink_to(tmp_path / "elsewhere" / "a")
    assert f"give --follow-links {tmp_path / 'elsewhere' / 'a'} if" in told("counting", root)
    dataset = load("counting", root, follow_links=[str(tmp_path / "elsewhere")])
    assert [sample.candidate for sample in dataset.samples] == ["a", "a", "b", "b"]
    assert len(pictures(dataset, "image")) == 4


def annexed(root: Path) -> tuple[Path, Path]:
    """A dataset in a repository of git-annex, and where that keeps its files, each in folders of its own."""
    bench = write_benchmark(root / "repo" / "bench", [record(0), record(1)])
    objects = root / "repo" / ".git" / "annex" / "objects"
    figures = bench / "figures"
    figures.mkdir()
    for number in range(2):
        kept = objects / f"F{number}" / "x" / f"SHA256E--{number}" / f"SHA256E--{number}"
        kept.parent.mkdir(parents=True)
        kept.write_bytes(png(50 + number))
        (figures / f"test_{number}.png").symlink_to(kept)
    return bench, objects


def test_the_files_of_git_annex_are_read_once_their_folder_is_named(tmp_path: Path):
    bench, objects = annexed(tmp_path)
    given = {"images": str(bench / "figures")}
    assert f"give --follow-links {objects} if links may lead there" in told("diagram", bench, **given)
    dataset = load("diagram", bench, follow_links=[str(objects)], **given)
    assert pictures(dataset, "model") == [png(50), png(51)]


def test_what_git_annex_has_not_fetched_is_told_with_the_cure(tmp_path: Path):
    bench, objects = annexed(tmp_path)
    (objects / "F1" / "x" / "SHA256E--1" / "SHA256E--1").unlink()
    words = told("diagram", bench, images=str(bench / "figures"), follow_links=[str(objects)])
    assert "test_1.png is a link to " in words
    assert "which is not there: fetch it (git annex get test_1.png)" in words


@pytest.mark.parametrize("name", ["images/0.png", "0.png"])
def test_a_link_to_nothing_is_told_and_no_forfeit(tmp_path: Path, name: str):
    bench = write_benchmark(tmp_path / "bench", [record(0, path_to_gt_image=name)])
    figure = bench / "diagram" / "images" / "0.png"
    figure.unlink()
    gone = bench / "diagram" / "gone.png"
    figure.symlink_to(gone)
    (bench / "out").mkdir()
    (bench / "out" / "test_0.png").write_bytes(png(1))
    words = told("diagram", bench, images=str(bench / "out"))
    assert f"0.png is a link to {gone}, which is not there: put it there, or remove the link" in words


def test_a_link_out_of_a_followed_folder_is_refused(tmp_path: Path):
    for folder in ("set", "followed", "secret"):
        (tmp_path / folder).mkdir()
    (tmp_path / "secret" / "a.png").write_bytes(png(1))
    (tmp_path / "followed" / "a.png").symlink_to(tmp_path / "secret" / "a.png")
    (tmp_path / "set" / "a.png").symlink_to(tmp_path / "followed" / "a.png")
    links = Links(tmp_path / "set", [str(tmp_path / "followed")])
    assert not links.hold(tmp_path / "set" / "a.png")
    assert Links(tmp_path / "set", [str(tmp_path / "secret")]).hold(tmp_path / "set" / "a.png")


def test_a_path_that_leaves_the_folder_without_a_link_has_no_such_cure(tmp_path: Path):
    assert "--follow-links" not in Links(tmp_path / "set").refusal("'../a.png'", tmp_path / "set" / ".." / "a.png")


def test_a_followed_folder_that_is_none_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"follow_links: .*/gone is no folder"):
        load("diagram", write_benchmark(tmp_path, [record(0)]), images=str(tmp_path), follow_links=["/gone"])


def test_followed_folders_become_absolute_with_the_other_paths():
    assert absolute(PairwiseParameters(follow_links=["blobs"])).follow_links == [str(Path.cwd() / "blobs")]
