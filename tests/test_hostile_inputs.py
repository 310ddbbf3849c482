"""Hostile inputs of every kind, used as a person would: nothing outside is touched, no command hangs or crashes."""

import base64
import json
import os
import re
import zlib
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, error, refusal, text
from png_files import chunk
from png_files import png as raw_png
from test_strange_stores import OTHER
from watched import OUTSIDE, SECRET, commands_nothing, ended, harmless, used, watched
from written_datasets import png, record, result, write_benchmark, write_json
from written_history import whole_run
from written_images import LIST, prompt_row, write_geneval

from tasks.rubrics.rubric import PROMPTS

BELL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
DEEP = 100_000
LONG = "x" * 1_000_000
SECRET_PICTURE = f"../{OUTSIDE}/secret.png"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder in which a test puts its inputs."""
    made = tmp_path / "input"
    made.mkdir()
    return made


def check_harmless(flow: str, folder: Path, **dataset: str) -> None:
    with watched(folder):
        printed = used(flow, folder, **dataset)
    harmless(printed)


def exit_code(folder: Path, *words: object) -> int:
    """Return the exit code of a command, after checking that it did no harm."""
    with watched(folder):
        code, printed = ended(*words)
    harmless(printed)
    commands_nothing(printed)
    return code


# Manifests of figures

ROW: dict[str, Any] = {
    **{"id": "a", "task": "diagram", "context": "a method", "caption": "a caption"},
    **{"human_image": "human.png", "model_image": "model.png"},
}
ROWS: dict[str, dict[str, Any]] = {
    "a path in the home folder": {"human_image": "~/.ssh/id_rsa"},
    "a network share": {"model_image": "\\\\host\\share\\x.png"},
    "a path of a megabyte": {"model_image": LONG},
    "a folder in place of a picture": {"model_image": "."},
    "a link to a secret": {"model_image": "link.png"},
    "a link to a device": {"model_image": "zero.png"},
    "a pipe": {"model_image": "pipe.png"},
    "invalid base64": {"model_image": "data:image/png;base64,%%%%"},
    "a data URL of HTML": {"model_image": "data:text/html,<script>1</script>"},
    "a megabyte of base64": {"model_image": base64.b64encode(os.urandom(750_000)).decode()},
    "an id that leaves the folder": {"id": "../../etc/cron.d/x"},
    "an id with control codes": {"id": BELL},
    "an id of a megabyte": {"id": LONG},
    "an id with NUL": {"id": "a\0b"},
    "a lone surrogate": {"id": "a\ud800"},
    "an id that is an object": {"id": {"$ref": "/etc/passwd"}},
    "a candidate with control codes": {"candidate": BELL},
    "a task with control codes": {"task": BELL},
    "five megabytes of text": {"context": LONG * 5},
    "a deeply nested text": {"context": json.loads("[" * 500 + "]" * 500)},
    "a column with control codes": {BELL: 1},
    "a thousand columns": {f"column {number}": number for number in range(1000)},
}


def manifest(folder: Path, row: dict[str, Any]) -> Path:
    (folder / "human.png").write_bytes(png(1))
    (folder / "model.png").write_bytes(png(2))
    (folder / "link.png").symlink_to(SECRET_PICTURE)
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "circle.png").symlink_to("circle.png")
    os.mkfifo(folder / "pipe.png")
    path = folder / "manifest.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | {'id': 'b'} | row)}\n")
    return path


@pytest.mark.parametrize("name", ROWS)
def test_hostile_manifest_rows_do_no_harm(folder: Path, name: str) -> None:
    path = manifest(folder, ROWS[name])
    check_harmless("diagram", folder, dataset=str(path))


# Files and paths given as dataset, results, images or list of prompts

BOMB = zlib.compress(b"[" * 5_000_000, 1)
FILES: dict[str, tuple[str, bytes]] = {
    "an empty file": ("x.jsonl", b""),
    "all bytes": ("x.jsonl", bytes(range(256)) * 1000),
    "UTF-16": ("x.jsonl", json.dumps(ROW).encode("utf-16")),
    "brackets": ("x.jsonl", b"[" * DEEP),
    "an unterminated array": ("x.json", b"[" + json.dumps(ROW).encode() * 1000),
    "backslashes": ("x.json", b'[{"id": "' + b"\\" * 2_000_000),
    "a repeated key": ("x.jsonl", b"{" + b'"id": "a",' * DEEP + b'"task": "diagram"}'),
    "compressed data": ("x.jsonl", BOMB),
    "an unterminated quote": ("x.csv", b'id,task\n"' + b"a,\n" * 400_000),
    "many columns": ("x.csv", b"a," * 80_000 + b"\n1,2\n"),
    "duplicate columns with a secret": ("x.csv", f"{SECRET},{SECRET}\n1,2\n".encode()),
    "rows with too many cells": ("x.csv", b"id,task\n" + b",,,\n" * 40_000),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_do_no_harm(folder: Path, name: str) -> None:
    ending, data = FILES[name]
    path = folder / ending
    path.write_bytes(data)
    write_benchmark(folder / "bench", [record(0)])
    with watched(folder):
        messages = [
            used("diagram", folder, dataset=str(path)),
            used("counting", folder, dataset=str(path)),
            used("diagram", folder, dataset=str(folder / "bench"), results=str(path)),
        ]
        code, printed = ended("labels", "import", path, "--flow", "diagram", "--store", folder / "store")
    assert code == 2
    harmless("\n".join([*messages, printed]))


PLACES: dict[str, Callable[[Path], dict[str, str]]] = {
    "a pipe": lambda folder: {"dataset": str(pipe(folder / "x.jsonl"))},
    "a pipe in place of images": lambda folder: {**bench(folder), "images": str(pipe(folder / "x"))},
    "a device": lambda folder: {"dataset": str(make_link(folder / "x.jsonl", "/dev/zero"))},
    "a terminal": lambda folder: {"dataset": str(make_link(folder / "x.csv", "/dev/tty"))},
    "the process's memory": lambda folder: {"dataset": str(make_link(folder / "x.jsonl", "/proc/self/mem"))},
    "/etc/passwd": lambda folder: {**bench(folder), "results": str(make_link(folder / "x.json", "/etc/passwd"))},
    "a folder in /proc": lambda folder: {"dataset": "/proc/self"},
    "links in a circle": lambda folder: {"dataset": str(make_link(folder / "circle", folder / "circle"))},
    "a path of a megabyte in place of a dataset": lambda folder: {"dataset": LONG},
}


def bench(folder: Path) -> dict[str, str]:
    return {"dataset": str(write_benchmark(folder / "bench", [record(0)]))}


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def make_link(path: Path, target: str | Path) -> Path:
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.usefixtures("prefect_server")
def test_hostile_paths_do_no_harm(folder: Path, name: str) -> None:
    options = {f"--{field}": value for field, value in PLACES[name](folder).items()}
    given = [word for pair in options.items() for word in pair]
    with watched(folder):
        code, printed = ended("run", "diagram", *given, "--store", folder / "store")
    assert code == 2
    harmless(printed[:20_000])
    commands_nothing(printed)


def test_content_of_foreign_files_is_not_printed(folder: Path) -> None:
    (folder / "secret.json").write_text(f'["{SECRET}", {SECRET}')
    (folder / "secret.jsonl").write_text(json.dumps({"password": SECRET, SECRET: 1}))
    (folder / "secret.csv").write_text(f"{SECRET},b\n1,2\n")
    (folder / "behind.json").write_text(f"[] {SECRET}")
    for path in folder.iterdir():
        for flow in ("diagram", "counting"):
            harmless(used(flow, folder, dataset=str(path)))


# Results of a generator

RESULTS: dict[str, dict[str, Any]] = {
    "a key with a path": {"eval_image_field": SECRET_PICTURE},
    "a key that is an object": {"eval_image_field": {}},
    "a key with control codes": {"eval_image_field": BELL},
    "a picture that is an object": {"target_diagram_critic_desc0_base64_jpg": {"path": SECRET_PICTURE}},
    "a picture of noise": {"target_diagram_critic_desc0_base64_jpg": base64.b64encode(os.urandom(9999)).decode()},
    "only white space": {"target_diagram_critic_desc0_base64_jpg": " \n" * 2_000_000},
    "an unknown id with control codes": {"id": BELL},
}


@pytest.mark.parametrize("name", RESULTS)
def test_hostile_results_do_no_harm(folder: Path, name: str) -> None:
    write_benchmark(folder / "bench", [record(0)])
    path = write_json(folder / "results.json", [result(0, **RESULTS[name])])
    check_harmless("diagram", folder, dataset=str(folder / "bench"), results=str(path))


# Folders of generated images


def _row(root: Path) -> Path:
    return root / "00000" / "metadata.jsonl"


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


IMAGES: dict[str, Callable[[Path], object]] = {
    "an image that is a link": lambda root: _replace(
        root / "00000/samples/0000.png", lambda path: make_link(path, root.parents[1] / OUTSIDE / "secret.png")
    ),
    "images behind a link": lambda root: (
        (root / "00000/samples").rename(root / "moved") and make_link(root / "00000/samples", root.parents[1] / OUTSIDE)
    ),
    "an image that is a pipe": lambda root: _replace(root / "00000/samples/0000.png", pipe),
    "a row that is a pipe": lambda root: _replace(_row(root), pipe),
    "a list that is a pipe": lambda root: pipe(root / LIST),
    "a number of 200 digits": lambda root: (root / "00000").rename(root / ("0" * 200)),
    "a row of brackets": lambda root: _row(root).write_text("[" * DEEP),
    "a row of 9 MB": lambda root: _row(root).write_text(json.dumps(prompt_row(prompt=LONG * 9))),
    "a count of 400 digits": lambda root: _row(root).write_text(
        json.dumps(prompt_row()).replace('"count": 1', f'"count": {"9" * 400}')
    ),
    "a tag with control codes": lambda root: _row(root).write_text(json.dumps(prompt_row(tag=BELL))),
    "labels that are a pipe": lambda root: pipe(root / "labels.json"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_hostile_image_folders_do_no_harm(folder: Path, name: str) -> None:
    root = write_geneval(folder / "images", [prompt_row(), prompt_row("dog")], candidates=[], with_list=False)
    IMAGES[name](root)
    check_harmless("object", folder, dataset=str(root))


# Pictures

PICTURES: dict[str, bytes] = {
    "profile bomb": raw_png(1, 1, 8, 0, b"\0\0", before=chunk(b"iCCP", b"a\0\0" + zlib.compress(b"x" * 5_000_000, 1))),
    "too much compressed pixel data": raw_png(8, 8, 8, 0, b"\0" * 5_000_000),
    "a JPEG of 65,535 px": b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\x03\x01\x11\0\x02\x11\1\x03\x11\1" + b"\0" * 99,
}


@pytest.mark.parametrize("name", PICTURES)
def test_hostile_pictures_do_no_harm(folder: Path, name: str) -> None:
    path = manifest(folder, {})
    (folder / "model.png").write_bytes(PICTURES[name])
    check_harmless("diagram", folder, dataset=str(path))


# Prompt sets and prompt documents

SETS: dict[str, Callable[[Path], object]] = {
    "a prompt that is a pipe": lambda file: _replace(file, pipe),
    "a prompt that is a device": lambda file: _replace(file, lambda path: make_link(path, "/dev/zero")),
    "a prompt that is a folder": lambda file: _replace(file, Path.mkdir),
    "a prompt that links to a secret": lambda file: _replace(file, lambda path: make_link(path, "/etc/passwd")),
    "a prompt of 50 MB": lambda file: file.write_text("+++\n" + LONG * 50),
    "brackets in front matter": lambda file: file.write_text(f"+++\nx = {'[' * DEEP}\n+++\nx"),
    "front matter with control codes": lambda file: file.write_text(f'+++\n"{json.dumps(BELL)[1:-1]}" = 1\n+++\nx'),
    "a dimension with dots and control codes": lambda file: (file.parent / "..\x1b[2J.md").write_text("x"),
}


@pytest.mark.parametrize("name", SETS)
def test_hostile_prompt_sets_are_refused(folder: Path, name: str) -> None:
    copytree(PROMPTS / "diagram", folder / "set" / "diagram")
    SETS[name](folder / "set" / "diagram" / "aesthetics.md")
    assert exit_code(folder, "prompts", "check", folder / "set") == 2


DOCUMENTS: dict[str, tuple[str, bytes]] = {
    "names outside the folder": ("x.json", json.dumps({"../../outside/x": "a prompt", "diagram/../x": "b"}).encode()),
    "brackets": ("x.json", b"[" * DEEP),
    "fences": ("x.md", b"```\n" * (DEEP // 4)),
    "headings with control codes": ("x.md", f"# {BELL}\n```\n{BELL}\n```\n".encode()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_prompt_documents_are_refused(folder: Path, name: str) -> None:
    ending, data = DOCUMENTS[name]
    (folder / ending).write_bytes(data)
    assert exit_code(folder, "prompts", "import", folder / ending, "--set", folder / "set") == 2
    assert not (folder / "set").exists()


# Labels

LABELS: dict[str, dict[str, Any]] = {
    "a sample with control codes": {"sample_id": BELL},
    "a verdict with control codes": {"verdict": BELL},
    "an object": {"verdict": {"a": 1}},
}


@pytest.mark.parametrize("name", LABELS)
def test_hostile_labels_do_no_harm(folder: Path, name: str) -> None:
    row = {"sample_id": "a", "dimension": "overall", "verdict": "Model", "annotator": "p"} | LABELS[name]
    (folder / "labels.jsonl").write_text(json.dumps(row))
    exit_code(folder, "labels", "import", folder / "labels.jsonl", "--flow", "diagram", "--store", folder / "s")


@pytest.mark.parametrize("name", ["../../outside/x", BELL, "a\0b"])
def test_hostile_label_names_are_refused(folder: Path, name: str) -> None:
    (folder / "labels.jsonl").write_text(json.dumps({"sample_id": "a", "dimension": "overall", "verdict": "Model"}))
    given = (folder / "labels.jsonl", "--flow", "diagram", "--store", folder / "s", "--name", name)
    assert exit_code(folder, "labels", "import", *given) == 2 and not (folder / "s").exists()


# SQL

SQL = [
    "SELECT * FROM read_blob('{outside}/secret.json')",
    "SELECT * FROM glob('{outside}/*')",
    "EXPORT DATABASE '{outside}/x'",
    "INSTALL httpfs FROM '{outside}'",
    "LOAD '{outside}/x.duckdb_extension'",
    "SET enable_external_access = true; SELECT * FROM read_text('/etc/passwd')",
    "SET temp_directory = '{outside}'",
    "SET home_directory = '{outside}'",
    "PRAGMA enable_profiling; SET profiling_output = '{outside}/x'; SELECT 1",
    "SELECT getenv('HOME')",
    "CREATE SECRET x (TYPE s3, KEY_ID 'a')",
    "SELECT count(*) FROM range(1000000000000)",
    "SELECT list(range) FROM range(1000000000000)",
    "SELECT repeat('x', 100000000000)",
    "SELECT regexp_matches(repeat('a', 1000000), '(a*)*b')",
    "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
    "SELECT '" + "x" * 1_000_000 + "' FROM nowhere",
    "\0; SELECT 1",
]


@pytest.fixture(scope="module")
def asked(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of this module's own: to open one takes longer than most answers."""
    return copytree(stored, tmp_path_factory.mktemp("asked") / "store")


@pytest.mark.parametrize("number", range(len(SQL)))
def test_hostile_sql_does_no_harm(folder: Path, asked: Path, number: int) -> None:
    sql = SQL[number].replace("{outside}", str(folder.with_name(OUTSIDE)))
    with watched(folder):
        _, printed = ended("query", sql, "--seconds", 0.1, "--store", asked)
    harmless(printed[:20_000])
    commands_nothing(printed)
    assert os.environ["HOME"] not in printed.split()


# Parameters

JUDGE = ("--judge.model", "m", "--judge.base-url")
PARAMETERS: dict[str, list[str]] = {
    "an export over a dataset": ["--export", "{folder}/x.jsonl"],
    "an export that is no export": ["--export", "{folder}/authorized_keys"],
    "an export that is a folder": ["--export", "{folder}"],
    "an export through a link": ["--export", "{folder}/link/x.jsonl"],
    "a date with an attribute lookup": ["--dataset", "{date.__class__.__init__.__globals__}"],
    "a prompt set that leaves the folder": ["--prompt-set", "../../outside"],
    "votes": ["--votes", "9" * 5000],
    "a value that is not a number": ["--reuse-hours", "nan"],
    "a store with a password": ["--store", "s3://key:password@bucket"],
    "an address of a file": [*JUDGE, "file:///etc/passwd"],
    "an address with a password": [*JUDGE, "http://a:b@host/v1"],
    "an address with control codes": [*JUDGE, f"http://{BELL}/v1"],
    "a key name with a line break": [*JUDGE, "openai", "--judge.api-key-env", "A\r\nB"],
    "a key of the environment": [*JUDGE, "http://127.0.0.1:9/v1", "--judge.api-key-env", "HOME"],
    "a key over plain http": [*JUDGE, "http://api.openai.com/v1", "--judge.api-key-env", "OPENAI_API_KEY"],
    "a header with a line break": ["--judge.headers", json.dumps({"X": "A\r\nY: 1"})],
    "a header that is a key": ["--judge.headers", json.dumps({"Authorization": "HOME"})],
    "brackets": ["--judge.extra", '{"a":' + "[" * DEEP],
}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.usefixtures("prefect_server")
def test_hostile_parameters_are_refused(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.chdir(folder)
    (folder / "x.jsonl").write_text(json.dumps(ROW))
    make_link(folder / "link", folder.with_name(OUTSIDE))
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    given = [word.replace("{folder}", str(folder)) for word in PARAMETERS[name]]
    if name == "an export through a link":
        monkeypatch.setenv("JURY_ROOTS", str(folder))
    usual = ("--dataset", "samples", "--limit", 1, "--store", folder / "store")
    assert exit_code(folder, "run", "counting", *usual, *given) == 2
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


# Text of strangers, up to the terminal


QUERIES = (["query", "leaderboard"], ["query", "failures"], ["query", "FROM judgments", "--json"])
SHOWN = (["status"], *QUERIES, ["store", "sync"])


@pytest.mark.usefixtures("prefect_server")
def test_text_of_strangers_sends_no_control_codes_to_the_terminal(folder: Path, loopback: LoopbackJudge) -> None:
    path = manifest(folder, {})
    texts = {"candidate": f"evil{BELL}", "context": BELL, "caption": BELL, "category": BELL}
    path.write_text("".join(f"{json.dumps(ROW | texts | {'id': f'sample {number}'})}\n" for number in range(3)))
    good = text(json.dumps({"comparison_reasoning": BELL, "winner": "Model"}))
    named = Reply({**good.body, "model": f"m{BELL}"})
    strange = cycle([good, refusal(BELL), named, text(BELL), error(400, BELL), good])
    loopback.answer = lambda _: next(strange)
    store = ("--store", folder / "store")
    given = ("--dataset", path, *judged_by(loopback), "--retries", 0)
    with watched(folder):
        printed = [ended("run", "diagram", *given, *store), *(ended(*words, *store) for words in SHOWN)]
        [run, *_] = [line.split()[0] for line in printed[1][1].splitlines() if line.startswith("  2")]
        printed += [ended("compare", run, run, *store), ended("labels", "agreement", run, run, *store)]
    for _, words in printed:
        assert "Traceback" not in words and "a fault of" not in words
        commands_nothing(words)
    assert "evil" in printed[2][1]


# Stores


def thumbnails_and_names(run: Path) -> None:
    """Make thumbnails a pipe and a link to a secret; put control codes into the names of labels and of a run."""
    (run.parents[1] / "pictures").mkdir(exist_ok=True)
    one, other = sorted({*re.findall("[0-9a-f]{64}", (run / "outcomes.jsonl").read_text())})
    pipe(run.parents[1] / "pictures" / f"{one}.jpg")
    make_link(run.parents[1] / "pictures" / f"{other}.jpg", _secret(run))
    (run.parents[1] / "labels" / BELL).mkdir(parents=True)
    run.rename(run.with_name(f"2{BELL}".replace("/", "")))


def labels_and_history(run: Path) -> None:
    """Make labels and history links to secrets."""
    make_link(run.parents[1] / "labels", _secret(run).parent)
    make_link(run.parents[1] / "history.duckdb", _secret(run))


def _secret(run: Path) -> Path:
    return run.parents[3] / OUTSIDE / "secret.png"


@pytest.mark.parametrize("harm", [thumbnails_and_names, labels_and_history])
def test_hostile_stores_do_no_harm(folder: Path, harm: Callable[[Path], None]) -> None:
    store = folder / "store"
    run = whole_run(store)
    whole_run(store, OTHER)
    harm(run)
    with watched(folder):
        printed = [ended(*words, "--store", store)[1] for words in (["store", "sync"], ["status"], ["query", "runs"])]
        printed.append(ended("report", "-o", folder / "report.html", "--store", store)[1])
    for words in printed:
        harmless(words)
        commands_nothing(words)
    page = folder / "report.html"
    assert not page.exists() or base64.b64encode(SECRET.encode()).decode() not in page.read_text()
