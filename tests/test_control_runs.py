"""Controls in whole runs, on loopback judges that look, that ignore pictures, or that obey text in them."""

import base64
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, error, example, text, verdict
from loopback_replies import Request as Seen
from PIL import Image
from prefect import tags
from written_datasets import record, result, write_benchmark, write_json
from written_images import prompt_row, write_geneval

from tasks.pictures.thumbnails import waiting

SAMPLES = 36
SIZE = (240, 160)

pytestmark = pytest.mark.usefixtures("prefect_server")


def shade(number: int) -> int:
    return 40 + 3 * number


def draw(number: int, flawed: bool = False) -> bytes:
    picture = Image.new("L", SIZE, shade(number))
    if flawed:
        picture.paste(10, (0, SIZE[1] - 20, *SIZE))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def sample_and_pictures(seen: Seen) -> tuple[int, list[Image.Image]]:
    """Return the sample number in the texts, and the decoded pictures."""
    found = re.search(r"(?:method|caption|clock) (\d+)", " ".join(seen.texts[1:]))
    return int(found[1]) if found else -1, [Image.open(io.BytesIO(data)).convert("L") for data in seen.images]


def shows_sample(picture: Image.Image, number: int) -> bool:
    width, height = picture.size
    return abs(int(picture.getpixel((width // 2, height // 2))) - shade(number)) <= 1


def has_painted_text(picture: Image.Image) -> bool:
    """Return whether a corner shows black on white; without the control it is plain grey."""
    darkest, brightest = picture.crop((0, 0, picture.width // 3, picture.height // 8)).getextrema()
    return darkest < 30 and brightest > 225


def honest(seen: Seen) -> str:
    number, (_, model) = sample_and_pictures(seen)
    flawed = int(model.getpixel((5, model.height - 5))) < 30
    return "Both are good" if shows_sample(model, number) and not flawed else "Human"


def obedient(seen: Seen) -> str:
    return "Model" if has_painted_text(sample_and_pictures(seen)[1][1]) else honest(seen)


def blind(seen: Seen) -> str:
    number = sample_and_pictures(seen)[0]
    return random.Random(f"{seen.schema_name} {number}").choice(("Model", "Human", "Both are good", "Both are bad"))


def answer_by(judge: Callable[[Seen], str]) -> Callable[[Seen], Reply]:
    return lambda seen: text('{"ready": true}') if seen.schema_name == "probe" else verdict(judge(seen))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of `jury run diagram` for pairs; every third Model picture has a flaw."""
    root = tmp_path_factory.mktemp("pairs")
    write_benchmark(root, [record(number) for number in range(SAMPLES)])
    key = "target_diagram_critic_desc0_base64_jpg"
    results = []
    for number in range(SAMPLES):
        (root / "diagram" / "images" / f"{number}.png").write_bytes(draw(number))
        model = draw(number, flawed=number % 3 == 0)
        results.append(result(number, **{key: base64.b64encode(model).decode()}))
    return ["--dataset", str(root), "--results", str(write_json(root / "results.json", results))]


@pytest.mark.parametrize(
    ("judge", "red"),
    [(blind, ["false preference", "neglect"]), (obedient, ["injection"])],
    ids=["ignores pictures", "obeys painted text"],
)
def test_controls_of_one_run_expose_a_bad_judge(
    pairs: list[str], loopback: LoopbackJudge, jury: Any, ask: Any, judge: Callable[[Seen], str], red: list[str]
) -> None:
    loopback.answer = answer_by(judge)
    code, out, err = jury("run", "diagram", *pairs, *judged_by(loopback), "--controls", "0.05")
    assert code == 0, err
    colours = dict(re.findall(r"^([a-z ]+): . (GREEN|AMBER|RED), ", out, re.MULTILINE))
    assert [measure for measure, colour in colours.items() if colour == "RED"] == red
    assert out.startswith("Controls RED: ")
    # Injection may stay undecided: samples that the Model wins anyway do not count.
    assert {colours["false preference"], colours["neglect"]} <= {"RED", "GREEN"} and len(colours) == 3
    rates = ask("SELECT measure, n FROM control_rates WHERE measure <> 'injection' ORDER BY measure")
    assert [(row["measure"], row["n"]) for row in rates] == [("false preference", 24), ("neglect", 6)]
    assert ask("SELECT n FROM leaderboard WHERE dimension = 'overall'") == [{"n": SAMPLES}]


def test_controls_cost_calls_but_change_no_score(pairs: list, loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    loopback.answer = answer_by(honest)
    given = ["run", "diagram", *pairs, *judged_by(loopback), "--limit", "12"]
    assert jury(*given, "--controls", "0.25")[0] == 0
    calls = loopback.count - 1  # without the first question
    assert calls == 4 * (12 + 6)
    assert jury(*given)[0] == jury(*given, "--controls", "0.25", "--json")[0] == 0
    assert loopback.count - 1 == calls
    runs = ask("SELECT * FROM runs ORDER BY run_id")
    assert [(run["samples"], run["calls"], run["reused"]) for run in runs] == [(12, 72, 0), (12, 0, 48), (12, 0, 72)]
    for same in ("dataset_key", "resume_key", "protocol_key", "judgments", "outcomes"):
        assert runs[0][same] == runs[1][same] == runs[2][same], same
    assert len(ask("SELECT * FROM controls WHERE failed IS NOT NULL")) == 2 * 6
    scores = "SELECT * EXCLUDE run_id FROM scores WHERE run_id = '{}' ORDER BY ALL"
    assert ask(scores.format(runs[0]["run_id"])) == ask(scores.format(runs[1]["run_id"]))
    counts = "SELECT count(*) AS n, count(*) FILTER (control <> '') AS controls FROM judgments GROUP BY run_id"
    assert [(row["n"], row["controls"]) for row in ask(f"{counts} ORDER BY run_id")] == [(72, 24), (48, 0), (72, 24)]
    assert ask("SELECT bool_and(last_attempt) AS each FROM judgments") == [{"each": True}]
    assert sorted(row["calls"] for row in ask("SELECT calls FROM cost")) == [0, 0, 1 + 72]


def test_json_and_ledger_list_controls_apart(tmp_path: Path, pairs: list, loopback: LoopbackJudge, jury: Any) -> None:
    def fails_controls(seen: Seen) -> Reply:
        controls = seen.schema_name != "probe" and has_painted_text(sample_and_pictures(seen)[1][1])
        return text("no JSON") if controls else answer_by(honest)(seen)

    loopback.answer = fails_controls
    options = [*judged_by(loopback), "--limit", "12", "--controls", "0.5", "--json"]
    code, out, err = jury("run", "diagram", *pairs, *options)
    assert code == 0, err  # a failed control is no failed sample
    rates = [row for row in json.loads(out) if "failed" in row]
    assert [row["measure"] for row in rates] == ["false preference", "neglect", "injection"]
    assert (rates[2]["n"], rates[2]["value"], rates[2]["status"]) == (0, None, "amber")
    [ledger] = (tmp_path / "store").glob("ledger/*/outcomes.jsonl")
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 18 and sum(row["control"] != "" for row in rows) == 6
    store = tmp_path / "store"
    kept = {*waiting(store), *(path.stem for path in (store / "pictures").glob("*.jpg"))}
    real = {note["source_sha256"] for row in rows if not row["control"] for note in row["pictures"].values()}
    assert kept == real


def test_image_judge_obeying_painted_text_is_red(tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    prompts = 18
    root = write_geneval(tmp_path / "images", [prompt_row(f"clock {n}", "counting") for n in range(prompts)])
    for number in range(prompts):
        for name in ("0000.png", "0001.png"):
            (root / "a" / f"{number:05}" / "samples" / name).write_bytes(draw(number, flawed=name > "0000.png"))

    def obedient_grades(seen: Seen) -> Reply:
        number, (image,) = sample_and_pictures(seen)
        score = 10 if has_painted_text(image) else 7 if shows_sample(image, number) else 0
        content = example(seen.schema, seen.schema.get("$defs", {}))
        return text(json.dumps({key: {"explanation": "seen", "score": score} for key in content}))

    loopback.answer = lambda seen: text("ready") if seen.schema_name == "probe" else obedient_grades(seen)
    code, out, err = jury("run", "counting", "--dataset", root, *judged_by(loopback), "--controls", "0.05")
    assert code == 0, err
    assert "injection: ✗ RED, 6 of 6" in out and "neglect: ✓ GREEN" in out and "false preference: ✓ GREEN" in out
    assert ask("SELECT count(*) AS n, avg(score) AS mean FROM outcomes") == [{"n": 2 * prompts, "mean": 7.0}]
    assert ask("SELECT count(*) AS n FROM aspect_scores WHERE aspect = 'overall_score'") == [{"n": 2 * prompts}]


# Anchors: judged anew in each scheduled run, and counted only in the cost


FIGURES, ANCHORS = 3, 2


def nightly(jury: Any, *given: object) -> None:
    with tags("scheduled"):
        code, _, err = jury("run", *given, "--anchors", ANCHORS)
    assert code == 0, err


@pytest.fixture
def figures(tmp_path: Path) -> list[str]:
    root = write_benchmark(tmp_path / "bench", [record(n) for n in range(FIGURES)])
    results = write_json(tmp_path / "results.json", [result(n) for n in range(FIGURES)])
    return ["diagram", "--dataset", str(root), "--results", str(results), "--candidate-name", "alpha"]


def test_anchors_add_one_call_a_dimension_and_reuse_no_replies(
    figures: list[str], loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    def count_requests() -> int:
        found = sum(each.schema_name != "probe" for each in loopback.requests)
        loopback.requests.clear()
        return found

    given = [*figures, *judged_by(loopback), "--orders", "both", "--votes", "2"]
    assert jury("run", *given, "--anchors", ANCHORS)[0] == 0  # started by hand: no anchors
    assert count_requests() == 4 * 4 * FIGURES
    nightly(jury, *given)  # replies about all but anchors are reused
    assert count_requests() == 4 * ANCHORS
    nightly(jury, *given)
    assert count_requests() == 4 * ANCHORS
    counts = ask("""SELECT count(*) AS n, count(DISTINCT sample_id) AS anchors, count(DISTINCT "key") AS calls,
        bool_and("order" = 'human_first' AND vote = 1 AND reused_from = '') AS once
        FROM judgments WHERE control = 'anchor' GROUP BY run_id""")
    assert counts == [{"n": 4 * ANCHORS, "anchors": ANCHORS, "calls": 4 * ANCHORS, "once": True}] * 2
    measured = ask("SELECT measured FROM evaluations ORDER BY run_id")
    assert [row["measured"] for row in measured] == [True, False, False]


def test_anchors_count_only_in_the_cost(figures: list[str], loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    def answer(seen: Request) -> Reply:
        if seen.schema_name == "probe":
            return text('{"ready": true}')
        nth = Counter(each.raw for each in loopback.requests)[seen.raw]
        return verdict("Model") if nth == 1 else error(400, "no")

    loopback.answer = answer
    given = [*figures, *judged_by(loopback, **{"judge.concurrency": 1}), "--reuse-hours", "0"]
    assert jury("run", *given)[0] == 0
    loopback.requests.clear()
    nightly(jury, *given)  # the judge refuses repeated requests: those about anchors
    without, having = ask("SELECT * FROM runs ORDER BY run_id")
    assert (without["calls"], having["calls"], having["control_calls"]) == (12, 20, 8)
    for same in ("judgments", "outcomes", "protocol_key", "resume_key", "samples"):
        assert without[same] == having[same], same
    tables = ("scores", "rates", "coverage", "leaderboard", "outcomes", "picture_contract")
    counts = (f"SELECT '{name}' AS name, count(*) AS n FROM {name} GROUP BY run_id" for name in tables)
    found = Counter((row["name"], row["n"]) for row in ask(" UNION ALL ".join(counts)))
    assert len(found) == len(tables) and {*found.values()} == {2}, "as many rows in both runs"
    assert ask("FROM controls") == ask("FROM control_rates") == []
    assert ask("SELECT kind, count(*) AS n FROM failures GROUP BY 1") == [{"kind": "anchor", "n": 8}]
    cost = ask("SELECT sum(calls)::INTEGER AS calls FROM cost GROUP BY run_id ORDER BY 1")
    assert [row["calls"] for row in cost] == [1 + 12, 1 + 20], "with the first question of each"
    query = "SELECT anchors, judged, anchor_score, candidate_score FROM anchors"
    assert ask(query) == [{"anchors": ANCHORS, "judged": 0, "anchor_score": None, "candidate_score": 100.0}]
