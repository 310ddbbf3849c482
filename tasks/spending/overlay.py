"""Prices that stand above the public table: those of a file that the worker names, and those that come with us.

Owns the form of such a file, `prices.toml`, which explains it, and which of its prices fits a call. What is done with
a price is for `prices`.
"""

import os
from datetime import date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, model_validator

from tasks.endpoint.known import endpoints
from tasks.endpoint.tables import read_tables
from tasks.endpoint.usage import STANDARD
from tasks.errors import InputError
from tasks.records import Record

VARIABLE = "JURY_PRICES"
"""Environment variable of the worker that names a file of prices."""
SHIPPED = Path(__file__).with_name("prices.toml")


class Entry(Record):
    """One price of a file."""

    name: str
    endpoint: str = Field(pattern=r"^([a-z][a-z0-9]*|https?://\S+)$")
    model: str = Field(min_length=1)
    tier: str = Field(default=STANDARD, pattern="^[a-z0-9_]+$")
    since: date = date.min
    of_standard: float | None = Field(default=None, ge=0)
    input: float | None = Field(default=None, ge=0)
    cached: float | None = Field(default=None, ge=0)
    written: float | None = Field(default=None, ge=0)
    output: float | None = Field(default=None, ge=0)
    page: str = ""
    looked_up: date

    @model_validator(mode="after")
    def _says_one_price(self) -> "Entry":
        own = self.input is not None and self.output is not None
        if own == (self.of_standard is not None):
            raise InputError("either input and output are needed, or of_standard alone")
        if self.of_standard is not None and self.tier == STANDARD:
            raise InputError("of_standard is a share of the standard tier's price: name another tier")
        if "://" not in self.endpoint and self.endpoint not in endpoints():
            raise InputError(f"endpoint must be an address or one of {', '.join(endpoints())}")
        return self

    def fits(self, base_url: str, model: str, tier: str, at: datetime) -> bool:
        """Whether it is the price of a call: to this address, of this model and tier, at this time (UTC)."""
        known = endpoints().get(self.endpoint)
        here = known.stands_at(base_url) if known else base_url.startswith(self.endpoint)
        return here and tier == self.tier and self.since <= at.date() and fnmatchcase(model.lower(), self.model)


class Found(NamedTuple):
    """The price that fits, and the name of the file that it stands in."""

    entry: Entry
    file: str


def find(base_url: str, model: str, tier: str, at: datetime) -> Found | None:
    """The price that counts for a call; None: there is none here.

    Raises:
        InputError: a file cannot be used; see `check`.
    """
    for file in _files():
        fitting = [entry for entry in _entries(file, file.stat().st_mtime_ns) if entry.fits(base_url, model, tier, at)]
        if fitting:
            return Found(fitting[-1], file.name)
    return None


def check() -> None:
    """Read the files, so that what is wrong with the worker's own is told before the first call.

    Raises:
        InputError: the variable names no file, the file is not TOML, or prices in it cannot be used: all of them.
    """
    for file in _files():
        _entries(file, file.stat().st_mtime_ns)


def _files() -> list[Path]:
    """In the order in which they count."""
    named = os.environ.get(VARIABLE, "")
    if named and not Path(named).is_file():
        raise InputError(f"{VARIABLE} names {named!r}, which is no file: set it to a file of prices, or unset it")
    return [Path(named), SHIPPED] if named else [SHIPPED]


@lru_cache(maxsize=8)
def _entries(file: Path, _changed: int) -> list[Entry]:
    return list(read_tables(file, Entry).values())
