"""A card in words: as a table of 80 columns, in sentences below it, and as the one sentence that a run warns with."""

import shlex
import tomllib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tasks.ledger.passports import Card, CardLine, newest_card
from tasks.parameters import DEFAULT_STORE, EMBEDDED, FLOWS, Judge, default_store
from tasks.passport.lines import LINE, needed
from tasks.presentation.tables import Grid
from tasks.text import one_line

STALE_DAYS = 30
"""Age from which on a passport shows little: the model behind a name changes."""
MATCHED = "It is the judge's by name and address: with another effort or detail it may see otherwise."
_MARKS = {"passed": "✓ passed", "failed": "✗ FAILED", "not measured": "? not measured", "told": ""}


class Cause(NamedTuple):
    """A fault of a judge."""

    name: str
    words: str
    """Behavior of such a judge."""
    fails: frozenset[str]
    """Lines that it fails; it passes all others."""


@cache
def causes() -> tuple[Cause, ...]:
    """Return all known causes, from `causes.toml`, the passport's specification."""
    found = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))
    return tuple(Cause(name, each["words"], frozenset(each["fails"])) for name, each in found.items())


def causes_of(failed: Iterable[str]) -> list[Cause]:
    """Return the causes that make a judge fail exactly these lines; often none, for a judge may have several faults."""
    lines = frozenset(failed)
    return [cause for cause in causes() if cause.fails == lines]


def card_grid(card: Card) -> Grid:
    """Tabulate the lines that have a pass mark, with the chance of passing by guesses."""
    header = ["", "right", "passes\nfrom", "guessing\npasses", "result"]
    shown = [line for line in card.lines if line.items]
    return Grid(header, [[line.title, *_figures(line), _MARKS[line.state]] for line in shown])


def _figures(line: CardLine) -> list[str]:
    guessing = "< 0.01%" if line.guessing < 0.0001 else f"{line.guessing:.2%}"
    return [f"{line.right_answers}/{line.items}", str(line.pass_mark), guessing]


def told_lines(card: Card) -> list[str]:
    """Describe the technical lines, a line each."""
    return [
        f"{line.title}: {line.found}" + (f" ({_MARKS[line.state]})" if _MARKS[line.state] else "")
        for line in card.lines
        if not line.items
    ]


def meaning_lines(card: Card) -> list[str]:
    """Describe the consequences of the failed lines, and the possible faults of such a judge."""
    means = [f"{_MARKS[line.state]}: {line.title}{_why(line)}. {_meaning(line)}" for line in card.failed()]
    alike = [cause.words for cause in causes_of(line.line for line in card.failed())]
    return [*means, *([f"So fails a judge that {', or one that '.join(alike)}."] if alike else [])]


def _why(line: CardLine) -> str:
    """Return the findings on a line of items; those on technical lines are shown above already."""
    missing = f"{line.unanswered} of {line.items} unanswered" if line.unanswered else ""
    words = "; ".join(filter(None, (missing, line.found if line.items else "")))
    return f" ({words})" if words else ""


def _meaning(line: CardLine) -> str:
    without = LINE[line.line].without if line.line in LINE else ""
    flows = "all flows" if len(line.needed_by) == len(FLOWS) else ", ".join(line.needed_by)
    return f"For {flows}: {without}." if flows else f"{without[:1].upper()}{without[1:]}; no flow needs it."


def summary_line(card: Card) -> str:
    """Describe the card in one sentence."""
    marked = [line for line in card.lines if line.state != "told"]
    failed = card.failed()
    words = f"; not passed: {_titles(failed)}" if failed else ""
    passed = f"{len(marked) - len(failed)} of {len(marked)} lines passed"
    return f"Passport of {one_line(card.judge)}, {_day(card)}: {passed}{words}. {MATCHED}"


def warning(store: Path, flow: str, judge: Judge, asked_store: str = DEFAULT_STORE, now: datetime | None = None) -> str:
    """Return the warning of a run without a good passport of its judge for the needs of the flow; else empty.

    There is none for the embedded judge: it is no model, and all displays of its results state that.

    Args:
        asked_store: store as the run names it, for the command in the warning.
    """
    if judge.base_url == EMBEDDED:
        return ""
    who, make = f"the judge {one_line(judge.model)}", f"`{_command(judge, asked_store)}`"
    card = newest_card(store, judge.model, judge.base_url)
    if card is None:
        return f"nobody has tested what {who} sees and keeps to: {make} does, with a few drawn pictures"
    wanted = {line.name for line in needed(flow)}
    if failed := [line for line in card.failed() if line.line in wanted]:
        lacks = f"{who} does not do what this flow needs ({_titles(failed)})"
        return f"by its passport of {_day(card)} {lacks}: {make} tests it again"
    days = ((now or datetime.now(UTC)) - datetime.fromisoformat(card.finished_at)).days
    old = f"the passport of {who} is {days} days old, and judges change behind their names: {make} makes a new one"
    return old if days > STALE_DAYS else ""


def _command(judge: Judge, store: str) -> str:
    options = {"--judge.model": judge.model, "--judge.base-url": judge.base_url}
    options |= {"--judge.api-key-env": judge.api_key_env} if judge.api_key_env else {}
    options |= {"--store": store} if store not in (DEFAULT_STORE, default_store()) else {}
    return " ".join(["jury judge exam", *(f"{name} {shlex.quote(value)}" for name, value in options.items())])


def _titles(found: Sequence[CardLine]) -> str:
    return ", ".join(line.title for line in found)


def _day(card: Card) -> str:
    return card.finished_at[:10]


def needed_failed(card: Card, flows: Iterable[str] = FLOWS) -> bool:
    """Return whether these flows need a line that was not passed."""
    wanted = {line.name for flow in flows for line in needed(flow)}
    return any(line.line in wanted for line in card.failed())
