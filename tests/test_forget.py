"""`jury store forget`: nothing of what is forgotten remains, and everything else is unchanged."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, end, image, judgment, outcome, picture, start, write_run
from test_bridge import bridge_row
from written_datasets import inline, record, result, write_benchmark, write_json
from written_history import keep_thumbnails, pair

from tasks.batches.log import begin
from tasks.errors import InputError
from tasks.extensions.anchors import Anchors, anchors_of
from tasks.extensions.anchors import folder as anchor_folder
from tasks.history import forgetting
from tasks.history.forgetting import carry_out, check_idle, keep_plan, make_plan
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.judging.protocol_items import picture_policy
from tasks.ledger.labels import LabelItem, LabelPage, LabelRow, LabelSet, keep_labels, keep_page
from tasks.ledger.remote import FETCHED
from tasks.ledger.removals import UNFINISHED, removed_costs
from tasks.ledger.run_files import BATCHES, JUDGMENTS, Ledger, folder, read_end, read_outcomes, read_start, run_folders
from tasks.ledger.side_records import ALARMS, BRIDGES, Told, keep_told, restart_baseline
from tasks.pictures.thumbnails import Thumbnails, place_of, waiting
from tasks.protocols.loading import load_dataset
from tasks.records import OTHER, Judgment, Outcome
from tasks.records.parameters import PairwiseParameters
from tasks.spending.budget import Month

FIRST, SECOND = "20261118T120000-diagram-0000aa", "20261119T120000-diagram-0000bb"
IMAGES = "20261120T120000-counting-0000cc"
MONTH = "2026-11"
SECRET, CANDIDATE = "paper-secret-7", "candidate-secret"
"""Names of a sample and of a candidate that occur nowhere else."""


def rows(secret: str = SECRET, **changes: Any) -> list[Judgment | Outcome]:
    """Return six figures, one of them secret, and a control that shows the secret picture with another text."""
    texts = {"reasoning": f"The words about {secret}.", "caption": f"The caption of {secret}."}
    shown = {"human": picture("s1h"), "model": picture(f"{secret}m")}
    return [
        *(row for number in range(1, 6) for row in pair(f"s{number}", "MHGM", "Model", **changes)),
        *pair(secret, "GGGG", "Tie", **texts, **changes),
        *(judgment("s1", each, control=OTHER, pictures=shown, **changes) for each in DIMENSIONS),
        outcome("s1", control=OTHER, pictures=shown, **changes),
    ]


def write_store(store: Path) -> Path:
    """Store runs of two flows; the second diagram run has two candidates and reuses replies of the first."""
    counts = {"warnings": (f"Look at {SECRET} first.", "Fine."), "outcomes": {"complete": 6}, "judgments": {"ok": 24}}
    flow_run = "11111111-2222-3333-4444-555555555555"
    first = start(FIRST, prefect_run_id=flow_run, samples=6, started_at="2026-11-18T12:00:00+00:00")
    write_run(store, first, rows(), end(**counts))
    taken = [row.model_copy(update={"reused_from": FIRST}) if isinstance(row, Judgment) else row for row in rows()]
    others = [row.model_copy(update={"candidate": CANDIDATE}) for row in rows("s10")]
    parameters = {"ids": [SECRET, "s1"], "candidate_name": CANDIDATE, "dataset": f"data/{CANDIDATE}.jsonl"}
    both = {"candidates": ("alpha", CANDIDATE), "samples": 12, "parameters": parameters}
    second = start(SECOND, started_at="2026-11-19T12:00:00+00:00", **both)
    write_run(store, second, [*taken, *others], end(reused=28, **counts))
    counting = {"flow": "counting", "parameters": {"threshold": 7.0}, "dimensions": ("counting",)}
    write_run(store, start(IMAGES, **counting), [image(), image("00001/0000", 3.0)], end())
    for run in (FIRST, SECOND, IMAGES):
        keep_thumbnails(store, read_outcomes(folder(store, run)))
    write_beside(store)
    land(store)
    return store


def write_beside(store: Path) -> None:
    of = {"of_run": SECOND, "flow": "diagram", "dataset_key": "d" * 64, "prompts_key": "p", "drawn": "uniform"}
    page, moment = "0123456789abcdef", "2026-11-20T12:00:00+00:00"
    about = {"name": "reader", "source": "labels.json", "source_sha256": "a" * 64, "annotators": ("A",), "labels": 2}
    labels = [{"sample_id": name, "candidate": "alpha", "dimension": "overall"} for name in (SECRET, "s1")]
    keep_labels(
        store,
        LabelSet.model_validate({**about, **of, "page": page, "imported_at": moment}),
        [LabelRow.model_validate({**row, "verdict": "Tie", "annotator": "A"}) for row in labels],
    )
    items = [
        LabelItem(token=str(at), candidate="alpha", sample_id=name, tag="", pictures={}, left="")
        for at, name in enumerate((SECRET, "s1"))
    ]
    fields = {"page_id": page, "among": 10, "seed": 1, "made_at": moment, "questions": {"": {"overall": ("Model",)}}}
    keep_page(store, LabelPage.model_validate({**of, **fields, "items": items, "file": "/elsewhere/label.html"}))
    (store / "pages" / "label.files").mkdir(parents=True)
    for name in ("label.html", "label.files/0123456789abcdef.jpg"):
        (store / "pages" / name).write_text(f"the input of {SECRET}")
    log = begin(store, FIRST)  # the endpoint was away when the run had ended
    log.add("prepared", requests=(1,), said=(f"Look at {SECRET} first.",))
    log.requests(0).write_text(f"the input of {SECRET}")


def spent(store: Path) -> float:
    return Month(store, "2026-11", 100.0).sum().spent


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("forget") / "store")


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "store"))


def places(store: Path, *words: str) -> list[str]:
    """Return files of a store whose name or content contains one of these words."""
    files = {file.relative_to(store).as_posix(): file for file in sorted(store.rglob("*")) if file.is_file()}
    whole = {name: f"{name} ".encode() + file.read_bytes() for name, file in files.items()}
    return [name for name, data in whole.items() if any(word.encode() in data for word in words)]


def hashes(*names: str) -> list[str]:
    return [picture(name).source_sha256 for name in names]


def tree(store: Path) -> dict[str, bytes]:
    """Return all files of a store that are not derived from its ledgers."""
    made = ("history", ".history", "pages", UNFINISHED)
    files = {file.relative_to(store).as_posix(): file for file in sorted(store.rglob("*")) if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if not name.startswith(made)}


def forget(store: Path, kind: Any, name: str) -> bool:
    """Forget as the command does, except for pages; return whether any run was affected."""
    plan = make_plan(store, kind, name, "")
    keep_plan(store, plan)
    carry_out(store, None)
    return bool(plan.runs)


# Effects


def test_forgotten_sample_leaves_no_trace(store: Path, jury: Any) -> None:
    assert jury("store", "pages", "--store", store)[0] == 0 and len(places(store, SECRET)) > 7
    code, out, err = jury("store", "forget", "--sample", SECRET, "--yes", "--store", store)
    assert (code, err) == (0, "")
    assert f"run {FIRST}: rows of judgments 8, outcomes 2; the others stay" in out and "2 pictures that nothing" in out
    assert places(store, SECRET, *hashes(f"{SECRET}h", f"{SECRET}m")) == []
    assert not (store / "pages" / "label.files").exists()
    assert "Remove this page for people, and its pictures in label.files: /elsewhere/label.html" in out
    assert len([*(store / "pictures").glob("*.jpg")]) == 14
    found = query(store, "SELECT run_id, candidate, n, scored, revision FROM coverage ORDER BY ALL").rows
    assert found[:2] == [(FIRST, "alpha", 5, 5, 1), (SECOND, "alpha", 5, 5, 1)]
    assert found[2:] == [(SECOND, CANDIDATE, 6, 6, 1), (IMAGES, "alpha", 2, 2, 0)]
    assert [*query(store, "SELECT name, sample_id FROM labels").rows] == [("reader", "s1")]
    page = (store / "pages" / f"{FIRST}.html").read_text()
    assert "8 replies and 2 outcomes were forgotten at a request" in page and "no missing output" in page
    end = read_end(folder(store, FIRST))
    assert end and (end.outcomes, end.judgments, end.calls) == ({"complete": 5}, {"ok": 20}, 20)
    assert end.warnings[0] == "Fine.", "a warning that names the sample is removed"


@pytest.mark.usefixtures("without_pages")
def test_forgotten_run_keeps_its_cost_and_replies_that_others_reused(store: Path, jury: Any) -> None:
    before, cost = tree(store), spent(store)
    code, out, _ = jury("store", "forget", "--run", FIRST[:15], "--yes", "--store", store)
    assert code == 0 and "`prefect flow-run delete`: 11111111-2222-3333-4444-555555555555." in out
    after = tree(store)
    assert {name for name in before if name not in after} == {name for name in before if f"/{FIRST}/" in name}
    assert after.keys() - before.keys() == {f"ledger/{FIRST}/removed.json"}
    assert {name for name in before.keys() & after.keys() if before[name] != after[name]} == set()
    # The replies now count for the only run that has them.
    assert query(store, f"SELECT replies, anew FROM evaluations WHERE run_id = '{SECOND}'").rows == [(48, 48)]
    assert spent(store) == cost and removed_costs(store, MONTH)[FIRST] > 0, "what was spent stays spent"


@pytest.mark.usefixtures("without_pages")
def test_forgotten_candidate_leaves_no_trace_beside_another_removal(
    store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost, sample = spent(store), ("store", "forget", "--sample", SECRET, "--yes", "--store", store)
    monkeypatch.setattr("flows.commands.store._is_meant", lambda: jury(*sample)[0] == 0)
    assert jury("store", "forget", "--candidate", CANDIDATE, "--store", store)[0] == 0
    assert places(store, SECRET, CANDIDATE, *hashes("s10h", "s10m")) == []
    assert read_start(folder(store, SECOND)).revision == 2 and spent(store) == cost
    assert query(store, f"SELECT candidates FROM runs WHERE run_id = '{SECOND}'").rows == [(["alpha"],)]
    assert jury("store", "forget", "--candidate", "alpha", "--flow", "diagram", "--yes", "--store", store)[0] == 0
    assert [*query(store, "SELECT run_id FROM runs").rows] == [(IMAGES,)], "a run without candidates is removed"
    assert spent(store) == cost


@pytest.mark.usefixtures("without_pages")
def test_forgetting_the_last_run_removes_the_history_and_later_a_restored_backup(
    store: Path, written: Path, jury: Any
) -> None:
    gone = folder(store, IMAGES).rename(store / "elsewhere")
    out = jury("store", "forget", "--run", FIRST, "--dry-run", "--store", store)[1]
    assert f"1 run that only the history has, the last {IMAGES}" in out
    gone.rename(folder(store, IMAGES))
    for run in (FIRST, SECOND, IMAGES):
        assert jury("store", "forget", "--run", run, "--yes", "--store", store)[0] == 0
    assert places(store, SECRET, CANDIDATE) == [] == [*(store / "pictures").iterdir()]
    assert not (store / "history.duckdb").exists()
    shutil.copytree(written / "ledger" / FIRST, store / "ledger" / FIRST, dirs_exist_ok=True)
    assert f"run {FIRST} was forgotten on 20" in jury("store", "sync", "--store", store)[1]
    assert [file.name for file in (store / "ledger" / FIRST).iterdir()] == ["removed.json"]


# Kills


@pytest.mark.parametrize(("kind", "name"), [("sample", SECRET), ("run", FIRST), ("candidate", CANDIDATE)])
def test_killed_forgetting_is_completed_by_the_same_command(
    store: Path, tmp_path: Path, kind: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "make_anew", lambda *_: None)  # derived files are not compared
    monkeypatch.setattr(forgetting, "tombstone_of", lambda *_: b"the tombstone")
    keep_plan(store, make_plan(store, kind, name, ""))
    whole = Path(shutil.copytree(store, tmp_path / "whole"))
    carry_out(whole, None)
    steps = 0
    while stopped_after(steps, killed := Path(shutil.copytree(store, tmp_path / f"killed{steps}")), monkeypatch):
        carry_out(killed, None)
        assert tree(killed) == tree(whole), f"after {steps} steps"
        shutil.rmtree(killed)
        steps += 1
    assert steps > 4


def stopped_after(steps: int, store: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Stop forgetting before it changes one more file than `steps`; return whether it was stopped."""
    left = [steps]

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: Any, **named: Any) -> Any:
            folder = named.get("dir_fd", named.get("src_dir_fd"))
            if os.access(given[0], os.F_OK, dir_fd=folder):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
            return change(*given, **named)

        return changed

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", counted(os.unlink))
        patched.setattr(os, "rename", counted(os.rename))
        try:
            carry_out(store, None)
        except KeyboardInterrupt:
            patched.undo()
            for draft in store.rglob(".*.draft"):  # left by a kill, and removed by the next command
                draft.unlink()
            return True
    return False


@pytest.mark.usefixtures("without_pages")
def test_status_reports_unfinished_forgetting_until_the_next_command(
    store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)

    def unfinished() -> tuple[int, list[str]]:
        code, out, _ = jury("status", "--store", store)
        return code, [line for line in out.splitlines() if line.startswith("forgetting ")]

    again = ("forget", "--sample", "s1", "--yes")
    same = ("forget", "--run", FIRST, "--yes")
    for given, kind, name in ((("sync",), "sample", SECRET), (again, "candidate", CANDIDATE), (same, "run", FIRST)):
        keep_plan(store, make_plan(store, kind, name, ""))
        words = f"forgetting begun and not finished: `jury store sync --store {store}` does the rest"
        assert unfinished() == (3, [words])
        code, out, _ = jury("store", *given, "--store", store)
        assert code == 0 and "is complete" in out and unfinished() == (0, [])
        assert places(store, name) == [] or kind == "run"
    assert jury("store", "sync", "--store", store)[1] == "the history is in step with the ledgers\n"


# Refusals and confirmation


def test_run_in_progress_is_not_forgotten(store: Path) -> None:
    ledger = Ledger(store, start("20261121T120000-diagram-0000ee", started_at=datetime.now(UTC).isoformat()))
    ledger.append(outcome())
    with pytest.raises(InputError, match=r"0000ee is being written: wait for its end, or stop it \(Ctrl-C\)"):
        check_idle(store)
    ledger.close()
    check_idle(store)
    (ledger.folder / FETCHED).touch()
    with pytest.raises(InputError, match="of another machine has no end yet"):
        check_idle(store)
    (ledger.folder / FETCHED).unlink()
    (ledger.folder / BATCHES).write_text("a row\n")
    check_idle(store)  # its requests are lost, so that no reply can come
    (store / "batches" / ledger.folder.name).mkdir()
    with pytest.raises(InputError, match="waits for its batches: `jury batch collect` takes its replies in"):
        check_idle(store)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "name one thing to be forgotten: --run RUN, --candidate NAME or --sample ID"),
        (("--run", "2026", "--sample", "s1"), "name one thing to be forgotten"),
        (("--run", "202611"), "--run 202611: 3 runs begin so: "),
        (("--run", "1999"), f"has no run '1999'; there is {FIRST}"),
        (("--candidate", "nobody"), "has no candidate 'nobody'; there is alpha"),
        (("--sample", "s1", "--flow", "plot"), "has no sample 's1'"),
        (("--run", FIRST, "--flow", "diagram"), "--flow goes with --candidate and --sample"),
        (("--sample", SECRET), "nobody can be asked here: --yes forgets without asking"),
    ],
)
def test_unclear_requests_are_refused(written: Path, jury: Any, given: tuple[str, ...], words: str) -> None:
    before = tree(written)
    code, _, err = jury("store", "forget", *given, "--store", written)
    assert code == 2 and words in err and tree(written) == before


def test_dry_run_lists_what_would_be_removed(written: Path, jury: Any) -> None:
    before = tree(written)
    code, out, _ = jury("store", "forget", "--run", SECOND, "--dry-run", "--store", written)
    assert code == 0 and "nothing was changed" in out
    assert f"run {SECOND}: all of it (judgments 56, outcomes 14)" in out and "labels/reader/label.json" in out
    assert "2 pictures that nothing else shows" in out and "label-pages/0123456789abcdef.json" in out
    assert tree(written) == before


def test_damaged_line_is_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "make_anew", lambda *_: None)
    with (folder(store, FIRST) / JUDGMENTS).open("ab") as file:
        file.write(b"no row\n")
    forget(store, "sample", SECRET)
    assert (folder(store, FIRST) / JUDGMENTS).read_bytes().endswith(b"\nno row\n")


# Anchors, bridges, alarms, and pictures without a row


def frozen(tmp_path: Path) -> Anchors:
    root = write_benchmark(tmp_path / "bench", [record(n) for n in range(6)])
    key = "target_diagram_critic_desc0_base64_jpg"
    results = write_json(tmp_path / "results.json", [result(n, **{key: inline(n + 1)}) for n in range(6)])
    given = PairwiseParameters(dataset=str(root), results=str(results), store=str(tmp_path / "store"), anchors=4)
    return anchors_of("diagram", given, lambda: load_dataset("diagram", given).samples, picture_policy(given))


def kept_pictures(store: Path) -> list[Path]:
    return sorted(anchor_folder(store, "diagram").glob("*/pictures/*"))


def test_anchors_with_a_forgotten_sample_are_removed(tmp_path: Path) -> None:
    before, store = frozen(tmp_path), tmp_path / "store"
    forget(store, "sample", "another")
    assert frozen(tmp_path).key == before.key
    forget(store, "sample", before.samples[0].sample_id)
    assert kept_pictures(store) == [] == [*store.rglob("anchors.jsonl")]


def test_anchors_that_a_killed_run_left_without_a_name_are_removed(tmp_path: Path) -> None:
    before, store = frozen(tmp_path), tmp_path / "store"
    [kept] = anchor_folder(store, "diagram").iterdir()
    kept.rename(kept.with_name(f".{'0' * 32}"))
    forget(store, "sample", before.samples[0].sample_id)
    assert kept_pictures(store) == []


def test_anchors_judged_only_by_forgotten_runs_are_removed(tmp_path: Path) -> None:
    key, store = frozen(tmp_path).key, tmp_path / "store"
    for run in (FIRST, SECOND):
        write_run(store, start(run, anchors_key=key), [outcome()], end())
    assert forget(store, "run", FIRST) and kept_pictures(store)
    assert forget(store, "run", SECOND) and not kept_pictures(store)


@pytest.mark.parametrize(("kind", "name"), [("run", FIRST), ("candidate", "alpha")])
def test_bridges_and_alarms_are_removed(tmp_path: Path, kind: str, name: str) -> None:
    BRIDGES.keep(tmp_path, [bridge_row(old_run=FIRST, new_run=SECOND, candidate="alpha", bridge_id="20261120-it")])
    others = bridge_row(old_run="x", new_run="y", candidate="beta", bridge_id="20261120-other")
    other = BRIDGES.keep(tmp_path, [others])
    note = {"flow": "diagram", "series_key": "d", "protocol_key": "p", "night_at": "2026-11-18T12:00:00+00:00"}
    keep_told(tmp_path, Told.model_validate({**note, "candidate": "alpha", "night": FIRST}))
    keep_told(tmp_path, Told.model_validate({**note, "candidate": "beta", "night": SECOND}))
    restart_baseline(tmp_path, "diagram", "beta")
    write_run(tmp_path, start(FIRST, candidates=("alpha",)), [outcome()], end())
    assert forget(tmp_path, kind, name) and BRIDGES.folders(tmp_path) == [other]
    assert len([*(tmp_path / ALARMS).iterdir()]) == 2


def test_all_shards_of_an_evaluation_are_removed(tmp_path: Path) -> None:
    for shard, run in ((1, FIRST), (2, SECOND)):
        write_run(tmp_path, start(run, evaluation_id="evaluation", shards=2, shard=shard), [outcome()], end())
    assert forget(tmp_path, "run", "evaluation") and run_folders(tmp_path) == []
    assert {file.name for file in tmp_path.glob("ledger/*/*")} == {"removed.json"}


def test_killed_run_is_removed_with_pictures_that_no_row_mentions(tmp_path: Path) -> None:
    (write_run(tmp_path, start(FIRST), [judgment("s1")], None) / "progress.txt").write_text("1/4 calls")
    write_run(tmp_path, start(SECOND), [outcome("s2")], end())
    shown, unshown = picture("s2m").source_sha256, picture("s9m").source_sha256
    with Thumbnails(tmp_path) as thumbnails:
        thumbnails.put_by(unshown, b"a picture that nobody got to")
        thumbnails.put_by(shown, b"a picture")
    place_of(tmp_path, picture("s1m").source_sha256).write_bytes(b"a thumbnail")
    assert forget(tmp_path, "run", FIRST) and waiting(tmp_path) == [shown]
    assert [file.name for file in (tmp_path / "ledger" / FIRST).iterdir()] == ["removed.json"]
    assert [*(tmp_path / "pictures").glob("*.jpg")] == []
