"""Ledgers of every version give the same records, and damage has a sentence with its place."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, line, outcome, start, write_run

from tasks.errors import InputError
from tasks.ledger.reading import (
    END,
    JUDGMENTS,
    OUTCOMES,
    RUN,
    read_end,
    read_judgments,
    read_outcomes,
    read_rows,
    read_start,
)
from tasks.records import Judgment

LEDGERS = Path(__file__).parent / "ledgers"


def written(store: Path, *rows: Judgment) -> Path:
    return write_run(store, start("r1"), list(rows), end("r1"))


def edit(path: Path, **changes: Any) -> None:
    """Change the only row of a file, and seal it anew."""
    path.write_text(line(json.loads(path.read_bytes()) | changes))


def sha256(rows: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\n".join(rows)).hexdigest()


ADDED = {
    *("waits", "waited_seconds", "limits", "carried_from", "ledger_rows", "system_fingerprint", "anchors_key"),
    *("tokens_written", "tokens_pictures", "tokens_reasoning", "price_source", "estimated"),
    *("saved_by_reuse", "saved_by_tier", "saved_by_cache", "stopped", "made_for"),
}
"""Fields that came later, which ledgers of before do not have."""
SERVED = {"tier"}
"""One more of judgments; an outcome has had another of that name all along."""


@pytest.mark.parametrize(
    ("schema", "judgments", "outcomes", "records"),
    [
        (
            "1",
            "7927d849a3447dc5e784e1c6898485aaea7e0650f9807aba7ab92471c18086c6",
            "a330b972f8b4833d06499efa35cd3a701b7fe5417afcb7c2b46e9810804f6369",
            "03333178f4db5cdbb177a99bcd49703bab3aa57fd2b723e3ccb09b6c615ad138",
        ),
        (
            "2",
            "e9cb0fb9f5e38d997280720bfb7f8ca79dea94a48638dccde5354381920b8db3",
            "b7afd59e8e16f8cee5dc0fc7bacd67efa7bf0868e84af34030e99364bf15cf02",
            "c49bdfe2e3251e0eb761b9f39d374af8cfd13941b0dab85b3a4324b054b3c3f0",
        ),
        (
            "3",
            "6e2fc0aa90e0acb4f840f192a5224bb1f36f6af8a7aeff21cd4be776ccb42f9b",
            "824e89d4fd627fbdb67e933b3618a754cd105cc29996adb790428742a96c1572",
            "76d363a4ba090d002dd4c5bf3fa38e1bc9cc44de2791b91401c09dd526d37c58",
        ),
        (
            "4",
            "4440c7df963844ff88b2e911d5dd94e37b9ed88b2bbc523a86ab848155967956",
            "d7eaa6c5a56e26bb6a757b9cc272e62f8d496741800f291f2ac43f7c1d9a9a12",
            "db93ec172b2a1da1378f4d3144d0c46b69f43b5b556adf7134b17c61b50a6326",
        ),
        (
            "5",
            "f777b460869741cbc329e34b1aad01ad868ba271daecec5315cf86bad79fd0d6",
            "31adac4c3febfb7cff00ed8949679c654404330711544525c514d3604e089a8a",
            "07de860702ce9ce5048aeffedd7f93ca0dfa5b3c57d58361dc6d9b43c589839b",
        ),
        (
            "6",
            "9f86959e93c4d7f9d2cdd70fcb54271d1ad5c7fd1ec9bedb07f2208fddd98a16",
            "ba4754ce5c695e1456621244be6e61d48b623436adbcb9199d2ed96f55292cf0",
            "2ceb3df38081a9edf22090b2067e61d67924bba35b4ebea261b56ff7c99f916c",
        ),
    ],
)
def test_ledgers_of_all_schemas_read_the_same_as_ever(schema: str, judgments: str, outcomes: str, records: str) -> None:
    """SHA-256 of lifted rows (canonical JSON), and of all records of the run, without what older rows lack."""
    [run] = (LEDGERS / schema).iterdir()

    def canonical(name: str) -> list[bytes]:
        rows = [row | {"schema": 3} for row in read_rows(run / name)]
        return [json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in rows]

    assert (sha256(canonical(JUDGMENTS)), sha256(canonical(OUTCOMES))) == (judgments, outcomes)
    outcomes_read = sorted(read_outcomes(run), key=lambda each: bool(each.control))
    read = [read_start(run), *read_judgments(run), *outcomes_read, read_end(run)]
    as_3 = [record.model_copy(update={"schema_version": 3}) for record in read if record]
    without = [ADDED | SERVED if isinstance(record, Judgment) else ADDED for record in as_3]
    told = (record.model_dump_json(exclude=out).encode() for record, out in zip(as_3, without, strict=True))
    assert sha256(told) == records
    later = [value for record in read if record for name, value in record if name in ADDED]
    assert later and any(later) == (schema >= "4")


def test_rows_since_schema_6_tell_what_a_call_really_cost_and_those_of_before_what_they_knew() -> None:
    def told(schema: str) -> set[tuple[object, ...]]:
        rows = read_judgments(next((LEDGERS / schema).iterdir()))
        return {
            (row.tokens_written, row.tokens_pictures, row.tokens_reasoning, row.tier, row.price_source, row.estimated)
            for row in rows
        }

    assert told("5") == {(0, 0, 0, "", "", 0.0)}
    table = "genai-prices 0.2.3: openai gpt-5, flex, 2026-11-22"
    assert {(128, 700, 40, "flex", table, 0.0), (0, 0, 0, "", "", 0.0045)} <= told("6")


def test_rows_of_schema_4_tell_no_fingerprint_and_those_of_5_the_one_that_came_with_the_reply() -> None:
    found = [{row.system_fingerprint for row in read_judgments(next((LEDGERS / schema).iterdir()))} for schema in "45"]
    assert found == [{""}, {"fp_1", "fp_2"}]


@pytest.mark.parametrize("schema", ["4", "5", "6"])
def test_rows_since_schema_4_are_believed_by_their_checksum_alone(tmp_path: Path, schema: str) -> None:
    [stored] = (LEDGERS / schema).iterdir()
    run = tmp_path / stored.name
    shutil.copytree(stored, run)
    text = (run / JUDGMENTS).read_bytes()
    (run / JUDGMENTS).write_bytes(text.replace(b'"verdict":"Model"', b'"verdict":"Human"', 1))
    with pytest.raises(InputError, match=r"judgments\.jsonl, line 1: damaged: .*checksum does not hold"):
        list(read_judgments(run))
    (run / JUDGMENTS).write_bytes(re.sub(rb',"crc32":"\w+"', b"", text))
    with pytest.raises(InputError, match=r"judgments\.jsonl, line 1: damaged: .*checksum does not hold"):
        list(read_judgments(run))


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    run = write_run(tmp_path, start("r1"), [judgment(sample_id="s1"), judgment(sample_id="s2")], None)
    whole = (run / JUDGMENTS).read_bytes()
    for cut in (1, 40, len(whole) // 2 - 1):
        (run / JUDGMENTS).write_bytes(whole[:-cut])
        assert [row.sample_id for row in read_judgments(run)] == ["s1"]


def test_a_damaged_row_in_the_middle_is_an_error_and_not_skipped(tmp_path: Path) -> None:
    run = written(tmp_path, judgment(sample_id="s1"), judgment(sample_id="s2"))
    first, second = (run / JUDGMENTS).read_bytes().splitlines(keepends=True)
    (run / JUDGMENTS).write_bytes(first[:-20] + b"\n" + second)
    with pytest.raises(ValueError, match=r"judgments\.jsonl, line 1: damaged"):
        list(read_judgments(run))
    (run / JUDGMENTS).write_text("[1]\n")
    with pytest.raises(ValueError, match="expected an object"):
        list(read_judgments(run))


def test_a_row_of_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    run = written(tmp_path, judgment())
    row = json.loads((run / JUDGMENTS).read_bytes()) | {"schema": 99}
    (run / JUDGMENTS).write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=r"judgments\.jsonl, line 1: ledger schema 99.*upgrade"):
        list(read_judgments(run))


def test_a_row_with_a_wrong_field_is_damaged_and_told_with_file_line_and_field(tmp_path: Path) -> None:
    run = written(tmp_path, judgment(sample_id="s1"))
    with (run / JUDGMENTS).open("ab") as file:
        row = json.loads(judgment(sample_id="s2", run_id="r1").model_dump_json())
        file.write(line({**row, "vote": "all"}).encode())
    with pytest.raises(InputError, match=r"judgments\.jsonl, line 2: damaged: vote: Input should be a valid integer"):
        list(read_judgments(run))
    row = json.loads(outcome(run_id="r1").model_dump_json())
    for lines in ({**row, "path": None}, {**row, "path": 1, "control": "x"}):
        (run / OUTCOMES).write_text(line(lines))
        with pytest.raises(InputError, match=r"outcomes\.jsonl, line 1: damaged: path: "):
            list(read_outcomes(run))


def test_a_wrong_beginning_or_end_is_damaged_too(tmp_path: Path) -> None:
    run = written(tmp_path, judgment())
    edit(run / END, calls="many", another="field")
    with pytest.raises(InputError, match=r"end\.json, line 1: damaged: calls: Input should be a valid integer"):
        read_end(run)
    edit(run / RUN, samples=None)
    with pytest.raises(InputError, match=r"run\.json, line 1: damaged: samples: "):
        read_start(run)


@pytest.mark.parametrize("moment", ["yesterday", "", "2026-11-20T12:00:00"])
def test_a_time_that_orders_no_runs_is_damaged(tmp_path: Path, moment: str) -> None:
    run = written(tmp_path, judgment())
    edit(run / RUN, started_at=moment)
    edit(run / END, finished_at=moment)
    for read in (read_start, read_end):
        with pytest.raises(InputError, match="is no time in ISO 8601 with a time zone"):
            read(run)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a": "\xff"}', b"", b"{} {}"])
def test_what_is_no_json_is_damaged_whatever_it_is(tmp_path: Path, text: bytes) -> None:
    run = written(tmp_path, judgment())
    (run / JUDGMENTS).write_bytes(text + b"\n")
    with pytest.raises(InputError, match=r"judgments\.jsonl, line 1: damaged: "):
        list(read_judgments(run))
