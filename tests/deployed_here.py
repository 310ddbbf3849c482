"""A deployment on a real Prefect server; Prefect's engine runs it in the test's process."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import ArtifactFilter, LogFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.flow_engine import run_flow
from prefect.logging.handlers import APILogWorker
from prefect.utilities.callables import parameter_schema

from flows.counting import counting


class Deployment:
    """A deployment of `counting`."""

    def __init__(self, client: SyncPrefectClient, store: Path) -> None:
        self.client, self.store = client, store
        self.own = {"dataset": "samples", "store": str(store), "candidate": ["steady"], "limit": 2, "reuse_hours": 0}
        self.id = client.create_deployment(
            flow_id=client.create_flow(counting),
            name=store.parent.name,
            parameters={"parameters": self.own},
            parameter_openapi_schema=parameter_schema(counting).model_dump(exclude_unset=True),
            enforce_parameter_schema=True,
        )

    def change(self, **changes: Any) -> None:
        """Edit the deployment on the server, as a person does."""
        self.client.update_deployment(self.id, DeploymentUpdate(**changes))

    def create_run(self, given: dict[str, Any], **changes: Any) -> FlowRun:
        """Create a flow run with these parameters, as the UIs, a schedule and the command line do."""
        return self.client.create_flow_run_from_deployment(self.id, parameters={"parameters": given}, **changes)

    def execute(self, run: FlowRun) -> State:
        return asyncio.run(run_flow(counting, flow_run=run, return_type="state"))  # pyright: ignore

    def run_starts(self) -> list[dict[str, Any]]:
        starts = [json.loads(file.read_bytes()) for file in self.store.glob("ledger/*/run.json")]
        return sorted(starts, key=lambda start: start["run_id"])

    def logs(self, run: UUID) -> str:
        APILogWorker.drain_all(timeout=30)
        found = self.client.read_logs(LogFilter.model_validate({"flow_run_id": {"any_": [run]}}))
        return "\n".join(each.message for each in found)

    def artifact(self, run: UUID) -> str:
        wanted = {"flow_run_id": {"any_": [run]}, "type": {"any_": ["markdown"]}}
        [found] = self.client.read_artifacts(artifact_filter=ArtifactFilter.model_validate(wanted))
        return str(found.data)
