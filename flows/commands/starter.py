"""List of deployments to begin with: `deployments/starter.yaml`, as it is or filled for a dataset and a judge."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from tasks.datasets.paths import resolved
from tasks.endpoint.catalog import addressed, judge_named
from tasks.errors import InputError
from tasks.protocols.loading import load_dataset
from tasks.records.judge import EMBEDDED, Judge
from tasks.records.parameters import FLOWS, PAIRWISE, Probe, parameters_of
from tasks.text import enumerated

STARTER = Path(__file__).parents[2] / "deployments" / "starter.yaml"
"""List of two deployments with comments, for users to change; an empty line is before the comment of each."""
EMBEDDED_JUDGE = "{model: pixel-baseline, base_url: embedded, concurrency: 16}"
"""Judge of its entries."""


def filled(given: Mapping[str, str], judge: str) -> tuple[str, list[str]]:
    """Return the list with a nightly deployment of each flow that a dataset is for, and these flows.

    Args:
        given: dataset, and results or images, as parameters name them.
        judge: endpoint and model, such as `openai/gpt-6.1-terra`; empty: the embedded judge.

    Raises:
        InputError: no flow can judge the dataset, with the reasons; or the judge is not known.
    """
    asked = judge_named(judge or EMBEDDED)
    addressed(Probe(judge=Judge.model_validate(asked)))
    places = {name: path if "://" in path else str(Path(path).expanduser().absolute()) for name, path in given.items()}
    flows = _flows_for(places)
    head, figures, generated, collect = STARTER.read_text(encoding="utf-8").split("\n\n  # ")
    entries = [
        _entry(figures if flow in PAIRWISE else generated, flow, at, places, asked) for at, flow in enumerate(flows)
    ]
    return "\n\n  # ".join([head, *entries, collect]), flows


def _flows_for(places: Mapping[str, str]) -> list[str]:
    flows, refused = list[str](), list[str]()
    for flow in PAIRWISE if len(places) > 1 else FLOWS:
        try:
            load_dataset(flow, resolved(parameters_of(flow).model_validate(places), datetime.now().astimezone()))
            flows.append(flow)
        except InputError as error:
            refused.append(str(error))
    if not flows:
        raise InputError("\n".join(dict.fromkeys(refused)))
    if len(flows) > 1 and "images" in places:
        raise InputError(f"the figures of --images fit {enumerated(flows)}: name the dataset's folder of one of them")
    return flows


def _entry(text: str, flow: str, at: int, places: Mapping[str, str], judge: Mapping[str, str]) -> str:
    """Return an entry of the list with other values, due 15 minutes after the one before; JSON is YAML, too."""
    shown = "diagram" if flow in PAIRWISE else "counting"
    named = [f"{name}: {json.dumps(path, ensure_ascii=False)}" for name, path in places.items()]
    changes = {
        f"my-{shown}": f"my-{flow}",
        f"entrypoint: flows.{shown}.{shown}": f"entrypoint: flows.{flow}.{flow}",
        "0 2 * * *": f"{15 * at % 60} {2 + at // 4} * * *",
        "dataset: samples": "\n        ".join(named),
        EMBEDDED_JUDGE: json.dumps({**judge, "concurrency": 16}, ensure_ascii=False),
    }
    for old, new in changes.items():
        text = text.replace(old, new)
    return text
