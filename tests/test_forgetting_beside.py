"""What is forgotten goes from what lies beside the ledgers, too: anchors, bridges, alarms, pictures without a row."""

from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, outcome, picture, start, write_run
from test_bridge import told
from written_datasets import inline, record, result, write_benchmark, write_json

from flows.commands.forgetting import forget_marked
from tasks.anchors.frozen import Anchors, anchors_of, folder
from tasks.forgetting.store import what_goes
from tasks.judging.protocol import picture_policy
from tasks.kinds.loading import load_dataset
from tasks.ledger.alarm_records import FOLDER as ALARMS
from tasks.ledger.alarm_records import Told, keep_told, restart_baseline
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.forgotten import keep_mark, new_mark
from tasks.ledger.reading import run_folders
from tasks.parameters import PairwiseParameters
from tasks.pictures.thumbnails import Thumbnails, place_of, waiting

FIRST, SECOND = "20261118T120000-diagram-0000aa", "20261119T120000-diagram-0000bb"
SAMPLES = 6


def forget(store: Path, kind: Any, name: str) -> bool:
    keep_mark(store, new_mark(kind, name, ""))
    return forget_marked(store, None).anything


def frozen(tmp_path: Path) -> Anchors:
    """Four anchors of six samples, each with pictures of its own."""
    root = write_benchmark(tmp_path / "bench", [record(n) for n in range(SAMPLES)])
    key = "target_diagram_critic_desc0_base64_jpg"
    results = write_json(tmp_path / "results.json", [result(n, **{key: inline(n + 1)}) for n in range(SAMPLES)])
    given = PairwiseParameters(dataset=str(root), results=str(results), store=str(tmp_path / "store"), anchors=4)
    return anchors_of("diagram", given, lambda: load_dataset("diagram", given).samples, picture_policy(given))


def kept(store: Path) -> list[Path]:
    return sorted(folder(store, "diagram").glob("*/pictures/*"))


def test_a_frozen_anchor_goes_with_its_picture_and_the_others_are_whole(tmp_path: Path) -> None:
    before, store = frozen(tmp_path), tmp_path / "store"
    pictures = len(kept(store))
    gone = before.samples[0].sample_id
    assert forget(store, "sample", gone)
    after = frozen(tmp_path)
    assert [each.sample_id for each in after.samples] == [each.sample_id for each in before.samples[1:]]
    assert after.key != before.key and len(kept(store)) == pictures - 1, "the reference is one for all of them"
    assert not any(gone.encode() in file.read_bytes() for file in store.rglob("anchors.jsonl"))
    assert len([*folder(store, "diagram").iterdir()]) == 1
    assert what_goes(store)[1] == [], "once"


def test_anchors_that_only_a_forgotten_run_judged_go_as_a_whole(tmp_path: Path) -> None:
    key, store = frozen(tmp_path).key, tmp_path / "store"
    for run in (FIRST, SECOND):
        write_run(store, start(run, anchors_key=key), [outcome()], end())
    assert forget(store, "run", FIRST) and kept(store)
    assert forget(store, "run", SECOND) and not kept(store)


@pytest.mark.parametrize(("kind", "name"), [("run", FIRST), ("candidate", "alpha")])
def test_bridges_and_alarms_of_it_go(tmp_path: Path, kind: str, name: str) -> None:
    BRIDGES.keep(tmp_path, [told(old_run=FIRST, new_run=SECOND, candidate="alpha", bridge_id="20261120-of-it")])
    other = BRIDGES.keep(tmp_path, [told(old_run="x", new_run="y", candidate="beta", bridge_id="20261120-of-another")])
    note = {"flow": "diagram", "dataset_key": "d", "protocol_key": "p", "night_at": "2026-11-18T12:00:00+00:00"}
    keep_told(tmp_path, Told.model_validate({**note, "candidate": "alpha", "night": FIRST}))
    keep_told(tmp_path, Told.model_validate({**note, "candidate": "beta", "night": SECOND}))
    restart_baseline(tmp_path, "diagram", "beta")
    assert forget(tmp_path, kind, name)
    assert BRIDGES.folders(tmp_path) == [other]
    assert len([*(tmp_path / ALARMS).iterdir()]) == 2


def test_all_shards_of_an_evaluation_go(tmp_path: Path) -> None:
    for shard, run in ((1, FIRST), (2, SECOND)):
        write_run(tmp_path, start(run, evaluation_id="evaluation", shards=2, shard=shard), [outcome()], end())
    assert forget(tmp_path, "run", "evaluation")
    assert run_folders(tmp_path) == [] == [*(tmp_path / "ledger").iterdir()]


def test_what_a_killed_run_left_goes_with_pictures_that_no_row_tells_of(tmp_path: Path) -> None:
    write_run(tmp_path, start(FIRST), [judgment("s1")], None)
    write_run(tmp_path, start(SECOND), [outcome("s2")], end())
    shown, unshown = picture("s2m").source_sha256, picture("s9m").source_sha256
    with Thumbnails(tmp_path) as thumbnails:
        thumbnails.put_by(unshown, b"a picture that nobody got to")
        thumbnails.put_by(shown, b"a picture")
    place_of(tmp_path, picture("s1m").source_sha256).write_bytes(b"a thumbnail")
    assert forget(tmp_path, "run", FIRST)
    assert waiting(tmp_path) == [shown]
    assert [*(tmp_path / "pictures").glob("*.jpg")] == []
