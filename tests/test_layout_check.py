"""Layout checks: which runs are compared and asked, how far they agree, what is kept, and where it is shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, end, judgment, outcome, start, write_run
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, verdict
from own_data import RESULTS, write_own_benchmark
from written_history import WORDS

from flows.commands import run
from tasks.comparing.bridge import answers_of
from tasks.comparing.layout_words import check_grid, layout_lines
from tasks.comparing.layouts import Own, compared, own_answers, stored, to_ask, wanted
from tasks.errors import InputError
from tasks.history.loading import sync
from tasks.judging.protocol import asked_protocol
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.layout_checks import LAYOUT_CHECKS, LayoutRow, newest_check
from tasks.ledger.protocol_keys import protocol_differences, protocol_key
from tasks.parameters import PairwiseParameters
from tasks.records import Judgment, Outcome
from tasks.rubrics.rubric import load_rubric

pytestmark = pytest.mark.usefixtures("laid_out", "drawn_here")

PUBLISHED, SHARED, AGAIN = (f"202611{day}T120000-diagram-0000aa" for day in (18, 19, 20))
PROTOCOL = {"orders": "human_first", "model answered": "gpt-x-1"}
RUN = {"votes": 1, "judge": {"model": "gpt-x", "base_url": "https://judge.example/v1"}}
OVERALLS = {"M": "Model", "H": "Human", "G": "Tie"}


def keep(store: Path, run_id: str, verdicts: Sequence[str], layout: str = "", **changes: Any) -> None:
    """A finished run; of each sample the letters of its four verdicts, of which the first is the outcome's, too."""
    protocol = PROTOCOL | ({"layout": layout} if layout else {}) | changes.pop("protocol", {})
    reused, votes = changes.pop("reused_from", ""), changes.pop("votes", 1)
    rows: list[Judgment | Outcome] = []
    for number, letters in enumerate(verdicts):
        for vote in range(1, votes + 1):
            said = [WORDS[letter] for letter in (letters if vote == 1 else letters[::-1])]
            kept = {"vote": vote, "reused_from": reused}
            rows += [judgment(f"s{number}", *pair, **kept) for pair in zip(DIMENSIONS, said, strict=True)]
        rows.append(outcome(f"s{number}", letters, OVERALLS[letters[0]]))
    begun = start(run_id, protocol=protocol, samples=len(verdicts), **{"parameters": RUN, **changes})
    write_run(store, begun, rows, end(protocol=protocol, protocol_key=protocol_key(protocol)))


def sides(store: Path) -> list[Any]:
    return [answers_of(read_evaluation(store, run_id)) for run_id in (PUBLISHED, SHARED)]


def row(**changes: Any) -> LayoutRow:
    """A row of a check of 292 samples."""
    values = {
        "check_id": "20261121T120000-diagram-0000cc", "made_at": "2026-11-21T12:00:00+00:00", "flow": "diagram",
        "dimension": "overall", "n": 292, "agreement": 0.91, "agreement_low": 0.87, "agreement_high": 0.94,
        "kappa": 0.8, "kappa_low": 0.72, "kappa_high": 0.87, "own_by": "run", "own_n": 292, "own_agreement": 0.93,
        "own_kappa": 0.85, "confusion": {"Model > Model": 292}, "model": "gpt-x", "endpoint": "https://judge.example/v1",
        "prompt_set": "default", "dataset": "bench", "published_run": PUBLISHED, "shared_run": SHARED,
        "published_protocol_key": "a" * 64, "shared_protocol_key": "b" * 64,
    }  # fmt: skip
    return LayoutRow.model_validate({**values, **changes})


# How far they agree


def test_verdicts_and_outcomes_of_both_layouts_are_compared_sample_by_sample(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 30 + ["HHHG"] * 30)
    keep(tmp_path, SHARED, ["MMMG"] * 24 + ["HMMG"] * 6 + ["HHHG"] * 30, "shared 2")
    rows = compared(*sides(tmp_path), Own("", {}))
    assert [each.dimension for each in rows] == ["overall", *DIMENSIONS]
    first, *_, last = rows
    assert (first.n, first.agreement) == (60, 0.9)
    assert first.agreement_low is not None and first.agreement_low < 0.9 < (first.agreement_high or 0)
    assert first.kappa == pytest.approx(0.8) and first.kappa_low is not None
    assert first.confusion == {"Human > Human": 30, "Model > Human": 6, "Model > Model": 24}
    assert (last.agreement, last.kappa) == (1.0, None), "one answer for everything agrees by habit"
    assert (first.own_by, first.own_agreement) == ("", None)
    assert (first.published_run, first.shared_run) == (PUBLISHED, SHARED)
    shared = {**PROTOCOL, "layout": "shared 2"}
    assert first.published_protocol_key == protocol_key(PROTOCOL)
    assert first.shared_protocol_key == protocol_key(shared)


def test_below_fifty_samples_there_are_counts_and_no_intervals(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 20 + ["HHHG"] * 20)
    keep(tmp_path, SHARED, ["MMMG"] * 17 + ["HMMG"] * 3 + ["HHHG"] * 20, "shared 2")
    first, *_ = rows = compared(*sides(tmp_path), Own("", {}))
    assert (first.agreement_low, first.kappa_low) == (None, None)
    assert check_grid(rows).lines[0][:4] == ["overall", "40", "37 of 40", "0.85"]


def test_several_candidates_are_told_together_and_each_by_itself(tmp_path: Path) -> None:
    """A judge that keeps to its verdicts about one candidate and not about another."""
    both = {"published": {"a": "MMMG", "b": "MMMG"}, "shared": {"a": "MMMG", "b": "HMMG"}}
    for run_id, layout in ((PUBLISHED, "published"), (SHARED, "shared"), (AGAIN, "published")):
        protocol = PROTOCOL | ({"layout": "shared 2"} if layout == "shared" else {})
        rows = [
            outcome(f"s{number}", letters, OVERALLS[letters[0]], candidate=candidate)
            for number in range(20)
            for candidate, letters in both[layout].items()
        ]
        said = {"protocol": protocol, "candidates": ("a", "b"), "samples": 40, "parameters": RUN}
        write_run(tmp_path, start(run_id, **said), rows, end(protocol=protocol, protocol_key=protocol_key(protocol)))
    published, shared = sides(tmp_path)
    rows = compared(published, shared, own_answers(tmp_path, published))
    overall = [(each.candidate, each.n, each.agreement) for each in rows if each.dimension == "overall"]
    assert overall == [("", 40, 0.5), ("a", 20, 1.0), ("b", 20, 0.0)]
    assert [(each.own_n, each.own_agreement) for each in rows if each.dimension == "overall"] == [
        (40, 1.0),
        (20, 1.0),
        (20, 1.0),
    ]
    lines = check_grid(rows).lines
    assert [line[0] for line in lines[:2]] == ["all candidates together", "overall"] and len(lines) == 3 * 6
    assert [line for line in lines if len(line) == 1] == [["all candidates together"], ["a"], ["b"]]
    line = layout_lines({**PROTOCOL, "layout": "shared 2"}, SHARED, 0, 0, rows)[1]
    assert "overall as in the published layout in 20 of 40" in line
    assert "; of the candidates b 0 of 20, a 20 of 20; the published layout with itself 100%" in line
    LAYOUT_CHECKS.keep(tmp_path, rows)
    assert sync(tmp_path).layout_checks and newest_check(tmp_path, rows[0].shared_protocol_key) == rows


def test_another_run_tells_how_far_the_published_layout_agrees_with_itself(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 10 + ["HHHG"] * 10)
    keep(tmp_path, SHARED, ["MMMG"] * 20, "shared 2")
    keep(tmp_path, AGAIN, ["MMMG"] * 10 + ["HHHG"] * 8 + ["MHHG"] * 2)
    published, shared = sides(tmp_path)
    first, *_ = compared(published, shared, own_answers(tmp_path, published))
    assert (first.own_by, first.own_n, first.own_agreement) == ("run", 20, 0.9)
    assert first.own_kappa == pytest.approx(0.8)


def test_replies_that_were_taken_over_are_no_agreement(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 20)
    keep(tmp_path, SHARED, ["MMMG"] * 20, "shared 2")
    keep(tmp_path, AGAIN, ["MMMG"] * 20, reused_from=PUBLISHED)
    assert own_answers(tmp_path, sides(tmp_path)[0]) == Own("", {})


def test_without_another_run_two_votes_tell(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMM"] * 15 + ["MHHM"] * 5 + ["HMMM"] * 20, votes=2)
    keep(tmp_path, SHARED, ["MMMM"] * 40, "shared 2")
    published, shared = sides(tmp_path)
    found = {each.dimension: each for each in compared(published, shared, own_answers(tmp_path, published))}
    assert (found["overall"].own_by, found["overall"].own_n) == ("", 0), "votes are of dimensions"
    assert (found["faithfulness"].own_by, found["faithfulness"].own_agreement) == ("votes", 0.5)
    assert found["conciseness"].own_agreement == 1.0


# Which runs are meant


def test_a_flow_means_its_newest_run_and_the_other_layout_is_taken_where_it_is_stored(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 40)
    keep(tmp_path, SHARED, ["MMMG"] * 40, "shared 2")
    basis = wanted(tmp_path, "diagram", 0)
    assert basis.answers.evaluation.start.run_id == SHARED
    found = [stored(tmp_path, basis, layout) for layout in ("published", "shared")]
    assert [each and each.evaluation.start.run_id for each in found] == [PUBLISHED, SHARED]
    few = wanted(tmp_path, PUBLISHED[:12], 30)
    assert len(few.units) == 30 and stored(tmp_path, few, "shared") is not None


def test_replies_of_an_earlier_version_of_the_layout_do_not_stand_for_todays(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 40)
    keep(tmp_path, SHARED, ["MMMG"] * 40, "shared 1")
    assert stored(tmp_path, wanted(tmp_path, PUBLISHED, 0), "shared") is None, "it is asked"
    basis = wanted(tmp_path, SHARED, 0)
    found = [stored(tmp_path, basis, layout) for layout in ("published", "shared")]
    assert [each and each.evaluation.start.run_id for each in found] == [PUBLISHED, SHARED], "its own check stays"
    protocols = [PROTOCOL | {"layout": layout} for layout in ("shared 1", "shared 2")]
    assert protocol_differences(*protocols) == ["layout"]


@pytest.mark.parametrize(
    "changes", [{"protocol": {"orders": "both"}}, {"dataset": "other"}, {"verdicts": ["MMMG"] * 30}], ids=str
)
def test_a_run_that_was_asked_otherwise_or_of_fewer_samples_does_not_do(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 40)
    keep(tmp_path, SHARED, changes.pop("verdicts", ["MMMG"] * 40), "shared 2", **changes)
    assert stored(tmp_path, wanted(tmp_path, PUBLISHED, 0), "shared") is None


def test_a_mistake_is_told_before_anything_is_asked(tmp_path: Path, jury: Any) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 40)
    keep(tmp_path, "20261117T120000-colors-0000dd", ["MMMG"], flow="colors")
    expected = {
        "plot": "holds no finished run of plot",
        "2026": "'2026' is the beginning of several runs",
        "20261117": "colors asks one question about an image: there is nothing to share",
    }
    for target, words in expected.items():
        code, _, err = jury("layout", "check", target, "--store", tmp_path)
        assert code == 2 and words in err
    code, _, err = jury("layout", "check", "diagram", "-n", 29, "--store", tmp_path)
    assert code == 2 and "-n 29: a layout check takes 30 samples at least" in err
    assert LAYOUT_CHECKS.folders(tmp_path) == []


def test_a_run_whose_prompts_have_changed_is_not_repeated(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 40, protocol={"prompt aesthetics": "f" * 64})
    with pytest.raises(InputError, match=r"cannot be repeated, for this has changed since: .*prompt aesthetics"):
        to_ask(wanted(tmp_path, PUBLISHED, 0), "shared")


def test_a_run_that_has_not_ended_is_waited_for(tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose replies come by a batch."""
    asked = PairwiseParameters.model_validate(RUN)
    keep(tmp_path, PUBLISHED, ["MMMG"] * 40, protocol=asked_protocol(asked, load_rubric("diagram")))

    def waits(_flow: str, asked: PairwiseParameters) -> int:
        assert (asked.layout, asked.judge) == ("shared", PairwiseParameters.model_validate(RUN).judge)
        write_run(tmp_path, start(SHARED), [judgment("s0")], None)
        return 0

    monkeypatch.setattr(run, "run_flow", waits)
    code, _, err = jury("layout", "check", PUBLISHED, "--store", tmp_path)
    assert code == 2 and "the layouts are compared once that run has ended" in err
    assert LAYOUT_CHECKS.folders(tmp_path) == []


# What is kept, and where it is shown


def test_a_check_is_kept_loaded_and_found_by_the_protocol_of_the_scores(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"])
    LAYOUT_CHECKS.keep(tmp_path, [row(), row(dimension="aesthetics", n=290)])
    LAYOUT_CHECKS.keep(tmp_path, [row(check_id="20261122T120000-diagram-0000dd", shared_protocol_key="c" * 64)])
    assert sync(tmp_path).layout_checks == tuple(place.name for place in LAYOUT_CHECKS.folders(tmp_path))
    assert [each.dimension for each in newest_check(tmp_path, "b" * 64)] == ["overall", "aesthetics"]
    assert newest_check(tmp_path, "d" * 64) == []


def test_a_damaged_check_is_left_out_and_told(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"])
    file = LAYOUT_CHECKS.keep(tmp_path, [row()]) / LAYOUT_CHECKS.file
    file.write_bytes(file.read_bytes().replace(b'"agreement":0.91', b'"agreement":0.99'))
    done = sync(tmp_path)
    assert done.layout_checks == () and "its checksum does not hold" in done.left_out[0]
    assert newest_check(tmp_path, "b" * 64) == []
    moved = file.parent.rename(file.parent.with_name("20261123T120000-diagram-0000ee"))
    file = moved / LAYOUT_CHECKS.file
    file.write_bytes(file.read_bytes().replace(b'"agreement":0.99', b'"agreement":0.91'))
    with pytest.raises(InputError, match="it is of another check"):
        [*LAYOUT_CHECKS.read(moved)]


def test_scores_of_the_published_layout_have_nothing_beside_them() -> None:
    assert layout_lines(PROTOCOL, PUBLISHED, 1000, 0, []) == []


def test_what_stands_beside_scores_of_the_shared_layout() -> None:
    shared = {**PROTOCOL, "layout": "shared 2"}
    assert layout_lines(shared, SHARED, 12_000, 0, []) == [
        "layout shared: the judge told of none of 12,000 input tokens that it read from a cache",
        f"layout shared: its agreement with the published layout is not measured; `jury layout check {SHARED}` "
        "measures it",
    ]
    at_home = {**shared, "endpoint": "http://localhost:8000/v1"}
    assert "(vLLM: by itself, in blocks of 16 tokens" in layout_lines(at_home, SHARED, 12_000, 0, [])[0]
    rows = [row(), *(row(dimension=name, agreement=share) for name, share in (("a", 0.9), ("b", 0.88), ("c", 0.97)))]
    rows[2] = rows[2].model_copy(update={"own_agreement": 0.95, "agreement_low": None})
    assert layout_lines(shared, SHARED, 12_000, 6_000, rows) == [
        "layout shared: 50% of 12,000 input tokens were read from the judge's cache",
        "layout shared: overall as in the published layout in 91% [87%, 94%], kappa 0.80 [0.72, 0.87], b 88%, "
        "c 97% [87%, 94%]; the published layout with itself 93% to 95% (measured 2026-11-21 on bench)",
    ]


# Through a real judge


def leaning(request: Request) -> Reply:
    """Finds the Model better, but where aesthetics are asked for at the end, as in the shared layout alone."""
    return verdict("Human" if "Judge aesthetics" in request.texts[-1] else "Model")


@pytest.mark.usefixtures("prefect_server")
def test_a_run_in_the_shared_layout_is_checked_against_the_published_one(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    loopback.answer = leaning
    root = write_own_benchmark(tmp_path / "bench")
    data = ("--dataset", root, "--results", root / RESULTS, "--limit", 3, *judged_by(loopback))
    code, out, _ = jury("run", "diagram", *data, "--layout", "shared")
    assert code == 0 and "layout shared: " in out and "is not measured; `jury layout check 2" in out, out
    code, out, _ = jury("layout", "check", "diagram")
    assert code == 0 and "m has not judged these 3 samples in the layout published: it is asked" in out, out
    lines = [line.split() for line in out.splitlines() if line.strip().startswith(("overall", "aesthetics"))]
    assert [line[1:5] for line in lines[-2:]] == [["3", "3", "of", "3"], ["3", "0", "of", "3"]]
    names = loopback.by_name
    assert (names["diagram_shared"], names["diagram_aesthetics"]) == (12, 3)
    [shared, published] = [each["run_id"] for each in ask("SELECT run_id FROM runs ORDER BY started_at")]
    checked = ask("SELECT * FROM layout_checks WHERE dimension = 'overall'")
    purposes = ask("SELECT purpose, sum(calls)::INT AS calls FROM spend GROUP BY ALL ORDER BY ALL")
    assert [(row["purpose"], row["calls"]) for row in purposes] == [("layout check", 12), ("probe", 2), ("run", 12)]
    assert [(each["shared_run"], each["published_run"], each["n"]) for each in checked] == [(shared, published, 3)]
    told = "layout shared: overall as in the published layout in 3 of 3, kappa "
    code, out, _ = jury("report", shared, "-o", tmp_path / "report.html")
    assert code == 0 and told in (tmp_path / "report.html").read_text()
    code, out, err = jury("run", "diagram", *data, "--layout", "shared", "--reuse-hours", 0)
    assert told in out, "the next run of this protocol has it, too"
    assert "layout: none → shared 2" in jury("compare", published, shared)[2]
    code, out, err = jury("compare", published, shared, "--across", "layout")
    assert code == 0 and "Across: layout." in out, err
