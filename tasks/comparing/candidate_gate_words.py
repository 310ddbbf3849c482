"""What a gate says, as Markdown for a pull request, which a terminal shows as well."""

from collections.abc import Iterator

from tasks.comparing.candidate_gate import Gate
from tasks.comparing.wording import difference_grid, forgotten_words, notes
from tasks.kinds import kind_of
from tasks.presentation.markup import bullets, plain, table
from tasks.presentation.wording import signed
from tasks.text import number_words

CAVEAT = "Intervals are of 95% and tell of chance alone: a bias of the judge itself is in no interval."


def markdown(gate: Gate) -> str:
    """The decision with its figures, why it cannot be told, the table of differences, and whose runs these are."""
    parts = [f"### {gate.flow}, {plain(gate.candidate)}: {gate.decision}", _sentence(gate), *_marked(gate)]
    if gate.comparison:
        grid = difference_grid(gate.comparison.rows, gate.flow)
        parts.append(table(grid.header, [[plain(cell) for cell in line] for line in grid.lines]))
    return "\n\n".join([*parts, bullets([*_runs(gate), *_notes(gate), CAVEAT])])


def _sentence(gate: Gate) -> str:
    decimals, units = kind_of(gate.flow).decimals, kind_of(gate.flow).unit
    if gate.found is None:
        return f"{plain(gate.candidate)} and {plain(gate.against)} do not compare."
    found, write = gate.found, signed if gate.against else number_words
    value, low, high, bound = (write(each, decimals) for each in (found.value, found.low, found.high, found.bound))
    between = f"[{low}, {high}]" if found.low is not None else "(no interval)"
    whose = f"{plain(gate.candidate)} against {plain(gate.against)}" if gate.against else f"{plain(gate.candidate)}"
    return f"{whose}: {value} {between}, n = {found.n} {units}; {_rule(gate, bound)}."


def _rule(gate: Gate, bound: str) -> str:
    match gate.found and gate.found.decision:
        case "passes":
            return f"the lower bound is not below {bound}"
        case "fails":
            return f"the upper bound is below {bound}"
        case _:
            return f"the interval does not tell on which side of {bound} it is"


def _marked(gate: Gate) -> Iterator[str]:
    yield from (f"**{plain(words)}**" for words in gate.warnings)
    if gate.unsure:
        yield "It cannot be told:"
        yield bullets(line for words in gate.unsure for line in words.splitlines())


def _runs(gate: Gate) -> Iterator[str]:
    yield f"{gate.candidate}: run {gate.run_id}"
    if gate.against_run:
        yield f"{gate.against}: run {gate.against_run}"


def _notes(gate: Gate) -> list[str]:
    return notes(gate.comparison) if gate.comparison else forgotten_words(gate.forgotten)
