"""README and docs: every code block runs as printed, page after page, on one store and one server."""

import ast
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from endpoint_twins import Twin
from forked_commands import PORTS, forked_by
from loopback_proxy import own_certificate
from served import environment, free_port
from test_check_drafts import DraftingJudge

from flows.server.server import client_settings, own_server
from tasks.errors import InputError
from tasks.history.queries import held_open, query

ROOT = Path(__file__).parents[1]
FIRST = ["README.md", "docs/tutorial-figures.md", "docs/tutorial-images.md"]
"""Pages that readers open first; the others follow in the order of their names."""
NOT_RUN = {
    r"^git (clone|pull)\b": "gets this repository from elsewhere",
    r"^make \w+": "installs, or takes minutes; the demo has tests of its own",
    r"\bpip install\b": "downloads from a package index",
    r"^docker-compose ": "needs Docker; test_compose reads the file",
    r"^kubectl ": "needs a cluster",
    r"s3://": "needs a bucket and its account; test_remote has one on loopback",
}
"""Pattern of a line -> why its block is parsed but not run."""
ENDLESS = {"jury up": "Ctrl-C stops all of it", "prefect worker start": "started!"}
"""Prefix of a command that does not end -> output after which the test ends it."""
ALLOWED = {"jury": (3, 4, 5)}
"""Allowed exit codes besides 0: not all judged, a gate that fails or is unsure."""
HOSTS = ("api.openai.com", "judge.example.org")
SHELL = re.compile(
    r"^(?:jury|prefect|make|git|pip|python3?|docker-compose|kubectl|export|source|eval|unset|mkdir|cp|\[) "
)
SQL = re.compile(r"^(?:SELECT|WITH|FROM|COPY|COMMENT|INSERT|CREATE)\b")
BLOCK = re.compile(r"^```(?P<tag>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?s)^```.*?^```$|`[^`\n]*`", re.MULTILINE)
NO_TEXT = re.compile(r"(?s)^```.*?^```$|<!--.*?-->", re.MULTILINE)
"""Code blocks and comments, which are not text of a page."""


class Block(NamedTuple):
    place: str
    tag: str
    body: str

    @property
    def kind(self) -> str:
        """Kind of the block by its content; a tag can be wrong."""
        language, _, file = self.tag.partition(" ")
        if file:
            return "file"
        lines = [line for line in self.body.splitlines() if line and not line.startswith("#")]
        if any(map(SHELL.match, lines)) and not re.search(r"^jobs:", self.body, re.MULTILINE):
            return "shell"
        if lines and SQL.match(lines[0]):
            return "sql"
        if re.search(r"^jobs:", self.body, re.MULTILINE):
            return "workflow"
        return "python" if re.search(r"^(?:import|from) \w", self.body, re.MULTILINE) else language

    @property
    def reasons(self) -> set[str]:
        """Reasons for not running the block; empty if it is run."""
        lines = self.body.splitlines() if self.kind == "shell" else []
        return {why for each, why in NOT_RUN.items() if any(re.search(each, line) for line in lines)}


def pages() -> list[str]:
    found = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docs").rglob("*.md"))
    return [*FIRST, *(page for page in found if page not in FIRST)]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    text = read(page)
    return [
        Block(f"{page}:{text.count(chr(10), 0, found.start()) + 1}", *found.groups()) for found in BLOCK.finditer(text)
    ]


class Reader(NamedTuple):
    """The folder in which a reader works, and the environment of a shell there."""

    folder: Path
    settings: dict[str, str]

    def run(self, block: Block) -> str:
        """Run a block; return what failed, empty if nothing did."""
        given = getattr(self, f"run_{block.kind}", None)
        return given(block) if given else f"no block has the language {block.tag!r}"

    def run_file(self, block: Block) -> str:
        target = self.folder / block.tag.partition(" ")[2]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.body, encoding="utf-8")
        return ""

    def run_shell(self, block: Block, *options: str) -> str:
        """Run the block in a shell with the variables of the blocks before it."""
        variables, failed = self.folder / ".variables", self.folder / ".failed"
        failed.write_text("", encoding="utf-8")
        trap = f"trap 'echo \"$? $BASH_COMMAND\" >> {failed}' ERR; trap 'export -p > {variables}' EXIT"
        script = f"[ -e {variables} ] && source {variables}\nset -a\n{trap}\n{block.body}"
        last = next((words for start, words in ENDLESS.items() if re.search(f"^{start}", block.body, re.MULTILINE)), "")
        with (self.folder / ".output").open("w+") as output:
            process = subprocess.Popen(
                ["bash", *options, "-c", script],
                cwd=self.folder, env=self.settings, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            seen = self.seen_after(process, last)
        codes = [line.partition(" ") for line in failed.read_text(encoding="utf-8").splitlines()]
        bad = [line for line in codes if int(line[0]) not in ALLOWED.get(line[2].partition(" ")[0], ()) and not last]
        is_missing = last and last not in seen
        return f"{bad or is_missing}: {seen[-3000:]}" if bad or is_missing else ""

    def seen_after(self, process: "subprocess.Popen[bytes]", words: str) -> str:
        output = self.folder / ".output"
        while process.poll() is None:
            try:
                process.wait(0.1 if words else 300)
            except subprocess.TimeoutExpired:
                if not words or words in output.read_text(encoding="utf-8"):
                    os.killpg(process.pid, signal.SIGINT)
                    process.wait(60)
        return output.read_text(encoding="utf-8")

    def run_sql(self, block: Block) -> str:
        try:
            query(self.folder / "jury-store", block.body, seconds=60)
        except InputError as error:
            return str(error)
        return "" if block.body.count("\n") <= 10 else "the query has more than ten lines"

    def run_python(self, block: Block) -> str:
        forking = f"import sys\nsys.executable = {shutil.which('python', path=self.settings['PATH'])!r}\n"
        light = "\nassert not {'prefect', 'duckdb', 'openai'} & sys.modules.keys()\n"
        code = forking + block.body + (light if "flows.api" in block.body else "")
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=self.settings, capture_output=True, text=True
        )
        return done.stderr

    def run_workflow(self, block: Block) -> str:
        """Run the steps of a workflow's jobs as GitHub does for a pull request."""
        summary = self.folder / "summary.md"
        for job in yaml.safe_load(block.body)["jobs"].values():
            given = {
                name: re.sub(r"\$\{\{ secrets\.\w+ \}\}", "sk-secret", value) for name, value in job["env"].items()
            }
            for step in job["steps"]:
                own = Reader(self.folder, {**self.settings, **given, "GITHUB_STEP_SUMMARY": str(summary)})
                script = step.get("run", "").replace("${{ github.event.number }}", "123")
                if failed := own.run_shell(Block(block.place, "sh", script), "-e"):
                    return failed
        return "" if summary.read_text(encoding="utf-8").startswith("### ") else "the summary is empty"

    def run_text(self, block: Block) -> str:
        return ""

    def run_yaml(self, block: Block) -> str:
        """Read a part of a list of deployments; `test_up` uses it."""
        yaml.safe_load(block.body)
        return ""

    def run_json(self, block: Block) -> str:
        for line in [block.body] if block.body.startswith(("[\n", "{\n")) else block.body.splitlines():
            json.loads(line)
        return ""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[Reader]:
    place, folder = tmp_path_factory.mktemp("place"), tmp_path_factory.mktemp("reader")
    (folder / "deployments").symlink_to(ROOT / "deployments")
    certificate, tls = own_certificate(place, *HOSTS)
    with ExitStack() as stack:
        twin, drafting = Twin("openai"), DraftingJudge()
        plain, drafts = twin.answer, ("draft_checks", "facts_together")
        twin.answer = lambda seen: (drafting if seen.schema_name in drafts else plain)(seen)
        twin.tls = tls
        stack.enter_context(twin)
        with forked_by(commands):
            server = stack.enter_context(own_server(place / "server", free_port()))
        variables = {**environment(), **client_settings(server.api), "PREFECT_HOME": str(place / "home")}
        variables |= {"SSL_CERT_FILE": str(certificate), "COLUMNS": "100", "PATH": f"{commands}:{os.environ['PATH']}"}
        variables[PORTS] = json.dumps({443: int(twin.place.partition(":")[2]), 4200: server.port})
        yield Reader(folder, variables)


@pytest.mark.parametrize("page", pages())
def test_every_block_runs_as_printed(page: str, reader: Reader) -> None:
    (reader.folder / ".variables").unlink(missing_ok=True)
    has_queries = "```sql" in read(page)
    with held_open(reader.folder / "jury-store") if has_queries else nullcontext():
        results = [(block.place, reader.run(block)) for block in blocks(page) if not block.reasons]

    failed = [f"{place} {words}" for place, words in results if words]
    assert not failed, "\n\n".join(failed)


def test_skipped_blocks_are_of_few_kinds_and_parse() -> None:
    skipped = [block for page in pages() for block in blocks(page) if block.reasons]
    assert len(NOT_RUN) <= 8 and set().union(*(block.reasons for block in skipped)) == {*NOT_RUN.values()}
    for block in skipped:
        checked = subprocess.run(["bash", "-n", "-c", block.body], capture_output=True, text=True)
        assert checked.returncode == 0, f"{block.place}: {checked.stderr}"
        for words in re.findall(r"^jury (.*)", block.body, re.MULTILINE):
            parse(shlex.split(words, comments=True))
        targets = re.findall(r"^make (\w+)", block.body, re.MULTILINE)
        assert {*targets} <= {*re.findall(r"^(\w+):", read("Makefile"), re.MULTILINE)}, block.place


def parse(words: list[str]) -> None:
    """Parse a `jury` command line; a wrong one raises click's UsageError."""
    known = dict(load_generator().commands())
    path = next(path for path in (" ".join(words[:2]), words[0]) if path in known)
    command, rest = known[path], words[len(path.split()) :]
    if path == "run":
        assert isinstance(command, click.Group)
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context("jury", rest)


def load_generator() -> Any:
    """Return the program that writes the reference pages."""
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


# Contents of pages


def test_reference_matches_the_code_and_has_each_name_once() -> None:
    made = load_generator()
    fresh = made.pages()
    assert {name: read(f"docs/reference/{name}") for name in fresh} == fresh, "run `make docs`"
    every = "".join(fresh.values())
    titles = re.findall(r"^##+ (?:view|table)? ?`([^`]+)`$", every, re.MULTILINE)
    assert len({*titles}) == len(titles)
    assert {f"jury {path}" for path, _ in made.commands()} | made.examples().keys() <= {*titles}
    variables = re.findall(r"^\| `(\w+)` \|", fresh["settings.md"], re.MULTILINE)
    assert len({*variables}) == len(variables) and made.variables_in_code() <= {*variables}


def slugs(page: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", NO_TEXT.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_has_a_target() -> None:
    for page in [*pages(), "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", read(page))):
            if re.match(r"https?:", target):
                continue
            path, _, anchor = target.partition("#")
            place = ((ROOT / page).parent / path).resolve() if path else ROOT / page
            assert place.exists(), f"{page}: {target}"
            assert not anchor or anchor in slugs(str(place.relative_to(ROOT))), f"{page}: {target}"


def test_pages_are_short_and_plain() -> None:
    assert len(read("README.md").splitlines()) <= 200
    for page in pages():
        text = NO_TEXT.sub("", read(page))
        wide = [row for row in re.findall(r"^\|.*\|$", text, re.MULTILINE) if len(re.findall(r"(?<!\\)\|", row)) > 8]
        assert wide == [], page
        assert not re.search(r"\n\n    \S", text), f"{page}: a block without a fence"
        if page.startswith("docs/reference/"):
            continue
        for paragraph in re.split(r"\n\s*\n|\n(?=- |\d\. )", text):
            if not paragraph.strip().startswith(("|", "#", "![")):
                sentences = [*filter(None, re.split(r"(?<=[.?!])\s+(?=[A-Z`*\[])", " ".join(paragraph.split())))]
                assert len(sentences) <= 5, f"{page}: {paragraph}"
                assert [each for each in sentences if len(each.split()) > 30] == [], page


def test_troubleshooting_quotes_messages_of_the_program() -> None:
    files = chain((ROOT / "flows").rglob("*.py"), (ROOT / "tasks").rglob("*.py"))
    nodes = chain.from_iterable(ast.walk(ast.parse(file.read_text(encoding="utf-8"))) for file in files)
    strings = "\0".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    rows = re.findall(r"^\| `(.+?)` \|", read("docs/troubleshooting.md"), re.MULTILINE)
    assert len(rows) > 30
    assert [part for row in rows for part in row.split("…") if part.strip() not in strings] == []
