"""The page for people in a real browser without a network: thirty pairs by keyboard, closed and opened again."""

import json
from pathlib import Path
from typing import Any

import pytest
from answered_page import COUNTING, figures_store, images_store, made_page
from opened_page import Opened, chromium
from served import wait_for
from written_history import ask

from flows.cli import main

pytestmark = pytest.mark.usefixtures("laid_out", "without_pages")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return figures_store(tmp_path_factory.mktemp("label") / "store", 30)


@pytest.fixture(scope="module")
def profile(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A browser's profile on disk, opened again and again: what a person has who closes the browser."""
    given = {"executable_path": chromium(), "args": ["--no-sandbox", "--disable-gpu"], "offline": True}
    folder = tmp_path_factory.mktemp("profile")
    return lambda: playwright.chromium.launch_persistent_context(folder, **given)


class Person(Opened):
    """Somebody with the page open."""

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def progress(self) -> str:
        return self.page.inner_text("#progress")

    def saved(self, target: Path) -> dict[str, Any]:
        with self.page.expect_download() as download:
            self.press("s")
        assert download.value.suggested_filename.startswith("labels-reader-")
        download.value.save_as(target)
        return json.loads(target.read_text(encoding="utf-8"))


def test_thirty_pairs_by_keyboard_closed_and_opened_in_the_middle(store: Path, profile: Any, tmp_path: Path) -> None:
    file = tmp_path / "label.html"
    page = made_page(store, file)
    person = Person(profile(), file)
    name = person.page.input_value("#name")
    assert person.progress() == "0 of 30 answered" and name.startswith("reader-")
    person.press(*"123c" * 3, "m")
    person.page.keyboard.type("1 small \u00e9 letters, cut <b>")
    person.press("Escape", "1", "2", "u")  # the last answer is taken back
    person.press("ArrowLeft", "2", "z")  # another answer to the item before, and its pictures larger
    assert person.page.locator("#large img").count() == 2
    person.close()
    person = Person(profile(), file)
    assert person.progress() == "13 of 30 answered" and person.page.input_value("#name") == name
    person.press(*"2" * 17)
    assert person.progress() == "30 of 30 answered: save the file"
    found = person.saved(tmp_path / "labels.json")
    assert person.page.get_attribute("#notice", "class") != "alarm", "what went well does not look like a fault"
    given = {row["item"]: row["answer"] for row in found["answers"]}
    order = [item.token for item in page.items]
    said = ["left", "right", "tie", "cannot tell"] * 3 + ["right"] * 18
    assert [given[token] for token in order] == said and found["name"] == name
    assert found["answers"][12]["comment"] == "1 small \u00e9 letters, cut <b>"
    person.close()
    assert main(["labels", "import", str(tmp_path / "labels.json"), "--store", str(store)]) == 0
    assert ask(store, "SELECT count(*), count(verdict) FROM labels") == [(30, 27)]


def test_a_saved_file_goes_on_elsewhere_and_another_page_s_does_not(store: Path, profile: Any, tmp_path: Path) -> None:
    file, other = tmp_path / "label.html", tmp_path / "other.html"
    made_page(store, file, "-n", "4"), made_page(store, other, "-n", "4")
    person = Person(profile(), file)
    person.press("1", "2")
    person.saved(tmp_path / "labels.json")
    person.page.evaluate("localStorage.clear()")
    person.page.reload()
    assert person.progress() == "0 of 4 answered"
    person.page.set_input_files("#load", tmp_path / "labels.json")
    wait_for(lambda: person.progress().startswith("2 of 4"))
    person.press("3", "3")
    again = person.saved(tmp_path / "labels.json")
    assert [row["answer"] for row in again["answers"]] == ["left", "right", "tie", "tie"]
    person.page.goto(other.as_uri())
    person.page.set_input_files("#load", tmp_path / "labels.json")
    person.page.wait_for_selector("#notice.alarm:visible")
    assert "labels.json is not loaded: it was not saved from this page" in person.page.inner_text("#notice")
    assert person.progress() == "0 of 4 answered"
    person.close()


def test_an_image_gets_a_score_for_each_aspect(profile: Any, tmp_path: Path) -> None:
    made_page(images_store(tmp_path / "store"), tmp_path / "label.html", run=COUNTING)
    person = Person(profile(), tmp_path / "label.html")
    assert person.page.inner_text("#text") == "a photo of two clocks"
    person.press("8", "t", "0")
    assert person.progress() == "0 of 2 answered"
    person.press("c", *"7777")
    assert person.progress().startswith("2 of 2 answered")
    rows = person.saved(tmp_path / "labels.json")["answers"]
    assert [row["answer"] for row in rows] == ["8", "10", "0", "cannot tell", "7", "7", "7", "7"]
    person.close()
