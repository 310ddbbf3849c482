"""Repeated starts of `jury up`: edits in the UI are kept, and edits of the list still take effect."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.actions import RunDeployment
from served import listed

from flows.server.deployments import MISSING, Registered, digests, left_over, merge, read_list, register, variable_name
from tasks.errors import InputError

NIGHTLY = {"slug": "nightly", "cron": "0 2 * * *", "timezone": "UTC"}
WEEKLY = {"slug": "weekly", "cron": "0 4 * * 0", "timezone": "UTC"}
FORM = {"dataset": "samples", "limit": 5, "judge": {"model": "m", "base_url": "http://127.0.0.1:1/v1"}}


class House:
    """A list with one deployment, its registration on the server, and edits that people make there."""

    def __init__(self, client: SyncPrefectClient, folder: Path) -> None:
        self.client, self.file, self.name = client, folder / "prefect.yaml", folder.name
        self.entry = listed(self.name, {"nightly": "0 2 * * *"}, FORM)
        self.entry |= {"entrypoint": "flows.colors.colors", "description": "As it was.", "tags": ["image-jury"]}

    def up(self, reset: bool = False, **changes: Any) -> Registered:
        self.entry |= changes
        self.file.write_text(yaml.safe_dump({"deployments": [self.entry]}))
        [deployed] = read_list(self.file)
        return asyncio.run(register(deployed, reset))

    @property
    def there(self) -> DeploymentResponse:
        return self.client.read_deployment_by_name(f"colors/{self.name}")

    @property
    def form(self) -> dict[str, Any]:
        return self.there.parameters["parameters"]

    def change(self, **changes: Any) -> None:
        self.client._client.patch(f"/deployments/{self.there.id}", json=changes).raise_for_status()

    def change_form(self, **changes: Any) -> None:
        self.change(parameters={"parameters": {**self.form, **changes}})

    def change_schedule(self, slug: str, **changes: Any) -> None:
        self.client._client.patch(self._path(slug), json=changes).raise_for_status()

    def delete_schedule(self, slug: str) -> None:
        self.client._client.delete(self._path(slug)).raise_for_status()

    def _path(self, slug: str) -> str:
        there = self.there
        [found] = [each.id for each in there.schedules if each.slug == slug]
        return f"/deployments/{there.id}/schedules/{found}"

    def add_schedule(self, **fields: Any) -> None:
        """Add a schedule as the UI does: without a slug."""
        made = [{"active": True, "schedule": {"cron": "30 6 * * 1", "timezone": "Europe/Berlin"}, **fields}]
        self.client._client.post(f"/deployments/{self.there.id}/schedules", json=made).raise_for_status()


@pytest.fixture
def house(prefect_server: str, tmp_path: Path) -> Iterator[House]:
    with get_client(sync_client=True) as client:
        yield House(client, tmp_path)


def test_judge_without_its_key_is_reported(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    unset = "its runs will stop before their first call: The key OPENAI_API_KEY for api.openai.com is not set: "
    [said] = house.up(parameters={"parameters": {"judge": {"model": "m", "base_url": "openai"}}}).said
    assert said.startswith(unset) and "no Secret block openai-api-key" in said
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert house.up().said == []


def test_triggers_are_made_again_only_after_an_edit_of_the_list(house: House) -> None:
    def automations() -> list[str]:
        found = [each for each in house.client.read_automations() if each.actions[0] == run]
        return sorted(each.name for each in found)

    ended = {"expect": ["prefect.flow-run.Completed"], "match_related": {"prefect.resource.name": "generate"}}
    house.up(triggers=[ended, {**ended, "name": "mine"}])
    run = RunDeployment(deployment_id=house.there.id)
    assert automations() == [f"colors/{house.name}: trigger 1", "mine"]
    house.client.delete_resource_owned_automations(f"prefect.deployment.{house.there.id}")
    house.up()
    assert automations() == []
    house.up(triggers=[ended])
    assert automations() == [f"colors/{house.name}: trigger 1"]
    house.up(triggers=[])
    assert automations() == []
    with pytest.raises(InputError, match=r"triggers: 0.event.posture: Input should be "):
        house.up(triggers=[{"posture": "Often"}])


def test_unedited_deployment_follows_the_list_without_messages(house: House) -> None:
    described = "As it was. Runs every night."
    for _ in range(2):
        registered = house.up(description=described)
        assert registered == (house.there.id, ["0 2 * * * UTC"], [])
    there = house.there
    assert (there.description, there.tags, there.parameters["parameters"]) == (described, ["image-jury"], FORM)
    assert not there.paused and [each.active for each in there.schedules] == [True]


def test_ui_edits_survive_restarts_and_are_reported_each_time(house: House) -> None:
    house.up()
    changed = {"schedule": {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}, "active": False}
    house.change_schedule("nightly", **changed, parameters={"parameters": {"limit": 9}})
    house.add_schedule(parameters={"parameters": {"votes": 3}})
    house.change_form(limit=7, votes=2)
    house.change(paused=True, concurrency_limit=1)
    before = house.there
    for _ in range(2):
        registered = house.up()
        after = house.there
        own = {"schedules": {"__all__": {"updated"}}, "updated": True, "status": True, "pull_steps": True}
        assert after.model_dump(exclude=own) == before.model_dump(exclude=own)
        assert registered.schedules == ["0 3 * * * Europe/Berlin (off)", "30 6 * * 1 Europe/Berlin"]
        words = "\n".join(registered.said)
        assert "limit is 7, as changed here; in the list it is 5" in words and "votes is 2" in words
        assert "schedule nightly when is 0 3 * * * Europe/Berlin, as changed here; in the list it is 0 2" in words
        assert "schedule nightly active is False" in words and "schedule nightly parameters is {" in words
        assert len(registered.said) == 5


def test_list_edits_take_effect_beside_ui_edits(house: House) -> None:
    house.up()
    theirs = {"dataset": "ours", "judge": {**FORM["judge"], "base_url": "http://127.0.0.1:2/v1"}}
    house.change_form(**theirs)
    house.change_schedule("nightly", active=False)
    house.add_schedule()
    registered = house.up(
        description="As it is.",
        schedules=[{**NIGHTLY, "cron": "0 1 * * *", "parameters": {"parameters": {"limit": 2}}}, WEEKLY],
        parameters={"parameters": {**FORM, "votes": 3, "judge": {**FORM["judge"], "model": "n"}}},
    )
    there = house.there
    assert there.description == "As it is."
    form = {**FORM, **theirs, "votes": 3, "judge": {**theirs["judge"], "model": "n"}}
    assert there.parameters["parameters"] == form
    [nightly] = [each for each in there.schedules if each.slug == "nightly"]
    assert (nightly.schedule.cron, nightly.active) == ("0 1 * * *", False)
    assert nightly.parameters == {"parameters": {"limit": 2}}
    assert registered.schedules == ["0 1 * * * UTC (off)", "0 4 * * 0 UTC", "30 6 * * 1 Europe/Berlin"]
    for _ in range(2):
        house.up(schedules=[{**NIGHTLY, "cron": "0 1 * * *"}], parameters={"parameters": {"dataset": "samples"}})
        assert {each.slug for each in house.there.schedules} == {"nightly", None} and house.form == {"dataset": "ours"}


def test_moved_list_takes_its_relative_paths_along(house: House, tmp_path: Path) -> None:
    house.up(parameters={"parameters": {**FORM, "dataset": "images"}})
    (tmp_path / "moved").mkdir()
    house.file = tmp_path / "moved" / "prefect.yaml"
    [said], [] = (house.up().said for _ in range(2))
    assert said.startswith("dataset was ") and said.endswith(" has replaced it")
    assert house.form["dataset"] == f"{tmp_path}/moved/images"


def test_conflicting_edit_takes_the_lists_value_and_reports_the_other(house: House) -> None:
    house.up()
    house.change_form(limit=7)
    house.change_schedule("nightly", schedule={"cron": "0 3 * * *", "timezone": "UTC"}, active=False)
    house.change(tags=["ours"], description="Ours.")
    edited = {"schedules": [{**NIGHTLY, "cron": "0 5 * * *"}], "parameters": {"parameters": {**FORM, "limit": 6}}}
    assert house.up(**edited).said == [
        "description was Ours.; the list's As it was. has replaced it",
        "tags was ['ours']; the list's ['image-jury'] has replaced it",
        "limit was 7; the list's 6 has replaced it",
        "schedule nightly active is False, as changed here; in the list it is True",
        "schedule nightly when was 0 3 * * * UTC; the list's 0 5 * * * UTC has replaced it",
    ]
    there = house.there
    assert there.parameters["parameters"]["limit"] == 6 and there.tags == ["image-jury"]
    assert there.description == "As it was."
    assert [(each.schedule.cron, each.active) for each in there.schedules] == [("0 5 * * *", False)]


def test_ui_controls_pausing_unless_the_list_sets_it(house: House) -> None:
    assert house.up(paused=True).said == [] and house.there.paused
    house.change(paused=False)
    assert house.up().said == ["paused was False; the list's True has replaced it"] and house.there.paused
    del house.entry["paused"]
    house.change(paused=False)
    assert house.up().said == [] and not house.there.paused


def test_reset_restores_the_list_and_keeps_added_schedules(house: House) -> None:
    house.up(schedules=[NIGHTLY, WEEKLY])
    house.change_form(limit=7, votes=2)
    house.change(paused=True)
    house.delete_schedule("weekly")
    house.change_schedule("nightly", active=False)
    house.add_schedule()
    house.add_schedule(slug="ours")
    registered = house.up(reset=True)
    assert [words.partition(" was ")[0] for words in registered.said] == ["limit", "votes", "schedule nightly active"]
    there = house.there
    assert there.parameters["parameters"] == FORM and not there.paused
    assert {each.slug for each in there.schedules} == {"nightly", "weekly", None, "ours"}
    assert all(each.active for each in there.schedules)


def test_schedule_deleted_in_the_ui_is_not_recreated_and_an_edited_one_stays(house: House) -> None:
    house.up(schedules=[NIGHTLY, WEEKLY])
    house.delete_schedule("nightly")
    for schedules in ([NIGHTLY, WEEKLY], [{**NIGHTLY, "cron": "0 9 * * *"}, WEEKLY]):
        registered = house.up(schedules=schedules)
        assert registered.said == [
            "schedule nightly was deleted here and is not made again; `jury up --reset` takes the list's"
        ]
        assert registered.schedules == ["0 4 * * 0 UTC"]
    house.change_schedule("weekly", schedule={"cron": "0 8 * * 0", "timezone": "UTC"})
    registered = house.up(schedules=[])
    assert registered.schedules == ["0 8 * * 0 UTC"]
    assert registered.said == [
        "schedule weekly is no longer in the list, and stays since it was changed here; "
        "`jury up --reset` takes the list's"
    ]


def test_obsolete_fields_are_dropped_and_invalid_values_reported(house: House) -> None:
    house.up()
    house.change(parameters={"parameters": {**FORM, "dropped": 1}}, parameter_openapi_schema={"type": "object"})
    assert house.up().said == [] and house.form == FORM
    house.change(parameters={"parameters": {**FORM, "limit": -1}}, parameter_openapi_schema={"type": "object"})
    with pytest.raises(InputError, match=rf"colors/{house.name} cannot be registered, .*`jury up --reset` takes"):
        house.up()
    assert house.up(reset=True).said == ["limit was -1; the list's 5 has replaced it"] and house.form == FORM


def test_deployment_deleted_in_the_ui_is_not_recreated_but_reported(house: House) -> None:
    title = f"colors/{house.name}"
    house.up()
    house.client.delete_deployment(house.there.id)
    for _ in range(2):
        registered = house.up()
        assert (registered.id, registered.schedules) == (None, [])
        assert registered.said == [
            f"was deleted in the UI and is not made again; delete the variable {variable_name(title)} there, too, to "
            "get it back at the next start"
        ]
    house.client._client.delete(f"/variables/name/{variable_name(title)}").raise_for_status()
    assert house.up().said == [] and house.form == FORM
    house.client.delete_deployment(house.there.id)
    assert house.up(reset=True).id and house.form == FORM


def test_renamed_deployment_leaves_a_message_about_the_old_one(house: House) -> None:
    former = f"colors/{house.name}"
    house.up()
    house.name = f"{house.name}-renamed"
    house.up(name=house.name)
    title = f"colors/{house.name}"
    messages = asyncio.run(left_over([title]))
    assert [words for words in messages if words.startswith(f"{former} is on this server and not in the list: ")]
    assert not [words for words in messages if words.startswith(f"{title} ")]


CASES = {
    # list before, list now, server -> server afterwards, part of the message
    "nothing changed": (5, 5, 5, 5, ""),
    "the list changed": (5, 6, 5, 6, "has replaced it"),
    "people changed": (5, 5, 7, 7, "as changed here"),
    "both changed to the same": (5, 6, 6, 6, ""),
    "both changed": (5, 6, 7, 6, "has replaced it"),
    "new in the list, default on the server": (MISSING, 6, 0, 6, "has replaced it"),
    "new in the list, set by people before": (MISSING, 6, 7, 6, "has replaced it"),
    "removed from the list": (5, MISSING, 5, MISSING, "has replaced it"),
    "set only by people": (MISSING, MISSING, 7, 7, "as changed here"),
    "default in people's form": (MISSING, MISSING, 0, 0, ""),
    "removed by people": (5, 5, MISSING, MISSING, "as changed here"),
    "number written differently by the server": (20.0, 20.0, 20, 20, ""),
}


def given(value: Any) -> dict[str, Any]:
    return {} if value == MISSING else {"limit": value}


@pytest.mark.parametrize(("last", "listed", "found", "after", "message"), CASES.values(), ids=[*CASES])
def test_merge_takes_values_the_list_changed(last: Any, listed: Any, found: Any, after: Any, message: str) -> None:
    merged = merge(digests(given(last)), given(listed), given(found), {"limit": 0})
    assert merged.values == given(after) and merged.replaced == ["limit"] * (message == "has replaced it")
    assert [message in words for words in merged.said] == [True] * bool(message)
