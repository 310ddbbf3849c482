"""`jury forget`: what is forgotten is nowhere any more, and what stays is as it was."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, end, image, judgment, outcome, picture, start, write_run
from written_history import keep_thumbnails, pair

from flows.commands import forgetting
from flows.commands import sync as sync_command
from flows.commands.forgetting import forget_marked
from tasks.errors import InputError
from tasks.forgetting.store import check_idle
from tasks.history.asking import query
from tasks.history.loading import sync
from tasks.ledger.forgotten import forgotten_rows, keep_mark, marks, new_mark
from tasks.ledger.label_pages import LabelItem, LabelPage, keep_page
from tasks.ledger.label_sets import LabelRow, LabelSet, keep_labels
from tasks.ledger.label_sets import folder as label_folder
from tasks.ledger.reading import BATCHES, JUDGMENTS, folder, read_end, read_judgments, read_outcomes
from tasks.ledger.writing import Ledger
from tasks.records import OTHER, Judgment, Outcome

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out")
Jury = Callable[..., tuple[int, str, str]]
FIRST, SECOND = "20261118T120000-diagram-0000aa", "20261119T120000-diagram-0000bb"
IMAGES = "20261120T120000-counting-0000cc"
SECRET, CANDIDATE = "paper-secret-7", "candidate-secret"
"""A sample and a candidate whose names nothing else has."""


def rows(secret: str = SECRET, **changes: Any) -> list[Judgment | Outcome]:
    """Ten figures, of which one is the secret one, and a control that shows its picture beside another's text."""
    told = {"reasoning": f"The words about {secret}.", "caption": f"The caption of {secret}."}
    shown = {"human": picture("s1h"), "model": picture(f"{secret}m")}
    return [
        *(row for number in range(1, 10) for row in pair(f"s{number}", "MHGM", "Model", **changes)),
        *pair(secret, "GGGG", "Tie", **told, **changes),
        *(judgment("s1", each, control=OTHER, pictures=shown, **changes) for each in DIMENSIONS),
        outcome("s1", control=OTHER, pictures=shown, **changes),
    ]


def write_store(store: Path) -> Path:
    """Runs of two flows; the second has two candidates, and took replies of the first over."""
    told = {"warnings": (f"Look at {SECRET} first.", "Fine."), "outcomes": {"complete": 10}, "judgments": {"ok": 40}}
    write_run(store, start(FIRST, samples=10, started_at="2026-11-18T12:00:00+00:00"), rows(), end(**told))
    taken = [row.model_copy(update={"reused_from": FIRST}) if isinstance(row, Judgment) else row for row in rows()]
    others = [row.model_copy(update={"candidate": CANDIDATE}) for row in rows("s10")]
    parameters = {"ids": [SECRET, "s1"], "candidate_name": CANDIDATE, "dataset": f"data/{CANDIDATE}.jsonl"}
    both = {"candidates": ("alpha", CANDIDATE), "samples": 20, "parameters": parameters}
    second = start(SECOND, started_at="2026-11-19T12:00:00+00:00", **both)
    write_run(store, second, [*taken, *others], end(reused=44, **told))
    counting = {"flow": "counting", "parameters": {"threshold": 7.0}, "dimensions": ("counting",)}
    write_run(store, start(IMAGES, **counting), [image(), image("00001/0000", 3.0)], end())
    for run in (FIRST, SECOND, IMAGES):
        keep_thumbnails(store, read_outcomes(folder(store, run)))
    write_beside(store)
    sync(store)
    return store


def write_beside(store: Path) -> None:
    """Labels, a page for people, and what the runs spent of a month's budget."""
    of = {"of_run": SECOND, "flow": "diagram", "dataset_key": "d" * 64, "prompts_key": "p", "drawn": "uniform"}
    page, moment = "0123456789abcdef", "2026-11-20T12:00:00+00:00"
    about = {"name": "reader", "source": "labels.json", "source_sha256": "a" * 64, "annotators": ("A",), "labels": 2}
    said = [{"sample_id": name, "candidate": "alpha", "dimension": "overall"} for name in (SECRET, "s1")]
    keep_labels(
        label_folder(store, "reader"),
        LabelSet.model_validate({**about, **of, "page": page, "imported_at": moment}),
        [LabelRow.model_validate({**row, "verdict": "Tie", "annotator": "A"}) for row in said],
    )
    items = [
        LabelItem(token=str(at), candidate="alpha", sample_id=name, tag="", pictures={}, left="")
        for at, name in enumerate((SECRET, "s1"))
    ]
    asked = {"page_id": page, "among": 10, "seed": 1, "made_at": moment, "questions": {"": {"overall": ("Model",)}}}
    keep_page(store, LabelPage.model_validate({**of, **asked, "items": items}))
    (store / "budget").mkdir()
    claims = {FIRST: {"amount": 10.0, "until": None}, SECOND: {"amount": 5.0, "until": None}}
    (store / "budget" / "2026-11.json").write_text(json.dumps(claims))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("forget") / "store")


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "store"))


@pytest.fixture
def without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages take longer than all the rest."""
    monkeypatch.setattr(forgetting, "renew_pages", lambda *_: None)
    monkeypatch.setattr(sync_command, "renew_pages", lambda *_: None)


def places(store: Path, *words: str) -> list[str]:
    """Files of a store whose name or bytes have one of these words."""
    files = {file.relative_to(store).as_posix(): file for file in sorted(store.rglob("*")) if file.is_file()}
    return [
        name
        for name, file in files.items()
        if any(word.encode() in name.encode() + b" " + file.read_bytes() for word in words)
    ]


def hashes(*names: str) -> list[str]:
    return [picture(name).source_sha256 for name in names]


def tree(store: Path) -> dict[str, bytes]:
    """All of a store but what is made of its ledgers, and what is noted while that is done."""
    made = ("history", "pages", "forgotten/.")
    files = {file.relative_to(store).as_posix(): file for file in sorted(store.rglob("*")) if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if not name.startswith(made)}


def forget(store: Path, kind: Any, name: str) -> None:
    """What the command does to all but history and pages."""
    keep_mark(store, new_mark(kind, name, ""))
    forget_marked(store, None)


# What goes, and what stays


def test_nothing_of_a_sample_is_left_and_the_others_stay(store: Path, jury: Jury) -> None:
    assert jury("pages", "--store", store)[0] == 0 and len(places(store, SECRET)) > 7
    code, out, err = jury("forget", "--sample", SECRET, "--yes", "--store", store)
    assert (code, err) == (0, "")
    assert f"run {FIRST}: rows of judgments 8, of outcomes 2; the others stay" in out and "2 pictures" in out
    assert places(store, SECRET, *hashes(f"{SECRET}h", f"{SECRET}m")) == []
    assert len([*(store / "pictures").glob("*.jpg")]) == 22
    found = query(store, "SELECT run_id, candidate, n, scored, forgotten FROM coverage ORDER BY ALL").rows
    assert found == [
        (FIRST, "alpha", 9, 9, 1),
        (SECOND, "alpha", 9, 9, 1),
        (SECOND, CANDIDATE, 10, 10, 1),
        (IMAGES, "alpha", 2, 2, 0),
    ]
    assert [*query(store, "SELECT name, sample_id FROM labels").rows] == [("reader", "s1")]
    page = (store / "pages" / f"{FIRST}.html").read_text()
    assert "1 sample (8 replies) was forgotten on " in page and "no missing output" in page
    end = read_end(folder(store, FIRST))
    assert end and (end.outcomes, end.judgments, end.calls) == ({"complete": 9}, {"ok": 36}, 36)
    assert end.warnings == ("A warning is left out, for it may name what was forgotten.", "Fine.")


@pytest.mark.usefixtures("without_pages")
def test_nothing_of_a_run_is_left_and_its_replies_stay_with_the_run_that_has_them_too(store: Path, jury: Jury) -> None:
    before = tree(store)
    assert jury("forget", "--run", FIRST[:15], "--yes", "--store", store)[0] == 0
    assert places(store, FIRST) == []
    after = tree(store)
    gone = {name for name in before if name not in after}
    assert gone == {name for name in before if FIRST in name}, "its pictures are shown by the other run, too"
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert changed == {f"ledger/{SECOND}/judgments.jsonl", "budget/2026-11.json"}
    [mark] = marks(store)
    assert mark.removed == {"judgments": 44, "outcomes": 11, "pictures": 0} and mark.means(FIRST)
    assert {row.reused_from for row in read_judgments(folder(store, SECOND))} == {"", f"0-forgotten-{mark.mark_id}"}
    # No other run has those replies now: they count once, for the run that has them.
    assert query(store, f"SELECT replies, anew FROM evaluations WHERE run_id = '{SECOND}'").rows == [(80, 80)]
    claims = json.loads((store / "budget" / "2026-11.json").read_text())
    assert sorted(claim["amount"] for claim in claims.values()) == [5.0, 10.0], "what was spent stays spent"


@pytest.mark.usefixtures("without_pages")
def test_nothing_of_a_candidate_is_left(store: Path, jury: Jury) -> None:
    assert jury("forget", "--candidate", CANDIDATE, "--yes", "--store", store)[0] == 0
    assert places(store, CANDIDATE, *hashes("s10h", "s10m")) == []
    [gone] = forgotten_rows(folder(store, SECOND))
    assert (gone.samples, gone.judgments, gone.outcomes) == (10, 44, 11)
    assert query(store, f"SELECT candidates FROM runs WHERE run_id = '{SECOND}'").rows == [(["alpha"],)]
    assert jury("forget", "--candidate", "alpha", "--flow", "diagram", "--yes", "--store", store)[0] == 0
    assert [*query(store, "SELECT run_id FROM runs").rows] == [(IMAGES,)], "a run without candidates goes as a whole"


@pytest.mark.usefixtures("without_pages")
def test_the_last_run_of_a_store_leaves_no_history(store: Path, jury: Jury) -> None:
    for run in (FIRST, SECOND, IMAGES):
        assert jury("forget", "--run", run, "--yes", "--store", store)[0] == 0
    assert places(store, FIRST, SECOND, IMAGES, SECRET, CANDIDATE) == []
    assert [*(store / "pictures").iterdir()] == [] == [*(store / "ledger").iterdir()]


@pytest.mark.usefixtures("without_pages")
def test_what_is_judged_again_later_is_not_forgotten(store: Path, jury: Jury) -> None:
    assert jury("forget", "--sample", SECRET, "--yes", "--store", store)[0] == 0
    later = start("21261121T120000-diagram-0000dd", started_at="2126-11-21T12:00:00+00:00")
    write_run(store, later, rows(), end(finished_at="2126-11-21T12:01:00+00:00"))
    assert jury("sync", "--store", store)[0] == 0
    assert ("alpha", 10) in query(store, "SELECT candidate, n FROM coverage").rows


@pytest.mark.usefixtures("without_pages")
def test_a_backup_that_is_put_back_is_forgotten_again(store: Path, written: Path, jury: Jury) -> None:
    assert jury("forget", "--run", FIRST, "--yes", "--store", store)[0] == 0
    shutil.copytree(written / "ledger" / FIRST, store / "ledger" / FIRST)
    assert "the history made anew" in jury("sync", "--store", store)[1]
    assert places(store, FIRST) == []


# Kills


@pytest.mark.parametrize(("kind", "name"), [("sample", SECRET), ("run", FIRST), ("candidate", CANDIDATE)])
def test_after_a_kill_at_any_step_the_same_again_does_the_rest(
    store: Path, tmp_path: Path, kind: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_mark(store, new_mark(kind, name, ""))
    whole = Path(shutil.copytree(store, tmp_path / "whole"))
    forget_marked(whole, None)
    steps = 0
    while stopped_after(steps, killed := Path(shutil.copytree(store, tmp_path / f"killed{steps}")), monkeypatch):
        forget_marked(killed, None)
        assert tree(killed) == tree(whole), f"after {steps} steps"
        shutil.rmtree(killed)
        steps += 1
    assert steps > 4


def stopped_after(steps: int, store: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether forgetting was stopped where it would have changed one file more."""
    left = [steps]

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: Any, **named: Any) -> Any:
            if given[0].exists():
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
            return change(*given, **named)

        return changed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", counted(Path.unlink))
        patched.setattr(Path, "replace", counted(Path.replace))
        try:
            forget_marked(store, None)
        except KeyboardInterrupt:
            patched.undo()
            for draft in store.rglob(".*.draft"):  # which a kill would leave, and the command removes
                draft.unlink()
            return True
    return False


@pytest.mark.usefixtures("without_pages")
@pytest.mark.parametrize("given", [("sync",), ("forget", "--sample", SECRET, "--yes")])
def test_a_sync_and_the_same_again_finish_what_was_stopped(store: Path, jury: Jury, given: tuple[str, ...]) -> None:
    forget(store, "sample", SECRET)
    assert "history.duckdb" in places(store, SECRET)
    code, out, _ = jury(*given, "--store", store)
    assert code == 0 and "what was asked" in out
    assert places(store, SECRET) == []
    assert jury("sync", "--store", store)[1] == "the history is in step with the ledgers\n"


@pytest.mark.usefixtures("without_pages")
def test_status_names_what_was_begun_and_not_finished_with_the_command_that_does_the_rest(
    store: Path, jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)

    def told() -> tuple[int, list[str]]:
        code, out, _ = jury("status", "--store", store)
        return code, [line for line in out.splitlines() if line.startswith("forgetting ")]

    assert told() == (0, [])
    line = f"forgetting begun and not finished: `jury sync --store {store}` does the rest"
    keep_mark(store, new_mark("sample", SECRET, ""))
    assert told() == (3, [line]), "nothing is removed yet"
    forget_marked(store, None)
    assert told() == (3, [line]), "history and pages still have it"
    assert jury("sync", "--store", store)[0] == 0
    assert told() == (0, [])
    begun = store / "forgotten" / ".unfinished"
    begun.touch()
    assert told() == (3, [line])
    begun.unlink()
    [mark] = (store / "forgotten").glob("[!.]*.json")
    mark.write_text("{}")
    code, [said] = told()
    assert code == 3 and mark.name in said


# What is refused, and asked


def test_a_run_that_is_being_written_is_left_alone(store: Path) -> None:
    ledger = Ledger(store, start("20261121T120000-diagram-0000ee"))
    ledger.append(outcome())
    with pytest.raises(InputError, match=r"0000ee is being written: wait for its end, or stop it \(Ctrl-C\)"):
        check_idle(store)
    ledger.close()
    check_idle(store)
    (ledger.folder / BATCHES).touch()
    with pytest.raises(InputError, match="waits for its batches: `jury collect` takes its replies in"):
        check_idle(store)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "name one thing to be forgotten: --run RUN, --candidate NAME or --sample ID"),
        (("--run", "2026", "--sample", "s1"), "name one thing to be forgotten"),
        (("--run", "202611"), "--run 202611: 3 runs begin so: "),
        (("--run", "1999"), f"nothing is known of the run '1999'; there is {FIRST}"),
        (("--candidate", "nobody"), "nothing is known of the candidate 'nobody'; there is alpha"),
        (("--sample", "s1", "--flow", "plot"), "nothing is known of the sample 's1'"),
        (("--run", FIRST, "--flow", "diagram"), "--flow goes with --candidate and --sample"),
        (("--sample", SECRET), "nobody can be asked here: --yes forgets without asking"),
    ],
)
def test_what_is_not_clear_is_asked_for(written: Path, jury: Jury, given: tuple[str, ...], words: str) -> None:
    before = tree(written)
    code, _, err = jury("forget", *given, "--store", written)
    assert code == 2 and words in err
    assert tree(written) == before


def test_what_would_go_can_be_seen_first(written: Path, jury: Jury) -> None:
    before = tree(written)
    code, out, _ = jury("forget", "--run", SECOND, "--dry-run", "--store", written)
    assert code == 0 and "nothing was changed" in out
    assert f"run {SECOND}, diagram: all of it" in out and "labels reader: 2 of 2" in out
    assert "2 pictures; 20 others stay, for what stays shows them, too" in out
    assert "page for people 0123456789abcdef: 2 of 2 items" in out
    assert tree(written) == before


def test_a_damaged_line_is_told_and_left(store: Path, jury: Jury) -> None:
    with (folder(store, FIRST) / JUDGMENTS).open("ab") as file:
        file.write(b"no row\n")
    out = jury("forget", "--sample", SECRET, "--dry-run", "--store", store)[1]
    assert f"not read, and left as it is: {folder(store, FIRST) / JUDGMENTS}, line 45" in out
