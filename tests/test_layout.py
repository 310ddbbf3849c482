"""Rules for dependencies between modules, checked on their imports."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STEPS = ("load", "judge", "aggregate", "store", "report")
BASE = ("errors", "files", "records", "text")


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
    """Return the full names of all modules that a module imports, also within functions."""
    return frozenset(imported_names(ast.walk(tree(module))))


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner & KNOWN or {node.module}


def import_time_statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements that run on import: none in functions, none for type checkers only."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from import_time_statements(node.orelse)
            continue
        yield node
        yield from import_time_statements(ast.iter_child_nodes(node))


def package(module: str) -> str:
    """Return the package of a module of tasks; the base modules count as one package."""
    parts = module.split(".")
    if len(parts) > 1 and parts[1] in BASE:
        return "base"
    return parts[1] if len(parts) > 1 else module


def dependencies() -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules("tasks"):
        own = package(name(module))
        found[own] |= {package(each) for each in imports(module) if each.startswith("tasks.")} - {own}
    return found


def reachable(start: str, depends: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    due = [start]
    while due:
        due += (new := depends.get(due.pop(), set()) - seen)
        seen |= new
    return seen


def test_packages_depend_in_one_direction() -> None:
    depends = dependencies()
    circles = {own: sorted(other for other in depends[own] if own in reachable(other, depends)) for own in depends}
    assert {own: others for own, others in circles.items() if others} == {}
    assert len(depends) > 15, "too few packages found"


def test_no_circular_imports() -> None:
    depends = {
        name(module): {*imported_names(import_time_statements([tree(module)]))} & KNOWN - {name(module)}
        for folder in ("flows", "tasks")
        for module in modules(folder)
    }
    assert [own for own in depends if own in reachable(own, depends)] == []
    assert "tasks.records" in depends["tasks.judge"], "no imports found"


def test_protocols_do_not_import_each_other() -> None:
    kinds = {module.parent.name for module in (ROOT / "tasks" / "protocols").glob("*/__init__.py")}
    assert len(kinds) > 1
    for kind in kinds:
        found = {each for module in modules(f"tasks/protocols/{kind}") for each in imports(module)}
        others = tuple(f"tasks.protocols.{other}." for other in kinds - {kind})
        assert [each for each in found if f"{each}.".startswith(others)] == []


def test_base_modules_import_no_other_package() -> None:
    assert dependencies()["base"] == set()


def users(library: str, *folders: str) -> list[str]:
    """Return the modules of these folders that import a library or one of our packages."""
    found = [module for folder in folders for module in modules(folder)]
    return [name(module) for module in found if any(f"{each}.".startswith(f"{library}.") for each in imports(module))]


def test_tasks_do_not_import_flows() -> None:
    assert users("flows", "tasks") == []


@pytest.mark.parametrize(("library", "allowed"), [("openai", ("tasks.endpoint.",)), ("duckdb", ("tasks.history.",))])
def test_a_library_is_imported_only_in_its_package(library: str, allowed: tuple[str, ...]) -> None:
    found = users(library, "flows", "tasks")
    assert found and [user for user in found if not user.startswith(allowed)] == []


def test_only_the_five_steps_import_prefect_and_nothing_imports_them() -> None:
    assert {*users("prefect", "tasks")} == {f"tasks.{step}" for step in STEPS}
    assert [user for step in STEPS for user in users(f"tasks.{step}", "tasks")] == []


def test_root_of_tasks_holds_only_steps_and_base_modules() -> None:
    found = {module.stem for module in (ROOT / "tasks").glob("*.py")}
    assert found == {*STEPS, *BASE, "__init__"} - {"records"}


def test_modules_after_judging_do_not_name_flows() -> None:
    """Only `tasks/protocols/` names them: adding a kind of judging must not touch other packages."""
    after = ("judging", "history", "comparing", "pages", "presentation", "statistics")
    offending = [
        name(module)
        for folder in after
        for module in modules(f"tasks/{folder}")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and {"PAIRWISE", "T2I"} & {alias.name for alias in node.names}
    ]
    assert offending == []
