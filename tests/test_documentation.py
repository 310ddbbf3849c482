"""README and docs: every block runs as it is printed, in the order of a reader, on one store and one server."""

import ast
import json
import os
import re
import shlex
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
from forked_commands import installed
from loopback_proxy import own_certificate
from served import environment, free_port
from test_check_drafts import Drafting

from flows.server.server import client_settings, own_server
from tasks.errors import InputError
from tasks.history.queries import held_open, query

ROOT = Path(__file__).parents[1]
FIRST = ["README.md", "docs/tutorial-figures.md", "docs/tutorial-images.md"]
"""Pages that readers open first; the others follow by name."""
NOT_RUN = {
    r"^git (clone|pull)\b": "gets this repository from elsewhere",
    r"^make \w+": "installs, or takes minutes; the demo has tests of its own",
    r"\bpip install\b": "downloads from a package index",
    r"^docker-compose ": "needs Docker; test_compose reads the file",
    r"^kubectl ": "needs a cluster",
    r"s3://": "needs a bucket and its account; test_remote has one on loopback",
}
"""Pattern of a line -> why its block is parsed alone."""
STAYS_UP = {"jury up": "Ctrl-C stops all of it", "prefect worker start": "started!"}
"""Beginning of a command that does not end -> words after which it is ended."""
GOES_ON = {"jury": (3, 4, 5)}
"""Exit codes, besides 0, that are answers: not all judged, a gate that fails or cannot tell."""
HOSTS = ("api.openai.com", "judge.example.org")
SHELL = re.compile(
    r"^(?:jury|prefect|make|git|pip|python3?|docker-compose|kubectl|export|source|eval|unset|mkdir|cp|\[) "
)
SQL = re.compile(r"^(?:SELECT|WITH|FROM|COPY|COMMENT|INSERT|CREATE)\b")
BLOCK = re.compile(r"^```(?P<tag>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?s)^```.*?^```$|`[^`\n]*`", re.MULTILINE)
UNMADE = re.compile(r"(?s)^```.*?^```$|<!--.*?-->", re.MULTILINE)
"""Blocks and comments: no text of a page."""


class Block(NamedTuple):
    place: str
    tag: str
    body: str

    @property
    def kind(self) -> str:
        """What it is by its content, whatever its tag says."""
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
        """Why it is not run; nothing where it is."""
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


class House(NamedTuple):
    """Folder in which a reader works, and what a shell there has."""

    folder: Path
    settings: dict[str, str]

    def run(self, block: Block) -> str:
        """What went wrong in a block; nothing where all is well."""
        given = getattr(self, f"run_{block.kind}", None)
        return given(block) if given else f"no block has the language {block.tag!r}"

    def run_file(self, block: Block) -> str:
        target = self.folder / block.tag.partition(" ")[2]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.body, encoding="utf-8")
        return ""

    def run_shell(self, block: Block, *options: str) -> str:
        """Run the block in a shell that knows the variables of the blocks before it."""
        known, failed = self.folder / ".variables", self.folder / ".failed"
        failed.write_text("", encoding="utf-8")
        trap = f"trap 'echo \"$? $BASH_COMMAND\" >> {failed}' ERR; trap 'export -p > {known}' EXIT"
        script = f"[ -e {known} ] && source {known}\nset -a\n{trap}\n{block.body}"
        stays = next(
            (words for start, words in STAYS_UP.items() if re.search(f"^{start}", block.body, re.MULTILINE)), ""
        )
        with (self.folder / ".said").open("w+") as said:
            process = subprocess.Popen(
                ["bash", *options, "-c", script],
                cwd=self.folder, env=self.settings, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
            seen = self.seen_after(process, stays)
        codes = [line.partition(" ") for line in failed.read_text(encoding="utf-8").splitlines()]
        bad = [line for line in codes if int(line[0]) not in GOES_ON.get(line[2].partition(" ")[0], ()) and not stays]
        missed = stays and stays not in seen
        return f"{bad or missed}: {seen[-3000:]}" if bad or missed else ""

    def seen_after(self, process: "subprocess.Popen[bytes]", stays: str) -> str:
        said = self.folder / ".said"
        while process.poll() is None:
            try:
                process.wait(0.1 if stays else 300)
            except subprocess.TimeoutExpired:
                if not stays or stays in said.read_text(encoding="utf-8"):
                    os.killpg(process.pid, signal.SIGINT)
                    process.wait(60)
        return said.read_text(encoding="utf-8")

    def run_sql(self, block: Block) -> str:
        try:
            query(self.folder / "jury-store", block.body, seconds=60)
        except InputError as error:
            return str(error)
        return "" if block.body.count("\n") <= 10 else "the query has more than ten lines"

    def run_python(self, block: Block) -> str:
        light = "\nimport sys\nassert not {'prefect', 'duckdb', 'openai'} & sys.modules.keys()\n"
        code = block.body + (light if "flows.api" in block.body else "")
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=self.settings, capture_output=True, text=True
        )
        return done.stderr

    def run_workflow(self, block: Block) -> str:
        """Run the steps of a workflow's jobs as GitHub does, in the place of a pull request."""
        summary = self.folder / "summary.md"
        for job in yaml.safe_load(block.body)["jobs"].values():
            given = {
                name: re.sub(r"\$\{\{ secrets\.\w+ \}\}", "sk-secret", value) for name, value in job["env"].items()
            }
            for step in job["steps"]:
                own = House(self.folder, {**self.settings, **given, "GITHUB_STEP_SUMMARY": str(summary)})
                script = step.get("run", "").replace("${{ github.event.number }}", "123")
                if failed := own.run_shell(Block(block.place, "sh", script), "-e"):
                    return failed
        return "" if summary.read_text(encoding="utf-8").startswith("### ") else "the summary is empty"

    def run_text(self, block: Block) -> str:
        return ""

    def run_json(self, block: Block) -> str:
        for line in [block.body] if block.body.startswith(("[\n", "{\n")) else block.body.splitlines():
            json.loads(line)
        return ""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    place, folder = tmp_path_factory.mktemp("commands"), tmp_path_factory.mktemp("reader")
    (folder / "deployments").symlink_to(ROOT / "deployments")
    certificate, tls = own_certificate(place, *HOSTS)
    with ExitStack() as stack:
        twin, drafting = Twin("openai"), Drafting()
        plain, drafts = twin.answer, ("draft_checks", "facts_together")
        twin.answer = lambda seen: (drafting if seen.schema_name in drafts else plain)(seen)
        twin.tls = tls
        stack.enter_context(twin)
        server = stack.enter_context(own_server(place / "server", free_port()))
        own = {**environment(), **client_settings(server.api), "PREFECT_HOME": str(place / "home")}
        own |= {"SSL_CERT_FILE": str(certificate), "COLUMNS": "100", "PATH": f"{place}:{os.environ['PATH']}"}
        ports = {443: int(twin.place.partition(":")[2]), 4200: server.port}
        stack.enter_context(installed(place, ports, own))
        yield House(folder, own)


@pytest.mark.parametrize("page", pages())
def test_every_block_runs_as_it_is_printed(page: str, house: House) -> None:
    (house.folder / ".variables").unlink(missing_ok=True)
    asks = "```sql" in read(page)
    with held_open(house.folder / "jury-store") if asks else nullcontext():
        run = [(block.place, house.run(block)) for block in blocks(page) if not block.reasons]

    failed = [f"{place} {words}" for place, words in run if words]
    assert not failed, "\n\n".join(failed)


def test_blocks_that_are_not_run_are_of_few_kinds_and_parse() -> None:
    left = [block for page in pages() for block in blocks(page) if block.reasons]
    assert len(NOT_RUN) <= 8 and set().union(*(block.reasons for block in left)) == {*NOT_RUN.values()}
    for block in left:
        checked = subprocess.run(["bash", "-n", "-c", block.body], capture_output=True, text=True)
        assert checked.returncode == 0, f"{block.place}: {checked.stderr}"
        for words in re.findall(r"^jury (.*)", block.body, re.MULTILINE):
            parse(shlex.split(words, comments=True))
        targets = re.findall(r"^make (\w+)", block.body, re.MULTILINE)
        assert {*targets} <= {*re.findall(r"^(\w+):", read("Makefile"), re.MULTILINE)}, block.place


def parse(words: list[str]) -> None:
    """Read a line of `jury` by the options of its command; one that is wrong raises click's UsageError."""
    known = dict(generate().commands())
    path = next(path for path in (" ".join(words[:2]), words[0]) if path in known)
    command, rest = known[path], words[len(path.split()) :]
    if path == "run":
        assert isinstance(command, click.Group)
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context("jury", rest)


def generate() -> Any:
    """The program that writes the reference pages."""
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


# What pages are made of


def test_the_reference_is_what_the_code_says_now_and_has_each_name_once() -> None:
    made = generate()
    fresh = made.pages()
    assert {name: read(f"docs/reference/{name}") for name in fresh} == fresh, "`make docs` writes them anew"
    every = "".join(fresh.values())
    titles = re.findall(r"^##+ (?:view|table)? ?`([^`]+)`$", every, re.MULTILINE)
    assert len({*titles}) == len(titles)
    assert {f"jury {path}" for path, _ in made.commands()} | made.examples().keys() <= {*titles}
    variables = re.findall(r"^\| `(\w+)` \|", fresh["settings.md"], re.MULTILINE)
    assert len({*variables}) == len(variables) and made.variables_in_code() <= {*variables}


def slugs(page: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", UNMADE.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
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
        text = UNMADE.sub("", read(page))
        wide = [row for row in re.findall(r"^\|.*\|$", text, re.MULTILINE) if len(re.findall(r"(?<!\\)\|", row)) > 8]
        assert wide == [], page
        assert not re.search(r"\n\n    \S", text), f"{page}: a block without a fence"
        if page.startswith("docs/reference/"):
            continue
        for paragraph in re.split(r"\n\s*\n|\n(?=- |\d\. )", text):
            if not paragraph.strip().startswith(("|", "#", "![")):
                said = [*filter(None, re.split(r"(?<=[.?!])\s+(?=[A-Z`*\[])", " ".join(paragraph.split())))]
                assert len(said) <= 5, f"{page}: {paragraph}"
                assert [each for each in said if len(each.split()) > 30] == [], page


def test_troubleshooting_has_messages_of_the_program() -> None:
    files = chain((ROOT / "flows").rglob("*.py"), (ROOT / "tasks").rglob("*.py"))
    nodes = chain.from_iterable(ast.walk(ast.parse(file.read_text(encoding="utf-8"))) for file in files)
    said = "\0".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    rows = re.findall(r"^\| `(.+?)` \|", read("docs/troubleshooting.md"), re.MULTILINE)
    assert len(rows) > 30
    assert [part for row in rows for part in row.split("…") if part.strip() not in said] == []
