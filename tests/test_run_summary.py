"""What a run came to, summed up from real ledgers."""

from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, RUN, end, judgment, outcome, start, write_run

from tasks.controls.status import control_rates
from tasks.judging.results import Results
from tasks.judging.tallies import DefectCount
from tasks.pages.run_summary import Summary, summarize
from tasks.pages.summary_texts import cost_lines, price_lines, sentence
from tasks.records import Judgment, Outcome


def summary(store: Path, *rows: Judgment | Outcome, **changes: Any) -> Summary:
    """What is made of a finished run with these rows."""
    write_run(store, start(**changes), list(rows), end())
    return summarize(store, RUN)


def test_a_call_counts_by_its_last_attempt_and_every_attempt_is_a_call(tmp_path: Path) -> None:
    found = summary(
        tmp_path,
        judgment("s1", verdict=None, status="unavailable", error="503"),
        judgment("s1", attempt=2),
        judgment("s2", verdict=None, status="unavailable", error="503"),
        judgment("s2", verdict=None, status="invalid", attempt=2, error="no winner"),
        judgment("s3", reused_from="earlier", tokens_in=0, tokens_out=0, tokens_cached=0, price=0.0),
    ).judgments
    assert found.statuses() == {"ok": 2, "invalid": 1}
    assert [(failure.sample_id, failure.words) for failure in found.not_ok.values()] == [("s2", "no winner")]
    assert (found.calls, found.reused, found.tokens_in, found.tokens_out) == (4, 1, 4000, 400)
    assert found.price == pytest.approx(1.0)


def test_the_price_is_unknown_as_soon_as_one_call_has_none(tmp_path: Path) -> None:
    assert summary(tmp_path, judgment("s1"), judgment("s2", price=None), judgment("s3")).judgments.price is None


def test_the_bill_is_told_with_whose_prices_it_is_what_may_come_to_it_and_what_was_saved(tmp_path: Path) -> None:
    table = "genai-prices 0.2.3: openai gpt-5, flex, 2026-11-20"
    flex = {"price_source": table, "tier": "flex", "saved_by_tier": 0.25}
    found = summary(
        tmp_path,
        judgment("s1", **flex, saved_by_cache=0.02, tokens_written=30, tokens_reasoning=60),
        judgment("s2", **flex, estimated=0.3),
        judgment("s3", price=0.0, price_source=table, reused_from="earlier", saved_by_reuse=0.125),
    )
    assert cost_lines(found)[1:] == [
        "3,000 tokens in (30 of them cached, 30 written to a cache), 300 out (60 of them reasoning)",
        "price: 0.5000 US dollars, by genai-prices 0.2.3",
        "calls that timed out may have cost, besides: 0.3000, an estimate",
        "saved: 0.1250 by reuse, 0.5000 by tier, 0.0200 by cache",
    ]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([judgment("s1")], ["price: 0.2500 in the currency of the prices given"]),
        ([judgment("s1", price=0.0, price_source="the embedded judge costs nothing")], ["price: 0.0000"]),
        (
            [judgment("s1", price=None, estimated=None)],
            ["price: unknown", "calls that timed out may have cost, besides: unknown"],
        ),
    ],
)
def test_what_is_unknown_stays_so(tmp_path: Path, rows: list[Judgment], lines: list[str]) -> None:
    assert price_lines(summary(tmp_path, *rows)) == lines


@pytest.mark.parametrize(
    ("rows", "all_ok"),
    [
        ([judgment("s1"), outcome("s1")], True),
        ([outcome("s1", "----", None, status="forfeit"), outcome("s2", "----", None, status="no_reference")], True),
        ([outcome("s1", "----", None, status="bad_picture")], False),
        ([judgment("s1", verdict=None, status="refused"), outcome("s1", "-MMM")], False),
    ],
    ids=["ok", "forfeit and no reference", "bad picture", "refused"],
)
def test_all_is_ok_unless_a_judgment_is_not_or_a_human_picture_is_bad(
    tmp_path: Path, rows: list[Judgment | Outcome], all_ok: bool
) -> None:
    assert summary(tmp_path, *rows).all_ok is all_ok


def test_one_sample_of_each_kind_is_chosen_and_none_twice(tmp_path: Path) -> None:
    rows = [
        outcome("tie", "GGGG", "Tie"),
        outcome("win", "MHMM", "Model"),
        outcome("second win", "MMMM", "Model"),
        outcome("late loss", "GHGH", "Human", tier="tier 2"),
        outcome("loss", "HGHG", "Human"),
        outcome("flip", "XGGG", "Tie"),
        outcome("forfeit", "----", None, status="forfeit"),
        outcome("incomplete", "-GGG", None, status="incomplete"),
    ]
    chosen = {each.why: each.outcome.sample_id for each in summary(tmp_path, *rows).notable}
    # The second win takes no place: it fits none that is still free.
    assert chosen == {
        "Won": "win",
        "Lost in tier 1": "loss",
        "Verdicts pull apart": "flip",
        "Missing output (forfeit)": "forfeit",
        "Not complete": "incomplete",
    }


def test_a_chosen_sample_comes_with_the_reasons_for_its_verdicts(tmp_path: Path) -> None:
    found = summary(
        tmp_path,
        judgment("s1", "faithfulness", "Human", vote=1, reasoning="outvoted"),
        judgment("s1", "faithfulness", "Model", vote=2, reasoning="first of the majority"),
        judgment("s1", "faithfulness", "Model", vote=3, reasoning="second of the majority"),
        judgment("s1", "readability", "Human", reasoning="one order's"),
        judgment("s2", "faithfulness", "Model", reasoning="another sample's"),
        outcome("s1", "MGXG", "Model"),
    )
    assert found.notable[0].reasons == {"faithfulness": "first of the majority", "readability": "one order's"}


def test_injected_defects_are_counted_by_kind_and_forfeits_are_no_matter_of_the_judge(tmp_path: Path) -> None:
    rows = [
        outcome("s1", injected="black", caught=True),
        outcome("s2", injected="black", caught=False),
        outcome("s3", injected="black", status="incomplete", caught=None),
        outcome("s4", injected="copy", caught=True),
        outcome("s5", "----", None, status="forfeit", injected="null", caught=None),
        outcome("s6"),
    ]
    counts = summary(tmp_path, *rows).outcomes.defects()
    assert counts == [
        DefectCount("black", known=3, caught=1, unjudged=1),
        DefectCount("copy", known=1, caught=1, unjudged=0),
    ]
    assert [count.clean for count in counts] == [False, True]


def test_the_sentence_tells_score_coverage_and_what_is_not_ok(tmp_path: Path) -> None:
    rows = [
        *(judgment("s1", dimension) for dimension in DIMENSIONS),
        judgment("s2", verdict=None, status="refused"),
        outcome("s1", "MMMM"),
        outcome("s2", "-GGG", None, status="incomplete"),
    ]
    assert sentence(summary(tmp_path, *rows)) == (
        "alpha 100.0 (no interval below 8), 1/2 samples scored. Judgments: 4 ok, 1 refused. "
        "Outcomes: 1 complete, 1 incomplete."
    )


def test_an_unfinished_run_is_summed_up_as_far_as_it_got(tmp_path: Path) -> None:
    write_run(tmp_path, start(), [judgment("s1"), outcome("s1")], None)
    found = summarize(tmp_path, RUN)
    assert found.end is None
    assert found.outcomes.statuses == {"complete": 1}


def test_a_run_that_the_store_does_not_hold_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        summarize(tmp_path, RUN)


def test_rows_that_are_read_once_come_to_all_of_it(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"parameters": {"orders": "both", "votes": 1}}
    outcomes = [outcome(f"s{number}", "MHGX", published="Model", category="agent") for number in range(9)]
    controls = [outcome(f"s{number}", "MMMM", control="blank") for number in range(2)]
    judged = [judgment(f"s{number}", order=order) for number in range(9) for order in ("human_first", "model_first")]
    written = summary(tmp_path, *outcomes, *controls, *judged, **changes)
    results = Results(start(**changes), [tmp_path / "ledger" / RUN])
    for row in (*outcomes, *controls):
        results.add(row)
    found = summarize(tmp_path, RUN)
    assert found == written
    assert results.scores == written.scores and results.rates == written.rates
    assert control_rates(results.controls) == written.controls and results.outcomes == written.outcomes
    assert found.scores and found.rates and found.published and found.controls[1].failed == 2
