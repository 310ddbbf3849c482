"""Files that deploy Image Jury on many machines, which must contain no secret, and the lock files."""

import os
import re
import shutil
import subprocess
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
import yaml

from flows.server.server_process import HOSTS, further_hosts

HOUSE = Path(__file__).parents[1]
FOLDER = HOUSE / "deployments"
COMPOSE = FOLDER / "compose.yaml"
REQUIRED = {"POSTGRES_PASSWORD": "db-secret", "JURY_AUTH": "ada:ui-secret", "JURY_DATA": "/srv/datasets"}
PASSED_ON = {
    "OPENAI_API_KEY": "key-secret", "JURY_ENDPOINTS": "judge.example.org=JUDGE_KEY", "JURY_ROOTS": "/data,/srv/jury",
    "JURY_BUDGET_MONTH": "200", "JURY_KEEP_DAYS": "90", "JURY_PRICES": "/data/prices.toml",
    "JURY_PAGES": "https://jury.example.org/pages",
    "AWS_ACCESS_KEY_ID": "access-secret", "AWS_SECRET_ACCESS_KEY": "bucket-secret",
    "AWS_DEFAULT_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://s3.example.org",
}  # fmt: skip
EVERYTHING = {
    **REQUIRED, **PASSED_ON,
    "JURY_PORT": "4300", "JURY_HOSTS": "jury.example.org", "JURY_STORE": "s3://bucket/prefix",
}  # fmt: skip
WORKERS = ("worker-1", "worker-2")
OURS = "image-jury"


def test_compose_refuses_to_start_without_required_variables() -> None:
    refused = docker_compose({})
    assert refused.returncode != 0 and "set it to" in refused.stderr
    used = re.findall(r"\$\{?(\w+)(.{11})", COMPOSE.read_text(encoding="utf-8"))
    assert {each for each in used if each[0] in REQUIRED} == {(name, ":?set it to") for name in REQUIRED}


def test_server_is_local_only_and_database_internal() -> None:
    services = compose_config(EVERYTHING)["services"]
    opened = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert opened == {"server": ["127.0.0.1:4300:4200/tcp"]}
    reached = {name for name, each in services.items() if "state" in each.get("networks", {})}
    assert reached == {"postgres", "redis", "server"}
    assert compose_config(REQUIRED)["networks"]["state"]["internal"] is True


def test_all_clients_of_the_server_authenticate() -> None:
    services = compose_config(REQUIRED)["services"]
    assert services["server"]["environment"]["PREFECT_SERVER_API_AUTH_STRING"] == REQUIRED["JURY_AUTH"]
    for name in ("deploy", *WORKERS):
        assert services[name]["environment"]["PREFECT_API_AUTH_STRING"] == REQUIRED["JURY_AUTH"]
        assert services[name]["environment"]["PREFECT_API_URL"] == "http://server:4200/api"


def test_server_answers_only_under_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for named, more in ((REQUIRED, set[str]()), (EVERYTHING, {"jury.example.org"})):
        server = compose_config(named)["services"]["server"]
        assert server["command"] == ["python", "-m", "flows.server.server_process"]
        assert "main" in vars(import_module(server["command"][-1]))
        monkeypatch.setenv(HOSTS, server["environment"][HOSTS])
        assert further_hosts() == {"server:4200", *more}, "the workers' name for it, and the proxy's"


def test_workers_differ_only_in_name() -> None:
    first, second = (compose_config(REQUIRED)["services"][name] for name in WORKERS)
    assert [word.replace("worker-1", "worker-2") for word in first.pop("command")] == second.pop("command")
    assert first == second
    assert {"ledgers:/srv/jury:rw", "/srv/datasets:/data:ro"} == set(first["volumes"])
    assert first["environment"]["JURY_STORE"] == "/srv/jury"


def test_keys_are_passed_only_to_workers() -> None:
    services = compose_config(EVERYTHING)["services"]
    for name, each in services.items():
        passed = PASSED_ON.keys() & each.get("environment", {}).keys()
        assert passed == (PASSED_ON.keys() if name in WORKERS else set()), name
    assert PASSED_ON.items() <= services["worker-1"]["environment"].items()
    absent = compose_config(REQUIRED)["services"]["worker-1"]["environment"]
    assert all(absent[name] is None for name in PASSED_ON)


def test_bucket_can_be_the_store_of_the_workers() -> None:
    worker = compose_config(EVERYTHING)["services"]["worker-1"]
    assert worker["environment"]["JURY_STORE"] == "s3://bucket/prefix"
    assert worker["environment"]["JURY_CACHE"].startswith("/srv/jury/"), "unsent rows must outlive the container"


def test_prefect_recognizes_every_setting_in_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import Settings

    in_image = dict(re.findall(r"(PREFECT_[A-Z_]+)=(\S+)", dockerfile()))
    assert in_image
    services = compose_config(REQUIRED)["services"]
    given = {**in_image, **environment(services["server"]), **environment(services["worker-1"])}
    names = {name for name in given if name.startswith("PREFECT_")} - {"PREFECT_REDIS_MESSAGING_URL"}
    for name in names:
        monkeypatch.setenv(name, given[name])
    settings = Settings()
    assert names <= settings.to_environment_variables(exclude_unset=True).keys()
    assert settings.server.database.connection_url is not None
    address = settings.server.database.connection_url.get_secret_value()
    assert address == "postgresql+asyncpg://prefect:db-secret@postgres:5432/prefect"
    assert not settings.server.analytics_enabled


def test_compose_file_contains_no_password() -> None:
    for name, each in services_as_written().items():
        for variable, value in environment(each).items():
            if re.search("PASSWORD|SECRET|KEY|AUTH", variable):
                assert value is None or re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), f"{name}: {variable}"


def test_every_image_and_variable_is_documented() -> None:
    written = COMPOSE.read_text(encoding="utf-8")
    images = {each["image"] for each in services_as_written().values()}
    variables = set(re.findall(r"\$\{([A-Z_]+)", written)) | set(PASSED_ON)
    assert OURS in images and REQUIRED.keys() <= variables
    explained = re.findall(r"`([^`\n]+)`", (HOUSE / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8"))
    assert sorted((images | variables) - set(explained)) == []


def test_listed_deployments_use_the_pool_of_the_workers() -> None:
    listed = yaml.safe_load((FOLDER / "prefect.yaml").read_text(encoding="utf-8"))
    pools = {each["work_pool"]["name"] for each in listed["deployments"]}
    services = services_as_written()
    used = {services[name]["command"][services[name]["command"].index("--pool") + 1] for name in WORKERS}
    assert pools == used
    assert all(f"work-pool create {pool} --type process" in services["deploy"]["command"][-1] for pool in pools)


def test_image_runs_as_an_unprivileged_user() -> None:
    users = re.findall(r"^USER (\S+)", dockerfile(), re.MULTILINE)
    assert users and users[-1] not in ("root", "0") and f"--create-home {users[-1]}" in dockerfile()
    assert not re.search("^(RUN|COPY|ADD)", dockerfile().rpartition("USER ")[2], re.MULTILINE)


def test_image_contains_only_the_program() -> None:
    copied = re.findall(r"^(?:COPY|ADD) (.+) \S+$", dockerfile(), re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    let_in = {line[1:] for line in ignored() if line.startswith("!")}
    assert sources == let_in
    assert ignored()[0] == "*", "everything is ignored unless listed"
    assert all((HOUSE / source).exists() for source in sources)
    packages = {"flows", "tasks", "prompts"}
    assert packages <= sources and not sources & {".", "tests", "deployments"}


def docker_compose(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `docker-compose config` with exactly these variables; it starts nothing."""
    if not shutil.which("docker-compose"):
        pytest.skip("docker-compose is not installed")
    with NamedTemporaryFile() as nothing:  # replaces a developer's .env beside the file
        command = ["docker-compose", "-f", str(COMPOSE), "--env-file", nothing.name, "config"]
        known = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
        return subprocess.run(command, env=known, capture_output=True, text=True, timeout=60, check=False)


def compose_config(variables: dict[str, str]) -> dict[str, Any]:
    return yaml.safe_load(_accepted(tuple(variables.items())))


@cache
def _accepted(variables: tuple[tuple[str, str], ...]) -> str:
    accepted = docker_compose(dict(variables))
    assert accepted.returncode == 0, accepted.stderr
    return accepted.stdout


def services_as_written() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]


def environment(service: dict[str, Any]) -> dict[str, str | None]:
    return service.get("environment", {})


def dockerfile() -> str:
    return re.sub("^#.*\n", "", (FOLDER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)


def ignored() -> list[str]:
    lines = (HOUSE / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


DEVELOPERS_LOCK, WORKERS_LOCK = HOUSE / "requirements.lock", HOUSE / "deployments" / "requirements.lock"
PINNED = re.compile(r"[a-z0-9][a-z0-9-]*==[^ ;]+( ; [\w'<>=!. ()]+)?( --hash=sha256:[0-9a-f]{64})+")


def pins(lock: Path) -> dict[str, list[str]]:
    """Return `name==version` of each package -> its whole line."""
    lines = lock.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    return {line.split()[0]: [" ".join(line.split())] for line in lines}


@pytest.mark.parametrize("lock", [DEVELOPERS_LOCK, WORKERS_LOCK], ids=["developers", "workers"])
def test_lock_contains_only_pinned_packages_with_hashes(lock: Path) -> None:
    lines = [line for each in pins(lock).values() for line in each]
    assert len(lines) > 100 and [line[:80] for line in lines if not PINNED.fullmatch(line)] == []


def test_workers_and_developers_use_the_same_versions() -> None:
    only_there = {name.partition("==")[0] for name in pins(WORKERS_LOCK).keys() - pins(DEVELOPERS_LOCK).keys()}
    assert only_there == {"prefect-redis"}
    assert not {name.partition("==")[0] for name in pins(WORKERS_LOCK)} & {"pytest", "moto", "pyright", "playwright"}


def test_locks_contain_the_projects_dependencies() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = {name.partition("==")[0] for name in pins(WORKERS_LOCK)}
    wanted = [*project["dependencies"], *project["optional-dependencies"]["s3"]]
    assert {re.split(r"[\[<>=]", one)[0] for one in wanted} <= locked
