"""Text-to-image flows through the whole pipeline: command, Prefect, OpenAI client, a loopback judge, files."""

import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, allowed_reply, delayed, error, example, retry_after, text
from own_data import LISTS
from written_images import prompt_row, write_geneval

from tasks.protocols.loading import load_dataset
from tasks.records.parameters import RubricParameters
from tasks.rubrics.importer import import_prompts

FLOWS = ("object", "counting", "colors", "position")
TAGS = ("single_object", "two_object", "counting", "colors", "color_attr", "position")

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory, drawn_once: Callable[[Path, str], Path]) -> Path:
    """Return the drawn images of all six tags."""
    return drawn_once(tmp_path_factory.mktemp("drawn"), "object")


def test_geneval_fills_one_leaderboard(drawn: Path, tmp_path: Path, jury: Any, ask: Any, monkeypatch: Any) -> None:
    one_each = shutil.copytree(drawn, tmp_path / "images", ignore=shutil.ignore_patterns("0001.png"))
    monkeypatch.setenv("JURY_STORE", str(tmp_path / "store"))
    code, out, err = jury("run", "geneval", "--dataset", one_each, "--store", "jury-store")  # as without this option
    assert code == 0 and out.endswith("All tags together: jury query t2i_leaderboard\n"), err
    for words in ("steady", "careless", "injected defects", "By image: the mean over images."):
        assert out.count(words) >= len(FLOWS)
    rows = ask("t2i_leaderboard")
    assert [row["tag"] for row in rows] == [tag for tag in (*TAGS, "overall") for _ in range(2)]
    for better, worse in zip(rows[::2], rows[1::2], strict=True):
        assert (better["candidate"], worse["candidate"]) == ("steady", "careless")
        assert better["score"] > worse["score"] and better["ci_low"] <= better["score"] <= better["ci_high"]
    overall = rows[-2]
    assert overall["score"] == pytest.approx(sum(row["score"] for row in rows[:12:2]) / 6)
    assert overall["missing"] == [] and len(overall["runs"]) == 4 and overall["coverage"] == 1
    caught = ask("SELECT avg(caught::INT) AS caught FROM outcomes WHERE injected <> 'clean'")[0]["caught"]
    false = ask("SELECT avg((NOT caught)::INT) AS false FROM outcomes WHERE injected = 'clean'")[0]["false"]
    assert caught >= 0.85 and false <= 0.1
    assert ask("SELECT count(*) AS n FROM aspect_scores WHERE aspect = 'overall_score'")[0]["n"] == 96
    assert ask("SELECT count(*) AS n FROM best_images")[0]["n"] == 96
    code, out, err = jury("run", "geneval", "--dataset", one_each, "--tag", "counting", "--limit", 2, "--json")
    assert code == 2 and err.count("tag") >= 3 and {row["dimension"] for row in json.loads(out)} == {"counting"}
    assert [row["flow"] for row in ask("FROM runs ORDER BY started_at")] == [*FLOWS, "counting"]


def test_checked_prompt_set_fills_the_satisfied_column(drawn: Path, jury: Any, ask: Any) -> None:
    code, out, _ = jury("run", "counting", "--dataset", drawn, "--candidate", "careless", "--prompt-set", "checked")
    assert code == 0 and "as" in out and "asked" in out
    wrong = ask("SELECT satisfied FROM outcomes WHERE injected = 'wrong_count'")
    assert wrong and all(row["satisfied"] is False for row in wrong)
    fine = ask("SELECT satisfied FROM outcomes WHERE injected = 'clean'")
    assert sum(row["satisfied"] is True for row in fine) >= 0.9 * len(fine)
    [row] = ask("SELECT DISTINCT satisfied IS NULL AS unknown FROM t2i_leaderboard WHERE tag = 'counting'")
    assert row == {"unknown": False}


GONE = ["00000", "00003", "00004", "00007", "00009", "00012", "00015", "00017", "00023"]
"""Prompts whose image is deleted."""


def test_missing_images_of_a_whole_benchmark_are_reported_and_unscored(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    rows = [json.loads(line) for line in LISTS["own"].read_text(encoding="utf-8").splitlines()]
    root = write_geneval(tmp_path / "images", rows, images_per_prompt=1)
    for name in GONE:
        (root / "a" / name / "samples" / "0000.png").unlink()
    code, _, err = jury("run", "counting", "--dataset", root, *judged_by(loopback))
    assert code == 3  # one of them is a counting prompt, which stays unscored
    [warning] = load_dataset("counting", RubricParameters(dataset=str(root))).warnings  # pyright: ignore
    assert f"jury: {warning}" in err.splitlines()
    [row] = [row for row in ask("t2i_leaderboard") if row["tag"] == "counting"]
    lost = [name for name in GONE if rows[int(name)]["tag"] == "counting"]
    assert (row["n"], row["scored"], row["prompts"]) == (4, 4 - len(lost), 4 - len(lost))
    assert loopback.count == 1 + 4 - len(lost)  # the first question, and a call for each image
    unscored = ask("SELECT sample_id, status FROM failures")
    assert unscored == [{"sample_id": f"{name}/none", "status": "bad_picture"} for name in lost]


def test_results_belong_to_their_own_image(tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    """The judge replies in random order, fails at random, and marks each explanation with the picture it received."""
    chance = random.Random(5)
    asked: Counter[str] = Counter()

    def answer(seen: Request) -> Reply:
        if seen.schema_name == "probe":
            return allowed_reply()(seen)
        mark = hashlib.sha256(seen.images[0]).hexdigest()
        asked[mark] += 1
        trouble = [error(500, "boom"), retry_after(0), text("no scores here"), error(503, "busy")]
        if asked[mark] < 3 and chance.random() < 0.4:
            return delayed(chance.choice(trouble), chance.random() / 10)
        overall = {"explanation": mark, "score": int(mark[:2], 16) / 25.5}
        return delayed(text(json.dumps({**example(seen.schema, {}), "overall_score": overall})), chance.random() / 5)

    loopback.answer = answer
    rows = [prompt_row(f"clock {number}", "counting") for number in range(6)]
    root = write_geneval(tmp_path / "images", rows, candidates=("a", "b"))
    for number, file in enumerate(sorted(root.glob("*/*/samples/*.png"))):
        file.write_bytes(file.read_bytes() + number.to_bytes(2, "big"))  # trailing bytes make each file unique
    jury("run", "counting", "--dataset", root, "--chunk-size", 8, *judged_by(loopback, **{"judge.concurrency": 24}))
    rows = ask("SELECT candidate, sample_id, reasoning, scores FROM judgments WHERE status = 'ok' AND last_attempt")
    assert len(rows) > 18 and sum(asked.values()) > 26
    for row in rows:
        prompt, image = row["sample_id"].split("/")
        own = hashlib.sha256((root / row["candidate"] / prompt / "samples" / f"{image}.png").read_bytes()).hexdigest()
        assert row["reasoning"] == own
        overall = {"aspect": "overall_score", "score": int(own[:2], 16) / 25.5, "explanation": own}
        assert row["scores"][-1].items() >= overall.items()
    stored = ask("SELECT o.score, o.pictures FROM outcomes o WHERE score IS NOT NULL")
    assert all(row["score"] == int(row["pictures"]["image"]["sent_sha256"][:2], 16) / 25.5 for row in stored)


@pytest.mark.parametrize("documents", ["own"], indirect=True)
def test_imported_set_is_sent_word_for_word(
    drawn: Path, tmp_path: Path, jury: Any, ask: Any, documents: dict[str, Path]
) -> None:
    import_prompts(documents["json"], str(tmp_path / "set"))
    code, _, err = jury("run", "counting", "--dataset", drawn, "--limit", 2, "--prompt-set", tmp_path / "set")
    assert code == 0, err
    published = json.loads(documents["json"].read_text(encoding="utf-8"))["counting"]
    sent = {"prompt_sha256": hashlib.sha256(published.encode()).hexdigest()}
    assert ask("SELECT DISTINCT prompt_sha256 FROM judgments") == [sent]
