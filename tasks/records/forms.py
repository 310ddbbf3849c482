"""Forms of parameters in the Prefect UI, which cannot fill in unions and optional lists, and show no markup."""

from typing import Any

FORM_BEGINS = ("dataset", "results", "images", "candidate_name", "limit", "judge", "orders", "votes", "controls")
"""First fields of the form, which people need most; the others follow in the order of the model."""


def number_fields(schema: dict[str, Any]) -> None:
    """Number the fields for the UIs, because PostgreSQL does not keep the order of keys."""
    fields = schema["properties"]
    order = sorted(fields, key=lambda name: FORM_BEGINS.index(name) if name in FORM_BEGINS else len(FORM_BEGINS))
    schema["properties"] = {name: {**_said(fields[name]), "position": place} for place, name in enumerate(order)}


def _said(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field that says what an emptied one means, if that is not the empty text; see `flow_run.completed`."""
    is_text = field.get("type") == "string" and field.get("default") and "enum" not in field  # a choice is never empty
    if not is_text and field.get("type") not in ("integer", "number"):
        return field
    return {**field, "description": f"{field.get('description', '')} Emptied: as the deployment has it.".strip()}


def complete_form(schema: dict[str, Any]) -> None:
    """Number the fields, and list their names, which a server quotes when it refuses a misspelled one."""
    number_fields(schema)
    schema.pop("additionalProperties", None)
    schema["propertyNames"] = {"enum": [*schema["properties"]]}
