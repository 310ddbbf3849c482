"""Rows are on the disk before the next call is made, in the same bytes as ever."""

import hashlib
from pathlib import Path

import pytest
from factories import end, image, judgment, outcome, scored, start

from tasks.ledger.reading import JUDGMENTS, OUTCOMES, read_end, read_judgments, read_outcomes, read_start, run_folders
from tasks.ledger.writing import Ledger
from tasks.records import Judgment, Record


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    raw = '{"winner": "Model"} with a \n line'
    row, made = judgment(run_id="r1", raw=raw, verdict="Model"), outcome(run_id="r1")
    ledger = Ledger(tmp_path, start("r1"))
    ledger.append(row)
    ledger.append(made)
    [run] = run_folders(tmp_path)
    assert (list(read_judgments(run)), list(read_outcomes(run)), read_end(run)) == ([row], [made], None)
    ledger.end(end("r1"))
    assert read_end(run) == end("r1", ledger_rows={JUDGMENTS: 1, OUTCOMES: 1}) and read_start(run) == start("r1")


def test_each_row_is_in_the_file_before_append_returns(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start("r1"))
    for n in range(1, 4):
        ledger.append(judgment(sample_id=f"s{n}"))
        assert len((ledger.folder / JUDGMENTS).read_bytes().splitlines()) == n
    ledger.close()


def test_a_run_refused_before_its_first_row_leaves_nothing(tmp_path: Path) -> None:
    Ledger(tmp_path, start("r1")).close()
    assert run_folders(tmp_path) == [] and not any(tmp_path.iterdir())


ADDED = {
    *("waits", "waited_seconds", "limits", "carried_from", "ledger_rows", "system_fingerprint", "anchors_key"),
    *("tokens_written", "tokens_pictures", "tokens_reasoning", "price_source", "estimated"),
    *("saved_by_reuse", "saved_by_tier", "saved_by_cache", "stopped", "made_for"),
}
"""Fields that came later: what was there before them is unchanged."""


@pytest.mark.parametrize(
    ("record", "sha256"),
    [
        (judgment(), "2e890b28ae765e75045ec06645e983da0f76718d5f8689f464d3696242f01d5b"),
        (judgment(control="swap", scores=scored(a=1.5)),
         "a0bce045159fe56c1314086096854be55850970b98fcd8abed07c317c2e6cfe1"),
        (outcome(), "64a48c37f7bde6ca8b8b5106832dce4cc9761e4d17aa881febd9ab6d63293993"),
        (image(aspects=scored(a=1.5, b=None)), "c221d4239d674330294b7973962741e33e0181cb707483944fa10681916b7a09"),
        (start(), "4dca457711d72dbd54dca31f40f6f4ee3b8ff3033e65b5b8e36962fb9121393e"),
        (end(), "5e1856c735d2ebd0332cc784748fb9247fe6c80f7f0adade13f3b3aa4258162a"),
        (end(control_calls=7, warnings=("w",)), "b8e0537f516f19c1c0b46c41a7748369a5eb728cafbc3071fb893ce21a6fede7"),
    ],
)  # fmt: skip
def test_records_are_written_in_the_same_bytes_as_ever(record: Record, sha256: str) -> None:
    """Field names in files are a contract with ledgers that are there, whatever they are called in the program."""
    later = ADDED | (
        {"tier"} if isinstance(record, Judgment) else set()
    )  # an outcome has had another one from the first
    as_3 = record.model_copy(update={"schema_version": 3})  # 4 added the checksum, which is no field of a record
    assert hashlib.sha256(as_3.model_dump_json(exclude=later).encode()).hexdigest() == sha256
