"""Items of a run's protocol; runs whose items are equal compare. The class `Protocol` is a kind of judging."""

from collections.abc import Iterable, Mapping

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import uncut
from tasks.errors import InputError
from tasks.judging import questions
from tasks.ledger.evaluations import PROMPT, RUNGS
from tasks.pictures.preparation import Policy
from tasks.protocols.protocol import AGGREGATION, REPLY_SCHEMA
from tasks.records import RunStart
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Rubric

CARRIED = {"carried stages": "the last picture before a content critic"}
"""Protocol item of a run in which pictures were carried forward to later stages."""
OWN_ORDER = {"order of data": "their own"}
"""Protocol item of a run whose data would read otherwise with sorted keys, as they once were sent."""


def picture_policy(parameters: Parameters) -> Policy:
    """Return the changes to pictures of this run before they are sent."""
    return Policy(
        max_bytes=int(parameters.max_picture_megabytes * 1_000_000),
        max_side=parameters.max_picture_side,
        normalize=parameters.normalize,
    )


def dataset_items(dataset: Dataset) -> dict[str, str]:
    """Return items that a dataset adds to the protocol; none if requests depend on the parameters alone."""
    return (CARRIED if dataset.carried else {}) | (OWN_ORDER if dataset.own_order else {})


def check_prompts(start: RunStart, rubric: Rubric) -> None:
    """Raise InputError if the prompts have changed since a run was asked with them."""
    changed = [each.dimension for each in rubric.prompts if start.prompts.get(each.dimension) != each.sha256]
    if changed or len(rubric.prompts) != len(start.prompts):
        raise InputError(
            f"run {start.run_id} was asked with other prompts than {rubric.prompt_set!r} has now "
            f"({', '.join(changed) or 'their number'}): put back those that it was begun with, by version "
            f"{start.version}, and collect it again"
        )


def asked_protocol(parameters: Parameters, rubric: Rubric) -> dict[str, str]:
    """Return the requested protocol, item by item, in words that can be compared and shown."""
    settings = parameters.judge
    return {
        "model asked": settings.model,
        "endpoint": settings.base_url,
        "temperature": f"{settings.temperature:g}",
        "max output tokens": str(settings.max_output_tokens),
        "detail": settings.detail,
        **settings.asked_besides,
        "orders": ", ".join(parameters.order_list()),
        "votes": str(parameters.votes),
        **parameters.protocol_items(),
        **({"layout": questions.SHARED} if parameters.shares_beginnings else {}),
        **({"texts": "uncut"} if uncut(parameters) else {}),
        "pictures": picture_policy(parameters).model_dump_json(),
        "request layout": questions.LAYOUT,
        "reply schema": REPLY_SCHEMA,
        "aggregation": AGGREGATION,
        **{f"{PROMPT}{each.dimension}": each.digest for each in rubric.prompts},
    }


def answered_protocol(
    asked: Mapping[str, str], models: Iterable[str], rungs: Iterable[str], not_sent: Iterable[str]
) -> dict[str, str]:
    """Return the requested protocol with the judge's part: the model's own name, reply formats, refused parameters."""
    return {
        **asked,
        "model answered": ", ".join(sorted(models)),
        RUNGS: ", ".join(sorted(rungs)),
        "not sent": ", ".join(sorted(not_sent)),
    }
