"""An exported evaluation: what its tables hold, what its card says, and what strangers cannot do in it."""

import json
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml
from factories import end, start, write_run
from strangers import tokens
from written_history import EARLIER, LATER, pair, write_evaluations

from tasks.history.asking import query
from tasks.history.loading import sync
from tasks.history.parquet import TABLES

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out")
IMAGES = "20261118T120000-counting-0000cc"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evaluations(tmp_path_factory.mktemp("export") / "store")


@pytest.fixture
def exported(store: Path, tmp_path: Path, jury: Any) -> Path:
    code, out, err = jury("report", LATER, "--parquet", tmp_path / "out", "--store", store)
    assert (code, err) == (0, "") and out.startswith(f"{tmp_path / 'out'}: 12 outcomes, 48 judgments, ")
    return tmp_path / "out"


def front_matter(folder: Path) -> tuple[dict[str, Any], str]:
    _, matter, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(matter), text


def test_the_files_hold_the_rows_of_the_history_and_what_their_columns_mean(store: Path, exported: Path) -> None:
    assert {path.name for path in exported.iterdir()} == {"README.md", *(f"{name}.parquet" for name in TABLES)}
    for name in TABLES:
        frame = polars.read_parquet(exported / f"{name}.parquet")
        told = query(store, f"SELECT * FROM {name} WHERE run_id = '{LATER}'")
        assert (frame.height, tuple(frame.columns)) == (len(told.rows), told.columns)
        metadata = polars.read_parquet_metadata(exported / f"{name}.parquet")
        columns = json.loads(metadata["columns"])
        assert [*columns] == frame.columns and all(columns.values()) and metadata["description"]
        assert not any("Map" in str(kind) for kind in frame.dtypes), "not every reader has maps"
    outcomes = polars.read_parquet(exported / "outcomes.parquet")
    assert outcomes["decided_at"].dtype == polars.Datetime("us") and outcomes["score"].dtype == polars.Float64
    assert {side["key"] for side in outcomes["pictures"][0]} == {"human", "model"}
    unscored = outcomes.filter(polars.col("status") == "incomplete")
    assert unscored["score"].to_list() == [None]


def test_of_the_judges_address_the_host_alone_is_written(exported: Path) -> None:
    judgments = polars.read_parquet(exported / "judgments.parquet")
    assert judgments["endpoint"].unique().to_list() == ["judge.example"]
    assert "judge.example/v1" not in (exported / "README.md").read_text()


def test_the_card_says_what_it_is_in_the_form_of_the_hub(exported: Path) -> None:
    matter, text = front_matter(exported)
    assert (matter["license"], matter["size_categories"]) == ("unknown", ["n<1K"])
    assert "image-jury" in matter["tags"]
    files = {each["config_name"]: each["data_files"] for each in matter["configs"]}
    assert files == {name: f"{name}.parquet" for name in TABLES}
    for words in (LATER, "p" * 64, "d" * 64, "gpt-x-1", "11/12", "Human is 50 by definition", "2026-11-20 12:00"):
        assert words in text, words
    assert "The licence is not known" in text and "None are here" in text
    assert "| `decided_at` | `TIMESTAMP` | When the outcome was decided, UTC. |" in text
    assert "| `pictures` | `STRUCT(key, value)[]` | Role (human, model; image) -> the picture" in text


def test_texts_of_strangers_do_nothing_in_the_card(exported: Path) -> None:
    _, text = front_matter(exported)
    found = tokens(text)
    assert {token.type for token in found} & {"link_open", "image", "html_block"} == set()
    assert all(token.content == "<!-- -->" for token in found if token.type == "html_inline")
    assert "alert" in text


def test_images_have_a_card_of_their_own_instrument(store: Path, tmp_path: Path, jury: Any) -> None:
    assert jury("report", IMAGES, "--parquet", tmp_path / "out", "--store", store)[0] == 0
    matter, text = front_matter(tmp_path / "out")
    assert "No number here is a GenEval score" in text and "PaperBanana" not in text
    assert matter["pretty_name"] == "Image Jury, counting: alpha"


def test_pictures_are_exported_on_request_and_gone_with_the_next_export(store: Path, tmp_path: Path, jury: Any) -> None:
    export = ["report", LATER, "--parquet", tmp_path / "out", "--store", store]
    assert "24 pictures" in jury(*export, "--with-pictures")[1]
    pictures = polars.read_parquet(tmp_path / "out" / "outcomes.parquet")["pictures"].explode()
    named = {f"{each['value']['source_sha256']}.jpg" for each in pictures}
    assert {path.name for path in (tmp_path / "out" / "pictures").iterdir()} == named
    assert jury(*export)[0] == 0 and not (tmp_path / "out" / "pictures").exists()


def test_shards_are_exported_as_one_evaluation(tmp_path: Path, jury: Any) -> None:
    store, shared = tmp_path / "store", "20261120T120000-diagram-0000ee"
    for shard in (1, 2):
        begun = start(f"20261120T12000{shard}-diagram-0000ff", evaluation_id=shared, shards=2, shard=shard, samples=1)
        write_run(store, begun, pair(f"s{shard}", "MMMM", "Model"), end(outcomes={"complete": 1}))
    sync(store)
    assert jury("report", "--parquet", tmp_path / "out")[0] == 0
    outcomes = polars.read_parquet(tmp_path / "out" / "outcomes.parquet")
    assert outcomes["sample_id"].to_list() == ["s1", "s2"]
    assert polars.read_parquet(tmp_path / "out" / "scores.parquet")["run_id"].unique().to_list() == [shared]
    assert shared in (tmp_path / "out" / "README.md").read_text()


def test_nothing_of_somebody_elses_is_written_over(store: Path, tmp_path: Path, jury: Any) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("# mine, not of image-jury\n- image-jury\n")
    (tmp_path / "file").touch()
    for place, words in (
        ("notes", "holds something else than an export"),
        ("file", "is a file: name a folder"),
        ("no/such", "there is no folder"),
    ):
        code, _, err = jury("report", "--parquet", tmp_path / place, "--store", store)
        assert code == 2 and words in err
    assert [*(tmp_path / "notes").iterdir()] == [tmp_path / "notes" / "README.md"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--parquet", "out", "--last", "2"], "--parquet exports one evaluation"),
        (["--parquet", "out", "-o", "page.html"], "leave out --last and --output"),
        (["--with-pictures"], "--with-pictures is for an export"),
        (["--parquet", "out", "nosuch"], "no run is called 'nosuch'"),
    ],
)
def test_what_does_not_go_together_is_told(store: Path, jury: Any, given: list[str], words: str) -> None:
    code, _, err = jury("report", *given, "--store", store)
    assert code == 2 and words in err


def test_an_outcome_that_is_missing_stays_out_of_all_scores(store: Path, tmp_path: Path, jury: Any) -> None:
    assert jury("report", EARLIER, "--parquet", tmp_path / "out", "--store", store)[0] == 0
    scores = polars.read_parquet(tmp_path / "out" / "scores.parquet")
    [overall] = scores.filter(dimension="overall", grouping="all", measure="score").to_dicts()
    assert (overall["n"], overall["scored"]) == (12, 11)
