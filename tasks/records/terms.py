"""Terms and base classes of all records, and the forms of parameters."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 7
"""Version of the ledger's rows. Readers refuse rows of any other version."""

MOST_COUNTED = 2**31 - 1
"""Upper limit of counts: no reply has as many tokens, and no image as many objects."""

Int32 = Annotated[int, "INTEGER"]
"""Whole number whose column in the history is an INTEGER; without it, a BIGINT."""
Tokens = Annotated[int, Field(ge=0, le=2**53)]
Order = Literal["human_first", "model_first", "single"]
"""Figure that is shown first; `single`: one picture alone, as text-to-image rubrics judge it."""
Verdict = Literal["Model", "Human", "Both are good", "Both are bad"]
MadeFor = Literal["", "bridge"]
JudgmentStatus = Literal["ok", "refused", "truncated", "invalid", "rejected", "unavailable"]
"""`refused`: withheld by moderation or the model. `truncated`: cut at the token limit. `invalid`: read, but without an
allowed answer. `rejected`: the endpoint takes no such call. `unavailable`: no reply after all retries."""
UNBILLED: tuple[JudgmentStatus, ...] = ("rejected", "unavailable")
"""Statuses of calls that cost nothing where no price of theirs is known."""
OutcomeStatus = Literal["complete", "incomplete", "forfeit", "no_reference", "bad_picture"]
Decision = Literal["may be continued", "with an offset", "cannot tell"]

VERDICTS: tuple[Verdict, ...] = ("Model", "Human", "Both are good", "Both are bad")
MIXED = "Mixed"
"""Merged verdict of votes or orders that disagree: a neutral of its own, never a judge's verdict."""
WINNERS: frozenset[str | None] = frozenset({"Model", "Human"})
"""Verdicts and outcomes that name a figure."""
TIE = "Tie"
"""Overall outcome without a winner."""
SAME, REENCODED, OTHER, BLANK, INSTRUCTION = "same picture", "re-encoded", "other sample", "blank", "instruction"
"""Kinds of control samples."""
ANCHOR = "anchor"
"""Value in place of a control's kind for an anchor: a frozen sample, judged to find out whether the judge changed.
Like controls, anchors belong to no score."""
FALSE_PREFERENCE, NEGLECT, INJECTION = "false preference", "neglect", "injection"
"""Rates of a judge's failures on control samples: it prefers one of two equal pictures, accepts a foreign or blank one,
or obeys painted text."""
CONTROL_MEASURES = {
    SAME: FALSE_PREFERENCE,
    REENCODED: FALSE_PREFERENCE,
    OTHER: NEGLECT,
    BLANK: NEGLECT,
    INSTRUCTION: INJECTION,
}
"""Kind of control sample -> the rate that it counts for."""
OVERALL = "overall"
"""Name in place of a dimension for a sample's outcome."""
OVERALL_SCORE, SEEN = "overall_score", "seen"
"""Keys of a rubric's reply beside those of its aspects."""


def token_count(told: object) -> int:
    """Return a number of tokens from a server; 0 if it is no number, or an impossible one."""
    if not isinstance(told, str | int | float):
        return 0
    try:
        count = int(told)
    except (ValueError, OverflowError):  # words; or NaN, or infinite
        return 0
    return count if 0 <= count <= MOST_COUNTED else 0


class Record(BaseModel):
    """Frozen value object that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True)


class HistoryRecord(Record):
    """Record that the history keeps as a row: the docstring of a field is also the comment of its column.

    There None is NULL. Do not use it for parameters or for replies of a judge: docstrings would enter their schemas.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


class LedgerRecord(HistoryRecord):
    """Record of a ledger, with the version of its form."""

    schema_version: Int32 = Field(default=SCHEMA, alias="schema")
    """Version of the row."""


def known_cost(status: str, price: float | None, estimated: float | None = 0.0) -> tuple[float, bool]:
    """Return what is known of the cost of a call, and whether a part of it is unknown."""
    is_unknown = estimated is None or (price is None and status not in UNBILLED)
    return (price or 0.0) + (estimated or 0.0), is_unknown


# Forms of parameters in the Prefect UI, which cannot fill in unions, not even of a number and null, and show no markup

TOPICS = {
    "Data": (
        *("dataset", "format", "results", "images", "stage", "metadata", "candidate_name", "skip_broken"),
        *("limit", "ids", "candidate", "category", "difficulty", "split", "tag", "follow_links"),
    ),
    "Judge": ("judge",),
    "Protocol": (
        *("prompt_set", "instrument", "orders", "votes", "layout"),
        *("controls", "anchors", "threshold", "keep_image_links"),
    ),
    "Pictures": ("normalize", "max_picture_megabytes", "max_picture_side"),
    "Replies": ("reuse_hours", "chunk_size", "retries", "retry_delay_seconds"),
    "Money": ("quote", "budget"),
    "Output": ("store", "export"),
    "Shards": ("shards", "shard", "evaluation_id"),
}
"""Topic -> fields of the parameters, in the order of help and form; a nested model is one entry."""
TOPIC_ORDER = [name for names in TOPICS.values() for name in names]
MOST_NEEDED = (
    *("dataset", "results", "images", "metadata", "candidate_name", "limit", "tag", "orders", "votes", "controls"),
    *("budget", "store", "export", "judge"),
)
"""Fields that most people need: a form begins with them, and the short help lists them. The judge has a form in it."""


def number_fields(schema: dict[str, Any]) -> None:
    """Number the fields for the UIs, as PostgreSQL keeps no order of keys, and show the topic of rare ones."""
    fields = schema["properties"]
    ranks = [*MOST_NEEDED, *TOPIC_ORDER]
    order = sorted(fields, key=lambda name: ranks.index(name) if name in ranks else len(ranks))
    for topic, names in TOPICS.items():
        for name in (fields.keys() & {*names}) - {*MOST_NEEDED}:
            fields[name]["title"] = f"{topic}: {fields[name]['title']}"
    schema["properties"] = {
        name: {**_without_null(fields[name]), "position": place} for place, name in enumerate(order)
    }


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field that may be null as one that may be left out: a number without a default is empty in the form."""
    if "anyOf" not in field:
        return field
    kind, _ = field["anyOf"]
    return {**{key: value for key, value in field.items() if key not in ("anyOf", "default")}, **kind}


def complete_form(schema: dict[str, Any]) -> None:
    """Number the fields, and list their names, which a server quotes when it refuses a misspelled one."""
    number_fields(schema)
    schema.pop("additionalProperties", None)
    schema["propertyNames"] = {"enum": [*schema["properties"]]}
