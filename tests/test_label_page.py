"""Label pages: drawing samples, showing them blind, and turning answers into labels."""

import html
import io
import json
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from answered_page import COUNTING, figures_store, images_store, make_page, prefer, save_answers
from factories import RUN
from loopback_judge import LoopbackJudge, judged_by
from PIL import Image
from test_checklists import red_cups_judge, write_manifest
from written_datasets import write_figures
from written_history import ask

from flows.cli import main
from tasks.errors import InputError
from tasks.history.queries import find
from tasks.labels.inputs import Drawable, as_jpeg, prompts_of
from tasks.labels.labeling import Asked, dealt, drawing
from tasks.ledger.evaluations import digest
from tasks.ledger.labels import LABEL_PAGES, LabelItem, LabelPage, read_page
from tasks.pictures.preparation import Policy, prepare
from tasks.rubrics.rubric import PROMPTS, load_rubric
from tasks.statistics.intervals import proportion

pytestmark = pytest.mark.usefixtures("without_pages")

Jury = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return figures_store(tmp_path_factory.mktemp("label") / "store")


@pytest.fixture(scope="module")
def page(store: Path) -> LabelPage:
    """A page of 30 pairs of that store."""
    return make_page(store, store.parent / "label.html")


@pytest.fixture
def own(store: Path, page: LabelPage, tmp_path: Path) -> Path:
    """A copy of the shared store with its page that the test can change; `jury` works in it."""
    assert page
    return Path(shutil.copytree(store, tmp_path / "store"))


def sample(number: int, prompt: str = "") -> Drawable:
    return Drawable("alpha", f"s{number}", "", prompt, {})


# Drawing


def test_all_samples_are_drawn_equally_often() -> None:
    found = [sample(number) for number in range(20)]
    drawn = Counter(each.sample_id for seed in range(2000) for each in drawing(found, seed)[:5])
    assert set(drawn) == {each.sample_id for each in found}
    assert min(drawn.values()) > 420 and max(drawn.values()) < 580  # 500 each; 4 standard errors are 77
    assert drawing(found, 7) == drawing(found, 7) != drawing(found, 8)


def test_images_are_drawn_in_rounds_over_their_prompts() -> None:
    found = [sample(number, f"p{number % 5}") for number in range(20)]
    for turn in range(4):
        prompts = [each.prompt_id for each in drawing(found, 3)[5 * turn : 5 * turn + 5]]
        assert sorted(prompts) == [f"p{number}" for number in range(5)]


def test_questions_of_a_prompt_are_drawn_by_weight() -> None:
    found = [Drawable("alpha", "s", "", "p", {}, name, weight) for name, weight in (("a", 3.0), ("b", 1.0))]
    first = Counter(drawing(found, seed)[0].question for seed in range(2000))
    assert first["a"] == pytest.approx(1500, abs=80)  # 4 standard errors


def test_people_share_exactly_20_items() -> None:
    hands = list(dealt(drawing([sample(number) for number in range(40)], 1), Asked(24, people=3)))
    assert [len(hand) for hand in hands] == [24, 24, 24]
    ids = [{each.sample_id for each in hand} for hand in hands]
    assert [len(one & other) for one, other in combinations(ids, 2)] == [20, 20, 20]
    assert len({each.sample_id for hand in hands for each in hand}) == 20 + 3 * 4
    assert [each for each, *_ in hands] != [hands[0][0]] * 3, "each person has another order"


def test_own_prompts_are_those_of_the_run_or_none(tmp_path: Path) -> None:
    """Default prompts of the same names may have other tiers or aspects."""
    file = tmp_path / "mine" / "diagram" / "aesthetics.md"
    file.parent.mkdir(parents=True)
    shutil.copy(PROMPTS / "diagram" / "aesthetics.md", file)
    own = load_rubric("diagram", str(tmp_path / "mine"))
    protocol = {"prompt aesthetics": own.prompt("aesthetics").digest}  # the run asked one of the dimensions
    figures_store(tmp_path / "store", 1, prompt_set=own.prompt_set, protocol=protocol, ended={"protocol": protocol})
    run = find(tmp_path / "store", RUN)
    assert prompts_of(run) == own
    file.write_text(file.read_text() + "More.\n")
    with pytest.raises(InputError, match=r"mine' is gone or has changed since: put back its files as they were$"):
        prompts_of(run)


# Contents of a page


def read_data(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found
    return json.loads(html.unescape(found[1]))


def test_page_shows_the_texts_and_pictures_that_the_judge_got(own: Path, tmp_path: Path) -> None:
    asked = ("-n", "10", "--ask", "overall", "--ask", "readability")
    page, data = make_page(own, tmp_path / "a page.html", *asked), read_data(tmp_path / "a page.html")
    folder = tmp_path / "a page.files"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len([*folder.iterdir()]) == 20
    assert data["labels"] == {"context": "Method Section", "caption": "Diagram Caption"}
    assert [each["texts"] for each in data["asked"][""]] == [["context", "caption"], ["caption"]]
    for item, shown in zip(page.items, data["items"], strict=True):
        number = int(item.sample_id[-3:])
        assert shown["texts"] == {"context": f"Method no. {number}.", "caption": f"Overview no. {number}."}
        for address, role in zip(
            shown["pictures"], sorted(item.pictures, key=lambda each: each != item.left), strict=True
        ):
            assert re.fullmatch(r"a%20page\.files/[0-9a-f]{16}\.jpg", address)
            pixel = Image.open(tmp_path / unquote(address)).getpixel((20, 20))
            assert pixel == pytest.approx((number, 100 * (role == "model"), 200), abs=3)


def test_large_picture_is_scaled_to_2048_pixels_upright_without_metadata(own: Path, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "model_output_s1.png"
    files = [tmp_path / "a.png", tmp_path / "b.jpg"]
    Image.new("RGBA", (2200, 1100), (255, 0, 0, 0)).save(files[0])
    Image.new("L", (1100, 2200), 40).save(files[1], quality=40, exif=exif, comment=b"candidate alpha")
    policy = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
    images = [Image.open(io.BytesIO(as_jpeg(prepare(file.read_bytes(), policy)))) for file in files]
    form = {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert [(each.mode, each.size, each.info.keys() - form) for each in images] == [("RGB", (2048, 1024), set())] * 2
    assert images[0].getpixel((9, 9)) == (255, 255, 255)
    assert images[0].quantization == images[1].quantization  # type: ignore[attr-defined]


def test_missing_or_changed_inputs_are_drawn_and_count_as_not_shown(
    store: Path, own: Path, tmp_path: Path, jury: Jury
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(store.parent / "data", moved)
    (moved / "0.png").unlink()
    (moved / "out" / "1.png").write_bytes((moved / "out" / "2.png").read_bytes())
    lines = (moved / "alpha.jsonl").read_text().replace("Method no. 3.", "Method no. 33.").splitlines(keepends=True)
    (moved / "alpha.jsonl").unlink()
    (moved / "renamed.jsonl").write_text("".join(lines[:-1]))
    page = make_page(own, tmp_path / "label.html", "-n", "40", "--dataset", str(moved / "renamed.jsonl"))
    lost = {item.sample_id: item.lost for item in page.items if item.lost}
    assert "0.png" in lost.pop("secret-000") and lost == {
        "secret-001": "its picture is another than the judge got",
        "secret-003": "its texts are others than the judge got",
        "secret-039": "the dataset has no such sample",
    }
    text = (tmp_path / "label.html").read_text()
    assert "Left out, since they cannot be shown: 4." in text and len(read_data(tmp_path / "label.html")["items"]) == 36
    file = save_answers(
        page, tmp_path / "labels-reader-1.json", lambda item, q: "" if item.lost else prefer("model")(item, q)
    )
    assert jury("labels", "import", file)[0] == 0
    sql = "SELECT labels, cannot_tell, corrected, bounds_low < corrected_low FROM corrected"
    [(labels, unanswered, corrected, wider)] = ask(own, sql)
    assert (labels, unanswered, wider) == (36, 4, True) and corrected > 90
    assert ask(own, "SELECT count(*) FROM labels WHERE unanswered = 'cannot be shown'") == [(4,)]
    (moved / "renamed.jsonl").write_text("".join(lines[:-2]))
    code, _, err = jury(
        "labels", "page", RUN, "-n", "40", "-o", tmp_path / "b.html", "--dataset", moved / "renamed.jsonl"
    )
    assert code == 2 and "5 of the 40 drawn samples cannot be shown, more than 10%: " in err
    assert "secret-003 (its texts are others than the judge got)" in err and "with --dataset" in err
    assert not (tmp_path / "b.html").exists() and not (tmp_path / "b.files").exists()


@pytest.mark.usefixtures("prefect_server")
def test_moved_result_file_can_be_named(tmp_path: Path, jury: Jury) -> None:
    given = write_figures(tmp_path / "data", 1)
    assert jury("run", "diagram", *given)[0] == 0
    moved = Path(given[-1]).rename(tmp_path / "moved.json")
    [[run_id]] = ask(tmp_path / "store", "SELECT run_id FROM runs")
    page = ("labels", "page", run_id, "-o", tmp_path / "label.html")
    assert jury(*page)[0] == 2
    assert jury(*page, "--results", moved)[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("none",), "no run is called 'none'"),
        ((RUN, "-n", "0"), "a page holds 1 item or more"),
        ((RUN, "--dataset", "/nowhere"), "dataset /nowhere does not exist"),
        ((RUN, "--ask", "beauty"), "beauty: diagram figures have no such dimension, allowed are overall, faithfulness"),
        ((RUN, "--candidate", "beta"), "has no scored sample of a candidate 'beta'"),
        ((RUN, "-o", "/nowhere/a.html"), "is no place for a file"),
    ],
)
def test_page_is_refused_with_a_reason(
    store: Path, tmp_path: Path, jury: Jury, options: tuple[str, ...], words: str
) -> None:
    code, _, err = jury("labels", "page", "-o", tmp_path / "label.html", *options, "--store", store)
    assert code == 2 and words in err and not (tmp_path / "label.html").exists()


# Blind


def test_page_is_blind_and_loads_nothing_else(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "label.html"
    page = make_page(store, file)
    text = file.read_text(encoding="utf-8")
    hashes = [sha256 for item in page.items for sha256 in item.pictures.values()]
    names = ("alpha", "mini", "secret-", "gpt-x", "Model", "Human", "model", "human", "verdict")
    secrets = [RUN, page.dataset_key, *names]
    assert [word for word in (*secrets, *hashes, *(each[:12] for each in hashes)) if word in text] == []
    text = html.unescape(text)
    assert "default-src 'none'; img-src data: 'self'; style-src 'sha256-" in text and "://" not in text
    assert "at most 2,048 pixels a side" in " ".join(text.split())
    assert {each.left for each in page.items} == {"human", "model"} and len({each.token for each in page.items}) == 30
    again = make_page(store, tmp_path / "again.html")
    assert {each.sample_id for each in again.items} == {each.sample_id for each in page.items}
    assert {each.token for each in again.items}.isdisjoint(each.token for each in page.items)
    assert [each.left for each in again.items] != [each.left for each in page.items]


# Imported answers


@pytest.fixture
def answered(page: LabelPage, tmp_path: Path) -> Path:
    """Answers of a person to the page of the shared store."""
    return save_answers(page, tmp_path / "labels-reader-1.json", prefer("model"))


def test_imported_answers_become_labels_of_their_samples(
    own: Path, page: LabelPage, answered: Path, jury: Jury
) -> None:
    assert jury("store", "forget", "--sample", page.items[0].sample_id, "--yes")[0] == 0
    code, out, err = jury("labels", "import", answered)
    assert (code, err) == (0, "")
    assert "kept as labels-reader-1: 29 labels of 1 person" in out and f"labels agreement {RUN} labels-reader-1" in out
    prompts = {name: "f" * 64 for name in ("faithfulness", "conciseness", "readability", "aesthetics")}
    assert ask(own, "SELECT DISTINCT prompts_key FROM labels") == [(digest(prompts),)] == [(page.prompts_key,)]
    rows = ask(own, 'SELECT sample_id, candidate, verdict, "order", pictures, drawn, of_run, dataset_key FROM labels')
    by_id = {item.sample_id: item for item in page.items[1:]}
    assert {row[0] for row in rows} == by_id.keys()
    for sample_id, candidate, verdict, order, pictures, *rest in rows:
        item = by_id[sample_id]
        assert (candidate, verdict, order) == ("alpha", "Model", f"{item.left}_first")
        assert pictures == item.pictures and rest == ["uniform", RUN, "d" * 64]


def test_page_can_ask_about_dimensions_and_aspects(own: Path, tmp_path: Path, jury: Jury) -> None:
    page = make_page(own, tmp_path / "label.html", "-n", "2", "--ask", "faithfulness", "--ask", "overall")
    answers = {"faithfulness": "bad", "overall": "tie"}
    jury("labels", "import", save_answers(page, tmp_path / "dimensions.json", lambda _, question: answers[question]))
    sql = "SELECT DISTINCT dimension, verdict FROM labels ORDER BY dimension"
    assert ask(own, sql) == [("faithfulness", "Both are bad"), ("overall", "Tie")]
    images = images_store(tmp_path / "images")
    page = make_page(images, tmp_path / "images.html", run=COUNTING)
    aspects = ["count_accuracy", "object_uniformity", "spatial_legibility", "overall_score"]
    assert [*page.questions["counting"]] == aspects
    assert "cannot tell" in page.questions["counting"]["overall_score"]
    answers = {"overall_score": "cannot tell"}
    file = save_answers(page, tmp_path / "scores.json", lambda _, question: answers.get(question, "9"))
    assert main(["labels", "import", str(file), "--store", str(images)]) == 0
    sql = "SELECT aspect, tag, score, unanswered FROM labels WHERE aspect[:2] IN ('co', 'ov') ORDER BY ALL"
    overall = ("overall_score", "counting", None, "cannot tell")
    assert ask(images, sql) == [("count_accuracy", "counting", 9.0, "")] * 2 + [overall] * 2
    assert ask(images, "SELECT count(*) FROM ratings WHERE source = 'scores'") == [(6,)]


@pytest.mark.usefixtures("prefect_server")
def test_labels_of_checks_are_blind_and_correct_the_score(tmp_path: Path, jury: Jury) -> None:
    store, target = tmp_path / "store", tmp_path / "label.html"
    with LoopbackJudge(red_cups_judge) as judge:
        assert jury("run", "facts", "--dataset", write_manifest(tmp_path / "data", 16), *judged_by(judge))[0] == 0
    [[run_id]] = ask(store, "SELECT run_id FROM runs")
    page = make_page(store, target, "-n", "32", run=run_id)
    assert not re.search(r"\b(kiln|cups [0-9]|two|right|wrong|scores|s[0-9]+)\b", json.dumps(read_data(target)))
    asked = [each for [each] in read_data(target)["asked"].values()]
    assert {each["words"]: [choice["value"] for choice in each["choices"]] for each in asked} == {
        "Is it red?": ["yes", "no", "cannot tell"],
        "How many cups are there?": ["a whole number", "not there", "cannot tell"],
    }
    answers = {"red": "yes", "two": "3"}

    def answer(item: LabelItem, _: str) -> str:
        return "" if item.lost else answers[item.question]

    file = save_answers(page, tmp_path / "people.json", answer)
    odd = save_answers(page, tmp_path / "odd.json", lambda item, _: "a whole number" if item.question == "two" else "")
    assert jury("labels", "import", odd)[0] == 2
    assert jury("labels", "import", file)[0] == 0
    code, out, _ = jury("labels", "agreement", run_id, "people")
    assert code == 0 and re.search(r"together.*\n checks +32 +16 of 32", out), out
    sql = "SELECT dimension, score, corrected, labels, agreed, cannot_tell FROM corrected"
    assert ask(store, sql) == [("together", 100.0, 50.0, 16, 0.5, 0)]
    # The 32 checks are of 16 prompts, which are resampled whole.
    ends = proportion(8, 16)
    assert ask(store, "SELECT agreed_low, agreed_high FROM corrected") == [(ends.ci_low, ends.ci_high)]
    other = ("labels", "page", run_id, "-o", tmp_path / "b.html")
    code, _, err = jury(*other, "--ask", "red")
    assert code == 2 and "facts: a page draws a check for each item" in err
    (tmp_path / "data" / "0.png").unlink()
    page = make_page(store, tmp_path / "lost.html", "-n", "32", run=run_id)
    assert jury("labels", "import", save_answers(page, tmp_path / "ben.json", answer, "ben"))[0] == 0
    assert ask(store, "SELECT count(*) FROM labels WHERE unanswered = 'cannot be shown'") == [(2,)]
    rows = tmp_path / "data" / "cups.jsonl"
    rows.write_text(rows.read_text().replace('"expected": 2', '"expected": 3'))
    code, _, err = jury(*other)
    assert code == 2 and f"cups.jsonl has other prompts or checks than at {run_id}" in err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.append(rows[0]), "answer 31: answers again what labels-reader-1.json, answer 1 answers"),
        (lambda rows: rows[2].update(item="<b>\x1b[2J"), "answer 3: item '<b>\\x1b[2J' is not on the page"),
        (lambda rows: rows[2].update(question="beauty"), "answer 3: question 'beauty' is not asked of this item"),
        (lambda rows: rows[2].update(answer="Model"), "answer 3: answer 'Model', allowed are left, right, tie, cannot"),
        (lambda rows: rows[2].update(answer=1), "answer 3: answer: Input should be a valid string"),
        (lambda rows: rows.__setitem__(2, []), "answer 3: Input should be"),
        (lambda rows: rows.clear(), "holds no answer"),
    ],
)  # fmt: skip
def test_repeated_or_foreign_answers_are_refused(
    store: Path, answered: Path, jury: Jury, change: Callable[[list[dict[str, Any]]], Any], words: str
) -> None:
    found = json.loads(answered.read_text())
    change(found["answers"])
    answered.write_text(json.dumps(found))
    code, _, err = jury("labels", "import", answered, "--store", store)
    assert code == 2 and words in err and "has 1 problem" in err and not (store / "labels").exists()


def test_file_of_another_store_flow_or_version_is_refused(own: Path, answered: Path, jury: Jury) -> None:
    code, _, err = jury("labels", "import", answered, "--flow", "plot")
    assert code == 2 and "the page that saved it is about diagram, not plot" in err
    text = answered.read_text()
    for before, after, words in (
        ("labels 1", "labels 2", "known here is 'image-jury labels 1'"),
        ('"name": "reader-1"', '"name": 7', "it has not the page, the name and the list of answers"),
        ('"page": "', '"page": "../', "has made no page '../"),
    ):
        answered.write_text(text.replace(before, after))
        code, _, err = jury("labels", "import", answered)
        assert code == 2 and words in err
    answered.write_text(text)
    shutil.rmtree(own / LABEL_PAGES)
    code, _, err = jury("labels", "import", answered)
    assert code == 2 and "import the file into the store whose `jury labels page` made it" in err


def test_person_answers_a_page_once_unless_the_labels_are_removed(
    own: Path, page: LabelPage, tmp_path: Path, jury: Jury
) -> None:
    file = save_answers(page, tmp_path / "labels-reader-1.json", prefer("model"), number=12)
    assert jury("labels", "import", file)[0] == 0
    newer = save_answers(page, tmp_path / "newer.json", prefer("human"))
    code, _, err = jury("labels", "import", newer)
    assert code == 2 and "are here already, as 'labels-reader-1': if these are newer, `jury labels remove" in err
    code, out, _ = jury("labels", "remove", "labels-reader-1")
    assert code == 0 and "removed labels-reader-1: 12 labels of 1 person, diagram" in out
    assert ask(own, "SELECT count(*) FROM labels") == [(0,)]
    assert not (own / "labels" / "labels-reader-1").exists()
    assert jury("labels", "import", newer, "--name", "labels-reader-1")[0] == 0
    rows = ask(own, "SELECT name, count(*), min(verdict) FROM labels GROUP BY name")
    assert rows == [("labels-reader-1", 30, "Human")]


def test_imported_table_needs_a_flow_and_is_listed_as_not_drawn(
    own: Path, answered: Path, tmp_path: Path, jury: Jury
) -> None:
    assert "holds no labels: `jury labels page RUN`" in jury("labels", "list")[1]
    jury("labels", "import", answered)
    table = tmp_path / "people.jsonl"
    table.write_text('{"id": "s1", "dimension": "overall", "verdict": "Model"}\n')
    code, _, err = jury("labels", "import", table)
    assert code == 2 and "name the flow whose samples it is about: --flow diagram|plot|" in err
    jury("labels", "import", table, "--flow", "diagram")
    first, second = jury("labels", "list")[1].splitlines()
    assert first.startswith(f"labels-reader-1: 30 labels of 1 person, diagram, of the run {RUN}, imported 20")
    assert first.endswith("; drawn uniformly")
    assert second.endswith("from people.jsonl, imported " + second.partition("imported ")[2][:10] + "; how they were "
                           "drawn is not known, so that they correct no score")  # fmt: skip
    code, _, err = jury("labels", "remove", "none")
    assert code == 2 and "no labels are called 'none'; there are labels-reader-1, people" in err
    (own / "labels" / "people" / "label.json").write_text("{")
    code, out, err = jury("labels", "list")
    assert (code, out) == (0, f"{first}\n") and "people/label.json, line 1: damaged: " in err
    code, _, err = jury("labels", "import", answered, "--name", "again")
    assert code == 2 and "are here already, as 'labels-reader-1'" in err, "a damaged set stops no import"


def test_pages_and_removals_reach_every_machine_of_a_remote_store(store: Path, tmp_path: Path, jury_on: Jury) -> None:
    from tasks.ledger.remote import local_cache

    url = f"file://{tmp_path}/bucket"
    jury_on("one", "labels", "list")  # from here on, this process uses the cache of machine one
    shutil.copytree(store, local_cache(url), dirs_exist_ok=True, ignore=shutil.ignore_patterns(LABEL_PAGES))
    code, out, _ = jury_on("one", "labels", "page", RUN, "-o", str(tmp_path / "label.html"))
    assert code == 0 and f"jury labels import labels-NAME.json --store {url}\n" in out
    [kept] = (local_cache(url) / LABEL_PAGES).glob("*.json")
    page = read_page(local_cache(url), kept.stem)
    file = save_answers(page, tmp_path / "labels-reader-1.json", prefer("model"))
    assert jury_on("two", "labels", "import", str(file))[0] == 0
    assert "labels: 0 sent, 1 fetched" in jury_on("one", "store", "sync")[1]
    assert jury_on("two", "labels", "remove", "labels-reader-1")[0] == 0
    assert not list((tmp_path / "bucket" / "labels").rglob("*.json*"))
    code, _, err = jury_on("one", "labels", "import", str(file))
    assert code == 2 and "these labels were removed as 'labels-reader-1', on every machine: choose another" in err
    assert jury_on("one", "store", "sync")[0] == 0
    assert json.loads(jury_on("one", "query", "SELECT count(*) AS n FROM labels", "--json")[1]) == [{"n": 0}]
    assert "holds no labels" in jury_on("one", "labels", "list")[1]
