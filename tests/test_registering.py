"""`jury up` again and again: what people changed on the server stays, and an edited list still takes effect."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.runner import Runner

from flows.runtime.deployments import read_list
from flows.runtime.registering import Registered, left_over, register, variable_name
from tasks.errors import InputError

NIGHTLY = {"slug": "nightly", "cron": "0 2 * * *", "timezone": "UTC"}
WEEKLY = {"slug": "weekly", "cron": "0 4 * * 0", "timezone": "UTC"}
FORM = {"dataset": "samples", "limit": 5, "judge": {"model": "m", "base_url": "http://127.0.0.1:1/v1"}}


class House:
    """A list of one deployment, the server that it is registered on, and the people who change things there."""

    def __init__(self, client: SyncPrefectClient, folder: Path) -> None:
        self.client, self.file, self.name = client, folder / "prefect.yaml", folder.name
        self.entry: dict[str, Any] = {
            "name": self.name,
            "entrypoint": "flows.colors.colors",
            "description": "As it was.",
            "tags": ["image-jury"],
            "schedules": [NIGHTLY],
            "parameters": {"parameters": FORM},
        }

    def up(self, reset: bool = False, **changes: Any) -> Registered:
        """Start `jury up` with an edited list."""
        self.entry |= changes
        self.file.write_text(yaml.safe_dump({"deployments": [self.entry]}))
        [deployed] = read_list(self.file)
        return asyncio.run(register(Runner("test"), deployed, reset))

    @property
    def there(self) -> DeploymentResponse:
        return self.client.read_deployment_by_name(f"colors/{self.name}")

    @property
    def form(self) -> dict[str, Any]:
        return self.there.parameters["parameters"]

    def schedule(self, slug: str | None) -> DeploymentSchedule:
        [found] = [each for each in self.there.schedules if each.slug == slug]
        return found

    def change(self, **changes: Any) -> None:
        """As the UI edits a deployment."""
        self.client._client.patch(f"/deployments/{self.there.id}", json=changes).raise_for_status()

    def change_form(self, **changes: Any) -> None:
        self.change(parameters={"parameters": {**self.form, **changes}})

    def change_schedule(self, slug: str, **changes: Any) -> None:
        path = f"/deployments/{self.there.id}/schedules/{self.schedule(slug).id}"
        self.client._client.patch(path, json=changes).raise_for_status()

    def delete_schedule(self, slug: str) -> None:
        self.client._client.delete(
            f"/deployments/{self.there.id}/schedules/{self.schedule(slug).id}"
        ).raise_for_status()

    def add_schedule(self, **fields: Any) -> None:
        """As the UI adds one: without a slug."""
        made = [{"active": True, "schedule": {"cron": "30 6 * * 1", "timezone": "Europe/Berlin"}, **fields}]
        self.client._client.post(f"/deployments/{self.there.id}/schedules", json=made).raise_for_status()


@pytest.fixture
def house(prefect_server: str, tmp_path: Path) -> Iterator[House]:
    with get_client(sync_client=True) as client:
        yield House(client, tmp_path)


def test_what_nobody_changed_is_as_the_list_says_and_nothing_is_told(house: House) -> None:
    for _ in range(2):
        told = house.up()
        assert told == (f"colors/{house.name}", ["0 2 * * * UTC"], [])
    assert (house.there.description, house.there.tags, house.form) == ("As it was.", ["image-jury"], FORM)
    assert not house.there.paused and house.schedule("nightly").active


def test_people_s_changes_stay_over_three_restarts_and_are_told_each_time(house: House) -> None:
    house.up()
    house.change_schedule("nightly", schedule={"cron": "0 3 * * *", "timezone": "Europe/Berlin"}, active=False)
    house.change_schedule("nightly", parameters={"parameters": {"limit": 9}})
    house.add_schedule(parameters={"parameters": {"votes": 3}})
    house.change_form(limit=7, votes=2)
    house.change(paused=True, tags=["image-jury", "ours"], concurrency_limit=1)
    before = house.there
    for _ in range(3):
        told = house.up()
        after = house.there
        own = {"schedules": {"__all__": {"updated"}}, "updated": True, "status": True, "pull_steps": True}
        assert after.model_dump(exclude=own) == before.model_dump(exclude=own)
        assert told.schedules == ["0 3 * * * Europe/Berlin (off)", "30 6 * * 1 Europe/Berlin"]
        words = "\n".join(told.said)
        assert "limit is 7, as changed here; in the list it is 5" in words and "votes is 2" in words
        assert "schedule nightly when is 0 3 * * * Europe/Berlin, as changed here; in the list it is 0 2" in words
        assert "schedule nightly active is False" in words and "schedule nightly parameters is {" in words
        assert len(told.said) == 6  # the tags, too


def test_a_deployment_that_has_another_name_now_keeps_what_people_changed(house: House) -> None:
    former, house.name = house.name, f"colors-{house.name}"
    house.up(name=former, schedules=[NIGHTLY, WEEKLY])
    own, house.name = house.name, former
    house.change_form(limit=7)
    house.change_schedule("nightly", schedule={"cron": "0 3 * * *", "timezone": "UTC"}, active=False)
    house.add_schedule(slug="ours")
    house.change(paused=True)
    house.name = own
    told = house.up(name=own, parameters={"parameters": {**FORM, "votes": 3}})
    assert told.said == [
        f"made from colors/{former}, its former name, whose schedules are off now",
        "limit is 7, as changed here; in the list it is 5",
    ]
    assert house.there.paused and house.form["limit"] == 7
    assert told.schedules == ["0 3 * * * UTC (off)", "0 4 * * 0 UTC", "30 6 * * 1 Europe/Berlin"]
    assert house.up().said and house.there.paused
    house.name = former
    assert house.there.schedules and not any(each.active for each in house.there.schedules)


def test_changes_of_the_list_take_effect_beside_people_s(house: House) -> None:
    house.up()
    house.change_form(limit=7)
    house.change_schedule("nightly", active=False)
    house.add_schedule()
    form = {**FORM, "votes": 3, "judge": {**FORM["judge"], "model": "n"}}
    told = house.up(
        description="As it is.",
        schedules=[{**NIGHTLY, "cron": "0 1 * * *", "parameters": {"parameters": {"limit": 2}}}, WEEKLY],
        parameters={"parameters": form},
    )
    assert house.there.description == "As it is." and house.form == {**form, "limit": 7}
    nightly = house.schedule("nightly")
    assert (nightly.schedule.cron, nightly.active, nightly.parameters) == (
        "0 1 * * *",
        False,
        {"parameters": {"limit": 2}},
    )
    assert told.schedules == ["0 1 * * * UTC (off)", "0 4 * * 0 UTC", "30 6 * * 1 Europe/Berlin"]
    house.up(
        schedules=[{**NIGHTLY, "cron": "0 1 * * *"}], parameters={"parameters": {"dataset": "samples", "limit": 5}}
    )
    assert {each.slug for each in house.there.schedules} == {"nightly", None}
    assert house.form == {"dataset": "samples", "limit": 7}


def test_where_both_changed_a_field_people_s_stays_and_is_named_until_a_reset(house: House) -> None:
    house.up()
    house.change_form(limit=7)
    house.change_schedule("nightly", schedule={"cron": "0 3 * * *", "timezone": "UTC"})
    edited = {"schedules": [{**NIGHTLY, "cron": "0 5 * * *"}], "parameters": {"parameters": {**FORM, "limit": 6}}}
    told = house.up(**edited)
    assert told.said == [
        "limit is 7, as changed here; the list has changed, too, to 6; `jury up --reset` takes the list's",
        "schedule nightly when is 0 3 * * * UTC, as changed here; the list has changed, too, to 0 5 * * * UTC; "
        "`jury up --reset` takes the list's",
    ]
    assert house.form["limit"] == 7 and house.schedule("nightly").schedule.cron == "0 3 * * *"
    assert house.up(reset=True).said == []
    assert house.form["limit"] == 6 and house.schedule("nightly").schedule.cron == "0 5 * * *"


def test_a_reset_puts_back_all_of_the_list_and_leaves_what_is_none_of_it(house: House) -> None:
    house.up(schedules=[NIGHTLY, WEEKLY])
    house.change_form(limit=7, votes=2)
    house.change(paused=True)
    house.delete_schedule("weekly")
    house.change_schedule("nightly", active=False)
    house.add_schedule()
    house.add_schedule(slug="ours")
    told = house.up(reset=True)
    assert told.said == [] and house.form == FORM and not house.there.paused
    assert {(each.slug, each.active) for each in house.there.schedules} == {
        ("nightly", True),
        ("weekly", True),
        (None, True),
        ("ours", True),
    }


def test_a_schedule_that_people_deleted_stays_deleted(house: House) -> None:
    house.up(schedules=[NIGHTLY, WEEKLY])
    house.delete_schedule("nightly")
    for schedules in ([NIGHTLY, WEEKLY], [{**NIGHTLY, "cron": "0 9 * * *"}, WEEKLY]):
        told = house.up(schedules=schedules)
        assert told.said == ["schedule nightly was deleted here, and stays so; `jury up --reset` takes the list's"]
        assert told.schedules == ["0 4 * * 0 UTC"]


def test_a_schedule_that_the_list_dropped_goes_unless_people_changed_it(house: House) -> None:
    house.up(schedules=[NIGHTLY, WEEKLY])
    house.change_schedule("weekly", schedule={"cron": "0 8 * * 0", "timezone": "UTC"})
    told = house.up(schedules=[])
    assert told.schedules == ["0 8 * * 0 UTC"]
    assert told.said == [
        "schedule weekly is no longer in the list, and stays since it was changed here; "
        "`jury up --reset` takes the list's"
    ]


def test_a_server_that_an_earlier_version_has_registered_on_keeps_what_differs(house: House) -> None:
    house.up()
    house.client._client.delete(f"/variables/name/{variable_name(f'colors/{house.name}')}").raise_for_status()
    # What a person saved in the form of an earlier version, which had two fields more.
    house.change_form(limit=7, shard=0, evaluation_id="")
    told = house.up(description="As it is.", schedules=[NIGHTLY, WEEKLY])
    assert house.form == {**FORM, "limit": 7} and house.there.description == "As it is."
    assert [words.partition(",")[0] for words in told.said] == ["limit is 7"]
    assert {each.slug for each in house.there.schedules} == {"nightly", "weekly"}


def test_fields_that_this_version_has_no_more_are_left_out_and_values_that_it_refuses_are_told(house: House) -> None:
    house.up()
    house.change(parameters={"parameters": {**FORM, "dropped": 1}}, parameter_openapi_schema={"type": "object"})
    assert house.up().said == [] and house.form == FORM
    house.change(parameters={"parameters": {**FORM, "limit": -1}}, parameter_openapi_schema={"type": "object"})
    with pytest.raises(InputError, match=rf"colors/{house.name} cannot be registered, .*`jury up --reset` takes"):
        house.up()
    assert house.up(reset=True).said == [] and house.form == FORM


def test_a_deployment_that_was_deleted_comes_back_from_the_list(house: House) -> None:
    house.up()
    house.change_form(limit=7)
    house.client.delete_deployment(house.there.id)
    assert house.up().said == [] and house.form == FORM


def test_a_deployment_that_has_another_name_in_the_list_now_is_not_left_behind_unsaid(house: House) -> None:
    former = house.up().title
    assert not [words for words in asyncio.run(left_over([former])) if words.startswith(f"{former} ")]
    house.name = f"{house.name}-renamed"
    title = house.up(name=house.name).title
    told = asyncio.run(left_over([title]))
    assert [words for words in told if words.startswith(f"{former} is on this server and not in the list: ")]
    assert not [words for words in told if words.startswith(f"{title} ")]
