"""Samples given as Python objects: the dataset equals the same data in files."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from png_files import file, oriented

from tasks.datasets.dataset import Dataset, read_figures, read_images
from tasks.datasets.sample_objects import FigureSample, Given, ImageSample, Picture, write_samples
from tasks.errors import InputError
from tasks.records.parameters import PairwiseParameters, RubricParameters

DATA = {"Tue": [1.5, None], "Mon": "ü"}


def png(shade: int, **saved: Any) -> bytes:
    return file(Image.new("RGB", (8, 4), (shade, 0, 0)), "PNG", **saved)


def figure(sample_id: str = "1", **changes: Any) -> FigureSample:
    given = {"context": "method", "caption": "caption", "human_image": png(1), "model_image": png(2)}
    return FigureSample(id=sample_id, **{**given, **changes})


def load_figures(folder: Path, samples: list[Given], flow: str = "diagram") -> Dataset:
    folder.mkdir(exist_ok=True)
    return read_figures(write_samples(folder, flow, samples, "given"), flow, PairwiseParameters())


def test_figure_objects_have_the_dataset_key_of_equal_files(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "h.png").write_bytes(png(1))
    (files / "m.png").write_bytes(png(2))
    row = {"id": "1", "task": "plot", "context": DATA, "caption": "c", "human_image": "h.png", "model_image": "m.png"}
    (files / "given.jsonl").write_text(json.dumps(row | {"category": "bars"}) + "\n")
    read = read_figures(files / "given.jsonl", "plot", PairwiseParameters())
    pictures: list[tuple[Picture, Picture]] = [
        (png(1), png(2)),
        (files / "h.png", str(files / "m.png")),
        (Image.open(files / "h.png"), Image.new("RGB", (8, 4), (2, 0, 0))),  # Pillow writes identical bytes again
    ]
    for number, (human, model) in enumerate(pictures):
        sample = figure(context=DATA, caption="c", category="bars", human_image=human, model_image=model)
        given = load_figures(tmp_path / str(number), [sample], "plot")
        assert (given.key, given.name, given.candidates) == (read.key, "given.jsonl", ("given",))
        [found] = given.samples
        assert (found.category, found.pictures["model"].problem) == ("bars", "")


def test_image_objects_have_the_dataset_key_of_equal_files(tmp_path: Path) -> None:
    include = [{"class": "clock", "count": 2}]
    row = {"id": "1", "tag": "counting", "prompt": "two clocks", "image": "a.png", "include": include}
    (tmp_path / "a.png").write_bytes(png(1))
    (tmp_path / "given.jsonl").write_text(json.dumps(row) + "\n")
    read = read_images(tmp_path / "given.jsonl", "counting", RubricParameters())
    sample = ImageSample(id="1", tag="counting", prompt="two clocks", image=tmp_path / "a.png", include=tuple(include))
    (tmp_path / "given").mkdir()
    manifest = write_samples(tmp_path / "given", "counting", [sample], "given")
    given = read_images(manifest, "counting", RubricParameters())
    assert (given.key, given.samples[0].required) == (read.key, read.samples[0].required)


def test_missing_or_invalid_picture_object_is_a_forfeit(tmp_path: Path) -> None:
    samples = [figure("1"), figure("2", model_image=None), figure("3", model_image=b"nothing")]
    given = load_figures(tmp_path / "given", [*samples])
    assert [bool(sample.pictures["model"].problem) for sample in given.samples] == [False, True, True]


def test_picture_in_memory_is_written_upright_in_any_mode(tmp_path: Path) -> None:
    turned = Image.open(io.BytesIO(png(9, exif=oriented(6))))  # turned by 90 degrees
    given = tmp_path / "given"
    load_figures(given, [figure(human_image=turned, model_image=Image.new("CMYK", (8, 4)))])
    with Image.open(given / "1-human_image") as human, Image.open(given / "1-model_image") as m:
        assert (human.size, human.format, m.mode) == ((4, 8), "PNG", "RGB")


def test_removing_the_link_leaves_the_picture_file(tmp_path: Path) -> None:
    (tmp_path / "m.png").write_bytes(png(2))
    load_figures(tmp_path / "given", [figure(model_image=tmp_path / "m.png")])
    (tmp_path / "given" / "1-model_image.png").unlink()
    assert (tmp_path / "m.png").read_bytes() == png(2)


def test_problems_of_all_samples_are_reported_together(tmp_path: Path) -> None:
    image = ImageSample(id="4", tag="counting", prompt="p", image=None)
    floats = figure("5", model_image=Image.new("F", (8, 4), 0.5))
    wrong = [figure("1", model_image="no/such.png"), figure("2", context={"a": float("nan")}), image, floats]
    with pytest.raises(InputError) as caught:
        write_samples(tmp_path, "diagram", wrong, "given")
    first, *others = str(caught.value).splitlines()
    assert first == "the list of samples has 4 problems:"
    assert [line.strip().partition(":")[0] for line in others] == [
        "sample 1 ('1')", "sample 2 ('2')", "sample 3", "sample 4 ('5')"
    ]  # fmt: skip
    assert "model_image does not lead to a file: no/such.png; if nothing was delivered, give None" in others[0]
    assert "is of type ImageSample, flow diagram takes FigureSample" in others[2]
    assert "model_image is of Pillow's mode F, whose values have no fixed range" in others[3]


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_invalid_dataset_name_or_empty_list_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="the dataset's name is"):
        write_samples(tmp_path, "diagram", [figure()], name)
    with pytest.raises(InputError, match="the list of samples is empty"):
        write_samples(tmp_path, "diagram", [], "given")
