"""The label page in a real browser without a network: keys, saved files, moved folders, zoom."""

import json
from pathlib import Path
from typing import Any

import pytest
from answered_page import COUNTING, figures_store, images_store, make_page
from opened_page import Opened, chromium
from PIL import Image
from served import wait_for
from test_checklists import CHECKS, RUBRIC, sample
from written_datasets import encoded
from written_history import ask

from flows.cli import main
from tasks.labels.inputs import Inputs
from tasks.labels.labeling import Made
from tasks.ledger.labels import LabelItem, LabelPage
from tasks.pages.label_page import write_label_page
from tasks.protocols.checklist.labels import LABELS

pytestmark = pytest.mark.usefixtures("without_pages")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return figures_store(tmp_path_factory.mktemp("label") / "store", 30)


@pytest.fixture(scope="module")
def profile(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that opens a browser with the same profile each time, as after a restart."""
    given = {"executable_path": chromium(), "args": ["--no-sandbox", "--disable-gpu"], "offline": True}
    folder = tmp_path_factory.mktemp("profile")
    return lambda: playwright.chromium.launch_persistent_context(folder, **given)


class Person(Opened):
    """A person with the page open."""

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def progress(self) -> str:
        return self.page.inner_text("#progress")

    def save_answers(self, target: Path) -> dict[str, Any]:
        with self.page.expect_download() as download:
            self.press("s")
        assert download.value.suggested_filename.startswith("labels-reader-")
        download.value.save_as(target)
        return json.loads(target.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def person(browser: Any) -> Person:
    return Person(browser)


def test_thirty_pairs_are_answered_by_keyboard_across_a_restart(store: Path, profile: Any, tmp_path: Path) -> None:
    file = tmp_path / "label.html"
    page = make_page(store, file)
    person = Person(profile(), file)
    name = person.page.input_value("#name")
    assert person.progress() == "0 of 30 answered" and name.startswith("reader-")
    person.press(*"123c" * 3, "m")
    person.page.keyboard.type("1 small \u00e9 letters, cut <b>")
    person.press("Escape", "1", "2", "u")  # undo the last answer
    person.page.keyboard.down("ArrowLeft"), person.page.keyboard.down("2"), person.page.keyboard.down("2")  # held: once
    person.press("z")  # the answer before is changed; zoom into the next pair
    assert person.page.locator(".zoomed img").count() == 2
    person.check()
    person.context.close()
    other, person = Person(context := profile(), file), Person(context, file)  # in two tabs
    assert person.progress() == "13 of 30 answered" and person.page.input_value("#name") == name
    person.press(*"2" * 17)
    assert person.progress() == "30 of 30 answered: save the file"
    wait_for(lambda: other.progress() == person.progress())
    other.press("ArrowLeft")  # keeps the answers of both tabs
    person.page.reload()
    wait_for(lambda: person.progress() == other.progress())  # on a busy machine, the last answers come behind the page
    found = person.save_answers(tmp_path / "labels.json")
    assert person.page.get_attribute("#notice", "class") != "alarm", "success must not look like an error"
    given = {row["item"]: row["answer"] for row in found["answers"]}
    order = [item.token for item in page.items]
    expected = ["left", "right", "tie", "cannot tell"] * 3 + ["right"] * 18
    assert [given[token] for token in order] == expected and found["name"] == name
    assert found["answers"][12]["comment"] == "1 small \u00e9 letters, cut <b>"
    person.check()
    context.close()
    assert main(["labels", "import", str(tmp_path / "labels.json"), "--store", str(store)]) == 0
    assert ask(store, "SELECT count(*), count(verdict) FROM labels") == [(30, 27)]


def test_saved_file_resumes_its_own_page_only(store: Path, person: Person, tmp_path: Path) -> None:
    file, other = tmp_path / "label.html", tmp_path / "other.html"
    make_page(store, file, "-n", "4"), make_page(store, other, "-n", "4")
    person.load(file)
    person.press("1", "2")
    person.save_answers(tmp_path / "labels.json")
    person.page.evaluate("localStorage.clear()")
    person.page.reload()
    assert person.progress() == "0 of 4 answered"
    person.page.set_input_files("#load", tmp_path / "labels.json")
    wait_for(lambda: person.progress().startswith("2 of 4"))
    person.press("3", "3")
    with person.page.expect_event("dialog"):  # is answered with no
        person.page.set_input_files("#load", tmp_path / "labels.json")
    assert person.trouble.pop() == "labels.json lacks 2 of the answers on this page, and replaces them. Load it?"
    again = person.save_answers(tmp_path / "labels.json")
    assert [row["answer"] for row in again["answers"]] == ["left", "right", "tie", "tie"]
    person.page.goto(other.as_uri())
    person.page.set_input_files("#load", tmp_path / "labels.json")
    person.page.wait_for_selector("#notice.alarm:visible")
    assert "labels.json is not loaded: it was not saved from this page" in person.page.inner_text("#notice")
    assert person.progress() == "0 of 4 answered"
    person.check()


def test_image_gets_a_score_for_each_aspect(person: Person, tmp_path: Path) -> None:
    make_page(images_store(tmp_path / "store"), tmp_path / "label.html", run=COUNTING)
    person.load(tmp_path / "label.html")
    assert person.page.inner_text("#text") == "Generation Prompt\na photo of two clocks"
    assert person.page.locator("#more").is_hidden()
    person.press("8", "t", "0")
    assert person.progress() == "0 of 2 answered"
    person.press("c", *"7777")
    assert person.progress().startswith("2 of 2 answered")
    rows = person.save_answers(tmp_path / "labels.json")["answers"]
    assert [row["answer"] for row in rows] == ["8", "10", "0", "cannot tell", "7", "7", "7", "7"]
    person.check()


def test_check_is_answered_by_a_key_or_a_number(person: Person, tmp_path: Path) -> None:
    picture = {"0" * 64: encoded(Image.new("RGB", (9, 9)), "JPEG")}
    one, inputs = sample(*CHECKS), Inputs(pictures=picture)
    questions = {each.check_id: (LABELS.own_question(one, each.check_id).asked,) for each in CHECKS}
    items = [
        LabelItem(token=name, candidate="c", sample_id="s", tag=name, pictures={"image": "0" * 64}, left="")
        for name in questions
    ]
    about = {"page_id": "0" * 16, "of_run": "", "flow": "facts", "dataset_key": "", "prompts_key": "", "drawn": ""}
    page = LabelPage.model_validate({**about, "among": 4, "seed": 1, "made_at": "", "questions": {}, "items": items})
    made = Made(page, questions, RUBRIC, {("c", "s"): inputs})
    write_label_page(tmp_path, made, tmp_path / "label.html")
    person.load(tmp_path / "label.html")
    person.press("y", "1", "2", "Enter", "2", "0")
    assert person.progress().startswith("4 of 4 answered") and not person.page.locator("#text").is_visible()
    rows = person.save_answers(tmp_path / "labels.json")["answers"]
    assert [row["answer"] for row in rows] == ["yes", "12", "B", "0"]
    person.page.set_input_files("#load", tmp_path / "labels.json")
    wait_for(lambda: "Loaded 4 of 4" in person.page.inner_text("#notice"))
    person.check()


def test_moved_page_shows_its_pictures_and_reports_missing_ones(store: Path, person: Person, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    make_page(store, tmp_path / "a" / "label.html", "-n", "3", "--ask", "readability")
    file = (tmp_path / "a").rename(tmp_path / "b c") / "label.html"
    file.write_text(file.read_text().replace("Overview no.", r"Overview\n\n\n\n\nno."))
    person.load(file)
    assert person.page.locator("#item.long").count() == 1, "a few letters on many lines push no question out of sight"
    loaded = "[...document.querySelectorAll('.view img')].every((one) => one.naturalWidth === 48)"
    person.page.wait_for_function(loaded)
    assert "Method no." not in person.page.inner_text("#text")
    person.press("t")
    assert "Method Section\nMethod no." in person.page.inner_text("#text")
    person.press("1")
    person.page.wait_for_function(loaded)
    assert "Method no." in person.page.inner_text("#text")  # shown until the next t
    person.check()
    (tmp_path / "b c" / "label.files").rename(tmp_path / "elsewhere")
    person.load(file)
    person.page.wait_for_selector("#notice.alarm:visible")
    assert "The pictures of this page are missing" in person.page.inner_text("#notice")
    person.trouble.clear()  # the browser reports the missing files, too
    person.check()


def test_figures_zoom_to_100_percent_and_move_together(store: Path, person: Person, tmp_path: Path) -> None:
    make_page(store, tmp_path / "label.html", "-n", "1")
    for file in (tmp_path / "label.files").iterdir():
        Image.effect_noise((2048, 1161), 90).convert("RGB").save(file)
    person.load(tmp_path / "label.html")
    person.page.wait_for_function("[...document.images].every((one) => one.naturalWidth === 2048)")
    [left, right] = person.page.locator(".view").all()
    place = "one => [one.style.width, one.style.left, one.style.top]"
    left.click(position={"x": 1, "y": 1})
    assert right.locator("img").evaluate(place) == ["2048px", "0px", "0px"]
    assert person.page.evaluate("document.images[0].getBoundingClientRect().width") == 2048
    box = left.bounding_box()
    person.page.mouse.move(box["x"] + 200, box["y"] + 100)
    person.page.mouse.down()
    person.page.mouse.move(box["x"] + 100, box["y"] + 60, steps=4)
    person.page.mouse.up()
    for view in (left, right):
        assert view.locator("img").evaluate(place) == ["2048px", "-100px", "-40px"]
    person.page.mouse.wheel(0, -400)
    assert right.locator("img").evaluate("one => one.style.width") == "4096px"
    left.click()
    assert right.locator("img").evaluate(place) == ["", "", ""]
    person.check()
