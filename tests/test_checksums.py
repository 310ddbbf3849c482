"""A row of the ledger tells whether it is as it was written."""

import json
from zlib import crc32

import pytest
from factories import end, judgment

from tasks.ledger.checksums import CHECKSUM, holds, sealed

ROWS = {
    "a row": judgment(raw='with "quotes", Ü and a \n line').model_dump_json(),
    "a record on many lines": end().model_dump_json(indent=1),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_sealed_row_is_one_object_with_its_checksum_at_the_end(row: str) -> None:
    line = sealed(row)
    assert json.loads(line) == {**json.loads(row), CHECKSUM: f"{crc32(line[:-21]):08x}"}
    assert line.endswith(b'"}\n') and holds(line)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_no_flipped_bit_goes_unnoticed(row: str) -> None:
    line = sealed(row)
    for at in range(0, len(line), 7):
        for bit in (0, 3, 7):
            flipped = line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :]
            assert not holds(flipped), flipped


@pytest.mark.parametrize("cut", [2, 3, 20, 21, 22, 300])
def test_no_torn_row_holds(cut: int) -> None:
    line = sealed(ROWS["a row"])
    assert not holds(line[:-cut]) and not holds(line[:-cut] + b"\n") and not holds(line[:-cut] + line)
    assert not holds(line[cut:]) and not holds(b"") and not holds(b"\n")
