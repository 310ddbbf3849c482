"""Parameters of a flow run: those that it was given, and the rest from its deployment."""

from typing import Any

import pytest
from deployed_here import Deployment

from flows.flow_run import completed, read_json
from tasks.records.parameters import PairwiseParameters

DEPLOYMENT = {
    **{"dataset": "bench", "candidate_name": "drawn", "limit": 2, "ids": ["00000"]},
    "judge": {"model": "m", "base_url": "http://127.0.0.1:1/v1", "extra": {"top_k": 1, "top_p": 0.5}},
}
FORM = PairwiseParameters.model_validate(DEPLOYMENT).model_dump()
"""Parameters that both UIs send from an unchanged form."""
TAKEN = ["candidate_name", "dataset", "ids", "judge.base_url", "judge.extra", "judge.model", "limit"]
JUDGE = DEPLOYMENT["judge"]


def without(form: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name not in names}


def all_but(*names: str) -> list[str]:
    return [name for name in TAKEN if name not in names]


EMPTY = {"limit": None, "candidate_name": "", "ids": []}
CASES = {
    # given to a run -> differences from the deployment, names taken from it, names emptied
    "nothing": ({}, {}, TAKEN, []),
    "a number": ({"limit": 4}, {"limit": 4}, all_but("limit"), []),
    "a field of the judge": ({"judge": {"model": "n"}}, {"judge": {**JUDGE, "model": "n"}}, all_but("judge.model"), []),
    "a list and a free map that replace others": (
        {"ids": [], "judge": {"extra": {"top_k": 2}}}, {"ids": [], "judge": {**JUDGE, "extra": {"top_k": 2}}},
        all_but("ids", "judge.extra"), []),
    "the program's defaults": (
        {**EMPTY, "judge": {"extra": {}}}, {**EMPTY, "judge": {**JUDGE, "extra": {}}},
        ["dataset", "judge.base_url", "judge.model"], []),
    "a whole form": (FORM, {}, [], []),
    "a form with an emptied number": (without(FORM, "limit"), {"limit": None}, [], ["limit"]),
    "a form with an emptied text": (without(FORM, "candidate_name"), {"candidate_name": ""}, [], ["candidate_name"]),
    "a form without its dataset": (without(FORM, "dataset"), {}, ["dataset"], []),
}  # fmt: skip


@pytest.mark.parametrize(("own", "changes", "taken", "emptied"), CASES.values(), ids=[*CASES])
def test_missing_parameters_come_from_the_deployment_at_any_depth(
    own: dict[str, Any], changes: dict[str, Any], taken: list[str], emptied: list[str]
) -> None:
    found, names, cleared = completed(own, DEPLOYMENT, PairwiseParameters)
    assert PairwiseParameters.model_validate(found) == PairwiseParameters.model_validate({**DEPLOYMENT, **changes})
    assert (sorted(names), cleared) == (taken, emptied)


def test_free_maps_are_parsed_in_the_uis_format() -> None:
    extra = {"__prefect_kind": "json", "value": '{"top_k": 3}'}
    stored = {"limit": 1, "judge": {"extra": extra, "headers": {"__prefect_kind": "json"}}}
    found, _, _ = completed(read_json(stored), DEPLOYMENT, PairwiseParameters)
    assert found.keys() == DEPLOYMENT.keys() and "headers" not in found["judge"]
    assert PairwiseParameters.model_validate(found).judge.extra == {"top_k": 3}


def test_schedule_added_without_parameters_overrides_nothing() -> None:
    untouched = {"judge": {"extra": {"__prefect_kind": "json"}, "headers": {"__prefect_kind": "json"}}}
    found, _, _ = completed(read_json(untouched), DEPLOYMENT, PairwiseParameters)  # the format of the newer UI
    assert found == DEPLOYMENT


def test_run_with_one_override_reports_parameters_of_its_deployment(deployment: Deployment) -> None:
    run = deployment.create_run({"votes": 2, "judge": {"concurrency": 3}})
    state = deployment.execute(run)
    assert state.is_completed(), state.message
    [start] = deployment.run_starts()
    used = start["parameters"]
    assert (used["votes"], used["limit"], start["candidates"]) == (2, 2, ["steady"])
    assert used["judge"]["concurrency"] == 3
    shown = deployment.client.read_flow_run(run.id).parameters["parameters"]
    assert {"dataset": "samples", **shown} == {**deployment.own, "votes": 2, "judge": {"concurrency": 3}}
    words = "from the deployment: store, limit, candidate, reuse_hours"
    assert words in deployment.logs(run.id) and words in deployment.artifact(run.id)


def test_invalid_parameters_stop_a_run_with_one_sentence(deployment: Deployment) -> None:
    deployment.change(enforce_parameter_schema=False)  # schedules are not checked either
    for given, words in (
        ({"limit": -1}, "limit: Input should be greater than or equal to 1, found -1"),
        ({"limt": 1}, "limt: there is no such field, did you mean limit?, found 1"),
        ({"judge": {"modle": "m"}}, "judge.modle: there is no such field, did you mean model?"),
        ({"judge": {"model": "gpt"}}, "judge.model is 'gpt' and needs an address"),
    ):
        state = deployment.execute(deployment.create_run(given))
        assert state.is_failed() and words in str(state.message)
    assert deployment.run_starts() == []
