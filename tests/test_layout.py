"""How the modules may depend on each other, read from their imports."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STEPS = ("load", "judge", "aggregate", "store", "report")
GROUND = ("errors", "files", "records", "text")


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


KNOWN = {name(module) for folder in ("flows", "tasks") for module in modules(folder)}


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@cache
def imports(module: Path) -> frozenset[str]:
    """Full names of the modules that a module imports anywhere in it, also within functions."""
    return frozenset(imported(ast.walk(tree(module))))


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner & KNOWN or {node.module}


def at_once(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements that run when a module is imported: neither those of functions nor those for type checkers alone."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from at_once(node.orelse)
            continue
        yield node
        yield from at_once(ast.iter_child_nodes(node))


def package(module: str) -> str:
    """The package of a module of tasks; the modules of the ground count as one, each step stands alone."""
    parts = module.split(".")
    if len(parts) > 1 and parts[1] in GROUND:
        return "the ground"
    return parts[1] if len(parts) > 1 else module


def dependencies() -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules("tasks"):
        own = package(name(module))
        found[own] |= {package(each) for each in imports(module) if each.startswith("tasks.")} - {own}
    return found


def reached(start: str, depends: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    due = [start]
    while due:
        due += (new := depends.get(due.pop(), set()) - seen)
        seen |= new
    return seen


def test_packages_depend_in_one_direction_only() -> None:
    depends = dependencies()
    circles = {own: sorted(other for other in depends[own] if own in reached(other, depends)) for own in depends}
    assert {own: others for own, others in circles.items() if others} == {}
    assert len(depends) > 15, "the packages were not found"


def test_no_modules_import_each_other_in_a_circle() -> None:
    depends = {
        name(module): {*imported(at_once([tree(module)]))} & KNOWN - {name(module)}
        for folder in ("flows", "tasks")
        for module in modules(folder)
    }
    assert [own for own in depends if own in reached(own, depends)] == []
    assert "tasks.records" in depends["tasks.judge"], "the imports were not found"


def test_a_kind_of_judging_knows_no_other_kind() -> None:
    kinds = {module.parent.name for module in (ROOT / "tasks" / "protocols").glob("*/__init__.py")}
    assert len(kinds) > 1
    for kind in kinds:
        found = {each for module in modules(f"tasks/protocols/{kind}") for each in imports(module)}
        others = tuple(f"tasks.protocols.{other}." for other in kinds - {kind})
        assert [each for each in found if f"{each}.".startswith(others)] == []


def test_the_ground_imports_nothing_above_it() -> None:
    assert dependencies()["the ground"] == set()


def users(library: str, *folders: str) -> list[str]:
    """Modules of these folders that import a library or a package of ours."""
    found = [module for folder in folders for module in modules(folder)]
    return [name(module) for module in found if any(f"{each}.".startswith(f"{library}.") for each in imports(module))]


def test_tasks_never_import_flows() -> None:
    assert users("flows", "tasks") == []


@pytest.mark.parametrize(
    ("library", "room"),
    [("openai", ("tasks.endpoint.",)), ("duckdb", ("tasks.history.", "tasks.datasets.parquet_records"))],
)
def test_a_library_is_imported_in_its_room_alone(library: str, room: tuple[str, ...]) -> None:
    found = users(library, "flows", "tasks")
    assert found and [user for user in found if not user.startswith(room)] == []


def test_of_the_tasks_only_the_five_steps_import_prefect_and_none_imports_these() -> None:
    assert {*users("prefect", "tasks")} == {f"tasks.{step}" for step in STEPS}
    assert [user for step in STEPS for user in users(f"tasks.{step}", "tasks")] == []


def test_the_steps_and_the_ground_stand_alone_at_the_root() -> None:
    found = {module.stem for module in (ROOT / "tasks").glob("*.py")}
    assert found == {*STEPS, *GROUND, "__init__"} - {"records"}


def test_what_is_made_of_outcomes_does_not_know_which_flows_judge_figures() -> None:
    """That stands in `tasks/protocols/`, so that another kind of judging is a folder there."""
    after = ("judging", "history", "comparing", "pages", "presentation", "statistics")
    offending = [
        name(module)
        for folder in after
        for module in modules(f"tasks/{folder}")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and {"PAIRWISE", "T2I"} & {alias.name for alias in node.names}
    ]
    assert offending == []
