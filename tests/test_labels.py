"""Labels of people: allowed files, storage, the history, and other machines."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import end, outcome, start, write_run
from written_datasets import write_rows

from tasks.errors import InputError
from tasks.history.landing import land
from tasks.labels.inputs import known_questions
from tasks.labels.labeling import import_labels, read_label_rows
from tasks.ledger.labels import ABOUT, LABELS, LabelRow, LabelSet, label_folder, read_label_set

pytestmark = pytest.mark.usefixtures("without_pages")

Jury = Callable[..., tuple[int, str, str]]
Ask = Callable[[str], list[dict[str, Any]]]


def write(path: Path, *rows: dict[str, Any]) -> Path:
    return write_rows(path, rows)


def verdict(sample_id: str = "s1", verdict: str = "Model", dimension: str = "overall", **more: str) -> dict[str, str]:
    return {"id": sample_id, "dimension": dimension, "verdict": verdict, **more}


def read_rows(file: Path, flow: str) -> list[LabelRow]:
    """Return the labels in a file, with the questions of the flow only."""
    return read_label_rows(file, flow, known_questions(file.parent, flow))


# Allowed files


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".json"])
def test_verdicts_are_read_from_json_lines_and_csv(tmp_path: Path, ending: str) -> None:
    more = {"candidate": "alpha", "annotator": "Ann", "order": "model_first"}
    file = write(tmp_path / f"people{ending}", verdict(**more), verdict("s2", "Both are bad", "aesthetics", **more))
    first, second = read_rows(file, "diagram")
    assert first == LabelRow(sample_id="s1", dimension="overall", verdict="Model", **more)
    assert (second.dimension, second.verdict, second.score) == ("aesthetics", "Both are bad", None)


def test_people_may_prefer_the_model_where_the_plot_judge_may_not(tmp_path: Path) -> None:
    file = write(tmp_path / "people.jsonl", verdict("s1", "Model", "faithfulness"))
    assert read_rows(file, "plot")[0].verdict == "Model"


def test_scores_of_images_are_read(tmp_path: Path) -> None:
    found = read_rows(write(tmp_path / "a.jsonl", {"id": "00012/0003", "score": 7.5}), "counting")
    fields = {"candidate": "", "tag": "counting", "aspect": "overall_score", "score": 7.5, "annotator": ""}
    assert found == [LabelRow(sample_id="00012/0003", **fields)]


def test_aspects_and_tags_are_read_from_csv(tmp_path: Path) -> None:
    row = {"id": "x", "score": "10", "aspect": "material_consistency", "tag": "color_attr"}
    found = read_rows(write(tmp_path / "a.csv", row, {"id": "x", "score": "0"}), "colors")
    labels = [(each.tag, each.aspect, each.score) for each in found]
    assert labels == [("color_attr", "material_consistency", 10), ("", "overall_score", 0)]


# Refused files


@pytest.mark.parametrize(
    ("flow", "row", "words"),
    [
        ("diagram", verdict(verdict="Tie", dimension="readability"),
         "verdict is 'Tie', allowed are Model, Human, Both are good, Both are bad"),
        ("diagram", verdict(verdict="Both are good"), "verdict is 'Both are good', allowed are Model, Human, Tie"),
        ("diagram", verdict(dimension="beauty"),
         "dimension is 'beauty', allowed are faithfulness, conciseness, readability, aesthetics, overall"),
        ("diagram", verdict(" "), "id is empty, must be text"),
        ("diagram", {**verdict(), "id": 7}, "'id' is a number, must be text"),
        ("diagram", verdict(order="left"), "order is 'left', allowed are human_first, model_first"),
        ("diagram", verdict(anotator="Ann"), "column 'anotator' does not exist, allowed are id, dimension, verdict"),
        ("counting", {"id": "x", "score": 11}, "score is 11, allowed are numbers from 0 to 10"),
        ("counting", {"id": "x", "score": "good"}, "score is 'good', allowed are numbers from 0 to 10"),
        ("counting", {"id": "x", "score": True}, "score is True, allowed are numbers from 0 to 10"),
        ("counting", {"id": "x", "score": "nan"}, "score is 'nan', allowed are numbers from 0 to 10"),
        ("counting", {"id": "x", "score": 1, "aspect": "color_fidelity"},
         "aspect is 'color_fidelity', allowed are overall_score, count_accuracy, object_uniformity, spatial_legib"),
        ("colors", {"id": "x", "score": 1, "tag": "counting"}, "tag is 'counting', allowed are colors, color_attr"),
        ("colors", {"id": "x", "score": 1, "tag": "colors", "aspect": "attribute_binding"},
         "aspect is 'attribute_binding', allowed are overall_score, color_fidelity"),
        ("counting", {"score": 1}, "id is empty, must be text"),
    ],
)  # fmt: skip
def test_mistake_is_reported_with_row_and_allowed_values(
    tmp_path: Path, flow: str, row: dict[str, Any], words: str
) -> None:
    good = verdict("s0") if flow == "diagram" else {"id": "s0", "score": 5}
    file = write(tmp_path / "people.jsonl", good, row)
    with pytest.raises(ValueError, match=r"people\.jsonl has 1 problem:\n  people\.jsonl, line 2: ") as error:
        read_rows(file, flow)
    assert words in str(error.value)


def test_table_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "newest.csv").symlink_to(write(tmp_path / "people.csv", verdict()))
    assert read_rows(tmp_path / "newest.csv", "diagram") == read_rows(tmp_path / "people.csv", "diagram")


def test_all_mistakes_of_a_file_are_reported_in_one_error(tmp_path: Path) -> None:
    file = write(tmp_path / "people.csv", verdict(verdict="model"), verdict("s2"), verdict("s3", "Human", "style"))
    with pytest.raises(ValueError, match=r"2 problems:(?s:.)*row 1: verdict is 'model'(?s:.)*row 3: dimension is 'sty"):
        read_rows(file, "diagram")


def test_person_answers_a_question_once_in_each_order(tmp_path: Path) -> None:
    both = [verdict(annotator="Ann", order=order) for order in ("human_first", "model_first")]
    assert len(read_rows(write(tmp_path / "a.jsonl", *both, verdict(annotator="Bob")), "diagram")) == 3
    with pytest.raises(ValueError, match=r"line 2: answers again what the same person answers in a\.jsonl, line 1"):
        read_rows(write(tmp_path / "a.jsonl", verdict(), verdict(verdict="Human")), "diagram")


def test_file_without_a_required_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"people\.csv: no row has dimension$"):
        read_rows(write(tmp_path / "people.csv", {"id": "s1", "verdict": "Model"}), "diagram")


# Storage


def test_imported_labels_can_be_queried_by_all_of_their_fields(tmp_path: Path, jury: Jury, ask: Ask) -> None:
    file = write(tmp_path / "people.jsonl", *[verdict(f"s{n}", annotator="Ann") for n in range(3)])
    code, out, err = jury("labels", "import", file, "--flow", "diagram")
    assert (code, err) == (0, "")
    assert "kept as people: 3 labels of 1 person\ncompare them: jury labels agreement RUN people" in out
    first, *others = ask("FROM labels ORDER BY sample_id")
    assert len(others) == 2 and first == first | {
        "name": "people", "flow": "diagram", "sample_id": "s0", "dimension": "overall", "verdict": "Model",
        "annotator": "Ann", "source": "people.jsonl",
    }  # fmt: skip
    fields = {info.alias or name for name, info in LabelRow.model_fields.items()}
    origin = {"name", "flow", "source", "source_sha256", "imported_at"}
    origin |= {"page", "of_run", "dataset_key", "prompts_key", "drawn"}
    assert first.keys() == fields | origin and origin < LabelSet.model_fields.keys()


def test_labels_of_unknown_samples_are_reported_and_kept(tmp_path: Path, jury: Jury, ask: Ask) -> None:
    store = tmp_path / "store"
    write_run(store, start(), [*map(outcome, ("s0", "s1"))], end(outcomes={"complete": 2}))
    land(store)
    rows = [verdict("s0"), verdict("s1", candidate="nobody"), *(verdict(f"t{n}") for n in range(6))]
    file = write(tmp_path / "people.jsonl", *rows)
    code, out, _ = jury("labels", "import", file, "--flow", "diagram")
    words = "7 of 8 labels are kept until a run has them, about no sample of any diagram run in the history: "
    assert code == 0 and f"{words}s1, t0, t1, t2, t3 and 2 more" in out
    assert len(ask("labels")) == 8
    known = write(tmp_path / "known.jsonl", verdict("s0"))
    assert "no sample" not in jury("labels", "import", known, "--flow", "diagram")[1]


def test_name_of_labels_is_not_reused_for_other_labels(tmp_path: Path, jury: Jury, ask: Ask) -> None:
    file = write(tmp_path / "people.jsonl", verdict())
    given = ("labels", "import", file, "--flow", "diagram")
    assert jury(*given)[0] == 0
    kept = (label_folder(tmp_path / "store", "people") / ABOUT).read_bytes()
    assert jury(*given)[1].startswith("these labels are here already, as people: 1 label of people, imported 20")
    write(file, verdict(verdict="Human"))
    code, _, err = jury(*given)
    assert code == 2 and "other labels are called 'people' already" in err and "choose another name with --name" in err
    assert (label_folder(tmp_path / "store", "people") / ABOUT).read_bytes() == kept
    assert jury(*given, "--name", "people-2")[0] == 0
    counted = ask("SELECT name, count(*) AS n, min(verdict) AS verdict FROM labels GROUP BY name ORDER BY name")
    rows = [(row["name"], row["n"], row["verdict"]) for row in counted]
    assert rows == [("people", 1, "Model"), ("people-2", 1, "Human")]


@pytest.mark.parametrize("name", ["../people", "a/b", ".hidden", "a b"])
def test_name_that_cannot_be_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"labels cannot be called .* with --name"):
        import_labels(tmp_path, write(tmp_path / "people.jsonl", verdict()), "diagram", name)


def test_rebuilt_history_contains_the_labels(tmp_path: Path, jury: Jury, ask: Ask) -> None:
    file = write(tmp_path / "people.jsonl", verdict())
    jury("labels", "import", file, "--flow", "diagram")
    (tmp_path / "store" / "history.duckdb").unlink()
    shutil.rmtree(tmp_path / "store" / ".history")
    code, out, _ = jury("store", "sync")
    assert code == 0 and "labels loaded: people" in out and len(ask("labels")) == 1
    assert not land(tmp_path / "store").besides


def test_damaged_labels_are_reported_and_others_are_loaded(tmp_path: Path) -> None:
    for name in ("one", "two"):
        import_labels(tmp_path, write(tmp_path / f"{name}.jsonl", verdict()), "diagram")
    (label_folder(tmp_path, "one") / LABELS).write_bytes(b"")
    done = land(tmp_path)
    assert done.besides == {"labels": ("two",)} and "damaged: found 0 rows, label.json counts 1" in done.left_out[0]
    (label_folder(tmp_path, "two") / ABOUT).write_text('{"schema": 7, "name": 2}')
    with pytest.raises(InputError, match=r"label\.json, line 1: damaged: name: Input should be a valid string"):
        read_label_set(label_folder(tmp_path, "two"))


def test_labels_reach_other_machines_through_a_remote_store(tmp_path: Path, jury_on: Jury) -> None:
    file = write(tmp_path / "people.jsonl", verdict())
    assert jury_on("one", "labels", "import", str(file), "--flow", "diagram")[0] == 0
    code, out, _ = jury_on("two", "store", "sync")
    assert code == 0 and "labels: 0 sent, 1 fetched" in out
    assert json.loads(jury_on("two", "query", "SELECT verdict FROM labels", "--json")[1]) == [{"verdict": "Model"}]
    jury_on("three", "labels", "import", str(write(tmp_path / "others.jsonl", verdict("s2"))), "--flow", "diagram")
    names = "SELECT DISTINCT name FROM labels ORDER BY name"
    assert json.loads(jury_on("three", "query", names, "--json")[1]) == [{"name": "others"}, {"name": "people"}]
    jury_on("two", "labels", "remove", "people")
    jury_on("three", "labels", "import", str(write(tmp_path / "third.jsonl", verdict("s3"))), "--flow", "diagram")
    assert json.loads(jury_on("three", "query", names, "--json")[1]) == [{"name": "others"}, {"name": "third"}]
    write(tmp_path / "third.jsonl", verdict("s3", "Human"))
    _, _, err = jury_on("one", "labels", "import", str(tmp_path / "third.jsonl"), "--flow", "diagram")
    assert "third: other labels of that name are in file://" in err


def test_missing_label_file_is_reported(tmp_path: Path, jury: Jury) -> None:
    code, _, err = jury("labels", "import", tmp_path / "none.csv", "--flow", "diagram")
    assert code == 2 and "there is no such file" in err
