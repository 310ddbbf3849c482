"""Links that lead out of a dataset: refused with advice, unless the user names the target folder."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from written_datasets import figure_row, inline, png, record, result, write_benchmark, write_json, write_two_stages
from written_images import prompt_row, write_geneval, write_manifest

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import LOST, read_picture, read_texts
from tasks.datasets.paths import ROOTS, Folder, absolute
from tasks.errors import InputError
from tasks.protocols import parameters_of
from tasks.protocols.loading import load_dataset
from tasks.records.parameters import PairwiseParameters, Parameters

PROMPT = {"tag": "counting", "include": [{"class": "clock", "count": 2}], "prompt": "a photo of two clocks"}


def load(flow: str, dataset: Path, **given: object) -> Dataset:
    return load_dataset(flow, parameters_of(flow).model_validate({"dataset": str(dataset)} | given))


def refusal(flow: str, dataset: Path, **given: object) -> str:
    """Return the error message of loading a dataset."""
    with pytest.raises(ValueError) as error:
        load(flow, dataset, **given)
    return str(error.value)


def pictures(dataset: Dataset, role: str) -> list[bytes]:
    return [read_picture(sample.pictures[role]) for sample in dataset.samples]


def hugging_face_cache(root: Path) -> tuple[Path, Path]:
    """Write a manifest into a snapshot of a cache, whose files are links to blobs; return it and the blobs' folder."""
    blobs, snapshot = root / "datasets--a--b" / "blobs", root / "datasets--a--b" / "snapshots" / "1f"
    rows = [figure_row(n, human_image="h.png", model_image=f"img/{n}.png") for n in range(2)]
    files = {"data.jsonl": "\n".join(map(json.dumps, rows)).encode(), "h.png": png(9)}
    files |= {f"img/{n}.png": png(n) for n in range(2)}
    blobs.mkdir(parents=True)
    for number, (name, data) in enumerate(files.items()):
        (blobs / f"sha{number}").write_bytes(data)
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).symlink_to(blobs / f"sha{number}")
    return snapshot / "data.jsonl", blobs


def test_hugging_face_cache_is_read_if_blobs_folder_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    manifest, blobs = hugging_face_cache(tmp_path)
    monkeypatch.chdir(blobs)
    words = refusal("diagram", manifest, follow_links=[""])  # an empty entry is not the current folder
    assert f"path 'h.png' leaves the dataset folder {manifest.parent}, since a link leads to {blobs}/sha1" in words
    assert f"give --follow-links {blobs} if links may lead there" in words
    dataset = load("diagram", manifest, follow_links=["", str(blobs), ""])
    assert pictures(dataset, "human") == [png(9), png(9)]
    assert pictures(dataset, "model") == [png(0), png(1)]
    assert absolute(PairwiseParameters(dataset=str(manifest), follow_links=["", "b"])).follow_links == [f"{blobs}/b"]


@pytest.mark.parametrize(
    ("flow", "part"),
    [
        ("counting", "a"),
        ("counting", "a/00000/metadata.jsonl"),
        ("counting", "a/00000/samples/0001.png"),
        ("diagram", "diagram/test.json"),
        ("diagram", "results/diagram.json"),
    ],
)
def test_linked_part_of_a_dataset_is_read_if_its_folder_is_followed(tmp_path: Path, flow: str, part: str):
    images, given = flow == "counting", {"stage": ["vanilla"]} if flow == "diagram" else {}
    bench = tmp_path / "set"
    write_geneval(bench, [PROMPT], 2, ["a", "b"], with_list=False) if images else write_two_stages(bench)
    (tmp_path / "elsewhere").mkdir()
    place = (bench / part).rename(tmp_path / "elsewhere" / "moved")
    (bench / part).symlink_to(place)
    folder = place if place.is_dir() else place.parent
    assert f"give --follow-links {folder} if links may lead there" in refusal(flow, bench, **given)
    dataset = load(flow, bench, follow_links=[str(folder)], **given)
    assert len(pictures(dataset, "image" if images else "model")) == 4


@pytest.mark.parametrize("name", ["images/0.png", "0.png"])
def test_broken_link_is_an_error_instead_of_a_forfeit(tmp_path: Path, name: str):
    bench = write_benchmark(tmp_path / "bench", [record(0, path_to_gt_image=name)])
    figure = bench / "diagram" / "images" / "0.png"
    figure.unlink()
    gone = bench / "diagram" / "gone.png"
    figure.symlink_to(gone)
    (bench / "out").mkdir()
    (bench / "out" / "test_0.png").write_bytes(png(1))
    words = refusal("diagram", bench, images=str(bench / "out"))
    assert f"0.png is a link to {gone}, which is not there: put it there, or remove the link" in words


def test_link_out_of_a_followed_folder_is_refused(tmp_path: Path):
    for folder in ("set", "followed", "secret"):
        (tmp_path / folder).mkdir()
    (tmp_path / "secret" / "a.png").write_bytes(png(1))
    (tmp_path / "followed" / "a.png").symlink_to(tmp_path / "secret" / "a.png")
    (tmp_path / "set" / "a.png").symlink_to(tmp_path / "followed" / "a.png")
    with pytest.raises(InputError, match="leaves the dataset folder"):
        Folder(tmp_path / "set", [str(tmp_path / "followed")]).picture("a.png")
    assert read_picture(Folder(tmp_path / "set", [str(tmp_path / "secret")]).picture("a.png")) == png(1)


def test_path_outside_without_link_does_not_suggest_following_links(tmp_path: Path):
    with pytest.raises(InputError, match=r"'\.\./a\.png' leaves the dataset folder .*set: put the file into it"):
        Folder(tmp_path / "set").picture("../a.png")


def test_missing_followed_folder_is_an_error(tmp_path: Path):
    with pytest.raises(ValueError, match=r"follow_links: .*/gone is no folder"):
        load("diagram", write_benchmark(tmp_path, [record(0)]), images=str(tmp_path), follow_links=["/gone"])


def test_list_beside_a_dataset_outside_the_roots_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = write_geneval(tmp_path / "set", [PROMPT], 1)
    (root / "evaluation_metadata.jsonl").rename(tmp_path / "evaluation_metadata.jsonl")
    assert not load("counting", root).warnings
    monkeypatch.setenv(ROOTS, str(root))
    assert any(words.startswith("no evaluation_metadata.jsonl") for words in load("counting", root).warnings)


# A file or folder replaced by a link at any moment must reveal nothing of the link's target.
# The replacement happens right before each opening of a file and each listing of a folder in turn: once the link
# remains, and once everything is restored before the next opening, so that a check of names finds nothing.


SECRET, SHADE = "SECRET", 250
SECRET_PICTURE = png(SHADE)
MOMENTS = {"open", "os.listdir", "os.scandir"}


class Exchange:
    """An attacker who replaces a file or folder by a link at a chosen moment of a run's reading."""

    def __init__(self, data: Path, victim: Path, outside: Path, moment: int, *, stays: bool) -> None:
        self.data, self.victim, self.outside, self.moment, self.stays = data, victim, outside, moment, stays
        self.kept = victim.parent / ".kept"
        self.met = 0

    def count_moment(self, name: str) -> None:
        """Count a moment; replace or restore if it is the chosen one."""
        if not name.startswith(str(self.data)):
            return
        if self.met == self.moment:
            self.victim.rename(self.kept)
            self.victim.symlink_to(self.outside)
        elif self.met == self.moment + 1 and not self.stays:
            self.victim.unlink()
            self.kept.rename(self.victim)
        self.met += 1


active: list[Exchange] = []


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if active and event in MOMENTS and isinstance(given[0], str | Path):
        exchange = active.pop()  # the attacker's own file operations do not count
        exchange.count_moment(str(given[0]))
        active.append(exchange)


sys.addaudithook(_audit)


def overwrite(root: Path, shade: int) -> None:
    for path in root.rglob("*.png"):
        path.write_bytes(png(shade))


def benchmark(root: Path, words: str, shade: int) -> None:
    write_benchmark(root, [record(n, content=f"{words} {n}") for n in range(2)])
    made = [result(n, target_diagram_critic_desc0_base64_jpg=inline(shade)) for n in range(2)]
    write_json(root / "results" / "diagram.json", made)
    (root / "figures").mkdir()
    for number in range(2):
        (root / "figures" / f"test_{number}.png").write_bytes(png(shade))
    for number in range(2, 10):  # pictures of no record, which each attack would copy
        (root / "diagram" / "images" / f"{number}.png").unlink()
    overwrite(root, shade)


def figures(name: str) -> Callable[[Path, str, int], None]:
    def write(root: Path, words: str, shade: int) -> None:
        (root / name).parent.mkdir(parents=True)
        rows = [figure_row(n, context=words, human_image="out/0.png", model_image="out/1.png") for n in range(2)]
        write_manifest(root / name, rows)
        overwrite(root, shade)

    return write


def geneval(root: Path, words: str, shade: int) -> None:
    write_geneval(root, [prompt_row(prompt=words)], 2, ["a"], with_list=False)
    overwrite(root, shade)


def listed(root: Path, words: str, shade: int) -> None:
    write_geneval(root, [prompt_row(prompt=words)], 1, ["a"])
    overwrite(root, shade)


def linked(root: Path, words: str, shade: int) -> None:
    """Write pictures as links into a folder beside the dataset, which may be followed."""
    benchmark(root / "set", words, shade)
    (root / "set" / "figures").rename(root / "followed")
    (root / "set" / "figures").mkdir()
    for number in range(2):
        (root / "set" / "figures" / f"test_{number}.png").symlink_to(root / "followed" / f"test_{number}.png")


IMAGES: dict[str, object] = {"images": "figures"}
FOLLOWED: dict[str, object] = {"images": "set/figures", "follow_links": ["followed"]}
Case = tuple[Callable[[Path, str, int], None], str, str, str, dict[str, object]]
CASES: dict[str, Case] = {
    "a Human figure": (benchmark, "diagram", ".", "diagram/images/0.png", {}),
    "the folder of the task": (benchmark, "diagram", ".", "diagram", {}),
    "the list of the samples": (benchmark, "diagram", ".", "diagram/test.json", {}),
    "the results in the dataset": (benchmark, "diagram", ".", "results/diagram.json", {}),
    "a Model figure in a folder": (benchmark, "diagram", ".", "figures/test_0.png", IMAGES),
    "a figure behind a link that is allowed": (linked, "diagram", "set", "followed/test_0.png", FOLLOWED),
    "a link that is allowed, by another one": (linked, "diagram", "set", "set/figures/test_0.png", FOLLOWED),
    "a picture of a manifest": (figures("m.jsonl"), "diagram", "m.jsonl", "out/1.png", {}),
    "an image of GenEval": (geneval, "object", ".", "a/00000/samples/0001.png", {}),
    "the row of a prompt": (geneval, "object", ".", "a/00000/metadata.jsonl", {}),
    "the folder of a prompt": (geneval, "object", ".", "a/00000", {}),
    "the list of the prompts": (listed, "object", ".", "evaluation_metadata.jsonl", {}),
}
NAMED: dict[str, Case] = {
    "the dataset": (benchmark, "diagram", "set", "set", {}),
    "the folder of the Model figures": (benchmark, "diagram", ".", "figures", IMAGES),
    "a folder that links may lead to": (linked, "diagram", "set", "followed", FOLLOWED),
    "the results": (benchmark, "diagram", ".", "results/diagram.json", {"results": "results/diagram.json"}),
    "a manifest": (figures("m.jsonl"), "diagram", "m.jsonl", "m.jsonl", {}),
    "a manifest in CSV": (figures("m.csv"), "diagram", "m.csv", "m.csv", {}),
}
"""Paths from the user: they may be links to anywhere at the first reading, unless `JURY_ROOTS` is set."""


def parameters(flow: str, root: Path, dataset: str, given: dict[str, object]) -> Parameters:
    named = {key: [str(root / each) for each in value] if isinstance(value, list) else str(root / str(value))
             for key, value in given.items()}  # fmt: skip
    return parameters_of(flow).model_validate({"dataset": str(root / dataset)} | named)


def read_all(flow: str, asked: Parameters) -> Iterator[str | bytes]:
    """Yield everything that a run would send of a dataset, and the messages about the rest."""
    try:
        dataset = load_dataset(flow, asked)
    except InputError as error:
        yield str(error)
        return
    yield from dataset.warnings
    for sample in dataset.samples:
        try:
            yield from read_texts(sample).values()
        except InputError as error:
            yield str(error)
        for source in sample.pictures.values():
            try:
                yield read_picture(source)
            except InputError as error:
                yield str(error)


def leaks(found: list[str | bytes]) -> list[str | bytes]:
    return [each for each in found if each == SECRET_PICTURE or (isinstance(each, str) and SECRET in each)]


def attack_each_moment(tmp_path: Path, case: Case) -> int:
    """Attack a dataset at each of its moments; return their number."""
    build, _, dataset, victim, _ = case
    inside = "set" if dataset == victim == "set" and build in (benchmark, geneval) else ""
    build(tmp_path / "template" / inside, "plain", 1)
    build(tmp_path / "outside" / inside, SECRET, SHADE)
    moments = read_under_attack(tmp_path, case, -1, stays=True)
    for moment in range(moments):
        for stays in (True, False):
            read_under_attack(tmp_path, case, moment, stays=stays)
    return moments


def read_under_attack(tmp_path: Path, case: Case, moment: int, *, stays: bool) -> int:
    """Load and read a fresh copy while it is attacked; return the number of moments."""
    _, flow, dataset, victim, given = case
    data = tmp_path / "data"
    shutil.copytree(tmp_path / "template", data, symlinks=True, copy_function=shutil.copyfile)
    for link in [path for path in data.rglob("*") if path.is_symlink()]:
        target = link.readlink().relative_to(tmp_path / "template")
        link.unlink()
        link.symlink_to(data / target)
    exchange = Exchange(data, data / victim, tmp_path / "outside" / victim, moment, stays=stays)
    active.append(exchange)
    try:
        found = [*read_all(flow, parameters(flow, data, dataset, given))]
    finally:
        active.clear()
    assert not leaks(found), (moment, stays)
    shutil.rmtree(data)
    return exchange.met


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_replaced_file_reveals_nothing_outside_the_dataset(tmp_path: Path, case: Case) -> None:
    assert attack_each_moment(tmp_path, case) > 4


@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_replaced_path_stays_within_the_roots(tmp_path: Path, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOTS, str(tmp_path / "data"))
    assert attack_each_moment(tmp_path, case) > 4


@pytest.mark.parametrize("case", [*CASES.values(), *NAMED.values()], ids=[*CASES, *NAMED])
def test_dataset_is_read_whole_without_an_attack(tmp_path: Path, case: Case) -> None:
    build, flow, dataset, _, given = case
    inside = "set" if dataset == "set" and build in (benchmark, geneval) else ""
    build(tmp_path / "data" / inside, SECRET, SHADE)
    found = [*read_all(flow, parameters(flow, tmp_path / "data", dataset, given))]
    assert {type(each) for each in leaks(found)} == {str, bytes}


def test_picture_replaced_by_a_link_is_lost_and_not_a_forfeit(tmp_path: Path) -> None:
    benchmark(tmp_path / "data", "plain", 1)
    (tmp_path / "secret.png").write_bytes(png(SHADE))
    dataset = load_dataset("diagram", parameters("diagram", tmp_path / "data", ".", IMAGES))
    figure = tmp_path / "data" / "figures" / "test_0.png"
    figure.unlink()
    figure.symlink_to(tmp_path / "secret.png")
    with pytest.raises(InputError) as refused:
        read_picture(dataset.samples[0].pictures["model"])
    assert str(refused.value).startswith(LOST) and f"it leads to {tmp_path / 'secret.png'}" in str(refused.value)


def test_picture_rewritten_by_its_generator_is_read(tmp_path: Path) -> None:
    benchmark(tmp_path / "data", "plain", 1)
    dataset = load_dataset("diagram", parameters("diagram", tmp_path / "data", ".", IMAGES))
    (tmp_path / "new.png").write_bytes(png(2))
    (tmp_path / "new.png").replace(tmp_path / "data" / "figures" / "test_0.png")
    assert read_picture(dataset.samples[0].pictures["model"]) == png(2)
