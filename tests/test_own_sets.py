"""A custom dimension and a custom tag through the whole pipeline: judge, history, pages, labels."""

import json
from pathlib import Path
from typing import Any

import pytest
from answered_page import make_page, save_answers
from factories import end, outcome, start, write_run
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, allowed_reply, example, text
from written_datasets import record, result, write_benchmark, write_json
from written_images import prompt_row, write_geneval

from tasks.history.landing import land
from tasks.ledger.labels import LabelItem
from tasks.rubrics.rubric import PROMPTS, load_rubric

pytestmark = pytest.mark.usefixtures("prefect_server", "without_pages")

FIVE = ("faithfulness", "conciseness", "visual_flow", "readability", "aesthetics")
G = "Both are good"


def write_prompt(target: Path, model: str, **changes: str) -> Path:
    """Write a custom prompt: a shipped one with changed front matter."""
    found = (PROMPTS / model).read_text(encoding="utf-8")
    for old, new in changes.items():
        found = found.replace(
            next(line for line in found.splitlines() if line.startswith(f"{old} = ")), f"{old} = {new}"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(found, encoding="utf-8")
    return target


def test_custom_dimension_decides_and_appears_everywhere(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    own = tmp_path / "team"
    write_prompt(own / "diagram" / "visual_flow.md", "diagram/aesthetics.md", position="25")
    write_benchmark(tmp_path / "data", [record(number) for number in range(3)])
    results = write_json(tmp_path / "results.json", [result(number) for number in range(3)])
    given = ("--dataset", tmp_path / "data", "--results", results, "--prompt-set", own)
    loopback.answer = lambda seen: allowed_reply("Model" if seen.schema_name.endswith("visual_flow") else G)(seen)
    code, out, err = jury("run", "diagram", *given, *judged_by(loopback))
    assert code == 0, err
    lines = [line.split()[0] for line in out.splitlines() if line.split()[:1] and line.split()[0] in (*FIVE, "overall")]
    assert lines[:6] == [*FIVE, "overall"]
    assert loopback.by_name["diagram_visual_flow"] == 3

    [run] = ask("SELECT run_id, dimensions, protocol FROM evaluations")
    assert run["dimensions"] == list(FIVE) and "prompt visual_flow" in run["protocol"]
    [decided] = ask("SELECT DISTINCT overall, tier, tier_path, pivotal FROM outcomes")
    assert (decided["overall"], decided["tier"], decided["pivotal"]) == ("Model", "tier 2", [*FIVE])
    assert decided["tier_path"].endswith(f"tier 2: conciseness {G}, visual_flow Model, aesthetics {G} -> Model")
    board = ask("SELECT dimension, score FROM leaderboard")
    assert [row["dimension"] for row in board] == [*FIVE, "overall"]
    assert [row["score"] for row in board] == [50, 50, 100, 50, 50, 100]

    page = tmp_path / "page.html"
    assert jury("report", run["run_id"], "-o", page)[0] == 0
    html = page.read_text(encoding="utf-8")
    places = [html.index(f">{name}<") for name in (*FIVE, "overall")]
    assert places == sorted(places) and '{"name":"visual_flow","verdict":"Model"' in html

    # People answer alike on the four default dimensions, and differently on the fifth one.
    asked = [part for name in FIVE for part in ("--ask", name)]
    shown = make_page(tmp_path / "store", tmp_path / "label.html", *asked, "--ask", "overall", run=run["run_id"])
    questions = (tmp_path / "label.html").read_text(encoding="utf-8")
    hint = "Faithfulness to the method or data and readability count first; if these tie, conciseness, visual flow and "
    assert f"{hint}looks." in questions and "Which figure is better in visual flow?" in questions

    def answer_question(item: LabelItem, question: str) -> str:
        human = "left" if item.left == "human" else "right"
        return {"visual_flow": human, "overall": ""}.get(question, "good")

    file = save_answers(shown, tmp_path / "people.json", answer_question)
    assert jury("labels", "import", file)[0] == 0
    code, out, err = jury("labels", "agreement", run["run_id"], "people", "--json")
    assert code == 0, err
    found = {each["question"]: each for each in json.loads(out)["questions"]}
    assert list(found) == [*FIVE, "overall"]
    assert found["overall"]["categories"] == ["Model", "Human"] and found["overall"]["n"] == 3
    rows = [{"id": "test_0", "dimension": "visual_flow", "verdict": "Human"}]
    table = write_json(tmp_path / "table.json", rows)
    assert jury("labels", "import", table, "--flow", "diagram")[0] == 0

    # After a change of the prompt set, its labels page is refused: its questions are no longer the judge's.
    write_prompt(own / "diagram" / "visual_flow.md", "diagram/aesthetics.md", position="25", tier="1")
    code, _, err = jury("labels", "page", run["run_id"], "--ask", "visual_flow", "-o", tmp_path / "again.html")
    assert code == 2 and f"its prompt set '{own}' is gone or has changed since: put back" in err
    write_run(tmp_path / "store", start(), [outcome()], end())
    land(tmp_path / "store")
    code, _, err = jury("compare", start().run_id, run["run_id"])
    assert code == 2 and "prompt visual_flow" in err


def test_custom_tag_is_judged_scored_exported_and_labelled(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    def answer(seen: Request) -> Reply:
        if seen.schema_name != "object_three_object":
            return allowed_reply()(seen)
        return text(json.dumps({**example(seen.schema, {}), "overall_score": {"explanation": "all", "score": 9}}))

    loopback.answer = answer
    tags = ("single_object", "two_object", "three_object")
    rows = [prompt_row(f"dog {number}", tag) for tag in tags for number in range(2)]
    data = write_geneval(tmp_path / "images", rows, images_per_prompt=1)
    own, target = tmp_path / "team", tmp_path / "results.jsonl"
    write_prompt(own / "object" / "three_object.md", "object/two_object.md", position="15")
    code, _, err = jury("run", "object", "--dataset", data, *judged_by(loopback))
    assert code == 0 and "tags not judged by any flow: three_object (2 prompts)" in err
    code, out, err = jury(
        "run", "object", "--dataset", data, *judged_by(loopback), "--prompt-set", own, "--export", target
    )
    assert code == 0 and "not judged by any flow" not in err, err
    assert loopback.by_name["object_three_object"] == 2

    run, default = ask("SELECT run_id, dimensions, dataset_key FROM evaluations ORDER BY started_at DESC")
    assert run["dimensions"] == ["single_object", "three_object", "two_object"]
    assert run["dataset_key"] == default["dataset_key"]
    board = ask(f"SELECT tag, score, missing, tags FROM t2i_leaderboard WHERE list_contains(runs, '{run['run_id']}')")
    assert [(row["tag"], row["score"]) for row in board] == [
        ("single_object", 7), ("three_object", 9), ("two_object", 7), ("overall", None)
    ]  # fmt: skip
    assert board[-1]["missing"] == ["counting", "colors", "color_attr", "position"]
    assert board[-1]["tags"] == ["single_object", "two_object", *board[-1]["missing"], "three_object"]
    assert load_rubric("counting", str(own)).prompts == load_rubric("counting").prompts, "or the overall stays missing"
    exported = [json.loads(line)["tag"] for line in target.read_text(encoding="utf-8").splitlines()]
    assert sorted(exported) == sorted(tag for tag in tags for _ in range(2))

    page = tmp_path / "page.html"
    assert jury("report", run["run_id"], "-o", page)[0] == 0
    assert "the 7 tags together: nothing to say" in page.read_text(encoding="utf-8")
    shown = make_page(tmp_path / "store", tmp_path / "label.html", run=run["run_id"])
    assert [*shown.questions["three_object"]] == [*shown.questions["two_object"]]
    file = save_answers(shown, tmp_path / "people.json", lambda item, _: "9" if item.tag == "three_object" else "7")
    assert jury("labels", "import", file)[0] == 0
    code, out, _ = jury("labels", "agreement", run["run_id"], "people", "--json")
    assert code == 0
    found = {(each["tag"], each["question"]): each for each in json.loads(out)["questions"]}
    assert [*dict.fromkeys(tag for tag, _ in found)] == ["single_object", "three_object", "two_object"]
    assert found["three_object", "overall_score"]["agreement"]["value"] == 1
    row = {"id": "00004/0000", "tag": "three_object", "aspect": "separation_clarity", "score": 8}
    assert jury("labels", "import", write_json(tmp_path / "table.json", [row]), "--flow", "object")[0] == 0
