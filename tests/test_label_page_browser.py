"""The page for people in a real browser without a network: thirty pairs by keyboard, closed and opened again."""

import json
from pathlib import Path
from typing import Any

import pytest
from answered_page import COUNTING, figures_store, images_store, made_page
from opened_page import chromium
from served import wait_for
from strangers import HOSTILE
from written_history import SCRIPT, ask, keep, pair

from flows.cli import main
from tasks.ledger.label_pages import LabelPage

pytestmark = pytest.mark.usefixtures("laid_out", "drawn_here", "without_pages")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return figures_store(tmp_path_factory.mktemp("label") / "store", 30)


@pytest.fixture(scope="module")
def profile(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A browser's profile on disk, opened again and again: what a person has who closes the browser."""
    folder, program = tmp_path_factory.mktemp("profile"), chromium()
    return lambda: playwright.chromium.launch_persistent_context(
        folder,
        executable_path=program,
        args=["--no-sandbox", "--disable-gpu"],
        offline=True,
    )


class Person:
    """Somebody with the page open, and what the page tried to do."""

    def __init__(self, profile: Any, file: Path) -> None:
        self.context = profile()
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.trouble: list[str] = []
        self.page.on("dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.trouble.append(f"error {error}"))
        self.page.on("console", lambda message: self.trouble.append(f"console {message.text}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto(file.as_uri())

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            self.trouble.append(f"request {url}")

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

    def close(self) -> None:
        assert self.trouble == []
        self.context.close()


def test_thirty_pairs_by_keyboard_closed_and_opened_in_the_middle(store: Path, profile: Any, tmp_path: Path) -> None:
    file = tmp_path / "label.html"
    page = made_page(store, file)
    person = Person(profile, file)
    name = person.page.input_value("#name")
    assert person.progress() == "0 of 30 answered" and name.startswith("reader-")
    person.press(*"123c" * 3, "m")
    person.page.keyboard.type("1 small \u00e9 letters, cut <b>")
    person.press("Escape", "1", "2", "u")  # the last answer is taken back
    person.press("ArrowLeft", "2", "z")  # another answer to the item before, and its pictures larger
    assert person.page.locator("#large img").count() == 2
    person.close()
    person = Person(profile, file)
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


def test_a_saved_file_goes_on_elsewhere_and_that_of_another_page_is_refused(
    store: Path, profile: Any, tmp_path: Path
) -> None:
    file, other = tmp_path / "label.html", tmp_path / "other.html"
    made_page(store, file, "-n", "4"), made_page(store, other, "-n", "4")
    person = Person(profile, file)
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
    person = Person(profile, tmp_path / "label.html")
    assert person.page.inner_text("#text") == "a photo of two clocks"
    person.press("8", "t", "0")
    assert person.progress() == "0 of 2 answered"
    person.press("c", *"7777")
    assert person.progress().startswith("2 of 2 answered")
    rows = person.saved(tmp_path / "labels.json")["answers"]
    assert [row["answer"] for row in rows] == ["8", "10", "0", "cannot tell", "7", "7", "7", "7"]
    person.close()


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_in_light_and_dark_and_strangers_texts_do_nothing(
    profile: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    rows = pair("s1", "MMMM", "Model", caption=f"{SCRIPT} </script><img src=x onerror=alert(1)> " + " ".join(HOSTILE))
    keep(tmp_path / "store", "20261120T120000-diagram-0000aa", rows, samples=1)
    page: LabelPage = made_page(tmp_path / "store", tmp_path / "label.html")
    assert len(page.items) == 1
    person = Person(profile, tmp_path / "label.html")
    person.page.emulate_media(color_scheme=scheme)
    person.page.set_viewport_size({"width": width, "height": 900})
    assert "<script>document.title" in person.page.inner_text("#text")
    assert person.page.evaluate("document.documentElement.scrollWidth") == width
    ground = "getComputedStyle(document.body).backgroundColor"
    before = person.page.evaluate(ground)
    assert before == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}[scheme]
    person.page.click("#theme")
    assert person.page.evaluate(ground) != before
    person.page.evaluate("localStorage.clear()")  # the page remembers it, and the profile is kept
    person.close()
