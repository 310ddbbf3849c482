"""Renews `shutdowns.toml`, the dates on which providers switch models off, from public data: `make models`.

The data is LiteLLM's table of models (MIT licence), of which the names of chat models and their `deprecation_date` are
taken, for the endpoints that are known here. What providers announce besides, a person adds to `announced.toml`.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast
from urllib.request import urlopen

from tasks.endpoint.models import SHUTDOWNS, Shutdowns
from tasks.errors import InputError
from tasks.files import write_whole

SOURCE = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"
MOST_BYTES = 32_000_000
FEWEST = 20
"""Models of a table that can be whole; fewer would wipe out what is known."""
ENDPOINTS = {
    "openai": "openai",
    "gemini": "gemini",
    "anthropic": "anthropic",
    "groq": "groq",
    "mistral": "mistral",
    "together_ai": "together",
}
"""Provider in the data -> short name here. Not Azure, whose users name models themselves."""


def dates_of(table: Mapping[str, Any]) -> dict[str, dict[str, date]]:
    """Endpoint -> model -> its end, of the chat models of a table that have one; rows of another form are left out."""
    found: defaultdict[str, dict[str, date]] = defaultdict(dict)
    for key, row in table.items():
        endpoint, model, ends = _row(key, row)
        if endpoint and model and ends:
            found[endpoint][model] = ends
    return {endpoint: dict(sorted(found[endpoint].items())) for endpoint in ENDPOINTS.values() if endpoint in found}


def _row(key: str, row: Any) -> tuple[str, str, date | None]:
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    provider = str(fields.get("litellm_provider", ""))
    if fields.get("mode") != "chat" or provider not in ENDPOINTS:
        return "", "", None
    model = key.removeprefix(f"{provider}/")
    try:
        return ENDPOINTS[provider], model, date.fromisoformat(str(fields.get("deprecation_date")))
    except ValueError:
        return ENDPOINTS[provider], model, None


def read_data(text: str | bytes, looked_up: date) -> Shutdowns:
    """The extract of a table.

    Raises:
        InputError: the text is no such table, or there is nearly nothing in it.
    """
    try:
        table: object = json.loads(text)
    except ValueError as error:
        raise InputError(f"the data is no JSON: {error}") from error
    models = dates_of(cast("dict[str, Any]", table)) if isinstance(table, dict) else {}
    if (number := sum(map(len, models.values()))) < FEWEST:
        raise InputError(
            f"the data holds {number} models with an end, at least {FEWEST} were expected: the old extract is kept"
        )
    return Shutdowns(looked_up=looked_up, source=SOURCE, models=models)


def as_toml(extract: Shutdowns) -> str:
    """The extract as its file."""
    lines = [
        "# Days on which providers switch models off. Written by `make models` from public data: do not edit; what it",
        "# lacks belongs in announced.toml. LiteLLM, the source, is under the MIT licence.",
        "",
        f"looked_up = {extract.looked_up}",
        f"source = {json.dumps(extract.source)}",
    ]
    for endpoint, dates in extract.models.items():
        lines += ["", f"[models.{endpoint}]", *(f"{json.dumps(model)} = {ends}" for model, ends in dates.items())]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Write the extract anew, from the network or from a copy of the data that is given."""
    if arguments:
        text = Path(arguments[0]).read_bytes()
    else:
        with urlopen(SOURCE, timeout=60) as answer:
            text = answer.read(MOST_BYTES)
    extract = read_data(text, datetime.now(UTC).date())
    write_whole(SHUTDOWNS, as_toml(extract).encode())
    print(f"{SHUTDOWNS}: {sum(map(len, extract.models.values()))} models, looked up {extract.looked_up}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (InputError, OSError) as error:
        sys.exit(f"the dates were not renewed: {error}")
