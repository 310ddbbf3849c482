"""Parameters of flows: each model defines the options of a command, the form and the parameters of a deployment."""

import os
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tasks.errors import InputError
from tasks.records.judge import Judge
from tasks.records.terms import Order, Record, complete_form

PAIRWISE = ("diagram", "plot")
T2I = ("object", "counting", "colors", "position")
CHECKLIST = ("facts",)
FLOWS = (*PAIRWISE, *T2I, *CHECKLIST)
DEFAULT_STORE = "jury-store"
ROOTS = "JURY_ROOTS"
"""Environment variable that confines a worker to folders and URLs such as s3://bucket/prefix, separated by commas."""
OF_SHARDS = ("shard", "evaluation_id")
"""Fields that the form leaves out, because the tags of a run hold them."""


class Probe(Record, use_attribute_docstrings=True):
    """Parameters of `jury judge ping`."""

    judge: Judge = Judge()
    """The model that judges, and how it is called."""


class Collect(Record, use_attribute_docstrings=True):
    """Parameters of the flow `collect`."""

    store: str = Field(default=DEFAULT_STORE, min_length=1)
    """Folder of runs that wait; "jury-store": as JURY_STORE says, if it is set."""
    run: str = ""
    """Only the run whose id begins so; empty: all that wait."""


class Parameters(Record):
    """Parameters of every flow."""

    model_config = ConfigDict(json_schema_extra=complete_form, use_attribute_docstrings=True)

    dataset: str = Field(default="samples", min_length=1)
    """Folder or manifest; "samples": drawn ones. {date} (or {date:%Y%m%d}) and *: the newest match."""
    store: str = Field(default=DEFAULT_STORE, min_length=1)
    """Folder or s3://bucket/prefix of all results; "jury-store": as JURY_STORE says, if it is set."""
    candidate_name: str = ""
    """Name of the system judged; empty: named after its folder or file."""
    limit: int | None = Field(default=None, ge=1)
    """Judge only the first so many samples (of images: prompts); empty: all."""
    ids: list[str] = Field(default=[])
    """Judge only samples (or prompts) with these ids; empty: all."""
    candidate: list[str] = Field(default=[])
    """Judge only these candidates of the dataset; empty: all."""
    follow_links: list[str] = Field(default=[])
    """Folders outside of the dataset's that links in it may lead to; empty: none."""
    prompt_set: str = Field(default="default", min_length=1)
    """Name of a prompt set, or a folder that holds one."""
    judge: Judge = Judge()
    """The model that judges, and how it is called."""
    votes: int = Field(default=1, ge=1, le=25)
    """Votes for each question. On figures odd numbers are best: 4 votes are noisier than 3."""
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Most that the run may cost; it then judges samples in random order. Empty: no such limit."""
    reuse_hours: float = Field(default=20.0, ge=0, le=1_000_000, allow_inf_nan=False)
    """Replies to the very same call are taken from earlier runs up to this age; 0: never."""
    chunk_size: int = Field(default=32, ge=1, le=512)
    """Most samples handled together as one Prefect task a dimension."""
    retries: int = Field(default=2, ge=0, le=10)
    """How often a chunk asks again for what the judge did not answer."""
    retry_delay_seconds: float = Field(default=10.0, ge=0, le=3600)
    """Wait before the first such retry; it doubles."""
    max_picture_megabytes: float = Field(default=20.0, gt=0, le=200)
    """Largest picture file sent as it is."""
    max_picture_side: int = Field(default=8000, ge=64, le=32_000)
    """Longest side sent as it is, in pixels."""
    controls: float = Field(default=0.0, ge=0, le=0.5)
    """Share of the samples judged again as controls, which test the judge and enter no score; 0: none."""
    anchors: int = Field(default=0, ge=0, le=500)
    """Frozen samples that scheduled runs judge, to tell judge from candidate; 40 are good, 0: none."""
    normalize: bool = False
    """Send every picture as PNG, not only those that must change."""
    quote: Literal["", "pilot", "history"] = ""
    """Estimate what the run would cost, without it: by earlier replies (history) or 5 samples (pilot)."""
    shards: int = Field(default=1, ge=1, le=256)
    """Split the evaluation over so many runs of the deployment, for several workers to share."""
    shard: SkipJsonSchema[int] = Field(default=0, ge=0, le=256)
    """Which of the shards this run is; 0: none."""
    evaluation_id: SkipJsonSchema[str] = ""
    """Of the evaluation that this run is a shard of."""

    @model_validator(mode="after")
    def _one_of_the_shards(self) -> Self:
        if self.shard > self.shards:
            raise InputError(f"shard is {self.shard}, allowed are 0 (all of them) to {self.shards}, as shards says")
        if bool(self.shard) != bool(self.evaluation_id):
            raise InputError("shard and evaluation_id are set together, by an evaluation in shards; leave both unset")
        return self

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.budget and self.shards > 1:
            raise InputError(
                f"budget is {self.budget:g} and shards is {self.shards}: shards would stop each at a place of its own, "
                "and what they judged would be no random part of the samples. Leave out one of the two; "
                "JURY_BUDGET_MONTH on the workers limits what shards cost together"
            )
        return self

    @property
    def to_be_split(self) -> bool:
        """Return whether this run only starts the shards and combines their results."""
        return self.shards > 1 and not self.shard and not self.quote

    def order_list(self) -> tuple[Order, ...]:
        """Return the orders in which the pictures of a sample are shown."""
        return ("single",)

    def prompts_asked(self) -> tuple[str, ...]:
        """Return the dimensions whose prompts are asked; empty: all of the flow."""
        return ()

    def protocol_items(self) -> dict[str, str]:
        """Return the items of the protocol that only this kind of judging has."""
        return {}

    @property
    def shares_beginnings(self) -> bool:
        """Return whether the questions about a sample begin alike, so that a cache can serve the beginning."""
        return False

    @property
    def needs_probabilities(self) -> str:
        """Return why replies must be words with probabilities, which not every endpoint gives; empty: they need not."""
        return ""

    def once(self) -> Self:
        """Return the parameters with one vote in the published order, as anchors are asked."""
        return self.model_copy(update={"votes": 1})

    def with_live_calls(self) -> Self:
        """Return the parameters with live calls in place of a batch."""
        if self.judge.service_tier != "batch":
            return self
        return self.model_copy(update={"judge": self.judge.model_copy(update={"service_tier": "standard"})})


class PairwiseParameters(Parameters):
    """Parameters of the flows diagram and plot. A field that may not be empty is, emptied, as the deployment has it."""

    category: list[str] = Field(default=[])
    """Judge only these categories; empty: all."""
    difficulty: list[str] = Field(default=[])
    """Judge only these difficulties; empty: all."""
    split: Literal["test", "ref"] = "test"
    """Which list of a PaperBananaBench folder is judged."""
    results: str = ""
    """A generator's result file (JSON or JSON Lines) that holds the Model figures."""
    images: str = ""
    """Folder of Model figures: ID.png (or .jpg …), or ID/final_output.png."""
    stage: list[str] = Field(default=[])
    """Stages of the result file to judge, each a candidate: planner, critic0 …; empty: its own."""
    orders: Literal["human_first", "both"] = "human_first"
    """Which figure comes first: the published order, or both orders."""
    layout: Literal["published", "shared"] = "published"
    """shared: all prompts first, for judges with a cache; another instrument than the published one."""
    keep_image_links: bool = False
    """Send texts with the links to images in them, which may name the answer; imported prompts do."""

    def order_list(self) -> tuple[Order, ...]:
        """Return the orders that are asked, the published one first."""
        return ("human_first", "model_first") if self.orders == "both" else ("human_first",)

    @property
    def shares_beginnings(self) -> bool:
        """Return whether the questions about a sample begin alike, so that a cache can serve the beginning."""
        return self.layout == "shared"

    def once(self) -> Self:
        """Return the parameters with one vote in the published order, as anchors are asked."""
        return super().once().model_copy(update={"orders": "human_first"})


class RubricParameters(Parameters):
    """Parameters of the flows of images. A field that may not be empty is, emptied, as the deployment has it."""

    metadata: str = ""
    """GenEval's evaluation_metadata.jsonl, the prompts that need images; empty: the one of the dataset."""
    tag: list[str] = Field(default=[])
    """Judge only these tags of the flow; empty: all."""
    threshold: float = Field(default=7.0, ge=0, le=10)
    """Score from which an image counts as good, for shares and the export."""
    export: str = ""
    """File to write besides: one JSON line an image, in the form of GenEval's results."""
    chunk_size: int = Field(default=64, ge=1, le=512)
    """Most images together in a Prefect task of a tag."""


P = TypeVar("P", bound=Parameters | Collect)


def roots() -> list[str]:
    """Return the folders and buckets that `JURY_ROOTS` lists; empty: the worker is not confined."""
    return [root for each in os.environ.get(ROOTS, "").split(",") if (root := each.strip())]


def default_store() -> str:
    """Return the default store: that of `JURY_STORE`, or `jury-store` in the current folder."""
    return at_home(os.environ.get("JURY_STORE") or DEFAULT_STORE)


def at_home(store: str) -> str:
    """Return a store with the home folder in place of a leading `~`, which only shells replace."""
    return os.path.expanduser(store)  # noqa: PTH111  # Path.expanduser raises if there is no such user


def at_store(parameters: P) -> P:
    """Return the parameters with the store of this machine in place of the default name.

    Raises:
        InputError: the store is relative, in a process that Prefect started for one run: its folder may be removed
            with it.
    """
    store = default_store() if parameters.store == DEFAULT_STORE else at_home(parameters.store)
    if "PREFECT__FLOW_RUN_ID" in os.environ and "://" not in store and not Path(store).is_absolute():
        raise InputError(
            f"store {store!r} is relative, and the folder of a worker's run does not outlive it: give an absolute path "
            f"or s3://bucket/prefix, or leave it at {DEFAULT_STORE} and give that in JURY_STORE on the worker"
        )
    return parameters.model_copy(update={"store": store})
