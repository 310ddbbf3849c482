"""Shutdown dates of models, from `models.toml` (recommended), `announced.toml` and `shutdowns.toml` (public data).

Any other model that an endpoint serves can judge, too.
"""

import tomllib
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from tasks.endpoint.known import endpoints, known_at, read_tables
from tasks.records import Record

TABLE = Path(__file__).with_suffix(".toml")
ANNOUNCED = TABLE.with_name("announced.toml")
SHUTDOWNS = TABLE.with_name("shutdowns.toml")
WARNED = timedelta(days=60)
"""Time before a model's shutdown in which users are warned."""


class Dated(Record):
    """A model and its shutdown date, as its provider announces it."""

    name: str
    endpoint: str
    """Short name of the endpoint that serves it."""
    ends: date | None = None
    """Shutdown date; None if none is announced."""
    page: str
    """Source of the date."""
    looked_up: date

    def words(self, day: date) -> str:
        """Return a phrase about the model's shutdown and its date; the caller completes the sentence."""
        days = (self.ends - day).days if self.ends else 0
        soon = "today" if days == 0 else f"in {days} day{'s' * (days > 1)}"
        when = f"ended on {self.ends}" if days < 0 else f"ends on {self.ends}, {soon}"
        return f"{self.name} ({endpoints()[self.endpoint].title}) {when}"

    @property
    def source(self) -> str:
        """Source of the date, and the day on which it was looked up."""
        return f"by {self.page}, looked up {self.looked_up}"


@cache
def recommended() -> dict[str, Dated]:
    """Return name -> model, the best known first."""
    return read_tables(TABLE, Dated)


def read_shutdowns() -> list[Dated]:
    """Return the models in the extract of public data."""
    extract: dict[str, Any] = tomllib.loads(SHUTDOWNS.read_text(encoding="utf-8"))
    about = {"page": extract["source"], "looked_up": extract["looked_up"]}
    return [
        Dated(name=name, endpoint=endpoint, ends=ends, **about)
        for endpoint, dates in extract["models"].items()
        for name, ends in dates.items()
    ]


def today() -> date:
    """Return the current day in UTC, the start of the count of days to a shutdown."""
    return datetime.now(UTC).date()


def ending(model: str, base_url: str, day: date) -> Dated | None:
    """Return the model if its shutdown is past or at most 60 days away; None otherwise, or if no date is announced."""
    endpoint = endpoints().get(base_url) or known_at(base_url)
    found = _ends().get((endpoint.name, model)) if endpoint else None
    return found if found and found.ends and found.ends - day <= WARNED else None


@cache
def _ends() -> dict[tuple[str, str], Dated]:
    """Return (endpoint, model) -> the model with its shutdown date; dates looked up by hand override the extract."""
    by_hand = (*read_tables(ANNOUNCED, Dated).values(), *recommended().values())
    return {(each.endpoint, each.name): each for each in (*read_shutdowns(), *by_hand) if each.ends}
