"""The `jury` command as a whole: help, names, typos, completion, imports, and its errors."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from shutil import which
from typing import Any, NoReturn

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import error as refusing
from png_files import png
from served import environment

from flows import pipeline
from flows.cli import COMMANDS, main
from flows.commands import query
from flows.commands import store as store_commands
from flows.commands.console import command_line
from tasks.ledger.bucket import RemoteUnavailable
from tasks.pictures.thumbnails import Thumbnails
from tasks.records.parameters import FLOWS

ROOT = Path(__file__).parents[1]
ENTRIES = {path: entry for entries in COMMANDS.values() for path, entry in entries.items()}
SUBCOMMANDS = {"run": {*FLOWS, "geneval"}, "deploy": {"init"}}
"""Command -> its subcommands; those of `run` and `deploy` are listed in their modules."""
GROUPS = [path for path, entry in ENTRIES.items() if not entry.place]
for _path in ENTRIES:
    _above, _, _name = _path.rpartition(" ")
    SUBCOMMANDS.setdefault(_above, set()).add(_name)
NAMED = re.compile(r"(?<![\w:/.=-])(?<!--pool )jury(?: +|(?<=`jury)\s+)([a-z]+)(?:\s+([a-z]+(?:-[a-z]+)*))?")
"""Words after `jury` in a text that names a command; a line may break between them."""


def raiser(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


# Help, versions and typos


def test_help_lists_every_command_with_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    for heading, entries in COMMANDS.items():
        own = {path: entry for path, entry in entries.items() if " " not in path}
        assert f"{heading}: " in words and all(f"{name} {entry.help}" in words for name, entry in own.items())


@pytest.mark.parametrize(
    "words",
    [
        *(path.split() for path in ENTRIES),
        *(["run", *flow.split()] for flow in (*FLOWS, "geneval", "diagram plot")),
        ["deploy", "init"],
    ],
    ids=" ".join,
)
def test_every_command_has_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0 and capsys.readouterr().out.startswith(f"Usage: jury {' '.join(words)} ")


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0 and capsys.readouterr().out == f"jury {version('image-jury')}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qeury"], "No such command 'qeury'. Did you mean 'query'?\nTry `jury --help`."),
        (["store", "snyc"], "No such command 'snyc'. Did you mean 'sync'?\nTry `jury store --help`."),
        (["run", "diagrm"], "No such command 'diagrm'. Did you mean 'diagram'?\nTry `jury run --help`."),
        (["run", "plot", "diagrm"], "No such command 'diagrm'. Did you mean 'diagram'?\nTry `jury run --help`."),
        (
            ["run", "all"],
            "No such flow 'all': diagram and plot judge figures against human ones, object, counting, colors "
            "and position generated images, facts judges pictures by checklists; geneval stands for the four of "
            "images\nTry `jury run --help`.",
        ),
        (["run", "plot", "colors"], "plot and colors take different datasets: name figures and images in two runs\n"),
        (["run", "plot", "--limit", "1"], "--dataset is missing: give a PaperBananaBench folder with --results FILE"),
        (["run", "geneval"], "--dataset is missing: give a folder in GenEval's layout, one candidate's or a folder of"),
        (["run", "geneval", "--dataset", "x", "--export", "y"], "--export is for a run of one flow: several would"),
        (["query", "--jsn"], "No such option '--jsn'. Did you mean '--json'?\nTry `jury query --help`."),
        (["run", "diagram", "--judge.modle", "m"], "No such option '--judge.modle'. Did you mean '--judge.model'?\n"),
        (["run", "counting", "--layout", "shared"], "No such option '--layout'"),
        (["run", "diagram", "--datset", "d"], "No such option '--datset'. Did you mean '--dataset'?\n"),
        (["store", "pages", "--last", "two"], "Invalid value for '--last': 'two' is not a valid integer range.\nTry"),
        (["gate", "--candidate", "alpha"], "Missing option '--flow'."),
        (["up", "--port", "99999"], "Invalid value for '--port': 99999 is not in the range 1<=x<=65535."),
    ],
)
def test_typos_get_a_suggestion(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"jury: {message}")


@pytest.mark.parametrize("words", [[], ["run"], *([path] for path in GROUPS)], ids=" ".join)
def test_missing_command_prints_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert err.startswith("Usage: jury")
    below = {path: entry for path, entry in ENTRIES.items() if words and path.startswith(f"{words[0]} ")}
    assert all(f"{path.partition(' ')[2]} {entry.help}" in err for path, entry in below.items())


def unknown_commands(text: str) -> list[str]:
    """Return words after `jury` in a text that are not commands."""
    found: list[str] = []
    for first, second in NAMED.findall(text):
        if first not in SUBCOMMANDS[""] or (first in (*GROUPS, "run") and second and second not in SUBCOMMANDS[first]):
            found.append(f"{first} {second}".strip())
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that people read or that prints; of a program, its joined strings, too."""
    for folder in ("flows", "tasks", "deployments", "prompts"):
        for file in sorted(each for each in (ROOT / folder).rglob("*") if each.is_file()):
            if file.suffix in (".pyc", ".lock"):
                continue
            text = file.read_text(encoding="utf-8")
            yield str(file.relative_to(ROOT)), text
            if file.suffix == ".py":
                strings = [each.value for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Constant)]
                yield str(file.relative_to(ROOT)), "\0".join(each for each in strings if isinstance(each, str))
    for file in (ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))):
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def test_texts_name_only_existing_commands() -> None:
    assert unknown_commands("`jury sync`, `jury labels\npgae`, `jury store sync`, (jury query), --pool jury\nfor") == [
        "sync",
        "labels pgae",
    ]
    given = [*texts()]
    assert sum(len(NAMED.findall(text)) for _, text in given) > 200, "texts were not found"
    assert [(file, found) for file, text in given if (found := unknown_commands(text))] == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("jury q", ["query"]),
        ("jury store p", ["pages", "push"]),
        ("jury run diagram --judge.max", ["--judge.max-output-tokens"]),
        ("jury report --flow p", ["plot", "position"]),
    ],
)
def test_shell_completes_commands_options_and_choices(
    words: str, found: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("_JURY_COMPLETE", "bash_complete"), ("COMP_WORDS", words), ("COMP_CWORD", words.count(" "))):
        monkeypatch.setenv(name, str(value))
    assert main(words.split()[1:]) == 0
    assert [line.partition(",")[2] for line in capsys.readouterr().out.split()] == [*found]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_documented_line_enables_shell_completion(shell: str) -> None:
    if not which(shell):
        pytest.skip(f"{shell} is not installed")
    line = f'eval "$(_JURY_COMPLETE={shell}_source jury)"'
    if shell == "bash":
        assert line in (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
        check = 'COMP_WORDS=(jury rep) COMP_CWORD=1; _jury_completion jury; echo "${COMPREPLY[*]}"'
    else:  # zsh inserts words only in a terminal: print them instead
        line = f"autoload -U compinit; compinit -D; {line}"
        check = "words=(jury rep); CURRENT=2; compadd() { :; }; _describe() { print -r -- ${(P)3}; }; _jury_completion"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    done = subprocess.run([shell, "-c", f"{line}; {check}"], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.startswith("report"), done.stdout + done.stderr


# Imports


LIGHT = (
    "--help", "run diagram --help", "query spend", "report -o {place}/report.html", "status",
    "compare 2026 --candidate alpha --candidate beta", "labels agreement 2026 people",
    "labels import {place}/people.csv --flow diagram", "store sync", "prompts list", "judge endpoints",
    "demo --samples {place}/drawn --count 2 --prompts 1", "deploy init {place}/prefect.yaml",
)  # fmt: skip
"""Commands that need neither Prefect, nor the client, nor the price table."""
IMPORTED_BY = """
import json, sys
from flows.cli import main
results, heavy = {}, ("prefect", "openai", "httpx", "genai_prices")
for words in sys.argv[1:]:
    code = main(words.split())
    results[words] = code, [name for name in heavy if name in sys.modules]
print("\\n" + json.dumps(results))
"""


def test_light_commands_import_no_heavy_packages(store: Path) -> None:
    (store.parent / "people.csv").write_text("id,dimension,verdict\ns1,overall,Model\n", encoding="utf-8")
    given = [words.format(place=store.parent) for words in LIGHT]
    env = {**environment(), "JURY_STORE": str(store)}
    command = [sys.executable, "-c", IMPORTED_BY, *given]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    results = json.loads(done.stdout.splitlines()[-1])
    refused = {words for words in given if words.startswith(("compare ", "labels agreement "))}
    assert results == {words: [2 if words in refused else 0, []] for words in given}, done.stderr
    assert "a fault of" not in done.stderr


def test_help_imports_no_command_modules() -> None:
    commands = [["--help"], *([group, "--help"] for group in GROUPS)]
    code = f"import sys; from flows.cli import main; codes = {{main(words) for words in {commands!r}}}; print(); "
    show = "print(codes, sorted(name for name in sys.modules if name.startswith('flows.commands.')))"
    done = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "{0} ['flows.commands.console']", done.stderr


# Errors of the user and of the program


def test_bug_is_reported_with_its_traceback(store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query.history, "query", lambda *_, **__: [*zip((1, 2), (1,), strict=True)])
    code, out, err = jury("query", "leaderboard", "--store", store)
    message = "a fault of Image Jury, not of what you gave it: ValueError: zip() argument 2 is shorter than argument 1"
    assert (code, out) == (1, "") and err.startswith("Traceback (most recent call last)")
    assert err.endswith(f"\njury: {message}\n") and "test_cli.py" in err
    monkeypatch.setattr("flows.commands.status.run_folders", raiser(ValueError("a slip")))
    assert jury("status", "--store", store.parent / "nowhere")[0] == 1 and not (store.parent / "nowhere").exists()


def test_error_of_a_file_the_user_named_is_the_users(store: Path, jury: Any) -> None:
    file = store.parent / ("x" * 300)  # longer than file systems allow
    code, _, err = jury("report", "--store", store, "-o", file)
    assert code == 2 and err.startswith("jury: [Errno ") and err.endswith(f"'{file}'\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError(13, "Permission denied", "ledger"), 2),
        (OSError(28, "No space left on device"), 2),
        (ConnectionRefusedError(111, "Connection refused"), 1),
        (OSError("something"), 1),
        (RemoteUnavailable("the bucket is away"), 2),
    ],
)
def test_errors_of_files_and_buckets_are_the_users(
    error: OSError, code: int, store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_commands, "land", raiser(error))
    found, _, err = jury("store", "sync", "--store", store)
    assert found == code and ("a fault of" in err) == (code == 1)


def test_sync_makes_thumbnails_that_a_stopped_run_left(store: Path, jury: Any) -> None:
    pictures = {hashlib.sha256(data).hexdigest(): data for data in (png(1, 1, 8, 0, b"\0\1"), png(1, 1, 8, 0, b"\0\2"))}
    with Thumbnails(store) as thumbnails:
        for sha256, data in pictures.items():
            thumbnails.put_by(sha256, data)
    code, out, _ = jury("store", "sync", "--store", store)
    assert code == 0 and out.splitlines()[-1] == "2 thumbnails made that a stopped run had left to be made"
    assert all((store / "pictures" / f"{sha256}.jpg").is_file() for sha256 in pictures)
    assert "thumbnail" not in jury("store", "sync", "--store", store)[1]


def test_control_characters_in_errors_are_removed(jury: Any, monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    for error in (ValueError("\x1b[2Jgone\u202e"), RemoteUnavailable("\x1b[2Jgone\u202e")):
        monkeypatch.setattr(store_commands, "land", raiser(error))
        _, _, err = jury("store", "sync", "--store", store)
        assert " [2Jgone" in err and not re.search("[\x1b\u202e]", err)


def test_interrupt_is_reported(store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.commands.demo.run_flow", raiser(KeyboardInterrupt()))
    code, _, err = jury("demo", "--store", store)
    assert code == 130 and err.startswith("jury: stopped; every reply so far is in the ledger, and the same command")
    monkeypatch.setattr(store_commands, "land", raiser(KeyboardInterrupt()))
    assert jury("store", "sync", "--store", store)[::2] == (130, "jury: stopped\n")


def test_closed_output_pipe_is_no_error(store: Path, commands: Path) -> None:
    command, env = [commands / "jury", "query", "FROM range(100000)"], {**environment(), "JURY_STORE": str(store)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert (process.stderr.read(), process.wait(60)) == (b"", 0)
    process.stderr.close()


@pytest.mark.usefixtures("prefect_server")
def test_flow_that_raises_is_a_bug_and_one_that_stops_is_not(
    tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch, loopback: LoopbackJudge
) -> None:
    judge = ("--judge.model", "m", "--judge.base-url", loopback.base_url)
    loopback.answer = lambda _: refusing(401, "no such key")
    for dataset in (tmp_path / "nowhere", "samples"):  # one stops before the flow, one in it
        code, _, err = jury("run", "diagram", "--dataset", dataset, *judge)
        assert code == 2 and "a fault of" not in err
    monkeypatch.setattr(pipeline, "unfinished_before", raiser(KeyError("a slip")))
    code, _, err = jury("run", "diagram", "--dataset", "samples", "--limit", "1", *judge)
    assert code == 1 and err.endswith("KeyError: 'a slip'\n") and "raise error" in err


def test_suggested_command_names_the_program_as_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "jury"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", "")
    for called, named in ((str(program), str(program)), ("pytest", "jury")):
        monkeypatch.setattr(sys, "argv", [called])
        assert command_line("query x") == f"{named} query x"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert command_line("query x") == "jury query x"


def test_demo_draws_its_samples_into_a_folder(tmp_path: Path, jury: Any) -> None:
    drawn = tmp_path / "drawn here"
    code, out, err = jury("demo", "--samples", drawn, "--count", 2, "--prompts", 1)
    assert (code, err) == (0, "")
    assert f"2 plot samples drawn; judge them with: jury run plot --dataset '{drawn}'\n" in out
    assert len(json.loads((drawn / "diagram" / "test.json").read_bytes())) == 2
    assert not (tmp_path / "store").exists(), "nothing was judged"
    code, _, err = jury("demo", "--count", 2)
    assert code == 2 and "--count goes with --samples DIR" in err and not (tmp_path / "store").exists()


def test_demo_returns_the_code_of_the_worst_run(tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([3, 2, *(len(FLOWS) - 2) * [0]])
    monkeypatch.setattr("flows.commands.demo.run_flow", lambda *_: next(codes))
    assert jury("demo", "--store", tmp_path / "store")[0] == 2, "a stopped run is worse than one with failed calls"


def test_ping_prints_the_reply(tmp_path: Path, loopback: LoopbackJudge, capsys: pytest.CaptureFixture[str]) -> None:
    judge = ["--judge.model", "m", "--judge.base-url", loopback.base_url]
    assert main(["judge", "ping", *judge, "--store", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out.splitlines()[1] == 'reply: {"ready": true}'
