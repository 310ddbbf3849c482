"""Models whose end is known: those that are recommended, and those that their providers switch off.

Owns the reading of three tables: `models.toml` (recommended, each with a year to live), `announced.toml` (looked up by
hand on the pages of providers) and `shutdowns.toml` (an extract of public data, which `shutdown_dates` renews). It is
no list of what can be used: any model that an endpoint serves can judge, and of one that is not here nothing is said.
"""

import tomllib
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, model_validator

from tasks.endpoint.known import endpoints, known_at
from tasks.endpoint.tables import read_tables
from tasks.errors import InputError
from tasks.records import Record

TABLE = Path(__file__).with_suffix(".toml")
ANNOUNCED = TABLE.with_name("announced.toml")
SHUTDOWNS = TABLE.with_name("shutdowns.toml")
LEAST_LIFE = timedelta(days=365)
"""How long a recommended model is there at least, from the day on which its dates were looked up."""
WARNED = timedelta(days=60)
"""How long before its end a model is warned of."""


class Dated(Record):
    """A model and its end, as its provider announces it."""

    name: str
    endpoint: str
    """Short name of the endpoint that serves it."""
    ends: date | None = None
    """When its provider switches it off; None: that is not announced."""
    page: str = Field(pattern="^https://")
    looked_up: date

    @model_validator(mode="after")
    def _endpoint_is_known(self) -> "Dated":
        if self.endpoint not in endpoints():
            raise InputError(f"endpoint must be one of {', '.join(endpoints())}")
        return self


class Model(Dated):
    """A model that is recommended."""

    @model_validator(mode="after")
    def _lives_long_enough(self) -> "Model":
        if self.ends and self.ends < self.looked_up + LEAST_LIFE:
            raise InputError(f"it ends on {self.ends}, within a year of {self.looked_up}: recommend another one")
        return self


class Shutdowns(Record):
    """An extract of public data: `shutdowns.toml`."""

    looked_up: date
    source: str = Field(pattern="^https://")
    models: dict[str, dict[str, date]]
    """Short name of an endpoint -> model -> the day on which it is switched off."""


class Ending(NamedTuple):
    """A model that ends soon, or has ended."""

    model: str
    endpoint: str
    """Title of the endpoint that serves it."""
    ends: date
    page: str
    """Where the date is from."""
    looked_up: date

    def words(self, day: date) -> str:
        """What happens to it when; no sentence, so that more can be said of it."""
        days = (self.ends - day).days
        when = f"ended on {self.ends}" if days < 0 else f"ends on {self.ends}, {_in_days(days)}"
        return f"{self.model} ({self.endpoint}) {when}"

    @property
    def source(self) -> str:
        """Where the date stands, and since when it is known here."""
        return f"by {self.page}, looked up {self.looked_up}"


@cache
def recommended() -> dict[str, Model]:
    """Name -> model, the best known first."""
    return read_tables(TABLE, Model)


def read_shutdowns(file: Path = SHUTDOWNS) -> Shutdowns:
    """The extract.

    Raises:
        InputError: the file cannot be used.
    """
    try:
        return Shutdowns.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:  # of TOML and of Pydantic
        raise InputError(f"{file} cannot be used: {error}; `make models` writes it anew") from error


def today() -> date:
    """The day by which ends are counted: that of UTC."""
    return datetime.now(UTC).date()


def ending(model: str, base_url: str, day: date) -> Ending | None:
    """The end of a judge that is at most 60 days away, or past; None where there is none, or it is not known.

    Args:
        base_url: address of the judge, or the short name of a known endpoint.
    """
    endpoint = endpoints().get(base_url) or known_at(base_url)
    found = _ends().get((endpoint.name, model)) if endpoint else None
    return found if found and found.ends - day <= WARNED else None


@cache
def _ends() -> dict[tuple[str, str], Ending]:
    """(Endpoint, model) -> its end; what was looked up by hand goes before the extract."""
    extract = read_shutdowns()
    from_extract = {
        (endpoint, model): Ending(model, endpoints()[endpoint].title, ends, extract.source, extract.looked_up)
        for endpoint, dates in extract.models.items()
        for model, ends in dates.items()
    }
    by_hand = {
        (each.endpoint, each.name): Ending(
            each.name, endpoints()[each.endpoint].title, each.ends, each.page, each.looked_up
        )
        for each in (*read_tables(ANNOUNCED, Dated).values(), *recommended().values())
        if each.ends
    }
    return from_extract | by_hand


def _in_days(days: int) -> str:
    return "today" if days == 0 else f"in {days} day{'s' * (days > 1)}"
