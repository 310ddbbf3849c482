"""Extensions of a run: which take part, and that no others and no unused parts of protocols are imported."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from served import environment
from written_datasets import png, record, write_benchmark
from written_images import prompt_row, write_geneval

from tasks.extensions import extensions_of
from tasks.extensions.judge_notices import JudgeNotices
from tasks.judging.extension import Opening
from tasks.ledger.remote import Remote
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.rubrics.rubric import load_rubric

MODEL = Judge(model="m", base_url="http://127.0.0.1:1/v1")  # pyright: ignore


def names(given: Parameters, flow: str = "diagram", remote: Remote | None = None, scheduled: bool = False) -> list[str]:
    opening = Opening(flow, given, given, load_rubric(flow), remote, scheduled)
    return [type(each).__name__ for each in extensions_of(opening)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"controls": 0.1}, ["Controls"]),
        ({"budget": 1.0}, ["BudgetLimit"]),
        ({"budget": 1.0, "controls": 0.1}, ["BudgetLimit", "Controls"]),
        ({"anchors": 4}, []),
        ({"judge": MODEL}, ["JudgeNotices"]),
        ({"judge": MODEL, "layout": "shared"}, ["SharedBeginnings", "JudgeNotices"]),
        ({"judge": MODEL, "quote": "pilot"}, []),
    ],
    ids=str,
)
def test_parameters_select_extensions(given: dict[str, Any], expected: list[str]) -> None:
    assert names(PairwiseParameters(**given)) == expected


def test_schedule_environment_and_store_select_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = PairwiseParameters(anchors=4)
    assert names(parameters, scheduled=True) == ["FrozenAnchors"]
    first, second = (parameters.model_copy(update={"shards": 2, "shard": shard}) for shard in (1, 2))
    assert (names(first, scheduled=True), names(second, scheduled=True)) == (["FrozenAnchors"], [])
    monkeypatch.setenv("JURY_KEEP_DAYS", "30")
    monkeypatch.setenv("JURY_BUDGET_MONTH", "10")
    url = (tmp_path / "bucket").as_uri()
    in_a_bucket = names(PairwiseParameters(store=url), remote=Remote(url, tmp_path / "cache"))
    assert in_a_bucket == ["Retention", "BudgetLimit", "BucketStore"]


def test_export_is_an_extension_of_a_run_but_not_of_a_quote() -> None:
    parameters = RubricParameters(export="results.jsonl")
    assert names(parameters, "counting") == ["Export"]
    assert names(ChecklistParameters(export="results.json"), "counting") == ["Export"]
    assert names(parameters.model_copy(update={"quote": "history"}), "counting") == []


ALONE = """
import json, sys
sys.modules.update({"tasks.protocols.checklist": None, "flows.facts": None})
from flows.cli import main
first, *others = json.loads(sys.argv[1])
codes, loaded = [main(first)], [*sys.modules]
codes += [main(words) for words in others]
from flows.api import judge
print(json.dumps([codes, loaded]))
"""
"""Program that runs commands as if the folder of checklists and their flow were not there."""


def test_default_run_imports_no_extension_and_no_kind_needs_another(tmp_path: Path, prefect_server: str) -> None:
    images = write_geneval(tmp_path / "images", [prompt_row(tag="counting", prompt="two dogs")], 1)
    figures = write_benchmark(tmp_path / "figures", [record(0)])
    (model := tmp_path / "model").mkdir()
    (model / "test_0.png").write_bytes(png(20))
    counting = ["run", "counting", "--dataset", str(images)]
    commands = [
        counting,
        [*counting, "--export", str(tmp_path / "results.jsonl")],
        ["run", "diagram", "--dataset", str(figures), "--images", str(model)],
        ["report", "-o", str(tmp_path / "report.html")],
        ["query", "leaderboard"],
    ]
    given = json.dumps([[*words, "--store", str(tmp_path / "store")] for words in commands])
    env = environment() | {"PREFECT_API_URL": prefect_server}
    done = subprocess.run([sys.executable, "-c", ALONE, given], capture_output=True, text=True, env=env, timeout=120)
    codes, loaded = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * len(commands), done.stderr
    assert [name for name in loaded if name.startswith("tasks.extensions.")] == []
    parts = {"parameters", "protocol", "display", "labels", "controls"}
    others = [(kind, set[str]()) for kind in ("figures", "checklist")]
    for folder, used in (("images", {"protocol", "display"}), *others):
        assert {part for part in parts if f"tasks.protocols.{folder}.{part}" in loaded} == used


def test_cards_that_cannot_be_exchanged_stop_no_run(tmp_path: Path) -> None:
    store, card = tmp_path / "cache", tmp_path / "card.json"
    card.touch()
    folder = store / "passports" / "20261101T020304-exam-ab12"
    folder.mkdir(parents=True)
    (folder / "card.json").symlink_to(card)
    given = PairwiseParameters(judge=MODEL, store=str(store))
    remote = Remote((tmp_path / "bucket").as_uri(), store)
    opening = Opening("diagram", given, given, load_rubric("diagram"), remote, False)
    [words] = asyncio.run(JudgeNotices(opening).finish())
    assert words.startswith(f"Passports of judges could not be exchanged with {store}: {folder}/card.json: refused")
