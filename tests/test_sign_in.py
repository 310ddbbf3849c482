"""`jury up --auth`: other users of the machine are kept out, and what signs in is written nowhere else."""

import stat
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from served import Up, environment, free_port, jury_up, wait_for
from test_up import command

from flows.runtime import sign_in
from flows.runtime.server import home
from tasks.synthetic.samples import drawn_samples


def test_what_signs_in_is_kept_for_this_user_alone_until_nothing_is_needed(tmp_path: Path) -> None:
    text = sign_in.settle(tmp_path, wanted=True)
    assert len(text) > 30 and sign_in.kept(tmp_path) == text == sign_in.settle(tmp_path, wanted=True)
    assert stat.S_IMODE((tmp_path / sign_in.FILE).stat().st_mode) == 0o600
    assert sign_in.settle(tmp_path, wanted=False) == sign_in.kept(tmp_path) == ""


def test_it_is_not_made_for_the_server_of_somebody_else(jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    code, _, err = jury("up", "--auth")
    assert code == 2 and "that of PREFECT_API_URL takes PREFECT_API_AUTH_STRING" in err


def test_commands_and_runs_sign_in_and_others_are_refused(tmp_path: Path) -> None:
    store, images = tmp_path / "store", str(drawn_samples(tmp_path / "drawn", "position", prompts=1))
    with jury_up(store, free_port(), "--auth") as up:
        assert up.auth and up.auth not in str(environment())
        for stranger in ("", "jury:guess"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                up._replace(auth=stranger).api("/deployments/filter", {})
        done = command("run", "position", "--dataset", images, "--limit", "1", "--store", str(store))
        assert done.returncode == 0 and "temporary" not in done.stderr
        told = command("status", "--store", str(store))
        assert up.ui in told.stdout and "next " in told.stdout
        of_the_form = started(up, images)
        assert up.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [of_the_form]}}})
    kept = home(store) / sign_in.FILE
    written = [path for path in store.rglob("*") if path.is_file() and path != kept]
    assert len(written) > 10
    assert [path for path in written if up.auth.encode() in path.read_bytes()] == []
    assert up.auth not in done.stdout + done.stderr + told.stdout + store.with_name("store-up.log").read_text()


def started(up: Up, dataset: str) -> str:
    """Id of a run of a deployment, once it has ended well and its log has arrived."""
    deployment = up.deployment("colors/colors-nightly")["id"]
    asked = {"parameters": {"parameters": {"dataset": dataset, "limit": 1}}}
    run = up.api(f"/deployments/{deployment}/create_flow_run", asked)["id"]
    wait_for(lambda: up.api(f"/flow_runs/{run}")["state_type"] == "COMPLETED")
    wait_for(lambda: up.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}}))
    return run
