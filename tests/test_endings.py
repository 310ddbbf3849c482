"""Judges that end: which deployments and schedules they concern, and that a run of one says so."""

from datetime import date
from typing import Any
from uuid import uuid4

import pytest
from loopback_judge import LoopbackJudge, judged_by
from prefect.client.schemas.responses import DeploymentResponse

from flows.runtime.endings import ending_lines
from tasks.endpoint import known
from tasks.endpoint.known import endpoints

DAY = date(2026, 11, 22)
ENDING = {"model": "gpt-5", "base_url": "openai"}
LASTING = {"model": "pixel-baseline", "base_url": "embedded"}


def deployment(name: str, judge: dict[str, Any], *schedules: tuple[str, dict[str, Any]]) -> DeploymentResponse:
    """A deployment as the server tells it, and its schedules with the judge that each overrides."""
    own = uuid4()
    listed = [
        {
            **{"id": uuid4(), "deployment_id": own, "active": True, "slug": slug, "schedule": {"cron": "0 3 * * *"}},
            "parameters": {"parameters": {"judge": other}} if other else {},
        }
        for slug, other in schedules
    ]
    told = {"id": own, "name": name, "flow_id": uuid4(), "parameters": {"parameters": {"judge": judge}}}
    return DeploymentResponse.model_validate({**told, "schedules": listed})


def test_a_judge_that_ends_is_told_once_with_all_that_it_concerns() -> None:
    found = [
        deployment("weekly", LASTING, ("sunday", ENDING), ("monday", {})),
        deployment("nightly", ENDING, ("nightly", {}), ("cheap", {"model": "gpt-99"})),
        deployment("untouched", LASTING),
        deployment("other", {"model": "gpt-4-turbo", "base_url": "https://api.openai.com/v1"}),
    ]
    lines = ending_lines(found, DAY)
    assert [line.partition(" (by ")[0] for line in lines] == [
        "gpt-5 (OpenAI) ends on 2026-12-11, in 19 days: nightly, weekly, its schedule sunday",
        "gpt-4-turbo (OpenAI) ended on 2026-10-23: other",
    ]
    assert all(", looked up 2026-" in line for line in lines)


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {"judge": {"model": 3}}}])
def test_parameters_of_another_form_concern_nothing(parameters: dict[str, Any]) -> None:
    odd = deployment("odd", {}).model_copy(update={"parameters": parameters})
    assert ending_lines([odd], DAY) == []


def test_a_run_by_a_judge_that_has_ended_says_so_in_its_record_and_status_tells_it(
    jury: Any, loopback: LoopbackJudge, prefect_server: str, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    moved = endpoints()["openai"].model_copy(update={"address": loopback.base_url, "key": ""})
    monkeypatch.setattr(known, "endpoints", lambda: {"openai": moved})
    judge = judged_by(loopback, **{"judge.model": "gpt-4-turbo"})
    code, _, err = jury("run", "counting", "--limit", 1, *judge)
    assert code == 0 and "The judge gpt-4-turbo (OpenAI) ended on 2026-10-23" in err
    [run] = ask("SELECT warnings FROM runs")
    assert any(words.startswith("The judge gpt-4-turbo") for words in run["warnings"])
    monkeypatch.delenv("PREFECT_API_URL")
    assert "  ending   gpt-4-turbo (OpenAI) ended on 2026-10-23 (by http" in jury("status")[1]
