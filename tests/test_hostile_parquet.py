"""Parquet files of a few kilobytes that decompress to gigabytes: they take little memory and are reported."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tasks.datasets.parquet_records import check_pages
from tasks.datasets.rows import find_rows
from tasks.errors import InputError, Problems

READER = """
import resource, sys
from pathlib import Path
from tasks.datasets.rows import find_rows, read_row
from tasks.errors import Problems

problems, places = Problems(), []
for row in find_rows(Path(sys.argv[1]), problems):
    places.append(row.place)
for place in places:
    read_row(place, ["text"])
status = Path("/proc/self/status")  # what getrusage has there is the most of the process that made this one, too
lines = status.read_text().splitlines() if status.exists() else []
found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print((found or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024])[0] // 1000, len(places))
problems.stop("dataset")
"""
"""Program that loads and reads a file as a run does, and prints its peak memory in megabytes."""


def text(megabytes: int, rows: int = 4) -> dict[str, pl.Series]:
    return {"text": pl.Series(["a" * megabytes * 1_000_000]).gather([0] * rows)}


NULLS = pl.repeat(None, 20_000_000, dtype=pl.String, eager=True)
FEW_BYTES = "of them in column 'text.list.element', allowed are 209,715,200"
CASES: dict[str, tuple[Callable[[], dict[str, pl.Series]], str]] = {
    "70 MB cells": (lambda: text(70, 9), "r.parquet: row 1, column 'text' has 70,000,000 bytes, allowed are 64,000,"),
    "a list of one text": (lambda: {"text": pl.Series([["x" * 1000] * 70_000])}, "row 1, column 'text' has 70,0"),
    "four columns of 60 MB": (
        lambda: {f"text{at}": text(60)["text"] for at in range(4)},
        "rows 1 to 4 become 240,000,",
    ),
    "a list of millions of nulls": (lambda: {"text": pl.Series([NULLS])}, FEW_BYTES),
    "allowed cells, repeated": (lambda: text(60, 12), ""),
}


def read_in_process(path: Path) -> tuple[int, int, str]:
    """Return the megabytes that a process takes to read a file, the rows that it found, and its error output."""
    ran = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=False)
    megabytes, rows = map(int, ran.stdout.split())
    return megabytes, rows, ran.stderr


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> int:
    path = tmp_path_factory.mktemp("ordinary") / "r.parquet"
    pl.DataFrame({"id": ["a", "b"], "text": ["c", "d"]}).write_parquet(path)
    return read_in_process(path)[0]


@pytest.mark.parametrize(("made", "words"), CASES.values(), ids=CASES)
def test_small_files_of_large_content_take_little_memory(
    tmp_path: Path, ordinary: int, made: Callable[[], dict[str, pl.Series]], words: str
) -> None:
    path = tmp_path / "r.parquet"
    frame = pl.DataFrame(made())
    frame.with_row_index("id").cast({"id": pl.String}).write_parquet(path, statistics=False)
    assert path.stat().st_size < 100_000
    megabytes, rows, err = read_in_process(path)
    assert megabytes - ordinary < 600
    assert words in err and ("become" not in words or "of them in column 'text0', allowed are 209,715,200" in err)
    assert bool(err) == bool(words) and rows == (0 if words else frame.height)


def test_large_cell_is_named_by_its_row(tmp_path: Path) -> None:
    path, problems = tmp_path / "r.parquet", Problems()
    values = ["small"] * 100 + ["a" * 65_000_000] + ["small"] * 20
    pl.DataFrame({"id": [str(n) for n in range(121)], "text": values}).write_parquet(path)
    assert len(list(find_rows(path, problems))) >= 16
    with pytest.raises(InputError, match=r"r\.parquet: row 101, column 'text' has 65,000,000 bytes"):
        problems.stop("dataset")


@pytest.mark.parametrize("rows_of_a_group", [1, 7, 1000])
@pytest.mark.parametrize("packing", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_ordinary_files_of_every_form_pass(tmp_path: Path, rows_of_a_group: int, packing: str) -> None:
    path = tmp_path / "r.parquet"
    frame = pl.DataFrame(
        {"id": [str(n) for n in range(60)], "one": [{"a": [n, None], "b": b"x" * n} for n in range(60)],
         "is": [None, True, False] * 20, "of": pl.Series(["x", "y"] * 30, dtype=pl.Categorical)}
    )  # fmt: skip
    frame.write_parquet(path, compression=packing, row_group_size=rows_of_a_group, data_page_size=100)  # pyright: ignore
    with path.open("rb") as file:
        check_pages(file)


@pytest.mark.parametrize("at", [-1, -5, -9, -40, -100, 4, 10, 20])
def test_damaged_metadata_is_reported(tmp_path: Path, at: int) -> None:
    """A byte of the metadata is set to its largest value; some files remain readable."""
    path, problems = tmp_path / "r.parquet", Problems()
    pl.DataFrame({"id": ["a", "b"], "text": ["c", "d"]}).write_parquet(path)
    data = bytearray(path.read_bytes())
    data[at] = 255
    path.write_bytes(data)
    rows = list(find_rows(path, problems))
    assert len(rows) == 2 or problems.number == 1


def test_truncated_files_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame({"id": ["a", "b"], "text": ["c", "d"]}).write_parquet(path)
    data = path.read_bytes()
    for length in range(0, len(data), 41):
        path.write_bytes(data[:length])
        problems = Problems()
        assert not list(find_rows(path, problems)) and problems.number == 1


def test_delta_encoded_texts_are_refused_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"
    duckdb.execute(f"COPY (SELECT 'a clock' AS prompt) TO '{path}' (PARQUET_VERSION v2)")
    data = path.read_bytes()
    one_encoding = b"\x19\x15"  # a list of one number in the footer, then DELTA_LENGTH_BYTE_ARRAY, which is bounded
    assert data.count(one_encoding + b"\x0c") == 1
    path.write_bytes(data.replace(one_encoding + b"\x0c", one_encoding + b"\x0e"))
    with path.open("rb") as file, pytest.raises(InputError, match="column 'prompt' in the encoding DELTA_BYTE_ARRAY"):
        check_pages(file)
