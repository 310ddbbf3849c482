"""Reading ledgers: damage is reported with its place, and runs of an earlier version are left out."""

import json
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, line, outcome, start, write_run

from tasks.errors import InputError
from tasks.history.landing import land, rebuild
from tasks.ledger.run_files import END, JUDGMENTS, RUN, read_end, read_judgments, read_outcomes, read_start
from tasks.records import SCHEMA, Judgment


def write_one_run(store: Path, *rows: Judgment) -> Path:
    return write_run(store, start("r1"), list(rows), end("r1"))


def edit(path: Path, **changes: Any) -> None:
    """Change the only row of a file."""
    path.write_text(line(json.loads(path.read_bytes()) | changes))


def test_torn_last_line_is_ignored(tmp_path: Path) -> None:
    run = write_run(tmp_path, start("r1"), [judgment(sample_id="s1"), judgment(sample_id="s2")], None)
    whole = (run / JUDGMENTS).read_bytes()
    for cut in (1, 40, len(whole) // 2 - 1):
        (run / JUDGMENTS).write_bytes(whole[:-cut])
        assert [row.sample_id for row in read_judgments(run)] == ["s1"]


def test_damaged_row_before_the_last_is_an_error(tmp_path: Path) -> None:
    run = write_one_run(tmp_path, judgment(sample_id="s1"), judgment(sample_id="s2"))
    first, second = (run / JUDGMENTS).read_bytes().splitlines(keepends=True)
    (run / JUDGMENTS).write_bytes(first[:-20] + b"\n" + second)
    with pytest.raises(ValueError, match=r"judgments\.jsonl, line 1: damaged"):
        list(read_judgments(run))
    (run / JUDGMENTS).write_text("[1]\n")
    with pytest.raises(ValueError, match="expected an object"):
        list(read_judgments(run))


@pytest.mark.parametrize("schema", [SCHEMA + 1, "7"])
def test_row_of_another_schema_is_refused(tmp_path: Path, schema: object) -> None:
    run = write_one_run(tmp_path, judgment())
    edit(run / JUDGMENTS, schema=schema)
    with pytest.raises(InputError, match=rf"judgments\.jsonl, line 1: ledger schema {schema}; this version reads"):
        list(read_judgments(run))


def test_run_of_an_earlier_version_is_left_out_with_one_message(tmp_path: Path) -> None:
    write_run(tmp_path, start("r0"), [judgment()], end("r0"))
    run = write_one_run(tmp_path, judgment())
    edit(run / RUN, schema=6)
    for load in (land, rebuild):
        done = load(tmp_path)
        assert done.loaded == ("r0",) and len(done.left_out) == 1
        assert "r1/run.json, line 1: ledger schema 6; this version reads 7 alone" in done.left_out[0]


def test_invalid_field_is_reported_with_file_line_and_field(tmp_path: Path) -> None:
    run = write_one_run(tmp_path, judgment(sample_id="s1"))
    with (run / JUDGMENTS).open("ab") as file:
        row = json.loads(judgment(sample_id="s2", run_id="r1").model_dump_json())
        file.write(line({**row, "vote": "all"}).encode())
    with pytest.raises(InputError, match=r"judgments\.jsonl, line 2: damaged: vote: Input should be a valid integer"):
        list(read_judgments(run))
    row = json.loads(outcome(run_id="r1").model_dump_json())
    for lines in ({**row, "path": None}, {**row, "path": 1, "control": "x"}):
        (run / "outcomes.jsonl").write_text(line(lines))
        with pytest.raises(InputError, match=r"outcomes\.jsonl, line 1: damaged: path: "):
            list(read_outcomes(run))
    edit(run / END, calls="many", another="field")
    with pytest.raises(InputError, match=r"end\.json, line 1: damaged: calls: Input should be a valid integer"):
        read_end(run)
    edit(run / RUN, samples=None)
    with pytest.raises(InputError, match=r"run\.json, line 1: damaged: samples: "):
        read_start(run)


@pytest.mark.parametrize("moment", ["yesterday", "", "2026-11-20T12:00:00"])
def test_invalid_run_times_are_damage(tmp_path: Path, moment: str) -> None:
    run = write_one_run(tmp_path, judgment())
    edit(run / RUN, started_at=moment)
    edit(run / END, finished_at=moment)
    for read in (read_start, read_end):
        with pytest.raises(InputError, match="is no time in ISO 8601 with a time zone"):
            read(run)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a": "\xff"}'])
def test_invalid_json_is_damage(tmp_path: Path, text: bytes) -> None:
    run = write_one_run(tmp_path, judgment())
    (run / JUDGMENTS).write_bytes(text + b"\n")
    with pytest.raises(InputError, match=r"judgments\.jsonl, line 1: damaged: "):
        list(read_judgments(run))
