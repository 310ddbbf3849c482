"""Folders of pictures: names in any Unicode form, no path outside, and formats by the first bytes."""

import base64
import os
import re
import unicodedata
from pathlib import Path

import pytest
from written_datasets import inline, png

from tasks.datasets.paths import ENOUGH, NO_PICTURE, Folder, looked_at, of_file, of_value
from tasks.errors import InputError, Problems
from tasks.pictures.decoding import NoReader
from tasks.records import PictureSource, Place

URLS = ("http://example.org/a.png", "file:///etc/hostname", "s3://bucket/a.png")


def folder(root: Path, *names: str) -> Folder:
    for name in names:
        path = root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return Folder(root / "data")


def find_path(folder: Folder, name: str) -> str:
    place = folder.picture(name).place
    return Path(place.path).relative_to(folder.root).as_posix() if place else ""


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("images/a.png", "images/a.png"),
        ("images/a.png", "a.png"),
        ("a.png", "images/a.png"),
        ("images/deep/a.png", "deep/a.png"),
        (unicodedata.normalize("NFD", "images/é.png"), unicodedata.normalize("NFC", "images/é.png")),
        (unicodedata.normalize("NFC", "images/é.png"), unicodedata.normalize("NFD", "é.png")),
        ("images/v1fig.png", "images/v1\u200cfig.png"),
        ("images/v1\u200c\u2011fig.png", "v1\u2011fig.png"),
        ("images/e\u200c\u0301.png", "images/é.png"),
    ],
)
def test_name_matches_without_prefix_and_in_any_unicode_form(tmp_path: Path, stored: str, name: str):
    assert find_path(folder(tmp_path, stored), name) == stored


def test_exact_name_precedes_a_similar_one(tmp_path: Path):
    names = ("images/a\u200c.png", "images/a.png")
    assert [find_path(folder(tmp_path, *names), name) for name in names] == list(names)


def test_ambiguous_name_lists_both_files(tmp_path: Path):
    alike = folder(tmp_path, "images/a\u200c.png", "images/a\u200d.png")
    with pytest.raises(ValueError, match=r"may be any of 'a\\u200c.png', 'a\\u200d.png'"):
        alike.picture("a.png")


@pytest.mark.parametrize(
    "name",
    [
        *("../secret.png", "images/../../secret.png", "/etc/hostname", "../gone.png", "out/secret.png"),
        *("..", "images/../..", "images/b.png"),  # its normalised name is a link that leads out
    ],
)
def test_path_that_leaves_the_folder_is_refused(tmp_path: Path, name: str):
    data = folder(tmp_path, "images/a.png")
    (tmp_path / "elsewhere").mkdir()
    for path in ("secret.png", "elsewhere/secret.png"):
        (tmp_path / path).write_bytes(b"secret")
    (data.root / "out").symlink_to(tmp_path / "elsewhere")
    (data.root / "images" / "b\u200c.png").symlink_to(tmp_path / "secret.png")
    shown = name.replace("images/b.png", r"b\u200c.png")
    with pytest.raises(InputError, match=rf"^path '{re.escape(shown)}' leaves the dataset folder"):
        data.picture(name)


def test_paths_and_links_inside_the_folder_are_followed(tmp_path: Path):
    data = folder(tmp_path, "images/a.png")
    (data.root / "images" / "b.png").symlink_to(data.root / "images" / "a.png")
    assert find_path(data, "images/../images/a.png")
    assert find_path(data, str(data.root / "images" / "a.png"))
    assert find_path(data, "b.png") == "images/b.png"


def test_folders_are_resolved_once_for_all_their_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = [f"images/{number}.png" for number in range(20)]
    data = folder(tmp_path, *names)
    resolved: list[Path] = []
    resolve = Path.resolve

    def counted(path: Path, strict: bool = False) -> Path:
        resolved.append(path)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", counted)
    assert [find_path(data, name) for name in names] == names
    assert len(resolved) == 1


@pytest.mark.parametrize("name", ["b.png", "images", ".", "images/..", "no/a.png", "a" * 3000, "\0.png", "loop/a.png"])
def test_missing_file_is_no_picture(tmp_path: Path, name: str):
    data = folder(tmp_path, "images/a.png")
    (data.root / "loop").symlink_to(data.root / "loop")
    source = data.picture(name)
    assert source.place is None
    assert source.problem.startswith(NO_PICTURE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((url, f"'{url}' is a URL, and no URL is fetched: download it, and name the file") for url in URLS),
        ("images\\a.png", r"path 'images\\a.png' has backslashes: write 'images/a.png'"),
        ("gone\\a.png", r"path 'gone\\a.png' has backslashes: write 'gone/a.png'"),
        ("images/A.png", "path 'images/A.png' exists in another case: write 'images/a.png'"),
        ("Images/a.PNG", "path 'Images/a.PNG' exists in another case: write 'images/a.png'"),
        ("A.png", "path 'A.png' exists in another case: write 'images/a.png'"),
        (
            "lfs.png",
            "lfs.png is not a picture that can be judged: found a Git LFS pointer in place of the file: run git",
        ),
        ("A" * 6668, f"'{'A' * 40}'… (6,668 characters) is longer than a path may be: name a file, or write a data: U"),
    ],
)
def test_mistake_in_a_path_is_refused_with_advice(tmp_path: Path, name: str, words: str):
    data = folder(tmp_path, "images/a.png")
    (data.root / "lfs.png").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(InputError) as error:
        data.picture(name)
    assert str(error.value).startswith(words)


def test_invalid_picture_keeps_its_place_and_problem(tmp_path: Path):
    source = folder(tmp_path, "images/a.png").picture("a.png")
    assert source.place and source.problem.startswith("not a picture that can be judged: found first bytes b'images")


def error_about(data: Folder, *names: tuple[str, str]) -> str:
    """Return the error about folders of these paths, each named by a sample."""
    for name, sample_id in names:
        data.picture(name, sample_id)
    problems = Problems()
    data.check_named(problems)
    try:
        problems.stop("set")
    except InputError as error:
        return str(error).partition("\n  ")[2]
    return ""


@pytest.mark.parametrize(
    "names",
    [
        (("out/gone.png", "1"), ("out/1.png", "2")),
        (("images/gone.png", "1"), ("human.png", "1")),
        (("runs/a1/final.png", "a1"), ("runs/a7/final.png", "a7")),
        (("runs/run-a1/final.png", "a1"), ("runs/run-a7/final.png", "a7")),
        (("out/1.png", "u"), ("out/gone.png", "o")),
    ],
)
def test_file_missing_beside_others_is_a_missing_output(tmp_path: Path, names: tuple[tuple[str, str], ...]):
    data = folder(tmp_path, "out/1.png", "images/human.png", "runs/a1/final.png", "runs/run-a1/final.png")
    assert error_about(data, *names) == ""


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            (("otu/1.png", "1"), ("otu/2.png", "2"), ("out/1.png", "1")),
            "none of the 2 files named in 'otu' is there, such as 'otu/1.png'; there is no such folder, and {} holds "
            "images, out. Correct the path, or leave the field empty where a candidate delivered nothing",
        ),
        ((("out/x/a/1.png", "1"),), "no file named in 'out/x/a' is there, such as 'out/x/a/1.png'; there is no such"),
        ((("images/x.png", "1"),), "no file named in '.' is there, such as 'images/x.png'"),
        ((("out/3.png", "1"),), "no file named in 'out' is there, such as 'out/3.png'; {}/out holds 1.png"),
        (
            (("a1/final.png", "a1"), ("a7/final.png", "a7")),
            "none of the 2 files named in 'a1' is there, such as 'a1/final.png'; there is no such folder",
        ),
    ],
)
def test_folder_without_any_named_file_is_reported_once(tmp_path: Path, names: tuple[tuple[str, str], ...], words: str):
    data = folder(tmp_path, "out/1.png", "images/human.png")
    error = error_about(data, *names)
    assert error.startswith(f"data: {words.format(data.root)}") and "\n" not in error


# First bytes

SOURCE = PictureSource(place=Place(path="/a.png"))


@pytest.mark.parametrize(
    "value", [inline(1), f"data:image/png;base64,{inline(1)}", f" {inline(1)[:7]}\n{inline(1)[7:]}"]
)
def test_picture_is_recognized_in_every_encoding(value: str):
    assert looked_at(SOURCE, of_value(value)) == SOURCE


@pytest.mark.parametrize(
    ("head", "words"),
    [(b"", "the file is empty"), (b"text", "b'text'"), (of_value("out/1.png"), "b'out/1.png'"), (of_value("é"), "xc3")],
)
def test_invalid_picture_reports_its_first_bytes(head: bytes, words: str):
    found = looked_at(SOURCE, head)
    assert found.place == SOURCE.place and words in found.problem


def test_format_without_a_reader_is_an_error():
    with pytest.raises(NoReader, match="convert it"):
        looked_at(SOURCE, b"%!PS-Adobe-3.0")


def test_only_the_first_bytes_of_a_file_are_read_and_pipes_refused(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(png(1) + bytes(100_000))
    assert len(of_file(tmp_path / "a.png")) < 5_000
    with pytest.raises(InputError, match=r"gone\.png cannot be read: No such file"):
        of_file(tmp_path / "gone.png")
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="it is no regular file"):
        of_file(tmp_path / "pipe.png")


@pytest.mark.parametrize("place", ["file", "base64"])
def test_drawing_that_needs_a_browser_is_refused_on_loading(tmp_path: Path, place: str):
    pytest.importorskip("resvg_py", reason="the extra `vector` is not installed")
    rest = f"<rect/><!--{'x' * 3 * ENOUGH}--><foreignObject/></svg>"
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg">{rest}'.encode()
    (tmp_path / "a.svg").write_bytes(drawing)
    head = of_file(tmp_path / "a.svg") if place == "file" else of_value(base64.b64encode(drawing).decode())
    with pytest.raises(NoReader, match="only a browser shows"):
        looked_at(PictureSource(), head)
