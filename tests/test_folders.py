"""A picture is found under any form of its name, and only inside its folder."""

import unicodedata
from pathlib import Path

import pytest

from tasks.datasets.folders import NO_PICTURE, REFUSED, Folder


def folder(root: Path, *names: str) -> Folder:
    for name in names:
        path = root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return Folder(root / "data")


def found(folder: Folder, name: str) -> str:
    place = folder.picture(name).place
    return Path(place.path).relative_to(folder.root).as_posix() if place else ""


@pytest.mark.parametrize(
    ("stored", "asked"),
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
def test_a_name_matches_with_or_without_the_prefix_and_in_any_unicode_form(tmp_path: Path, stored: str, asked: str):
    assert found(folder(tmp_path, stored), asked) == stored


def test_the_exact_name_goes_before_one_that_only_looks_alike(tmp_path: Path):
    names = ("images/a\u200c.png", "images/a.png")
    assert [found(folder(tmp_path, *names), name) for name in names] == list(names)


def test_two_files_that_fall_together_are_both_named(tmp_path: Path):
    alike = folder(tmp_path, "images/a\u200c.png", "images/a\u200d.png")
    with pytest.raises(ValueError, match=r"may be any of 'a\\u200c.png', 'a\\u200d.png'"):
        alike.picture("a.png")


@pytest.mark.parametrize(
    "name", ["../secret.png", "images/../../secret.png", "/etc/hostname", "../gone.png", "out/secret.png"]
)
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, name: str):
    data = folder(tmp_path, "images/a.png")
    (tmp_path / "elsewhere").mkdir()
    for path in ("secret.png", "elsewhere/secret.png"):
        (tmp_path / path).write_bytes(b"secret")
    (data.root / "out").symlink_to(tmp_path / "elsewhere")
    source = data.picture(name)
    assert source.place is None
    assert source.problem.startswith(f"{REFUSED}path {name!r} leaves the dataset folder")


def test_a_link_that_leaves_the_folder_is_refused_also_when_only_its_normalised_name_matches(tmp_path: Path):
    data = folder(tmp_path, "images/a.png")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (data.root / "images" / "b\u200c.png").symlink_to(tmp_path / "secret.png")
    assert data.picture("images/b.png").problem.startswith(REFUSED)


def test_paths_and_links_that_stay_inside_are_followed(tmp_path: Path):
    data = folder(tmp_path, "images/a.png")
    (data.root / "images" / "b.png").symlink_to(data.root / "images" / "a.png")
    assert found(data, "images/../images/a.png")
    assert found(data, str(data.root / "images" / "a.png"))
    assert found(data, "b.png") == "images/b.png"


def test_folders_are_resolved_once_for_all_pictures_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = [f"images/{number}.png" for number in range(20)]
    data = folder(tmp_path, *names)
    resolved: list[Path] = []
    resolve = Path.resolve

    def counted(path: Path, strict: bool = False) -> Path:
        resolved.append(path)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", counted)
    assert [found(data, name) for name in names] == names
    assert len(resolved) == 1


def test_a_name_that_ends_in_dots_leaves_the_folder(tmp_path: Path):
    data = folder(tmp_path, "images/a.png")
    assert data.picture("..").problem.startswith(REFUSED)
    assert data.picture("images/..").problem.startswith(NO_PICTURE)
    assert data.picture("images/../..").problem.startswith(REFUSED)


@pytest.mark.parametrize("name", ["http://example.org/a.png", "file:///etc/hostname", "s3://bucket/a.png"])
def test_a_url_is_refused(tmp_path: Path, name: str):
    assert folder(tmp_path, "a.png").picture(name).problem == f"{REFUSED}{name!r} is a URL, and no URL is fetched"


@pytest.mark.parametrize("name", ["b.png", "images", ".", "gone/a.png", "a" * 5000, "nul\0.png", "loop/a.png"])
def test_what_is_no_file_is_no_picture(tmp_path: Path, name: str):
    data = folder(tmp_path, "images/a.png")
    (data.root / "loop").symlink_to(data.root / "loop")
    source = data.picture(name)
    assert source.place is None
    assert source.problem.startswith(NO_PICTURE)
