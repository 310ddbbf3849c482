"""What the drawn samples are about: invented methods for diagrams, invented experiments for plots.

Owns the reading of `topics.toml`, which holds their words. How a figure of them looks stands in `diagrams` and `plots`.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

Wordings: TypeAlias = tuple[str, ...]
"""Ways to say the same, to choose one from."""

SERIES = ("Dense", "Sparse", "Hybrid", "Distilled", "Two-stage", "Late fusion")
"""Names of the systems that plots compare."""


class Phase(NamedTuple):
    """A named part of a method and its modules in order."""

    title: str
    modules: tuple[Wordings, ...]


class Method(NamedTuple):
    """What a diagram shows."""

    category: str
    name: Wordings
    task: str
    phases: tuple[Phase, ...]


class Experiment(NamedTuple):
    """What a plot shows."""

    chart: Literal["bar", "line", "scatter"]
    x_label: Wordings
    y_label: Wordings
    categories: tuple[str, ...]
    """Of a bar chart, in their natural order; empty for lines and scatters."""
    y_range: tuple[float, float]
    """About where values begin and where they end up."""
    x_high: float
    """Largest x of lines and scatters."""


def _wordings(text: str) -> Wordings:
    return tuple(text.split(" | "))


def _method(row: dict[str, Any]) -> Method:
    phases = tuple(Phase(title, tuple(map(_wordings, modules))) for title, modules in row["phases"].items())
    return Method(row["category"], _wordings(row["name"]), row["task"], phases)


def _experiment(row: dict[str, Any]) -> Experiment:
    labels = _wordings(row["x_label"]), _wordings(row["y_label"])
    low, high = row["y_range"]
    return Experiment(row["chart"], *labels, tuple(row.get("categories", ())), (low, high), row.get("x_high", 0.0))


_rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
METHODS = tuple(map(_method, _rows["methods"]))
EXPERIMENTS = tuple(map(_experiment, _rows["experiments"]))
