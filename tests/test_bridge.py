"""Bridges between two judges: which samples are paired, which runs are refused, and stored bridges."""

import json
import shutil
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, LOST, TIED, WON, figures, finished, image, judgment, outcome, page_trend, picture

from tasks.comparing.bridge import bridge, sentences
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.side_records import BRIDGES, BridgeRow
from tasks.records import AspectScore, DimensionOutcome, Judgment, Outcome, RunStart
from tasks.statistics.intervals import CANNOT_TELL, CONTINUED, WITH_OFFSET

OLD, NEW = "20261119T120000-diagram-0000aa", "20261120T120000-diagram-0000bb"
PLOTS = "20261121T120000-plot-0000cc"
PROMPTS = {"prompt aesthetics": "a" * 64, "orders": "human_first"}


def keep(store: Path, run_id: str, model: str, rows: Sequence[Judgment | Outcome], **changes: Any) -> RunStart:
    """Store a finished run by a judge; `protocol` adds items."""
    protocol = {**PROMPTS, "model asked": model, "model answered": f"{model}-1", **changes.pop("protocol", {})}
    values = {"judge": model, "samples": len(rows), "protocol": protocol, **changes}
    return finished(store, run_id, rows, key=model[-1], **values)


def make_bridge(store: Path, margin: float = 3.0) -> list[BridgeRow]:
    return bridge(*(read_evaluation(store, run_id) for run_id in (OLD, NEW)), margin)[0]


# Pairs


def test_bridge_reports_shift_and_agreement_of_two_judges(tmp_path: Path) -> None:
    keep(tmp_path, OLD, "gpt-a", figures(*[WON] * 20, *[TIED] * 20))
    keep(tmp_path, NEW, "gpt-b", figures(*[WON] * 20, *[WON] * 15, *[TIED] * 5))
    rows = make_bridge(tmp_path)
    assert [row.dimension for row in rows] == ["overall", *DIMENSIONS]
    first = rows[0]
    assert (first.n, first.judged, first.old_score, first.new_score) == (40, 40, 75.0, 93.75)
    assert first.shift == 18.75 and first.ci_low is not None and first.ci_low < 18.75
    assert first.agreement == pytest.approx(25 / 40)
    assert first.confusion == {"Model > Model": 20, "Tie > Model": 15, "Tie > Tie": 5}
    assert first.decision == CANNOT_TELL and first.enough and first.enough > 40
    assert (first.old_judge, first.new_judge, first.old_run, first.new_run) == ("gpt-a", "gpt-b", OLD, NEW)
    assert (first.old_protocol_key, first.new_protocol_key) == ("a" * 64, "b" * 64)
    assert first.made_at > "2026" and "-diagram-" in first.bridge_id
    assert rows[1].confusion == {"Model > Model": 20, "Both are good > Model": 15, "Both are good > Both are good": 5}


def test_forfeits_count_in_scores_but_not_in_agreement(tmp_path: Path) -> None:
    lost = [outcome(f"f{number}", "----", None, status="forfeit", score=0.0) for number in range(10)]
    keep(tmp_path, OLD, "gpt-a", [*figures(*[TIED] * 30), *lost])
    keep(tmp_path, NEW, "gpt-b", [*figures(*[WON] * 30), *lost])
    first, *_ = make_bridge(tmp_path)
    assert (first.n, first.judged, first.shift) == (40, 30, 37.5)


def test_samples_that_a_judge_refused_bound_the_shift(tmp_path: Path) -> None:
    """The new judge is as kind, but has no score of those that the old one found worst."""
    keep(tmp_path, OLD, "gpt-a", figures(*[WON, TIED] * 200, *[LOST] * 50))
    refused = figures(*[("----", None)] * 50, first=400, status="incomplete")  # pyright: ignore
    keep(tmp_path, NEW, "gpt-b", [*figures(*[WON, TIED] * 200), *refused])
    words = "cannot tell. The shift from gpt-a to gpt-b is 0.0 [−0.9, +12.0] at n = 400 of 450"
    assert words in sentences(make_bridge(tmp_path)[0])


def test_images_are_compared_by_prompt_and_tag(tmp_path: Path) -> None:
    old, new = (run_id.replace("diagram", "colors") for run_id in (OLD, NEW))
    for run_id, model, more in ((old, "gpt-a", 0.0), (new, "gpt-b", 0.5)):
        places = product(("colors", "color_attr"), range(20), range(2))
        rows = [image(f"{tag}{n}/{copy}", 5.0 + n % 3 + more * (n % 2) * 2, tag=tag) for tag, n, copy in places]
        keep(tmp_path, run_id, model, rows, dimensions=("colors", "color_attr"))
    rows, left_out = bridge(*(read_evaluation(tmp_path, run_id) for run_id in (old, new)))
    counts = [(row.dimension, row.n, row.judged) for row in rows]
    assert counts == [("all prompts", 40, 80), ("colors", 20, 40), ("color_attr", 20, 40)]
    assert rows[0].shift == pytest.approx(0.5) and rows[0].margin == pytest.approx(0.3) and rows[0].highest == 10
    assert rows[0].agreement == 1.0 and not left_out  # at most a point apart


# Refused bridges


OTHERS = {"human": picture("h"), "model": picture("m")}
EDITED = [*(judgment(each.sample_id) for each in figures(*[TIED] * 40)), *figures(*[TIED] * 40)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": {"prompt aesthetics": "b" * 64}}, "other prompts: aesthetics"),
        ({"protocol": {"orders": "both"}}, "orders (human_first → both)"),
        ({"rows": figures(*[TIED] * 29)}, "alpha 29; a bridge takes 30 of one candidate"),
        ({"rows": figures(*[TIED] * 40, candidate="other")}, "too few samples in common that both scored: none"),
        ({"rows": figures(*[TIED] * 40, pictures=OTHERS)}, "40 of the same name have other pictures, texts or checks"),
        ({"rows": EDITED, "dataset_key": "e" * 64}, "40 of the same name have other pictures, texts or checks"),
    ],
)
def test_incomparable_runs_are_refused_with_the_difference(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    keep(tmp_path, OLD, "gpt-a", figures(*[TIED] * 40))
    rows = changes.pop("rows", figures(*[TIED] * 40))
    keep(tmp_path, NEW, "gpt-b", rows, **changes)
    with pytest.raises(InputError) as raised:
        make_bridge(tmp_path)
    assert words in str(raised.value)


def test_settings_of_the_judge_may_differ(tmp_path: Path) -> None:
    keep(tmp_path, OLD, "gpt-a", figures(*[TIED] * 40))
    keep(tmp_path, NEW, "gpt-b", figures(*[TIED] * 40), protocol={"effort": "low", "endpoint": "x", "temperature": "0"})
    assert make_bridge(tmp_path)[0].shift == 0


def test_samples_with_changed_texts_are_not_paired(tmp_path: Path) -> None:
    for run_id, model, key in ((OLD, "gpt-a", "d"), (NEW, "gpt-b", "e")):
        rows = figures(*[TIED] * 40)
        texts = [("other" if each.sample_id < "s05" and model == "gpt-b" else "same") for each in rows]
        replies = [judgment(each.sample_id, text_sha256=text) for each, text in zip(rows, texts, strict=True)]
        keep(tmp_path, run_id, model, [*replies, *rows], dataset_key=key * 64)
    assert make_bridge(tmp_path)[0].n == 35


def checked(number: int, wrong_parent: bool, child: str) -> list[Judgment | Outcome]:
    """Return the replies and the outcome of a picture with two checks, asked one by one; a wrong parent ends them."""
    sample, facts = f"p{number}", {"flow": "facts", "prompt_id": f"p{number}", "tag": "single"}
    scores = {"parent": 0.0 if wrong_parent else 100.0, "child": 0.0 if wrong_parent else 100.0}
    asked = [*scores][: 1 if wrong_parent else 2]
    keys = {"parent": "parent", "child": child}
    replies = [judgment(sample, name, None, flow="facts", text_sha256=keys[name]) for name in asked]
    aspects = [
        AspectScore(aspect=name, score=score, explanation="", asked_key=keys[name]) for name, score in scores.items()
    ]
    score = 0.0 if wrong_parent else 100.0
    return [*replies, outcome(sample, "----", None, **facts, aspects=aspects, dimensions=(), score=score)]


def test_check_that_one_judge_made_needless_is_no_changed_text(tmp_path: Path, jury: Any) -> None:
    old, new = (run_id.replace("diagram", "facts") for run_id in (OLD, NEW))
    for run_id, model, key in ((old, "gpt-a", "d"), (new, "gpt-b", "e")):
        is_new = model == "gpt-b"
        rows = [checked(n, is_new and n < 10, "other" if is_new and n >= 35 else "child") for n in range(40)]
        changes = {"flow": "facts", "dimensions": ("single",), "dataset_key": key * 64}
        keep(tmp_path, run_id, model, [row for its in rows for row in its], **changes)
    land(tmp_path)
    code, out, err = jury("judge", "bridge", old, new, "--json", "--store", tmp_path)
    first, *_ = json.loads(out)
    assert (code, first["n"]) == (3, 35), "five have an edited check"
    assert "samples left out: 5 of the same name have other pictures, texts or checks, or could not be judged" in err
    assert first["new_score"] == pytest.approx(25 / 35 * 100)


def test_shares_of_checklists_are_equal_within_a_point(tmp_path: Path) -> None:
    old, new = (run_id.replace("diagram", "facts") for run_id in (OLD, NEW))
    for run_id, model, score in ((old, "gpt-a", 100.0), (new, "gpt-b", 60.0)):
        scores = [score if n < 30 else 75.0 for n in range(40)]
        parts = [DimensionOutcome(dimension="together", verdict=None, score=each) for each in scores]
        facts = {"flow": "facts", "tag": "together"}
        rows = [
            outcome(f"p{n}", "----", None, **facts, prompt_id=f"p{n}", dimensions=(part,), score=part.score)
            for n, part in enumerate(parts)
        ]
        keep(tmp_path, run_id, model, rows, flow="facts", dimensions=("together",))
    (first, *_), _ = bridge(*(read_evaluation(tmp_path, run_id) for run_id in (old, new)))
    assert (first.judged, first.agreement) == (40, 0.25)


def test_runs_must_be_two_and_of_one_flow(tmp_path: Path, jury: Any) -> None:
    keep(tmp_path, OLD, "gpt-a", figures(*[TIED] * 40))
    keep(tmp_path, PLOTS, "gpt-b", figures(*[TIED] * 40, flow="plot"))
    land(tmp_path)
    for new, words in (
        (OLD, f"both runs are {OLD}"),
        ("20270101T0", f"no run is called '20270101T0'; the newest finished ones are {PLOTS}, {OLD}"),
        ("2026", f"'2026' is the beginning of several runs: {OLD}, {PLOTS}"),
        (PLOTS, f"{OLD} is of diagram and {PLOTS} of plot: they share no samples"),
    ):
        code, _, err = jury("judge", "bridge", OLD, new, "--store", tmp_path)
        assert code == 2 and words in err
    assert BRIDGES.folders(tmp_path) == []


@pytest.mark.usefixtures("without_pages")
def test_run_that_only_the_history_has_is_named_until_a_rebuild(tmp_path: Path, jury: Any) -> None:
    for run, flow in ((OLD, "diagram"), (PLOTS, "plot")):
        keep(tmp_path, run, "gpt-a", figures(*[TIED] * 40, flow=flow))
    land(tmp_path)
    shutil.rmtree(tmp_path / "ledger" / OLD)
    code, _, err = jury("judge", "bridge", OLD, PLOTS, "--store", tmp_path)
    assert code == 2 and f"called '{OLD}': bring its folder back, or let `jury store rebuild`" in err
    code, _, err = jury("store", "forget", "--run", OLD, "--yes", "--store", tmp_path)
    assert code == 2 and f"has no run '{OLD}' in its ledgers, only in the history: `jury store rebuild`" in err
    code, _, err = jury("store", "rebuild", "--store", tmp_path)
    assert code == 2 and f"has 1 run without a ledger, the last {OLD}: a rebuilt one would lack them." in err
    (tmp_path / "history.duckdb").unlink()
    assert jury("store", "rebuild", "--store", tmp_path)[0] == 0
    assert query(tmp_path, "SELECT run_id FROM runs").rows == [(PLOTS,)]


# The command


def keep_clocks(store: Path, model: str, score: Callable[[int], float]) -> str:
    """Store a finished run by a judge that scores 140 images by their prompt numbers; return its id."""
    run_id = f"20261120T120000-counting-{model}"
    rows = [image(f"{n:05}/0000", score(n)) for n in range(140)]
    keep(store, run_id, model, rows, dimensions=("counting",), parameters={"votes": 1, "threshold": 7})
    return run_id


def base(number: int) -> float:
    return 5.0 + number % 3


JUDGES: dict[str, tuple[Callable[[int], float], str]] = {
    "same": (base, "may be continued with same. The shift from old is 0.00 ["),
    "kinder": (lambda number: base(number) + 0.5 + number % 2, "may be continued with kinder with an offset of +1.00."),
    "wild": (lambda number: base(number) + (-3, 0, 3)[number // 2 % 3], "cannot tell; about "),
}
"""New judge -> its scores, and the beginning of its sentence."""


@pytest.mark.usefixtures("without_pages")
def test_bridge_prints_and_stores_each_of_three_decisions(tmp_path: Path, jury: Any, ask: Any) -> None:
    store = tmp_path / "store"
    old = keep_clocks(store, "old", base)
    runs = [keep_clocks(store, name, score) for name, (score, _) in JUDGES.items()]
    land(store)
    for number, (new, (_, words)) in enumerate(zip(runs, JUDGES.values(), strict=True), 1):
        code, out, err = jury("judge", "bridge", old, new)
        assert code == (3 if words.startswith("cannot") else 0), err
        assert f"counting, alpha: {words}" in out.replace("\n", " "), out
        assert len(ask("bridges")) == number
    code, out, _ = jury("judge", "bridge", old, "20261120T120000-counting-k", "--margin", "20", "--json")
    [row] = json.loads(out)
    assert code == 0 and (row["decision"], row["shift"], row["n"]) == (CONTINUED, 1.0, 140)
    kept = [each for place in BRIDGES.folders(store) for each in BRIDGES.read(place)]
    assert [each.decision for each in kept] == [CONTINUED, WITH_OFFSET, CANNOT_TELL, CONTINUED]
    assert jury("store", "rebuild")[0] == 0 and len(ask("bridges")) == 4


def bridge_row(**changes: Any) -> BridgeRow:
    """Return a bridge from gpt-a to gpt-b with a shift of +10 [7, 14]."""
    values = {
        **{"bridge_id": "20261120T0-x", "made_at": "2026-11-20T00:00:00+00:00", "flow": "diagram", "n": 100},
        **{"candidate": "alpha", "dimension": "overall", "dataset": "mini", "dataset_key": "d" * 64},
        **{"prompt_set": "default", "old_run": OLD, "new_run": NEW, "old_judge": "gpt-a", "new_judge": "gpt-b"},
        **{"old_protocol_key": "a" * 64, "new_protocol_key": "b" * 64, "highest": 100.0, "judged": 100},
        **{"old_score": 50.0, "new_score": 60.0, "shift": 10.0, "ci_low": 7.0, "ci_high": 14.0, "margin": 3.0},
        **{"decision": WITH_OFFSET, "enough": None, "agreement": 0.8, "kappa": 0.6, "confusion": {"Tie > Tie": 100}},
    }
    return BridgeRow.model_validate({**values, **changes})


def test_bridge_does_not_shift_scores_of_the_trend(tmp_path: Path) -> None:
    """Both judges have one name; the trend breaks where another model answers."""
    for day, answered, result in ((1, "a", TIED), (2, "a", TIED), (3, "b", WON)):
        run_id = f"202611{day:02}T030000000-diagram-0000{day:02}"
        protocol = {**PROMPTS, "model asked": "gpt", "model answered": answered}
        begun = finished(tmp_path, run_id, figures(*[result] * 10), key=answered, judge="gpt", protocol=protocol)
    BRIDGES.keep(tmp_path, [bridge_row(old_judge="gpt", new_judge="gpt")])
    assert land(tmp_path).besides["bridges"]
    points = page_trend(tmp_path, begun.run_id, "overall")
    assert [(point.score, point.break_reason) for point in points] == [(50, None), (50, None), (100, "model answered")]


def test_damaged_bridge_is_skipped_and_reported(tmp_path: Path) -> None:
    file = BRIDGES.keep(tmp_path, [bridge_row()]) / BRIDGES.file
    file.write_bytes(file.read_bytes().replace(b'"shift":10.0', b'"shift":"ten"'))
    done = land(tmp_path)
    assert not done.besides and len(done.left_out) == 1
    assert "damaged: shift: " in done.left_out[0] and str(file) in done.left_out[0]
