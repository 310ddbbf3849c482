"""Labels are copied between a store and its bucket, once, and what clashes or is damaged is named."""

import json
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.labels.exchange import Exchanged, exchange_labels
from tasks.labels.importing import import_labels
from tasks.ledger.bucket import Bucket
from tasks.ledger.label_sets import LabelSet

ROW = {"id": "s1", "dimension": "overall", "verdict": "Model"}


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(f"file://{tmp_path}/bucket")


def labelled(store: Path, name: str, **changes: str) -> LabelSet:
    """Labels of this name in a store."""
    store.mkdir(parents=True, exist_ok=True)
    file = store / f"{name}.jsonl"
    file.write_text(json.dumps({**ROW, **changes}) + "\n", encoding="utf-8")
    return import_labels(store, file, "diagram")


def test_every_store_gets_the_labels_of_the_others(tmp_path: Path, bucket: Bucket) -> None:
    labelled(tmp_path / "a", "ann")
    labelled(tmp_path / "b", "bob")
    assert exchange_labels(bucket, tmp_path / "a") == Exchanged(["ann"], [], [])
    assert exchange_labels(bucket, tmp_path / "b") == Exchanged(["bob"], ["ann"], [])
    assert exchange_labels(bucket, tmp_path / "a") == Exchanged([], ["bob"], [])
    for name in ("ann", "bob"):
        one, other = (tmp_path / store / "labels" / name / "labels.jsonl" for store in "ab")
        assert one.read_bytes() == other.read_bytes()


def test_other_labels_of_one_name_are_named_and_stay(tmp_path: Path, bucket: Bucket) -> None:
    labelled(tmp_path / "a", "ann")
    labelled(tmp_path / "b", "ann", verdict="Human")
    exchange_labels(bucket, tmp_path / "a")
    assert exchange_labels(bucket, tmp_path / "b") == Exchanged([], [], ["ann"])


@pytest.mark.parametrize("damage", [b"{", b"[]", b"{}", b"\xff"])
def test_a_damaged_description_in_the_bucket_is_named(tmp_path: Path, bucket: Bucket, damage: bytes) -> None:
    labelled(tmp_path / "a", "ann")
    exchange_labels(bucket, tmp_path / "a")
    bucket.put({"labels/ann/label.json": damage})
    with pytest.raises(InputError, match=r"labels/ann/label.json in the bucket is no description of labels"):
        exchange_labels(bucket, tmp_path / "a")
