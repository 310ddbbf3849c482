"""What a run judges: what it was given, its deployment for the rest, and as a shard what its tags say."""

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
"""What both UIs send of a form that nobody has changed."""
TAKEN = ["candidate_name", "dataset", "ids", "judge.base_url", "judge.extra", "judge.model", "limit"]
JUDGE = DEPLOYMENT["judge"]


def without(form: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name not in names}


def but(*names: str) -> list[str]:
    return [name for name in TAKEN if name not in names]


EMPTY = {"limit": None, "candidate_name": "", "ids": []}
CASES = {
    # what a run is given -> what differs from the deployment, what is taken from that, and what was emptied
    "nothing": ({}, {}, TAKEN, []),
    "a number": ({"limit": 4}, {"limit": 4}, but("limit"), []),
    "a field of the judge": ({"judge": {"model": "n"}}, {"judge": {**JUDGE, "model": "n"}}, but("judge.model"), []),
    "a list and a free map, which replace": (
        {"ids": [], "judge": {"extra": {"top_k": 2}}}, {"ids": [], "judge": {**JUDGE, "extra": {"top_k": 2}}},
        but("ids", "judge.extra"), []),
    "the program's defaults, which stay": (
        {**EMPTY, "judge": {"extra": {}}}, {**EMPTY, "judge": {**JUDGE, "extra": {}}},
        ["dataset", "judge.base_url", "judge.model"], []),
    "a whole form": (FORM, {}, [], []),
    "a form with an emptied number": (without(FORM, "limit"), {"limit": None}, [], ["limit"]),
    "a form with an emptied text": (without(FORM, "candidate_name"), {"candidate_name": ""}, [], ["candidate_name"]),
    "a form without its dataset, which is never empty": (without(FORM, "dataset"), {}, ["dataset"], []),
}  # fmt: skip


@pytest.mark.parametrize(("own", "changes", "taken", "emptied"), CASES.values(), ids=[*CASES])
def test_what_a_run_was_not_given_it_takes_from_its_deployment_at_any_depth(
    own: dict[str, Any], changes: dict[str, Any], taken: list[str], emptied: list[str]
) -> None:
    found, names, cleared = completed(own, DEPLOYMENT, PairwiseParameters)
    assert PairwiseParameters.model_validate(found) == PairwiseParameters.model_validate({**DEPLOYMENT, **changes})
    assert (sorted(names), cleared) == (taken, emptied)


def test_free_maps_as_the_uis_write_them_are_read() -> None:
    extra = {"__prefect_kind": "json", "value": '{"top_k": 3}'}
    stored = {"limit": 1, "judge": {"extra": extra, "headers": {"__prefect_kind": "json"}}}
    found, _, _ = completed(read_json(stored), DEPLOYMENT, PairwiseParameters)
    assert found.keys() == DEPLOYMENT.keys() and "headers" not in found["judge"]
    assert PairwiseParameters.model_validate(found).judge.extra == {"top_k": 3}


def test_a_schedule_that_a_person_added_and_gave_nothing_overrides_nothing() -> None:
    untouched = {"judge": {"extra": {"__prefect_kind": "json"}, "headers": {"__prefect_kind": "json"}}}
    found, _, _ = completed(read_json(untouched), DEPLOYMENT, PairwiseParameters)  # as the newer of the UIs sends it
    assert found == DEPLOYMENT


@pytest.mark.usefixtures("laid_out")
def test_a_run_with_one_override_judges_what_its_deployment_says_and_tells_so(deployment: Deployment) -> None:
    run = deployment.asked({"votes": 2, "judge": {"concurrency": 3}})
    state = deployment.done(run)
    assert state.is_completed(), state.message
    [start] = deployment.judged()
    asked = start["parameters"]
    assert (asked["votes"], asked["limit"], start["candidates"]) == (2, 2, ["steady"])
    assert asked["judge"]["concurrency"] == 3
    shown = deployment.client.read_flow_run(run.id).parameters["parameters"]
    assert {"dataset": "samples", **shown} == {**deployment.own, "votes": 2, "judge": {"concurrency": 3}}
    said = "from the deployment: store, limit, candidate, reuse_hours"
    assert said in deployment.logs(run.id) and said in deployment.artifact(run.id)


def test_what_is_not_allowed_stops_a_run_with_one_sentence(deployment: Deployment) -> None:
    deployment.change(enforce_parameter_schema=False)  # as schedules are not checked
    for given, words in (
        ({"limit": -1}, "limit: Input should be greater than or equal to 1, found -1"),
        ({"limt": 1}, "limt: there is no such field, did you mean limit?, found 1"),
        ({"judge": {"modle": "m"}}, "judge.modle: there is no such field, did you mean model?"),
        ({"judge": {"model": "gpt"}}, "judge.model is 'gpt' and needs an address"),
    ):
        state = deployment.done(deployment.asked(given))
        assert state.is_failed() and words in str(state.message)
    assert deployment.judged() == []
