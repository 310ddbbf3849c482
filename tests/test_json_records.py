"""Records of an array are found by their brackets, whatever the strings hold and wherever a block ends."""

import io
import json
import time

import pytest

from tasks.datasets import json_records
from tasks.datasets.json_records import array_spans

RECORDS = [
    {"a": 'quote " bracket ] brace } \\', "b": ["[", {"c": "\\\\"}]},
    {},
    {"é": "ü‌", "long": "x" * 50 + '\\"' * 9},
    [1, [2, {"d": "]}"}]],
]


def spans(text: str | bytes) -> list[json_records.Span]:
    raw = text.encode() if isinstance(text, str) else text
    file = io.BytesIO(raw)
    file.seek(raw.index(b"[") + 1)
    return list(array_spans(file))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_each_record_is_found_whole_for_any_block_size(block: int, indent: int | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_records, "BLOCK", block)
    text = "  " + json.dumps(RECORDS, indent=indent, ensure_ascii=False) + "\n"
    found = spans(text)
    assert [json.loads(span.raw) for span in found] == RECORDS
    assert all(text.encode()[span.start :].startswith(span.raw) for span in found)


def test_an_empty_array_holds_no_record():
    assert spans("[ \n ]") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"a": 1}, {"b"', "after record 1: the file ends before its array does"),
        ('[{"a": "never closed}]', "after record 0: the file ends before its array does"),
        ("[{}, {}", "after record 2: the file ends"),
        ("[{} {}]", "after record 1: found '{}'"),
        ("[{}, 17, {}]", "after record 1: found other text where"),
        ("[{},, {}]", "after record 1: found ',,'"),
        ('["text", {}]', "after record 0: found other text where"),
        ("[{},]", "after record 1: found ','"),
        ("[{}}", "after record 1: found '}'"),
        ("[{}] []", r"found '\[\]' behind the end of the array"),
    ],
)
def test_a_broken_array_is_refused_with_the_record_before_the_break(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        spans(text)


def test_a_record_that_is_never_closed_does_not_bring_the_file_into_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_records, "BLOCK", 1000)
    monkeypatch.setattr(json_records, "LONGEST", 10_000)
    with pytest.raises(ValueError, match="record at byte 1 does not end within 10,000 bytes"):
        spans('[{"a": "' + "x" * 100_000)


@pytest.mark.parametrize("text", [b'[{"a":"' + b'\\"' * 2_000_000, b'[{"a":"' + b"\\\\" * 2_000_000, b"[" * 1_000_000])
def test_hostile_input_takes_linear_time(text: bytes):
    start = time.process_time()
    with pytest.raises(ValueError, match="ends before its array"):
        spans(text)
    assert time.process_time() - start < 10, "quadratic work on these sizes takes hours"
