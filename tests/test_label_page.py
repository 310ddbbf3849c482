"""Pages for people: which samples are drawn, that they are blind, and how their answers become labels."""

import base64
import html
import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from answered_page import COUNTING, blind_text, figures_store, images_store, made_page, prefer, saved
from factories import RUN
from PIL import Image
from written_history import ask, keep, noise, pair

from flows.cli import main
from tasks.labels.labeling import Asked, Drawable, dealt, drawing
from tasks.ledger.evaluations import digest
from tasks.ledger.labels import LABEL_PAGES, LabelPage, read_page

pytestmark = pytest.mark.usefixtures("laid_out", "without_pages")

Jury = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return figures_store(tmp_path_factory.mktemp("label") / "store")


@pytest.fixture(scope="module")
def page(store: Path) -> LabelPage:
    """A page of 30 pairs of that store."""
    return made_page(store, store.parent / "label.html")


@pytest.fixture
def own(store: Path, tmp_path: Path) -> Path:
    """The store of the tests as this one's own, to be changed: `jury` works in it."""
    return Path(shutil.copytree(store, tmp_path / "store"))


def sample(number: int, prompt: str = "") -> Drawable:
    return Drawable("alpha", f"s{number}", "", prompt, "", {})


# Drawing


def test_every_sample_is_drawn_as_often_as_any_other() -> None:
    found = [sample(number) for number in range(20)]
    drawn = Counter(each.sample_id for seed in range(2000) for each in drawing(found, seed)[:5])
    assert set(drawn) == {each.sample_id for each in found}
    assert min(drawn.values()) > 420 and max(drawn.values()) < 580  # 500 each; 4 standard errors are 77


def test_the_same_seed_draws_the_same_samples_and_more_of_them_begin_with_fewer() -> None:
    found = [sample(number) for number in range(20)]
    assert drawing(found, 7) == drawing(found, 7) != drawing(found, 8)


def test_images_are_drawn_by_rounds_over_their_prompts() -> None:
    found = [sample(number, f"p{number % 5}") for number in range(20)]
    for turn in range(4):
        prompts = [each.prompt_id for each in drawing(found, 3)[5 * turn : 5 * turn + 5]]
        assert sorted(prompts) == [f"p{number}" for number in range(5)]


def test_several_people_share_as_many_items_as_asked_and_no_others() -> None:
    hands = list(dealt(drawing([sample(number) for number in range(40)], 1), Asked(12, people=3, overlap=4)))
    assert [len(hand) for hand in hands] == [12, 12, 12]
    ids = [{each.sample_id for each in hand} for hand in hands]
    assert [len(one & other) for one, other in combinations(ids, 2)] == [4, 4, 4]
    assert len({each.sample_id for hand in hands for each in hand}) == 4 + 3 * 8


def test_what_cannot_be_shown_or_has_no_score_is_not_drawn(tmp_path: Path) -> None:
    rows = [*pair("s1", "MMMM", "Model"), *pair("s2", "-MMM", None, status="incomplete"), *pair("s3", "MMMM", "Model")]
    keep(tmp_path, RUN, rows, samples=3)
    next((tmp_path / "pictures").glob(f"{b's3h'.hex()}*")).unlink()
    page = made_page(tmp_path, tmp_path / "a.html")
    assert [each.sample_id for each in page.items] == ["s1"] and page.among == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("none",), "no run is called 'none'"),
        ((RUN, "-n", "0"), "a page holds 1 item or more"),
        ((RUN, "--overlap", "31"), "--overlap 31: of the 30 items of a page 0 to 30 can be shared"),
        ((RUN, "--ask", "beauty"), "beauty: diagram figures have no such dimension, allowed are overall, faithfulness"),
        ((RUN, "--candidate", "beta"), "has no scored sample of a candidate 'beta'"),
        ((RUN, "-o", "/nowhere/a.html"), "is no place for a file"),
    ],
)
def test_why_no_page_is_made(store: Path, tmp_path: Path, jury: Jury, options: tuple[str, ...], said: str) -> None:
    code, _, err = jury("labels", "page", "-o", tmp_path / "label.html", *options, "--store", store)
    assert code == 2 and said in err and not (tmp_path / "label.html").exists()


# Blind


def test_nothing_in_the_file_tells_whose_picture_is_whose_and_it_loads_nothing(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "label.html"
    page = made_page(store, file)
    text = blind_text(file)
    hashes = [sha256 for item in page.items for sha256 in item.pictures.values()]
    names = ("alpha", "mini", "secret-", "gpt-x", "Model", "Human", "model", "human", "verdict")
    secrets = [RUN, page.dataset_key, *names]
    assert [word for word in (*secrets, *hashes, *(each[:12] for each in hashes)) if word in text] == []
    text = html.unescape(text)
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in text and "://" not in text
    assert "thumbnails of at most 640 pixels a side" in " ".join(text.split())
    assert {each.left for each in page.items} == {"human", "model"} and len({each.token for each in page.items}) == 30
    again = made_page(store, tmp_path / "again.html")
    assert {each.sample_id for each in again.items} == {each.sample_id for each in page.items}
    assert {each.token for each in again.items}.isdisjoint(each.token for each in page.items)
    assert [each.left for each in again.items] != [each.left for each in page.items]


def test_a_picture_bears_no_metadata_and_no_two_sides_differ_in_form(tmp_path: Path) -> None:
    keep(tmp_path, RUN, pair("s1", "MMMM", "Model"), samples=1)
    exif = Image.Exif()
    exif[0x010E] = "model_output_s1.png"
    for file, quality in zip(sorted((tmp_path / "pictures").glob("*.jpg")), (95, 40), strict=True):
        image = Image.open(file).convert("L" if quality == 40 else "RGB")
        image.save(file, "JPEG", quality=quality, exif=exif, comment=b"candidate alpha")
    made_page(tmp_path, tmp_path / "label.html")
    found = re.findall(r'<script type="text/plain" id="p-\w+-\d">([^<]+)', (tmp_path / "label.html").read_text())
    images = [Image.open(io.BytesIO(base64.b64decode(each))) for each in found]
    form = {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert [(each.mode, each.info.keys() - form) for each in images] == [("RGB", set())] * 2
    assert images[0].quantization == images[1].quantization  # type: ignore[attr-defined]


def test_a_page_of_a_hundred_pairs_stays_below_20_mb_whatever_their_pictures_are(tmp_path: Path) -> None:
    figures_store(tmp_path, 100)
    buffer = io.BytesIO()
    Image.open(io.BytesIO(noise(640))).crop((0, 0, 640, 240)).save(buffer, "JPEG", quality=95)
    worst = buffer.getvalue()
    assert len(worst) > 100_000  # of 200 pictures: 27 MB in base64
    for file in (tmp_path / "pictures").glob("*.jpg"):
        file.write_bytes(worst)
    page = made_page(tmp_path, tmp_path / "label.html", "-n", "100")
    assert len(page.items) == 100 and 8_000_000 < (tmp_path / "label.html").stat().st_size < 20_000_000


# What comes back


def answered(own: Path, tmp_path: Path, *options: str, **more: Any) -> tuple[LabelPage, Path]:
    page = made_page(own, tmp_path / "label.html", *options)
    return page, saved(page, tmp_path / "labels-reader-1.json", prefer("model"), **more)


def test_answers_become_labels_of_the_samples_they_are_about(own: Path, tmp_path: Path, jury: Jury) -> None:
    page, file = answered(own, tmp_path)
    code, out, err = jury("labels", "import", file)
    assert (code, err) == (0, "")
    assert "kept as labels-reader-1: 30 labels of 1 person" in out and f"labels agreement {RUN} labels-reader-1" in out
    prompts = {name: "f" * 64 for name in ("faithfulness", "conciseness", "readability", "aesthetics")}
    assert ask(own, "SELECT DISTINCT prompts_key FROM labels") == [(digest(prompts),)] == [(page.prompts_key,)]
    rows = ask(own, 'SELECT sample_id, candidate, verdict, "order", pictures, drawn, of_run, dataset_key FROM labels')
    by_id = {item.sample_id: item for item in page.items}
    assert {row[0] for row in rows} == by_id.keys()
    for sample_id, candidate, verdict, order, pictures, *rest in rows:
        item = by_id[sample_id]
        assert (candidate, verdict, order) == ("alpha", "Model", f"{item.left}_first")
        assert pictures == item.pictures and rest == ["uniform", RUN, "d" * 64]


def test_dimensions_and_images_with_their_aspects_are_asked_about(own: Path, tmp_path: Path, jury: Jury) -> None:
    page = made_page(own, tmp_path / "label.html", "-n", "2", "--ask", "faithfulness", "--ask", "overall")
    said = {"faithfulness": "bad", "overall": "tie"}
    jury("labels", "import", saved(page, tmp_path / "dimensions.json", lambda _, question: said[question]))
    sql = "SELECT DISTINCT dimension, verdict FROM labels ORDER BY dimension"
    assert ask(own, sql) == [("faithfulness", "Both are bad"), ("overall", "Tie")]
    images = images_store(tmp_path / "images")
    page = made_page(images, tmp_path / "images.html", run=COUNTING)
    aspects = ["count_accuracy", "object_uniformity", "spatial_legibility", "overall_score"]
    assert [*page.questions["counting"]] == aspects
    assert "cannot tell" in page.questions["counting"]["overall_score"]
    said = {"overall_score": "cannot tell"}
    file = saved(page, tmp_path / "scores.json", lambda _, question: said.get(question, "9"))
    assert main(["labels", "import", str(file), "--store", str(images)]) == 0
    sql = "SELECT aspect, tag, score, unanswered FROM labels WHERE aspect[:2] IN ('co', 'ov') ORDER BY ALL"
    overall = ("overall_score", "counting", None, "cannot tell")
    assert ask(images, sql) == [("count_accuracy", "counting", 9.0, "")] * 2 + [overall] * 2
    assert ask(images, "SELECT count(*) FROM ratings WHERE source = 'scores'") == [(6,)]


def changed(file: Path, change: Callable[[list[dict[str, Any]]], Any]) -> Path:
    found = json.loads(file.read_text())
    change(found["answers"])
    file.write_text(json.dumps(found))
    return file


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.append(rows[0]), "answer 31: answers again what labels-reader-1.json, answer 1 answers"),
        (lambda rows: rows[2].update(item="0123456789ab"), "answer 3: item '0123456789ab' is not on the page"),
        (lambda rows: rows[2].update(item="<b>\x1b[2J"), "answer 3: item"),
        (lambda rows: rows[2].update(question="beauty"), "answer 3: question 'beauty' is not asked of this item"),
        (lambda rows: rows[2].update(answer="Model"), "answer 3: answer 'Model', allowed are left, right, tie, cannot"),
        (lambda rows: rows[2].update(answer=1), "answer 3: answer: Input should be a valid string"),
        (lambda rows: rows.__setitem__(2, []), "answer 3: Input should be"),
        (lambda rows: rows.clear(), "holds no answer"),
    ],
)  # fmt: skip
def test_rows_that_are_doubled_or_foreign_are_told(
    store: Path, page: LabelPage, tmp_path: Path, jury: Jury, change: Callable[[list[dict[str, Any]]], Any], said: str
) -> None:
    file = saved(page, tmp_path / "labels-reader-1.json", prefer("model"))
    code, _, err = jury("labels", "import", changed(file, change), "--store", store)
    assert code == 2 and said in err and "has 1 problem" in err and not (store / "labels").exists()


def test_a_file_of_another_store_flow_or_version_is_refused(own: Path, tmp_path: Path, jury: Jury) -> None:
    _, file = answered(own, tmp_path)
    code, _, err = jury("labels", "import", file, "--flow", "plot")
    assert code == 2 and "the page that saved it is about diagram, not plot" in err
    text = file.read_text()
    for before, after, said in (
        ("labels 1", "labels 2", "known here is 'image-jury labels 1'"),
        ('"name": "reader-1"', '"name": 7', "it has not the page, the name and the list of answers"),
        ('"page": "', '"page": "../', "has made no page '../"),
    ):
        file.write_text(text.replace(before, after))
        code, _, err = jury("labels", "import", file)
        assert code == 2 and said in err
    file.write_text(text)
    shutil.rmtree(own / LABEL_PAGES)
    code, _, err = jury("labels", "import", file)
    assert code == 2 and "import the file into the store whose `jury labels page` made it" in err


def test_one_person_answers_a_page_once_until_that_is_removed(own: Path, tmp_path: Path, jury: Jury) -> None:
    page, file = answered(own, tmp_path, number=12)
    assert jury("labels", "import", file)[0] == 0
    newer = saved(page, tmp_path / "newer.json", prefer("human"))
    code, _, err = jury("labels", "import", newer)
    assert code == 2 and "are here already, as 'labels-reader-1': if these are newer, `jury labels remove" in err
    code, out, _ = jury("labels", "remove", "labels-reader-1")
    assert code == 0 and "removed labels-reader-1: 12 labels of 1 person, diagram" in out
    assert ask(own, "SELECT count(*) FROM labels") == [(0,)]
    assert not (own / "labels" / "labels-reader-1").exists()
    assert jury("labels", "import", newer, "--name", "labels-reader-1")[0] == 0
    said = ask(own, "SELECT name, count(*), min(verdict) FROM labels GROUP BY name")
    assert said == [("labels-reader-1", 30, "Human")]


def test_a_table_needs_its_flow_and_labels_say_what_they_can_tell(own: Path, tmp_path: Path, jury: Jury) -> None:
    assert "holds no labels: `jury labels page RUN`" in jury("labels", "list")[1]
    _, file = answered(own, tmp_path)
    jury("labels", "import", file)
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


def test_pages_and_removals_reach_every_machine_of_a_remote_store(store: Path, tmp_path: Path, on: Jury) -> None:
    from tasks.ledger.remote import local_cache

    url = f"file://{tmp_path}/bucket"
    on("one", "labels", "list")  # from here on this process is on that machine
    shutil.copytree(store, local_cache(url), dirs_exist_ok=True, ignore=shutil.ignore_patterns(LABEL_PAGES))
    assert on("one", "labels", "page", RUN, "-o", str(tmp_path / "label.html"))[0] == 0
    [kept] = (local_cache(url) / LABEL_PAGES).glob("*.json")
    page = read_page(local_cache(url), kept.stem)
    file = saved(page, tmp_path / "labels-reader-1.json", prefer("model"))
    assert on("two", "labels", "import", str(file))[0] == 0
    assert "labels: 0 sent, 1 fetched" in on("one", "store", "sync")[1]
    assert on("two", "labels", "remove", "labels-reader-1")[0] == 0
    assert not list((tmp_path / "bucket" / "labels").rglob("*.json*"))
    assert on("one", "store", "sync")[0] == 0
    assert json.loads(on("one", "query", "SELECT count(*) AS n FROM labels", "--json")[1]) == [{"n": 0}]
    assert "holds no labels" in on("one", "labels", "list")[1]
