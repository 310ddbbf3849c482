"""Rows of dataset files: each is found once with its place, and can be read again from there."""

import io
import json
from pathlib import Path

import polars as pl
import pytest

from tasks.datasets import rows
from tasks.datasets.rows import Columns, Row, array_spans, find_rows, read_row
from tasks.errors import InputError, Problems

RECORDS = [{"id": "a", "text": 'one, "two"\nthree'}, {"id": "b", "text": "ü ‌"}, {"id": "c", "text": ""}]


def write_records(path: Path) -> Path:
    if path.suffix == ".csv":
        pl.DataFrame(RECORDS).write_csv(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(RECORDS, ensure_ascii=False), encoding="utf-8")
    else:
        path.write_text("\n\n".join(json.dumps(one, ensure_ascii=False) for one in RECORDS), encoding="utf-8")
    return path


def find(path: Path) -> list[Row]:
    problems = Problems()
    rows = list(find_rows(path, problems))
    problems.stop(path.name)
    return rows


def find_with_error(path: Path) -> tuple[list[Row], str]:
    problems = Problems()
    rows = list(find_rows(path, problems))
    with pytest.raises(ValueError) as error:
        problems.stop(path.name)
    return rows, str(error.value)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize(
    ("name", "last"),
    [("r.json", "record 3"), ("r.jsonl", "line 5"), ("r.ndjson", "line 5"), ("r.csv", "row 3")],
)
def test_formats_give_equal_records_readable_from_their_places(tmp_path: Path, name: str, last: str, mark: bytes):
    path = write_records(tmp_path / name)
    path.write_bytes(mark + path.read_bytes())
    rows = find(path)
    assert [row.values for row in rows] == RECORDS
    assert rows[-1].where == f"{name}, {last}"
    assert [read_row(row.place, ["text", "id"]) for row in reversed(rows)] == RECORDS[::-1]


def test_json_array_and_json_lines_are_distinguished_by_content(tmp_path: Path):
    path = tmp_path / "r.json"
    path.write_text('{"id": "a"}\n{"id": "b"}\n')
    assert [row.where for row in find(path)] == ["r.json, line 1", "r.json, line 2"]
    path.rename(tmp_path / "r.jsonl").write_text(' \n [{"id": "a"}, {"id": "b"}]')
    assert [row.where for row in find(tmp_path / "r.jsonl")] == ["r.jsonl, record 1", "r.jsonl, record 2"]


@pytest.mark.parametrize(
    ("name", "content", "good", "words"),
    [
        ("r.json", b'[{"id": "a"}, {"id": b}, {"id": "c"}]', ["a", "c"], "r.json, record 2: is not a JSON object"),
        ("r.json", b'[{"id": "a"}, [1], {"id": "c"}]', ["a", "c"], "record 2: is not a JSON object (found a list)"),
        ("r.json", b'[{"id": "a"}, {"id": "\xff"}]', ["a"], "r.json, record 2: is not a JSON object"),
        ("r.json", b'[{"id": "a"}, ' + b"[" * 9999 + b"]" * 9999 + b"]", ["a"], "record 2: is not a JSON object"),
        ("r.json", b'[{"id": "a"}, {"id": "b"', ["a"], "r.json: after record 1: the file ends"),
        ("r.jsonl", b'{"id": "a"}\nnull\n{"id": "c"', ["a"], "r.jsonl, line 3: is not a JSON object"),
        ("r.jsonl", b'{"id": 1' + b"0" * 5000 + b'}\n{"id": "c"}', ["c"], "r.jsonl, line 1: is not a JSON object"),
        ("r.jsonl", b'{"id": "a"}\n{"id": True}', ["a"], "line 2: is not a JSON object (column 8: Expecting value)"),
        ("r.json", b'[{\n "id": "a"\n},\n{\n "id": b\n}]', ["a"], "is not a JSON object (line 2, column 8: Expect"),
        ("r.csv", b'id,text\na,b,c\n\nd,"e"\n', ["d"], "r.csv, row 1: has 3 cells, the header names 2"),
        ("r.csv", b'id,text\na,b\nc,"never closed\n', ["a"], "r.csv: the row that starts at byte 12 is no CSV in"),
        ("r.csv", b"id,text\na,b\nc,\xff\n", ["a"], "r.csv: the row that starts at byte 12 is no CSV in UTF-8"),
        ("r.csv", b"id,text,id\na,b,c\n", [], "names a column twice"),
        ("r.parquet", b"PAR1", [], "r.parquet: ends in '.parquet', allowed are .json, .jsonl, .ndjson, .csv"),
    ],
)
def test_unreadable_rows_are_reported_and_the_others_read(
    tmp_path: Path, name: str, content: bytes, good: list[str], words: str
):
    path = tmp_path / name
    path.write_bytes(content)
    rows, text = find_with_error(path)
    assert [row.values["id"] for row in rows] == good
    assert words in text


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_kept():
    raw = rb'{"a": "pair \ud83d\ude00, half \uD83D.", "b": [{"\udc00": null}, 1, true]}'
    assert rows.json_object(raw) == {"a": "pair \U0001f600, half \ufffd.", "b": [{"\ufffd": None}, 1, True]}
    assert rows.json_object(b'{"a": "half \xed\xa0\x80, \xed\x95\x9c"}') == {"a": "half \ufffd, \ud55c"}


def test_missing_file_is_a_problem(tmp_path: Path):
    assert "No such file" in find_with_error(tmp_path / "gone.json")[1]


def test_reading_stops_after_a_thousand_problems(tmp_path: Path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "same"}\n' * 100_000)
    problems, read = Problems(), 0
    for row in find_rows(path, problems):
        problems.add(row.where, "is wrong")
        read += 1
    assert read == 1000
    with pytest.raises(InputError, match="has 1000 problems, and was not read to its end:"):
        problems.stop(path.name)


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.csv"])
@pytest.mark.parametrize("change", ["gone", "shorter", "without the field"])
def test_file_changed_after_loading_is_refused(tmp_path: Path, name: str, change: str):
    path = write_records(tmp_path / name)
    place = find(path)[1].place
    if change == "gone":
        path.unlink()
    elif change == "shorter":
        path.write_bytes(path.read_bytes()[: place.start + 3])
    field = "other" if change == "without the field" else "text"
    with pytest.raises(ValueError, match=rf"{name} (cannot be read as it was|has changed since)"):
        read_row(place, [field])


TABLE = "id,text\na,é\n"
RECORD = json.dumps({"id": "a", "text": "é"}, ensure_ascii=False)
WRONG: dict[str, tuple[str, bytes, str]] = {
    "UTF-16 CSV": ("r.csv", TABLE.encode("utf-16"), "r.csv: is in UTF-16 or UTF-32, or no text at all; must be UTF-8"),
    "UTF-16 JSON": ("r.json", f"[{RECORD}]".encode("utf-16-be"), "r.json: is in UTF-16 or UTF-32, or no text at all"),
    "UTF-32 lines": ("r.jsonl", RECORD.encode("utf-32"), "r.jsonl: is in UTF-16 or UTF-32, or no text at all; must be"),
    "Latin-1 CSV": ("r.csv", TABLE.encode("latin-1"), "r.csv: the row that starts at byte 8 is no CSV in UTF-8"),
    "semicolons": ("r.csv", b'\xef\xbb\xbf"id";"text"\na;b,c\n', "r.csv: separates its columns by ';', allowed are"),
    "Latin-1 JSON": ("r.json", f"[{RECORD},{RECORD}]".encode("latin-1"), "r.json, record 1: is not a JSON object ("),
    "numbers": ("r.json", b"[1, 2]\n[3]", "r.json: after record 0: found other text where a comma and an object must"),
    "nothing": ("r.json", b"[]", "r.json: holds no record"),
    "no row": ("r.csv", b"id,text\n", "r.csv: holds no row"),
}
"""Damage -> the file's name, its bytes, and the beginning of the message."""


@pytest.mark.parametrize("damage", WRONG)
def test_damage_of_a_whole_file_is_one_line_of_advice(tmp_path: Path, damage: str):
    name, data, words = WRONG[damage]
    (tmp_path / name).write_bytes(data)
    rows, text = find_with_error(tmp_path / name)
    assert rows == []
    assert text.startswith(f"{name} has 1 problem:\n  {words}") and len(text.splitlines()) == 2 and len(text) < 300


def test_strange_columns_are_reported_once_and_incomplete_rows_skipped(tmp_path: Path):
    (tmp_path / "r.csv").write_text("ID,text\na,x\nb,y\n")
    problems, columns = Problems(), Columns(("id", "text"), ())
    usable = [columns.meet(row, problems) for row in find_rows(tmp_path / "r.csv", problems)]
    assert usable == [False, False] and not columns.check("r.csv", problems)
    with pytest.raises(InputError, match=r"row 1: column 'ID' does not exist, .*\n  r.csv: no row has id$"):
        problems.stop("r.csv")


def test_cell_beyond_the_csv_modules_limit_is_read(tmp_path: Path):
    path = tmp_path / "r.csv"
    path.write_text("id,text\na," + "x" * 200_000 + "\n")
    (row,) = find(path)
    assert read_row(row.place, ["text"]) == {"text": "x" * 200_000}


def test_csv_row_that_lost_a_cell_is_refused(tmp_path: Path):
    path = write_records(tmp_path / "r.csv")
    place = find(path)[1].place
    path.write_bytes(path.read_bytes().replace(b"b,", b"bb"))
    with pytest.raises(InputError, match=r"r.csv cannot be read as it was .* the row has 1 cells, the header names 2"):
        read_row(place, ["id"])


# Records of an array, found by their brackets


NESTED = [
    {"a": 'quote " bracket ] brace } \\', "b": ["[", {"c": "\\\\"}]},
    {},
    {"é": "ü‌", "long": "x" * 50 + '\\"' * 9},
    [1, [2, {"d": "]}"}]],
]


def spans(text: str | bytes) -> list[rows.Span]:
    raw = text.encode() if isinstance(text, str) else text
    file = io.BytesIO(raw)
    file.seek(raw.index(b"[") + 1)
    return list(array_spans(file))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_array_records_are_found_for_any_block_size(block: int, indent: int | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows, "BLOCK", block)
    text = "  " + json.dumps(NESTED, indent=indent, ensure_ascii=False) + "\n"
    found = spans(text)
    assert [json.loads(span.raw) for span in found] == NESTED
    assert all(text.encode()[span.start :].startswith(span.raw) for span in found)


def test_empty_array_has_no_records():
    assert spans("[ \n ]") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"a": 1}, {"b"', "after record 1: the file ends before its array does"),
        ("[{} {}]", "after record 1: found '{}'"),
        ("[{}, 17, {}]", "after record 1: found other text where"),
        ("[{},]", "after record 1: found ','"),
        ("[{}}", "after record 1: found '}'"),
        ("[{}] []", r"found '\[\]' after the end of the array"),
    ],
)
def test_broken_array_is_refused_with_the_last_good_record(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        spans(text)


def test_record_without_end_does_not_load_the_whole_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows, "BLOCK", 1000)
    monkeypatch.setattr(rows, "LONGEST", 10_000)
    with pytest.raises(ValueError, match="record at byte 1 does not end within 10,000 bytes"):
        spans('[{"a": "' + "x" * 100_000)
