"""Comparing two evaluations: choosing them, refusing incomparable ones, pairing samples, text and page."""

import html
import json
import re
import shlex
from base64 import b64decode
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from factories import DIMENSIONS, LOST, TIED, WON, figures, finished, image, judgment, outcome, start, write_run
from PIL import Image
from written_datasets import write_figures
from written_history import SCRIPT, keep_thumbnails, pair

from tasks.comparing.comparison import Change, Comparison, compare, compare_candidates
from tasks.history.landing import land
from tasks.history.queries import held_together, last_comparable, query, shared_replies
from tasks.ledger.removals import remove_old
from tasks.pages.artifact import markdown
from tasks.pages.comparison_page import comparison_page, write_comparison
from tasks.pages.report_data import gather
from tasks.pages.report_page import page
from tasks.pages.run_summary import sentence, summarize
from tasks.records import Judgment, Outcome
from tasks.rubrics.rubric import PROMPTS

BEFORE, AFTER = "20261119T120000-diagram-0000aa", "20261120T120000-diagram-0000bb"
Rows = Sequence[Outcome | Judgment]
PROTOCOL = {"temperature": "1", "prompt aesthetics": "a" * 64, "model answered": "gpt-x-1", "model asked": "gpt-x"}


def keep(store: Path, run_id: str, rows: Sequence[Outcome | Judgment], **changes: Any) -> None:
    finished(store, run_id, rows, **{**changes, "protocol": {**PROTOCOL, **changes.get("protocol", {})}})


class Planned:
    """Runs for the store of all tests that only read it: to land all at once takes the time of landing two."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, Rows, dict[str, Any]]] = []

    def plan(self, rows: Rows, day: int = 19, flow: str = "diagram", **changes: Any) -> str:
        """Plan a run of the candidates in these rows; return its id."""
        run_id = f"202611{day}T120000-{flow}-{len(self._runs):06}"
        names = tuple(dict.fromkeys(row.candidate for row in rows))
        self._runs.append((run_id, rows, {"candidates": names, "parameters": {"threshold": 7.0}, **changes}))
        return run_id

    def write(self, store: Path) -> None:
        for run_id, rows, changes in self._runs:
            keep(store, run_id, rows, **changes)


PLANNED = Planned()
plan = PLANNED.plan


def plan_two(before: Rows, after: Rows, flow: str = "diagram", **later: Any) -> tuple[str, str]:
    return plan(before, 19, flow), plan(after, 20, flow, **later)


def repeat(asked: Sequence[Judgment], reused: int, source: str, day: int = 20) -> list[Judgment]:
    """Return the replies of another day; the first `reused` of them are reused from the run `source`."""
    later = {"judged_at": f"2026-11-{day}T13:00:00+00:00"}
    return [row.model_copy(update={"reused_from": source} if at < reused else later) for at, row in enumerate(asked)]


def colors(score: float) -> list[Outcome]:
    """Return two images of each of eight prompts, and one of two prompts each."""
    rows = [image(f"{prompt}/{copy}", score + copy, tag="colors") for prompt in range(8) for copy in range(2)]
    return rows + [image(f"{prompt}/0", score, tag="color_attr", satisfied=score > 5) for prompt in range(10, 12)]


def objects(score: float) -> list[Outcome]:
    names = [(tag, f"{tag}{number}/0") for tag in ("single_object", "two_object") for number in range(30)]
    return [image(name, score, tag=tag, satisfied=score > 5) for tag, name in names]


UNSORTED = plan_two(*([outcome(f"s{number}", *result) for number in (10, 2, 1, 30)] for result in (LOST, WON)))
MOVED = plan_two(
    [outcome("a", "HHGM", "Human"), outcome("b", *LOST), outcome("c", *TIED), outcome("d", *WON)],
    [outcome("a", "MHGM", "Tie"), outcome("b", *WON), outcome("c", "GGGB", "Tie"), outcome("d", "MMMH")],
)
FORFEITED = plan_two(figures(*[WON] * 8), figures(*[("----", None)] * 8, status="forfeit"))
COLORS = plan_two(colors(4.0), colors(6.0), "colors")
BOTH = [*figures(*[LOST] * 9), *figures(*[WON] * 9, candidate="beta")]
THREE = plan([*BOTH, *figures(*[TIED] * 9, candidate="gamma")])
STRANGE = ("<img src=x onerror=alert(1)>", "it's $(touch harmed)")
HOSTILE = plan([outcome(candidate=name) for name in STRANGE], dataset=SCRIPT)
OTHERWISE: list[tuple[dict[str, str], str, list[str], str]] = [
    ({"prompt aesthetics": "b" * 64}, "d", ["prompt aesthetics"], '--across "prompt aesthetics"'),
    ({"temperature": "0"}, "d", ["temperature: 1 → 0"], "--across temperature"),
    ({"not sent": "detail"}, "d", ["not sent: none → detail"], '--across "not sent"'),
    ({}, "e", ["dataset: other samples"], "--across dataset"),
    ({"model answered": "n", "model asked": "n"}, "e", ["dataset", "answered: gpt-x-1 → n"], "--across dataset"),
]
"""Protocol and dataset of a run, the names of its differences from the usual ones, and words that allow them."""
OTHERS = [
    plan(figures(*[LOST] * 8), key="q" if protocol else "p", protocol=protocol, dataset_key=dataset * 64)
    for protocol, dataset, *_ in OTHERWISE
]
DIFFERENT = plan(
    figures(*[LOST] * 8), 20, key="q", protocol={**OTHERWISE[0][0], **OTHERWISE[1][0]}, dataset_key="e" * 64
)
TWICE = [plan(BOTH, day) for day in (19, 20)]
BETA = plan(figures(*[WON] * 9, candidate="beta"), 21)
OBJECTS = plan_two(objects(0.0), objects(10.0), "object")
ASKED, ALL_WON = [judgment(f"s{number:02}", key=str(number)) for number in range(20)], figures(*[WON] * 20)
ONCE = plan([*ASKED, *ALL_WON], calls=20)
AGAIN = {
    taken: plan([*repeat(ASKED, taken, ONCE), *ALL_WON], 20, calls=20 - taken, ended={"reused": taken})
    for taken in (17, 5)
}
"""Number of replies reused -> run."""
REPLIES = ASKED[:10]
WITHOUT_NEW = plan(BOTH, calls=0, ended={"reused": 18})
# Half of 40 rose by 100 and half fell: s = 101.27, times (2.0227 + 0.8512) / sqrt(40).
MIXED = plan_two(figures(*[WON, LOST] * 20), figures(*[LOST, WON] * 20))
SAME, RISEN = (plan(figures(*results * 20), 20) for results in ([WON, LOST], [WON, WON]))
COUNTED = plan_two(*([image(f"{n}/{copy}", 6.0) for n in range(9) for copy in range(of)] for of in (1, 4)), "counting")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with all planned runs, held open."""
    store = tmp_path_factory.mktemp("planned")
    PLANNED.write(store)
    land(store)
    with held_together(store):
        yield store


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("two-runs")
    keep(store, BEFORE, [*figures(*[WON] * 10, *[TIED] * 10, *[LOST] * 10), outcome("old")])
    later = [*figures(*[WON] * 10, *[TIED] * 10, *[WON] * 10)[:-1], outcome("s29", "----", None, status="incomplete")]
    keep(store, AFTER, [*later, outcome("new1"), outcome("new2")])
    land(store)
    return store


@pytest.fixture
def store(tmp_path: Path, two_runs: Path) -> Path:
    """A store with thirty samples: ten wins, ties and losses before; later ten losses are wins, one is not scored."""
    return copytree(two_runs, tmp_path, dirs_exist_ok=True)


def test_equal_changes_are_sorted_by_sample_number(planned: Path) -> None:
    ordered = ["s1", "s2", "s10", "s30"]
    assert [each.sample_id for each in compare(planned, *UNSORTED).changed] == ordered


def test_samples_scored_by_both_are_paired_and_others_counted(store: Path) -> None:
    found = compare(store, BEFORE, AFTER)
    headline = found.rows[0].difference
    assert (headline.n, headline.higher, headline.lower) == (29, 9, 0)
    assert headline.change == pytest.approx(900 / 29) and headline.decision == "better"
    assert headline.p == pytest.approx(2 * 0.5**9)
    assert found.not_paired == {"only in the first": 1, "only in the second": 2, "incomplete in the second": 1}
    assert [row.dimension for row in found.rows] == ["overall", *DIMENSIONS]
    assert found.rows[0].p_holm is None
    assert found.rows[1].p_holm == pytest.approx(4 * 2 * 0.5**9)  # all four have the same p


def test_most_changed_samples_are_listed_with_their_dimensions(planned: Path) -> None:
    every = dict.fromkeys(DIMENSIONS, 100.0)
    # Both verdicts of c are neutral, so no score of it changed.
    assert list(compare(planned, *MOVED).changed) == [
        Change(sample_id="b", before=0, after=100, moved=every),
        Change(sample_id="a", before=0, after=50, moved={"faithfulness": 100}),
        Change(sample_id="d", before=100, after=100, moved={"aesthetics": -100}),
    ]


def test_forfeits_lose_and_are_paired(planned: Path) -> None:
    found = compare(planned, *FORFEITED).rows[0].difference
    assert (found.n, found.after, found.decision) == (8, 0.0, "worse")


def test_generated_images_are_paired_by_prompt(planned: Path) -> None:
    """Scores of all images rise by 2."""
    found = compare(planned, *COLORS)
    rows = {(row.dimension, row.measure): row.difference for row in found.rows}
    assert next(iter(rows)) == ("all prompts", "score")
    assert (rows["all prompts", "score"].n, rows["all prompts", "score"].change) == (10, pytest.approx(2.0))
    assert rows["colors", "score"].n == 8 and rows["colors", "score"].before == 4.5
    assert rows["color_attr", "satisfied"].change == 1.0
    assert ("colors", "satisfied") not in rows  # colors has no such measure
    assert found.changed[0].sample_id == "10" and found.changed[0].moved == {"aspect_mean": 2.0, "satisfied": 1.0}


def test_two_candidates_of_a_run_are_compared(planned: Path, jury: Any) -> None:
    found = compare(planned, THREE, THREE, ("alpha", "beta"))
    assert (found.before.candidate, found.after.candidate) == ("alpha", "beta")
    assert found.rows[0].difference.change == 100
    code, out, _ = jury("compare", THREE, "--candidate", "alpha", "--candidate", "beta", "--store", planned)
    assert code == 0 and "(at n = 9 samples): 100.0 against 0.0, difference +100.0" in out
    assert "Intervals of this pair alone, not adjusted for choosing among 3." in " ".join(out.split())


def test_protocol_differences_are_listed_and_refused(planned: Path) -> None:
    for run_id, (_, _, names, allow) in zip(OTHERS, OTHERWISE, strict=True):
        with pytest.raises(ValueError, match="not measured alike") as error:
            compare(planned, FORFEITED[0], run_id)
        assert all(name in str(error.value) for name in names) and allow in str(error.value)
        assert "model asked" not in str(error.value)


def test_across_allows_a_difference_by_its_name_or_first_word(planned: Path) -> None:
    found = compare(planned, FORFEITED[0], DIFFERENT, across=["dataset", "prompt", "temperature"])
    assert found.across == ("dataset", "prompt aesthetics", "temperature")
    with pytest.raises(ValueError, match="not measured alike") as error:
        compare(planned, FORFEITED[0], DIFFERENT, across=["prompt"])
    assert "prompt" not in str(error.value) and "temperature" in str(error.value)


def test_unknown_difference_is_refused_with_the_allowed_ones(store: Path) -> None:
    with pytest.raises(ValueError, match=r"--across 'banana', 'temp': (?s:.)*: dataset, model answered") as error:
        compare(store, BEFORE, AFTER, across=["banana", "model", "temp", "dataset"])
    assert "prompt aesthetics, " in str(error.value)


def test_runs_are_found_by_a_prefix_of_their_ids(store: Path) -> None:
    write_run(store, start("20261121T120000-diagram-0000cc"), [outcome()], None)
    land(store)
    with held_together(store):
        assert compare(store, "20261119", "20261120T12").after.run_id == AFTER
        with pytest.raises(ValueError, match=f"'2026' is the beginning of several runs: {BEFORE}, {AFTER}"):
            compare(store, "2026", AFTER)
        with pytest.raises(ValueError, match=f"no run is called 'x'; the newest finished ones are {AFTER}, {BEFORE}"):
            compare(store, BEFORE, "x")
        with pytest.raises(ValueError, match="would be compared with itself"):
            compare(store, BEFORE, BEFORE)
        with pytest.raises(ValueError, match="'20261121' is unfinished"):
            compare(store, BEFORE, "20261121")


def test_ambiguous_or_unknown_candidate_is_refused(planned: Path) -> None:
    with pytest.raises(ValueError, match=r"several candidates: .* name one with --candidate"):
        compare(planned, *TWICE)
    with pytest.raises(ValueError, match=r"candidate 'gamma' is none of 20261120.*: alpha, beta"):
        compare(planned, *TWICE, ("alpha", "gamma"))
    assert compare(planned, TWICE[0], BETA).before.candidate == "beta"


def test_runs_of_two_flows_are_not_compared(planned: Path) -> None:
    with pytest.raises(ValueError, match=r"is of diagram and .* of counting"):
        compare(planned, ONCE, COUNTED[1])


def test_run_alone_is_compared_with_the_one_before(store: Path, jury: Any) -> None:
    keep(store, "20261121T120000-diagram-0000cc", figures(*[WON] * 9), calls=0)
    keep(store, "20261122T120000-plot-0000dd", figures(*[WON] * 9))
    keep(store, "20261123T120000-diagram-0000ee", figures(*[WON] * 9))
    keep(store, "20261124T120000-diagram-0000ff", figures(*[WON] * 9, candidate="beta"), candidates=("beta",))
    keep(store, "20261125T120000-diagram-000011", figures(*[WON] * 9), calls=0)
    land(store)
    for given, before in ((["--flow", "diagram", "--candidate", "alpha"], AFTER), ([AFTER], BEFORE)):
        assert f"run {before}\n" in jury("compare", *given, "--store", store)[1]
    plots, beta = "20261122T120000-plot-0000dd", "20261124T120000-diagram-0000ff"
    for given, newest in (((), beta), (("--flow", "plot"), plots), (("--flow", "diagram"), beta)):
        code, _, err = jury("compare", *given, "--store", store)
        assert code == 2 and f"no earlier run compares with {newest}: none judged one of its" in err
    code, _, err = jury("compare", "--flow", "plot", "--candidate", "beta", "--store", store)
    assert code == 2 and "holds no finished plot run of beta with own replies" in err


# The command


def test_named_candidates_are_compared_in_each_flow_that_has_both(tmp_path: Path, jury: Any) -> None:
    won, lost = figures(*[WON] * 9), figures(*[LOST] * 9, candidate="beta")
    both = "20261121T120000-plot-0000cc"
    keep(tmp_path, both, [*won, *lost], candidates=("alpha", "beta"))
    keep(tmp_path, "20261122T120000-plot-0000dd", won, candidates=("alpha",))
    keep(tmp_path, BEFORE, won, candidates=("alpha",))
    keep(tmp_path, AFTER, lost, candidates=("beta",))
    keep(tmp_path, "20261123T120000-diagram-0000ee", lost, candidates=("beta",), dataset_key="another")
    land(tmp_path)
    code, out, err = jury("compare", "alpha", "beta", "--json", "--store", tmp_path)
    sides = [
        [(each[side]["run_id"], each[side]["candidate"]) for side in ("before", "after")] for each in json.loads(out)
    ]
    assert (code, sides) == (0, [[(BEFORE, "alpha"), (AFTER, "beta")], [(both, "alpha"), (both, "beta")]]), err
    code, out, _ = jury("compare", "beta", "alpha", "--flow", "plot", "--store", tmp_path)
    assert code == 0 and f"before  beta by gpt-x, run {both}" in out and BEFORE not in out
    code, _, err = jury("compare", "beta", "gama", "--store", tmp_path)
    assert code == 2 and "no flow has complete runs of both 'beta' and 'gama'; candidates are alpha, beta" in err


def test_command_prints_direction_and_interval_or_the_whole_as_json(store: Path, jury: Any) -> None:
    code, out, err = jury("compare", BEFORE, AFTER, "--store", store)
    assert code == 0, err
    words = "alpha scores higher than in its run of 2026-11-19 12:00 (at n = 29 of 30 samples): 82.8 against 51.7"
    assert f"{words}, difference +31.0 [+" in out and "], worst case [+" in out and "4 times in 5" not in out
    assert "Not paired: 1 incomplete in the second, 1 only in the first, 2 only in the second." in out
    code, out, _ = jury("compare", AFTER, BEFORE, "--store", store)
    assert "alpha scores lower than in" in out and "difference −31.0 [−" in out
    code, out, _ = jury("compare", BEFORE, AFTER, "--json", "--store", store)
    assert code == 0 and Comparison.model_validate_json(out) == compare(store, BEFORE, AFTER)
    assert json.loads(out)["rows"][0]["difference"]["decision"] == "better"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (MIXED[1], ["No difference shown for alpha since its run of 2026-11-19 12:00 (at n = 40 samples)",
                    "; a difference of 46.0 would have"]),
        (SAME, ["No difference shown for alpha", "difference 0.0 (no interval: 0 changed)", "none: 0 changed"]),
        (RISEN, ["alpha scores higher than in its run", "]; changes of 23.0 or more are found 4 times in 5"]),
    ],
    ids=["mixed", "same", "risen"],
)  # fmt: skip
def test_decision_is_printed_with_what_would_have_shown(planned: Path, jury: Any, after: str, words: list[str]) -> None:
    code, out, _ = jury("compare", MIXED[0], after, "--store", planned)
    assert code == 0 and all(each in out for each in words)


def test_table_fits_80_columns_with_the_longest_names(planned: Path, jury: Any) -> None:
    code, out, _ = jury("compare", *OBJECTS, "--store", planned)
    assert code == 0 and "two_object" in out and "<0.001" in out
    _, _, table = out.partition("+10.00]\n")
    assert ", +10.00]" in table and max(map(len, table.splitlines())) <= 80


def test_comparison_page_links_to_the_reports_that_exist(store: Path, jury: Any) -> None:
    (store / "pages").mkdir()
    (store / "pages" / f"{AFTER}.html").touch()
    code, out, err = jury("compare", BEFORE, AFTER, "--store", store)
    place = Path(err.removeprefix("page ").strip())
    assert code == 0 and "alpha scores higher than" in out
    assert place.parent == store / "pages" and place.name.startswith("compare-")
    assert place.stat().st_mode & 0o777 == 0o600
    text = html.unescape(place.read_text())
    words = "alpha scores higher than in its run of 2026-11-19 12:00 (at n = 29 of 30 samples): 82.8 against 51.7"
    assert words in text
    assert "faithfulness +31.0 [" in text and "no other dimension" not in text, "all four dimensions passed"
    assert "better 9</button>" in text and "unchanged 20</span>" in text and ">worse 0" not in text
    assert f'<a href="{AFTER}.html">2026-11-20 12:00</a>' in text and f'<a href="{BEFORE}.html">' not in text
    assert f'<a href="{AFTER}.html#sample=s20&candidate=alpha">in its report</a>' in text
    assert f"jury compare {BEFORE} {AFTER} --candidate alpha<" in text
    assert {each for each in re.findall(r'<\w[^>]*\s(?:src|href)="([^"#]*)', text)} == {"index.html", f"{AFTER}.html"}
    place.unlink()
    place.parent.rename(store / "other")
    place.parent.symlink_to(store / "other")
    code, _, err = jury("compare", BEFORE, AFTER, "--store", store)
    assert code == 0 and "the comparison is no page" in err and not (store / "other" / place.name).exists()


def test_changed_sample_shows_pictures_and_reasons_or_why_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(tmp_path, BEFORE, [*pair("a", "HHHH", "Human"), *pair("b", *WON), *pair("c", *WON)])
    later = [
        *pair("a", "MHHH", "Tie"),
        outcome("b", "----", None, status="forfeit", pictures={}),
        *pair("c", "MMMH", "Model"),
    ]
    keep(tmp_path, AFTER, later)
    keep_thumbnails(tmp_path, [row for row in later if isinstance(row, Outcome)], (640, 400))
    land(tmp_path)
    found = compare(tmp_path, BEFORE, AFTER)
    text = html.unescape(comparison_page(tmp_path, found))
    assert re.findall(r'<h3>(\w) <span class="chip [^"]*">(.*?)</span> score (.*?)</h3>', text) == [
        ("b", "worse −100.0", "100.0 → 0.0"),
        ("a", "better +50.0", "0.0 → 50.0"),
        ("c", "same score, other answers", "100.0 → 100.0"),
    ]
    assert "faithfulness Human → Model" in text and "<strong>faithfulness Model:</strong> Model." in text
    assert "no picture was delivered" in text and ">missing output</span>" in text
    assert "2 with the same picture and other answers of the judge, 1 with a missing output" in text
    sizes = {Image.open(BytesIO(b64decode(data))).size for data in re.findall('base64,([^"]+)', text)}
    assert sizes == {(320, 200)}
    for file in (tmp_path / "pictures").iterdir():
        file.unlink()
    assert "picture not in this store" in comparison_page(tmp_path, found)
    monkeypatch.setenv("JURY_KEEP_DAYS", "1")
    assert "picture removed by retention (JURY_KEEP_DAYS)" in comparison_page(tmp_path, found)
    assert write_comparison(tmp_path, found).exists() and remove_old(tmp_path) == 1, "as old as the older run"


def test_page_shows_the_most_changed_image_of_a_prompt(tmp_path: Path) -> None:
    scores = {"0/0": (4.0, 5.0), "0/1": (4.0, 9.0), "1/0": (4.0, 4.0)}
    rows = [image(name, both[at], candidate="ab"[at]) for name, both in scores.items() for at in range(2)]
    keep(tmp_path, BEFORE, rows, flow="counting", candidates=("a", "b"), parameters={"threshold": 7.0})
    keep_thumbnails(tmp_path, rows)
    land(tmp_path)
    text = comparison_page(tmp_path, compare(tmp_path, BEFORE, BEFORE, ("a", "b")))
    assert re.findall(' alt="(.*?)"', text) == ["a: picture of 0/1"], "b has the same picture"
    assert "the same picture as a" in text and "score 4.00 → 7.00</h3>" in text


def test_comparison_page_escapes_names(planned: Path, jury: Any) -> None:
    code, _, err = jury("compare", HOSTILE, *(f"--candidate={name}" for name in STRANGE), "--store", planned)
    text = Path(err.removeprefix("page ").strip()).read_text()
    assert code == 0 and "<img" not in text and len(re.findall("<script", text)) == 1
    assert shlex.quote(STRANGE[1]) in html.unescape(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a"], "holds no history yet"), (["a", "b", "c"], "name two candidates"),
        (["a", "b", *["--candidate", "x"] * 3], "--candidate is given 3 times"), (["a", "b"], "holds no history yet"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused(jury: Any, arguments: list[object], words: str) -> None:
    code, _, err = jury("compare", *arguments)
    assert code == 2 and words in err


# Through the real flow


@pytest.mark.usefixtures("prefect_server")
def test_prompt_changed_by_a_comma_is_named_and_breaks_the_trend(tmp_path: Path, jury: Any, ask: Any) -> None:
    prompt = tmp_path / "team" / "diagram" / "aesthetics.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_bytes((PROMPTS / "diagram" / "aesthetics.md").read_bytes())
    given = (*write_figures(tmp_path / "data", 1), "--prompt-set", tmp_path / "team")
    for changed in (False, False, True):
        if changed:
            text = prompt.read_text(encoding="utf-8")
            prompt.write_text(text[: text.rindex(",")] + text[text.rindex(",") + 1 :], encoding="utf-8")
        assert jury("run", "diagram", *given, "--reuse-hours", 0)[0] == 0
    first, second, third = (row["run_id"] for row in ask("SELECT run_id FROM evaluations ORDER BY started_at"))
    assert jury("compare", first, second)[0] == 0
    code, _, err = jury("compare", second, third)
    assert code == 2 and "prompt aesthetics: its text or front matter was changed" in err
    assert "prompt faithfulness" not in err and 'differences, add --across "prompt aesthetics"' in err
    code, out, _ = jury("compare", second, third, "--across", "prompt aesthetics")
    assert code == 0 and "Across: prompt aesthetics." in out
    trend = ask("SELECT run_id, comparable, break_reason FROM trend WHERE dimension = 'overall'")
    expected = [(first, None, None), (second, True, None), (third, False, "prompt aesthetics")]
    assert [tuple(row.values()) for row in trend] == expected


@pytest.mark.parametrize("taken", AGAIN)
def test_repeat_with_too_few_new_replies_is_no_comparison(planned: Path, jury: Any, taken: int) -> None:
    code, out, _ = jury("compare", ONCE, AGAIN[taken], "--store", planned)
    nothing = f"{taken} of 20 answers of {AGAIN[taken]} reused: too few are new for a new measurement"
    assert code == 0 and (nothing in out) is (taken > 10) and ("No difference shown" in out) is (taken < 10)
    assert f"{taken} of 20 replies of {AGAIN[taken]} are those of {ONCE} itself" in out
    found = compare(planned, ONCE, AGAIN[taken])
    assert bool(found.unmeasured) is (taken > 10) and found.shared
    assert shared_replies(planned, ONCE, ONCE) == ""


def test_candidates_of_a_run_with_reused_replies_are_compared(planned: Path, jury: Any) -> None:
    given = ("--candidate", "alpha", "--candidate", "beta", "--store", planned)
    assert "beta scores higher than alpha (at n = 9 samples)" in jury("compare", WITHOUT_NEW, *given)[1]


def test_different_image_counts_per_prompt_are_reported(planned: Path, jury: Any) -> None:
    assert "Images a prompt differ: 1 before, 4 after" in jury("compare", *COUNTED, "--store", planned)[1]


# Scheduled runs against the last comparable one


def night(store: Path, day: int, rows: Sequence[Outcome | Judgment], number: int = 1, **changes: Any) -> str:
    run_id = f"202611{day:02}T03000{number}000-diagram-0000{day:02}"
    return finished(store, run_id, rows, **{"scheduled": True, **changes}).run_id


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with scheduled runs on three datasets, held open: of one candidate, in shards, with reused replies."""
    store, same = tmp_path_factory.mktemp("nights"), figures(*[WON] * 9)
    night(store, 9, same, scheduled=False)
    night(store, 10, same, calls=0)
    night(store, 11, same, key="q")
    night(store, 12, same, dataset_key="e" * 64)
    night(store, 13, same, candidates=("beta",))
    night(store, 14, same, flow="plot")
    write_run(store, start("20261115T030000000-diagram-000015"), [], None)
    night(store, 20, same)
    night(store, 21, same)
    night(store, 22, same, calls=0)
    night(store, 23, same, key="z")
    for day, results in ((18, [WON] * 16), (20, [LOST] * 16), (19, [WON] * 8)):  # one shard never finished
        for shard, at in enumerate(range(0, len(results), 8), 1):
            part: dict[str, Any] = {"shard": shard, "shards": 2, "evaluation_id": f"e{day}", "dataset_key": "f" * 64}
            night(store, day, figures(*results[at : at + 8], first=at), number=1 + shard, scheduled=False, **part)
    first = night(store, 18, [*REPLIES, *figures(*[WON] * 10)], number=4, dataset_key="a" * 64)
    for day, taken in ((19, 4), (20, 6)):
        rows = [*repeat(REPLIES, taken, first, day), *figures(*[WON] * 10)]
        night(store, day, rows, number=4, dataset_key="a" * 64, calls=4 - taken)
    land(store)
    with held_together(store):
        yield store


def since_last(store: Path, run_id: str) -> list[Comparison]:
    before, names = last_comparable(store, run_id)
    return compare_candidates(store, before, run_id, names)


def runs_before(store: Path, day: int) -> list[int]:
    """Return the day of the run before a scheduled one, in a list; without such a run, the list is empty."""
    found = since_last(store, f"202611{day}T030001000-diagram-0000{day}")
    return [int(each.before.run_id[6:8]) for each in found]


def test_last_comparable_run_is_the_newest_with_equal_dataset_and_protocol(nights: Path) -> None:
    assert [runs_before(nights, day) for day in (20, 22, 23)] == [[9], [], []]


def test_shards_are_compared_as_one_evaluation(nights: Path) -> None:
    [found] = since_last(nights, "e20")
    assert found.before.run_id == "e18"
    assert (found.rows[0].difference.n, found.rows[0].difference.decision) == (16, "worse")


def test_run_that_reused_most_replies_is_not_compared(nights: Path) -> None:
    second, third = (f"202611{day}T030004000-diagram-0000{day}" for day in (19, 20))
    assert "4 of 10 replies of" in since_last(nights, second)[0].shared
    summary = summarize(nights, third)
    shown = markdown(summary)
    nothing = "6 of 10 answers reused: too few are new for a new measurement; --reuse-hours 0 asks again."
    assert nothing in shown and f"**{nothing}" not in shown
    assert nothing in sentence(summary)
    trend = query(nights, "SELECT DISTINCT run_id FROM trend").rows
    assert (second,) in trend and (third,) not in trend
    text = "".join(page(gather(nights, third)))
    assert nothing in text and "no difference shown" not in text.lower()
