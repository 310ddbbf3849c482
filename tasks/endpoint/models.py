"""Models that are recommended, and the dates on which their providers switch them off.

Owns the reading of `models.toml`. It is no list of what can be used: any model that an endpoint serves can judge.
"""

from datetime import date, timedelta
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from tasks.endpoint.known import endpoints
from tasks.endpoint.tables import read_tables
from tasks.errors import InputError
from tasks.records import Record

TABLE = Path(__file__).with_suffix(".toml")
LEAST_LIFE = timedelta(days=365)
"""How long a recommended model is there at least, from the day on which its dates were looked up."""


class Model(Record):
    """A model that is recommended."""

    name: str
    endpoint: str
    """Short name of the endpoint that serves it."""
    ends: date | None = None
    """When its provider switches it off; None: that is not announced."""
    page: str = Field(pattern="^https://")
    looked_up: date

    @model_validator(mode="after")
    def _lives_long_enough(self) -> "Model":
        if self.endpoint not in endpoints():
            raise InputError(f"endpoint must be one of {', '.join(endpoints())}")
        if self.ends and self.ends < self.looked_up + LEAST_LIFE:
            raise InputError(f"it ends on {self.ends}, within a year of {self.looked_up}: recommend another one")
        return self


@cache
def recommended() -> dict[str, Model]:
    """Name -> model, the best known first."""
    return read_tables(TABLE, Model)
