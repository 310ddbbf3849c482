"""The list of deployments: its entries, its errors, and how a work pool receives it."""

import re
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate

from flows.cli import main
from flows.commands.up import STARTER
from flows.server.deployments import LIST, place_warnings, read_list, when
from tasks.endpoint.catalog import RECOMMENDED_MODEL
from tasks.protocols import parameters_of
from tasks.records.parameters import PAIRWISE, T2I, Collect, Parameters

HOUSE = Path(__file__).parents[1]
FLOWS = (*PAIRWISE, *T2I, "facts")


def test_every_flow_has_a_nightly_deployment() -> None:
    *nightly, collect = read_list()
    assert [deployed.title for deployed in nightly] == [f"{flow}/{flow}-nightly" for flow in FLOWS]
    assert [deployed.flow.name for deployed in nightly] == [*FLOWS]
    assert (collect.title, collect.flow.name, collect.schedules) == ("collect/collect", "collect", [])
    assert len({deployed.name for deployed in read_list()}) == len(FLOWS) + 1, "names must be unique"
    crons = [schedule.cron for deployed in nightly for schedule in deployed.schedules]
    assert len(set(crons)) == len(crons) == len(FLOWS), "no two start together"


def test_starter_list_and_its_commented_examples_are_valid(tmp_path: Path) -> None:
    titles = ["diagram/my-diagram", "counting/my-counting", "collect/collect"]
    assert [deployed.title for deployed in read_list(STARTER)] == titles
    text, place = STARTER.read_text(encoding="utf-8"), tmp_path / "prefect.yaml"
    place.write_text(re.sub(r"(?m)^( +)# (\w+: )", r"\1\2", text), encoding="utf-8")
    first = read_list(place)[0]
    parameters = first.form.model_validate(first.own)
    assert isinstance(parameters, Parameters) and parameters.judge.model == RECOMMENDED_MODEL
    assert (parameters.limit, parameters.anchors, parameters.budget) == (20, 40, 2.5)


def test_deploy_init_writes_the_starter_list_and_overwrites_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "init"]) == 0 and "up --deployments prefect.yaml\n" in capsys.readouterr().out
    place = tmp_path / "prefect.yaml"
    assert place.read_bytes() == STARTER.read_bytes()
    place.write_text("of its own")
    for given in (tmp_path, place):
        assert main(["deploy", "init", str(given)]) == 2
        assert f"{place} exists already, and stays as it is" in capsys.readouterr().err
    assert place.read_text() == "of its own"
    assert main(["deploy", "init", "mine.yaml", "--judge", "openai/gpt-x"]) == 0
    judged = [deployed.own["judge"]["model"] for deployed in read_list(tmp_path / "mine.yaml")[:-1]]
    assert judged == ["gpt-x", "gpt-x"], "the judge goes with the drawn samples, too"
    assert main(["deploy", "init", "nowhere/mine.yaml"]) == 2 and "no folder nowhere" in capsys.readouterr().err
    assert main(["deploy", "--notify", "slack-webhook/team", "init"]) == 2
    assert "--notify goes with `jury deploy` alone, not with init" in capsys.readouterr().err


def test_deploy_init_fills_the_list_for_a_dataset_and_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--samples", "data", "--count", "2", "--prompts", "1"]) == 0
    assert main(["deploy", "init", "own.yaml", "--dataset", "data/generated", "--judge", "openai/gpt-x"]) == 0
    assert "02:00 UTC on, by object, counting, colors and position. To serve it:\n" in capsys.readouterr().out
    *nightly, collect = read_list(tmp_path / "own.yaml")
    judge = {"base_url": "openai", "model": "gpt-x", "concurrency": 16}
    own = {"dataset": str(tmp_path / "data" / "generated"), "store": "jury-store", "judge": judge}
    assert [deployed.own for deployed in nightly] == 4 * [own] and collect.name == "collect"
    assert [deployed.title for deployed in nightly] == [f"{flow}/my-{flow}" for flow in T2I]
    assert [deployed.schedules[0].cron for deployed in nightly] == [f"{minute} 2 * * *" for minute in (0, 15, 30, 45)]
    assert main(["deploy", "init", "two.yaml", "--dataset", "data", "--results", "data/results/plot.json"]) == 0
    plot, _ = read_list(tmp_path / "two.yaml")
    assert (plot.title, plot.own["results"]) == ("plot/my-plot", str(tmp_path / "data" / "results" / "plot.json"))
    for wrong, message in (
        ("--dataset no", f"jury: dataset {tmp_path}/no does not exist\n"),
        ("--results data/results/plot.json", "--results and --images go with --dataset"),
        ("--dataset data --images data/plot/images", "--images fit diagram and plot: name the dataset's folder of one"),
        ("--dataset data --judge gpt-x", "'gpt-x' names no known endpoint before its model"),
    ):
        assert main(["deploy", "init", "none.yaml", *wrong.split()]) == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "none.yaml").exists()


def write_changed_list(path: Path, **changes: Any) -> Path:
    """Write the list with its second entry changed; a key set to None is removed."""
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    entry = {**listed["deployments"][1], **changes}
    listed["deployments"][1] = {key: value for key, value in entry.items() if value is not None}
    path.write_text(yaml.safe_dump(listed), encoding="utf-8")
    return path


def due(**schedule: Any) -> list[dict[str, Any]]:
    return [{"slug": "nightly", **schedule}]


WRONG = [
    ({"name": None}, "name: Field required"),
    ({"concurrency_limit": 1}, "concurrency_limit: there is no such field"),
    ({"entrypoint": "flows.plott.plot"}, "no entrypoint flows.plott.plot; allowed are flows.diagram.diagram,"),
    ({"entrypoint": "flows.diagram.diagram", "name": "diagram-nightly"},
     "diagram/diagram-nightly is in the list twice"),
    ({"schedules": due(cron="0 25 * * *")}, 'schedules.0: Invalid cron string: "0 25 * * *"'),
    ({"schedules": due(cron="0 2 * * *", interval=60)}, "exactly one of cron, interval and rrule"),
    ({"schedules": due()}, "exactly one of cron, interval and rrule"),
    ({"schedules": due(cron="0 2 * * *", timezone="Berlin")}, "schedules.0.timezone: no such time zone"),
    ({"schedules": [{"cron": "0 2 * * *"}]}, "schedules.0.slug: Field required"),
    ({"schedules": due(interval=-5)}, "schedules.0.interval: Input should be greater than 0"),
    ({"schedules": due(interval=float("inf"))}, "schedules.0.interval: Input should be less than or equal to"),
    ({"schedules": 2 * due(cron="0 2 * * *")}, "schedules: the slug 'nightly' is there twice"),
    ({"schedules": [{"slug": f"{n}-{'o' * 100}", "cron": "0 2 * * *"} for n in range(13)]},
     "schedules: more than can be remembered; move some into another entry"),
    ({"name": "a/b"}, "name 'a/b' contains /; allowed is a name without /%&<>"),
    ({"parameters": {"dataset": "samples"}}, "parameters.dataset: there is no such field"),
    ({"parameters": {"parameters": {"limit": -1}}}, "parameters.parameters.limit: Input should be greater"),
    ({"parameters": {"parameters": {"limt": 1}}},
     "parameters.parameters.limt: there is no such field, did you mean limit?"),
    ({"parameters": {"parameters": {"judge": {"model": "m", "base_url": "opnai"}}}}, "'opnai' is no address: allowed"),
    ({"schedules": due(cron="0 2 * * *", parameters={"limit": 1})}, "schedules.0.parameters.limit: there is no such"),
    ({"schedules": due(cron="0 2 * * *", parameters={"parameters": {"judge": {"sed": 1}}})},
     "schedule nightly: parameters.parameters.judge.sed: there is no such field, did you mean seed?"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), WRONG, ids=[words for _, words in WRONG])
def test_errors_in_the_list_name_their_entry(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = write_changed_list(tmp_path / "list.yaml", **changes)
    with pytest.raises(ValueError) as refused:
        read_list(path)
    assert str(refused.value).startswith(f"{path} has 1 problem:\n  entry 2: ") and words in str(refused.value)


def write_list_with(folder: Path, **form: Any) -> Path:
    return write_changed_list(folder / "list.yaml", parameters={"parameters": form})


def test_relative_paths_resolve_from_the_lists_folder(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    form = {"dataset": "figures", "store": "results/store", "follow_links": ["../shared"], "prompt_set": "default"}
    _, deployed, *_ = read_list(write_list_with(tmp_path, **form))
    folders = {"dataset": f"{tmp_path}/figures", "store": f"{tmp_path}/results/store"}
    assert deployed.own == {**folders, "follow_links": [f"{tmp_path}/../shared"], "prompt_set": "default"}
    for same in (
        {"dataset": "samples", "store": "jury-store", "results": "~/results.json"},
        {"dataset": "/data/", "images": "/data//figures"},
    ):
        assert read_list(write_list_with(tmp_path, **same))[1].own == same, "these paths stay unchanged"
    _, named, *_ = read_list(write_list_with(tmp_path, dataset="samples", images="default", results="samples"))
    assert named.own == {"dataset": "samples", "images": f"{tmp_path}/default", "results": f"{tmp_path}/samples"}


def test_relative_paths_are_refused_for_workers_by_deployment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    listed = write_list_with(tmp_path, dataset="figures", store="/srv/jury", follow_links=["../shared"])
    assert main(["deploy", "--deployments", str(listed)]) == 2
    err = capsys.readouterr().err
    assert "plot/plot-nightly: dataset figures is relative: workers run elsewhere, so give the whole path" in err
    assert "follow_links ['../shared'] is relative" in err and "store" not in err


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"dataset": "figures"}, "nothing is at dataset {folder}/figures yet"),
        ({"dataset": "https://example.org/data"}, "is a URL, and no URL is fetched"),
        ({"dataset": "{day}/figures"}, "/{{day}}/figures' holds other braces; allowed are {{date}}"),
        ({"dataset": "samples", "results": "out/{date}/*.json"}, "no file or folder matches '{folder}/out/20"),
        ({"dataset": "samples", "store": "kept"}, "its runs go to the store {folder}/kept; --store with"),
    ],
)
def test_unreadable_dataset_or_other_store_is_a_warning(form: dict[str, Any], words: str, tmp_path: Path) -> None:
    listed = read_list(write_list_with(tmp_path, **form))
    [warning] = place_warnings(listed)
    assert warning.startswith("plot/plot-nightly: ") and words.format(folder=tmp_path) in warning
    (tmp_path / "figures").mkdir()
    (tmp_path / "out" / f"{datetime.now().astimezone():%Y-%m-%d}").mkdir(parents=True)
    next((tmp_path / "out").iterdir()).joinpath("run.json").write_text("[]")
    assert place_warnings(listed) == ([] if "yet" in words or "no file" in words else [warning])


@pytest.mark.parametrize("written", ["", "deployments: []", "deployments: 3", "[a]", "deployments: ["])
def test_file_without_a_list_is_refused(written: str, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(written)
    with pytest.raises(ValueError, match=r"list\.yaml (holds no|cannot be read as a) list of deployments"):
        read_list(path)


def test_schedule_can_be_switched_off_and_have_values_of_its_own(tmp_path: Path) -> None:
    schedules = due(interval=3600, active=False, parameters={"parameters": {"dataset": "figures"}})
    listed = read_list(write_changed_list(tmp_path / "list.yaml", schedules=schedules))
    [schedule] = listed[1].schedules
    assert not schedule.active and when(schedule.created) == "every 3600 s UTC"
    assert schedule.created.parameters == {"parameters": {"dataset": f"{tmp_path}/figures"}}
    with pytest.raises(ValueError, match="plot/plot-nightly: dataset figures is relative"):
        read_list(tmp_path / "list.yaml", for_workers=True)


@pytest.fixture(scope="module")
def client(prefect_server: str, commands: Path) -> Iterator[SyncPrefectClient]:
    """A client of a server with a process work pool to which the list has been deployed."""
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="jury", type="process"))
        deploy(commands / "prefect")
        yield client


def deploy(prefect: Path) -> None:
    command = [prefect, "deploy", "--all", "--prefect-file", "deployments/prefect.yaml"]
    done = subprocess.run(command, cwd=HOUSE, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_work_pool_gets_every_deployment_of_the_list(client: SyncPrefectClient) -> None:
    deployments = {flow: client.read_deployment_by_name(f"{flow}/{flow}-nightly") for flow in FLOWS}
    for listed, (flow, deployed) in zip(read_list()[:-1], deployments.items(), strict=True):
        [schedule], [planned] = deployed.schedules, listed.schedules
        assert schedule.slug == planned.slug and schedule.active and not deployed.paused
        assert (schedule.schedule.cron, schedule.schedule.timezone) == (planned.cron, planned.timezone)
        assert deployed.entrypoint == listed.entrypoint and deployed.pull_steps == []
        assert deployed.description == listed.description and deployed.tags == listed.tags
        assert deployed.description and not set("`<>\n") & set(deployed.description), "both UIs show it in one line"
        assert deployed.work_pool_name == "jury"
        assert deployed.global_concurrency_limit is None and deployed.concurrency_options is None
        assert deployed.enforce_parameter_schema and deployed.parameters.keys() == {"parameters"}
        used = parameters_of(flow).model_validate(deployed.parameters["parameters"])
        assert used.judge.base_url == "embedded" and used.dataset == "samples"


def test_work_pool_gets_the_collect_deployment_without_a_schedule(client: SyncPrefectClient) -> None:
    deployed, listed = client.read_deployment_by_name("collect/collect"), read_list()[-1]
    assert deployed.schedules == [] and deployed.description == listed.description and not deployed.paused
    assert Collect.model_validate(deployed.parameters["parameters"]) == Collect(store="jury-store")
    assert deployed.entrypoint == listed.entrypoint and deployed.work_pool_name == "jury"
