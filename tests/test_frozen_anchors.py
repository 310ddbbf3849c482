"""Frozen anchors: stored whole, independent of later changes to the dataset, replaced only by a command."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from written_datasets import inline, png, record, result, write_benchmark, write_json
from written_images import prompt_row, write_geneval

from tasks.datasets.entries import read_picture, read_texts
from tasks.errors import InputError
from tasks.extensions import extensions_of
from tasks.extensions.anchors import MANIFEST, PICTURES, Anchors, FrozenAnchors, anchors_of, folder, in_turn, retire
from tasks.judging.case import load_case
from tasks.judging.extension import Opening
from tasks.judging.protocol_items import picture_policy
from tasks.ledger.remote import Remote
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.protocols.loading import load_dataset
from tasks.records import ANCHOR, PictureSource, Place, Sample
from tasks.records.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.rubrics.rubric import load_rubric

SAMPLES = 8
KEY = "target_diagram_critic_desc0_base64_jpg"


@pytest.fixture
def figures(tmp_path: Path) -> PairwiseParameters:
    root = write_benchmark(tmp_path / "bench", [record(n) for n in range(SAMPLES)])
    results = write_json(tmp_path / "results.json", [result(n) for n in range(SAMPLES)])
    store = str(tmp_path / "store")
    return PairwiseParameters(dataset=str(root), results=str(results), store=store, anchors=4)


def write_others(root: Path) -> None:
    """Replace the dataset by another night's, with other ids, texts and pictures."""
    others = [record(n, content="another method", path_to_gt_image="images/9.png") for n in range(20, 28)]
    write_benchmark(root / "bench", others)
    write_json(root / "results.json", [result(n, **{KEY: inline(7)}) for n in range(20, 28)])


def freeze(parameters: Parameters, flow: str = "diagram") -> Anchors:
    return anchors_of(flow, parameters, lambda: load_dataset(flow, parameters).samples, picture_policy(parameters))


def anchors_of_run(parameters: Parameters, remote: Remote | None = None) -> Anchors:
    """Return the anchors of a scheduled `diagram` run."""
    opening = Opening("diagram", parameters, parameters, load_rubric("diagram"), remote, scheduled=True)
    found = [each for each in extensions_of(opening) if isinstance(each, FrozenAnchors)]
    for each in found:
        asyncio.run(each.prepare(load_dataset("diagram", parameters)))
        assert opening.anchors == each.anchors.key and opening.said == [*each.anchors.warnings]
    return found[0].anchors if found else Anchors()


def seen(samples: Sequence[Sample]) -> list[tuple[Any, ...]]:
    """Return everything that a judge is shown of samples."""
    return sorted(
        (each.sample_id, *read_texts(each).items(), *(read_picture(each.pictures[role]) for role in each.pictures))
        for each in samples
    )


def test_first_scheduled_run_freezes_samples_and_pictures(tmp_path: Path, figures: PairwiseParameters) -> None:
    found = freeze(figures)
    assert not found.warnings and {each.control for each in found.samples} == {ANCHOR}
    assert Counter(each.category for each in found.samples) == {"agent": 2, "vision": 2}
    assert Counter(each.difficulty for each in found.samples).total() == 4
    wanted = {each.sample_id for each in found.samples}
    assert seen(found.samples) == seen([s for s in load_dataset("diagram", figures).samples if s.sample_id in wanted])
    [kept] = folder(tmp_path / "store", "diagram").iterdir()
    assert len(list((kept / PICTURES).iterdir())) == 8
    assert {(kept.stat().st_mode & 0o077), ((kept / PICTURES).stat().st_mode & 0o077)} == {0}


def test_frozen_anchors_do_not_change_with_the_dataset(tmp_path: Path, figures: PairwiseParameters) -> None:
    first = freeze(figures)
    shown = seen(first.samples)
    write_others(tmp_path)
    again = freeze(figures)
    assert (again.key, seen(again.samples)) == (first.key, shown)


def test_image_links_in_texts_follow_the_runs_parameter(tmp_path: Path, figures: PairwiseParameters) -> None:
    write_benchmark(tmp_path / "bench", [record(n, content="see ![it](answer.png) there") for n in range(SAMPLES)])
    for keep, text in ((False, "see  there"), (True, "see ![it](answer.png) there")):
        samples = freeze(figures.model_copy(update={"keep_image_links": keep})).samples
        assert {read_texts(each)["context"] for each in samples} == {text}


def test_only_a_command_replaces_anchors(tmp_path: Path, figures: PairwiseParameters) -> None:
    first, more = freeze(figures), figures.model_copy(update={"anchors": 6})
    [warning] = freeze(more).warnings
    assert warning.startswith("4 anchors are frozen and judged, 6 are asked for: `jury alarms restart diagram --a")
    store = tmp_path / "store"
    assert retire(store, "diagram") and not retire(store, "diagram") and not retire(store, "plot")
    renewed = freeze(more)
    assert len(renewed.samples) == 6 and not renewed.warnings and renewed.key != first.key
    assert freeze(more) == renewed


def test_sample_with_an_unreadable_picture_is_not_chosen(tmp_path: Path, figures: PairwiseParameters) -> None:
    spoilt = {KEY: inline(3)[:60]}
    write_json(tmp_path / "results.json", [result(n, **(spoilt if n < 6 else {})) for n in range(SAMPLES)])
    found = freeze(figures)
    assert sorted(each.sample_id for each in found.samples) == ["test_6", "test_7"]
    assert "2 anchors are frozen and judged, 4 are asked for" in found.warnings[0]
    assert len([*folder(tmp_path / "store", "diagram").glob(f"*/{PICTURES}/*")]) == 4, "none of the others"
    write_json(tmp_path / "results.json", [result(n, **spoilt) for n in range(SAMPLES)])
    with pytest.raises(InputError, match="no sample with readable pictures"):
        freeze(figures.model_copy(update={"store": str(tmp_path / "other")}))


def test_changed_set_is_refused_and_changed_picture_left_out(tmp_path: Path, figures: PairwiseParameters) -> None:
    before = {each.sample_id for each in freeze(figures).samples}
    [kept] = folder(tmp_path / "store", "diagram").iterdir()
    row = json.loads((kept / MANIFEST).read_text().splitlines()[0])
    (kept / row["model_image"]).write_bytes(png(99))
    found = freeze(figures)
    assert {each.sample_id for each in found.samples} == before - {row["id"]}
    assert "1 of 4 anchors are left out: their pictures are not those that were frozen" in found.warnings[0]
    manifest = kept / MANIFEST
    manifest.write_text(manifest.read_text().replace("method", "nethod", 1))
    with pytest.raises(InputError, match="damaged: its hash is not the one in the name of its folder"):
        freeze(figures)
    run = anchors_of_run(figures)
    assert run.samples == () and run.warnings[0].startswith("No anchors were judged: ")


def test_one_image_of_each_prompt_is_frozen_with_its_requirements(tmp_path: Path) -> None:
    two = [{"class": "dog", "count": 1}, {"class": "cat", "count": 1, "color": "red", "position": ["left of", 0]}]
    no = [{"class": "bird", "count": 2}]
    rows = [prompt_row(tag="position", include=two, exclude=no, prompt=f"a dog, a cat {n}") for n in range(6)]
    root = write_geneval(tmp_path / "images", rows, 3)
    options = RubricParameters(dataset=str(root), store=str(tmp_path / "store"), anchors=4, prompt_set="checked")
    found = freeze(options, "position").samples
    samples = {each.sample_id.replace("/", "_"): each for each in load_dataset("position", options).samples}
    assert len({samples[each.sample_id].prompt_id for each in found}) == 4
    rubric = load_rubric("position", "checked")
    for anchor in found:
        own, real = (load_case(each, rubric, options) for each in (anchor, samples[anchor.sample_id]))
        assert (own.texts, own.digests, anchor.required) == (real.texts, real.digests, real.sample.required)
        assert anchor.excluded == real.sample.excluded and not {c.key for c in own.calls} & {c.key for c in real.calls}


def test_first_shard_judges_anchors_of_the_whole_dataset(figures: PairwiseParameters) -> None:
    given = {"anchors": 6, "shards": 2, "evaluation_id": "e1"}
    parts = [figures.model_copy(update={**given, "shard": shard}) for shard in (1, 2)]
    first, second = map(anchors_of_run, parts)
    assert len(first.samples) == 6 and not first.warnings
    assert second == Anchors()


def test_machines_sharing_a_bucket_share_the_anchors(tmp_path: Path, figures: PairwiseParameters) -> None:
    url = (tmp_path / "bucket").as_uri()

    def judged_by(machine: str, at: str = url) -> Anchors:
        cache = tmp_path / machine
        return anchors_of_run(figures.model_copy(update={"store": str(cache)}), Remote(at, cache))

    first = judged_by("one")
    shown = seen(first.samples)
    write_others(tmp_path)
    second = judged_by("two")
    assert (second.key, seen(second.samples), second.warnings) == (first.key, shown, ())
    (tmp_path / "bucket" / "anchors" / "diagram" / "..x").mkdir()
    (tmp_path / "bucket" / "anchors" / "diagram" / "..x" / "y").write_bytes(b"a stranger's")
    assert judged_by("three").key == first.key and not list((tmp_path / "three").rglob("y"))
    retire(tmp_path / "two", "diagram")
    Remote(url, tmp_path / "two").send_folder("anchors/diagram")
    renewed = {judged_by(machine).key for machine in ("two", "one")}
    assert len(renewed) == 1 and first.key not in renewed


# Choice of anchors: a share of each category, one for each reference, always the same


def make_sample(number: int, category: str = "", candidate: str = "alpha", **changes: object) -> Sample:
    pictures = {"human": PictureSource(), "model": PictureSource()}
    values = {"sample_id": f"s{number}", "record": Place(path="test.json"), "pictures": pictures, **changes}
    return Sample(candidate=candidate, category=category, **values)  # pyright: ignore


def test_each_category_has_its_share_of_any_number_of_anchors() -> None:
    samples = [make_sample(n, "vision" if n < 200 else "agent" if n < 280 else "rare") for n in range(292)]
    turn = in_turn(samples)
    assert len(turn) == len({each.sample_id for each in turn}) == 292
    for taken in (20, 40, 100):
        counts = Counter(each.category for each in turn[:taken])
        for name, number in (("vision", 200), ("agent", 80), ("rare", 12)):
            assert abs(counts[name] - taken * number / 292) <= 1


def test_anchors_ignore_dataset_order_and_have_distinct_references() -> None:
    figures = [make_sample(n, "ab"[n % 2], candidate) for n in range(50) for candidate in ("alpha", "beta")]
    images = [make_sample(n, tag="counting", prompt_id=f"p{n // 4}") for n in range(80)]
    missing = {"human": PictureSource(), "model": PictureSource(problem="no picture: it is not there")}
    for samples, references in ((figures, 50), ([*images, make_sample(80, pictures=missing)], 20)):
        turn = in_turn(samples)
        assert len(turn) == references
        shuffled = random.Random(1).sample(samples, len(samples))
        assert in_turn(shuffled) == turn
    assert {each.candidate for each in in_turn(figures)} == {"alpha", "beta"}
    others = [make_sample(n, "ab"[n % 2], "gamma") for n in range(50)]
    assert [each.sample_id for each in in_turn(others)] == [each.sample_id for each in in_turn(figures)]


@pytest.mark.parametrize("instrument", ["together", "single", "soft"])
def test_each_instrument_judges_frozen_checks_and_a_candidate_without_an_image_is_no_anchor(
    tmp_path: Path, instrument: str
) -> None:
    check = {"id": "red", "level": "1", "question": "Is it red?", "options": {"A": "yes", "B": "no"}}
    rows = [{"id": f"V/{n}", "method_text": f"cup {n}", "checklist": [check | {"correct_option": "A"}]} for n in "0123"]
    for number in range(4):  # of AIBench, whose ids have slashes
        image = tmp_path / "images" / f"kiln {number % 2}" / "V" / f"{number}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(png(number))
    (tmp_path / "AIBench.jsonl").write_text("\n".join(map(json.dumps, rows)))
    named = {"dataset": tmp_path / "AIBench.jsonl", "images": tmp_path / "images", "store": tmp_path / "store"}
    asked = {"instrument": instrument, **{name: str(path) for name, path in named.items()}}
    for _ in range(2):  # the second time as they were frozen
        found = freeze(ChecklistParameters.model_validate({**asked, "anchors": 3}), "facts")
        assert found.warnings == () and len(found.samples) == 3
        assert {sample.tag for sample in found.samples} == {instrument}
