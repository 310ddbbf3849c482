"""A kind of judging, an extension and a prompt set defined by a test, without changes elsewhere."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from answered_page import make_page, save_answers
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, text
from prefect import flow
from prefect.client.schemas.objects import State
from third_kind.prompt import PresenceParameters, PresencePrompt
from written_datasets import png

from flows import run as session
from flows.pipeline import evaluate
from tasks.judging.extension import Extension
from tasks.protocols import PACKAGES
from tasks.records import Outcome, Sample
from tasks.records.judge import Judge
from tasks.rubrics import rubric

pytestmark = pytest.mark.usefixtures("prefect_server", "without_pages")

HERE = Path(__file__).with_name("third_kind")


class Diary(Extension):
    """An extension that reverses the samples and records their outcomes."""

    def samples(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        return samples[::-1]

    def after_outcome(self, sample: Sample, outcome: Outcome) -> None:
        self.opening.said.append(f"{sample.sample_id} {outcome.overall}")


@flow(name="presence", validate_parameters=False)
async def presence(parameters: PresenceParameters) -> State:
    return await evaluate("presence", parameters)


@pytest.fixture
def diaries(monkeypatch: pytest.MonkeyPatch) -> list[Diary]:
    """Register the kind and the extension; return the extensions of later runs."""
    made = list[Diary]()

    def with_diary(opening: Any) -> tuple[Extension, ...]:
        made.append(Diary(opening))
        return (made[-1],)

    monkeypatch.setitem(rubric.PROMPT_MODELS, "presence", PresencePrompt)
    monkeypatch.setitem(PACKAGES, PresencePrompt, "third_kind")
    monkeypatch.setattr(rubric, "PROMPTS", HERE / "prompts")
    monkeypatch.setattr(session, "extensions_of", with_diary)
    return made


@pytest.fixture
def judge() -> Iterator[LoopbackJudge]:
    """Yield a judge that confirms every statement except the one on a dog."""

    def answer(seen: Request) -> Reply:
        if seen.schema_name == "probe":
            return allowed_reply()(seen)
        truth = seen.schema_name == "presence_wording" or not any("a dog" in words for words in seen.texts)
        return text(json.dumps({"answer": "yes" if truth else "no"}))

    with LoopbackJudge(answer) as served:
        yield served


def write_manifest(folder: Path) -> Path:
    folder.mkdir()
    rows = [{"id": "1", "candidate": "c", "statement": "a cat", "image": "1.png"},
            {"id": "2", "candidate": "c", "statement": "a dog", "image": "2.png"}]  # fmt: skip
    for row in rows:
        (folder / row["image"]).write_bytes(png(int(row["id"])))
    target = folder / "statements.jsonl"
    target.write_text("\n".join(map(json.dumps, rows)))
    return target


def test_custom_kind_extension_and_set_run_from_dataset_to_labels(
    tmp_path: Path, judge: LoopbackJudge, diaries: list[Diary], jury: Any, ask: Any
) -> None:
    asked = PresenceParameters(
        dataset=str(write_manifest(tmp_path / "data")),
        store=str(tmp_path / "store"),
        prompt_set=str(HERE / "set"),
        judge=Judge(model="m", base_url=judge.base_url),
    )
    state = asyncio.run(presence(asked, return_state=True))  # pyright: ignore
    assert state.is_completed() and judge.by_name == {"probe": 1, "presence_truth": 2, "presence_wording": 2}
    [diary] = [each for each in diaries if each.opening.said]
    assert diary.opening.said == ["2 no", "1 yes"]

    [run] = ask("SELECT run_id, dimensions FROM evaluations")
    assert run["dimensions"] == ["truth", "wording"]
    assert ask("SELECT sample_id, score, overall FROM outcomes ORDER BY 1") == [
        {"sample_id": "1", "score": 100, "overall": "yes"},
        {"sample_id": "2", "score": 50, "overall": "no"},
    ]
    board = ask("SELECT dimension, score FROM leaderboard ORDER BY 1")
    assert [(row["dimension"], row["score"]) for row in board] == [("overall", 75), ("truth", 50), ("wording", 100)]

    page = tmp_path / "page.html"
    assert jury("report", run["run_id"], "-o", page)[0] == 0
    html = page.read_text(encoding="utf-8")
    assert "c truth" in html and '{"name":"wording","verdict":"yes"' in html and "a dog" in html

    shown = make_page(tmp_path / "store", tmp_path / "label.html", run=run["run_id"])
    assert "Is the wording right?" in (tmp_path / "label.html").read_text(encoding="utf-8")
    file = save_answers(shown, tmp_path / "people.json", lambda _, __: "yes")
    assert jury("labels", "import", file)[0] == 0
    code, out, err = jury("labels", "agreement", run["run_id"], "people", "--json")
    assert code == 0, err
    found = {each["question"]: each["agreement"]["value"] for each in json.loads(out)["questions"]}
    assert found == {"truth": 0.5, "wording": 1, "overall": 0.5}
