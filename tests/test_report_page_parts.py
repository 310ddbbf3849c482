"""What the report page is made of: drawings, split reasons, and how large it may become."""

from pathlib import Path
from typing import Any

import pytest
from tasks.pages.cards import spoken
from written_history import figures, noise

from tasks.pages import figures as plots
from tasks.pages.reasoning import split
from tasks.pages.sample_cards import Context, cards
from tasks.pages.size_limits import LEAST_PICTURE, fair_share, picture_limit
from tasks.pages.thumbnails import bounded, thumbnails
from tasks.records import Outcome
from tasks.statistics.scores import score_rows


def test_a_bar_has_a_segment_for_each_kind_of_verdict_and_fills_its_width() -> None:
    [row] = [row for row in score_rows(row for row in figures(True) if isinstance(row, Outcome)) if _is_whole(row)]
    drawn = plots.bar(row)
    assert [(each.name, each.number) for each in drawn.segments] == [
        ("Model", 2),
        ("both good", 8),
        ("Human", 1),
        ("not scored", 1),
    ]
    assert sum(each.width for each in drawn.segments) == pytest.approx(100)


def _is_whole(row: Any) -> bool:
    return (row.grouping, row.dimension) == ("all", "faithfulness")


def test_a_trend_breaks_where_the_protocol_changes_and_says_why() -> None:
    def point(
        day: int, comparable: bool | None, score: float | None = 50.0, reason: str | None = None
    ) -> dict[str, Any]:
        return {
            "candidate": "alpha", "dimension": "overall", "started_at": f"2026-11-{day:02}T00:00:00", "run_id": "r",
            "score": score, "ci_low": 40.0, "ci_high": 60.0, "comparable": comparable, "break_reason": reason,
        }  # fmt: skip

    rows = [
        point(1, None),
        point(2, True),
        point(3, False, reason="prompt aesthetics"),
        point(4, False, None),
        point(5, True),
    ]
    [trend] = plots.trends(rows, images=False)
    assert [len(stretch.points) for stretch in trend.stretches] == [2, 1, 1]
    assert [broken.why for broken in trend.breaks] == ["prompt aesthetics", plots.UNSCORED]
    assert trend.breaks[0].x == pytest.approx(37.5)
    assert plots.trends(rows[:1], images=False) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Faithfulness of Human: a; Faithfulness of Model: b; Conclusion: c.", ["a", "b", "c."]),
        ("**Readability of Human:** a\n **Readability of Model:** b\n **Conclusion:** c", ["a", "b", "c"]),
        ("Beauty of Human: a; Beauty of the Model: b; Conclusion: c; Conclusion: d", ["a", "b", "c; Conclusion: d"]),
        ("Age of Human: a;\nAge of Model: b (c);\nConclusion: Age of Human: d", ["a", "b (c)", "Age of Human: d"]),
        ("Both look fine to me.", None),
        ("First: Faithfulness of Human: a; Faithfulness of Model: b; Conclusion: c", None),
        ("Faithfulness of Model: b; Faithfulness of Human: a; Conclusion: c", None),
        ("", None),
    ],
)  # fmt: skip
def test_reasoning_is_split_where_it_keeps_to_its_structure_and_else_whole(text: str, parts: list[str] | None) -> None:
    found = split(text)
    assert found == (list(zip(["Human", "Model", "Conclusion"], parts, strict=True)) if parts else [("", text)])


@pytest.mark.parametrize("text", [" " * 50_000, "a" * 50_000, "* " * 25_000, "Model of " * 6_000, "of Human:" * 6_000])
@pytest.mark.timeout(5)
def test_no_text_takes_long_to_split(text: str) -> None:
    assert split(text) == [("", text)]


# How large it becomes


@pytest.mark.parametrize(
    ("sizes", "budget", "share"),
    [([10, 20, 30], 100, 30), ([10, 20, 30], 60, 30), ([10, 20, 30], 50, 20), ([100, 100, 1], 101, 50), ([], 7, 7)],
)
def test_a_budget_is_shared_fairly(sizes: list[int], budget: int, share: int) -> None:
    assert fair_share(sizes, budget) == share
    assert sum(min(size, share) for size in sizes) <= budget


def test_a_picture_is_bounded_and_a_small_one_is_left_as_it_is() -> None:
    large = noise(500)
    assert len(large) > 4 * LEAST_PICTURE
    assert len(bounded(large, LEAST_PICTURE)) <= LEAST_PICTURE
    assert bounded(large, len(large)) == large


def test_292_pairs_of_the_largest_thumbnails_stay_below_30_megabytes() -> None:
    assert 584 * picture_limit([90_000] * 584) * 4 / 3 < 24e6


def test_what_is_no_hash_is_no_file_name(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "secret.jpg").write_bytes(noise(20))
    assert thumbnails(tmp_path, ["../secret", "f" * 64]) == {}


def test_the_judges_words_share_a_budget_and_what_is_cut_says_so() -> None:
    row = {"candidate": "a", "sample_id": "s", "order": "human_first", "verdict": "Model", "status": "ok", "seen": None}
    long = f"Ink of Human: {'é' * 50_000}; Ink of Model: fine; Conclusion: Model."
    words = [row | {"dimension": f"d{n}", "vote": 1, "reasoning": long, "error": ""} for n in range(100)]
    sample = {
        "candidate": "a", "sample_id": "s", "category": "", "difficulty": "", "tag": "", "prompt": "", "caption": "",
        "status": "complete", "overall": "Tie", "score": 50.0, "tier": "", "path": "", "aspects": None, "human": None,
        "model": None, "image": None, "p_model": None, "pivotal": None, "published": None, "satisfied": None,
        "aspect_mean": None, "injected": "", "caught": None, "problem": "", "notes": [],
        "dimensions": [
            {"dimension": f"d{n}", "verdict": "Model", "score": 100.0, "order_flip": None, "reversal": None}
            for n in range(100)
        ],
    }  # fmt: skip
    [card] = cards([sample], Context(0, spoken(words, 1_000_000), {}, 0.0))
    assert sum(len(text.encode()) for each in card.questions for _, text in each.reasons[0].parts) < 1_010_000
    for each in card.questions:
        human, model, conclusion = (text for _, text in each.reasons[0].parts)
        assert human.endswith("(cut; the history holds all 50,000 characters)")
        assert (model, conclusion) == ("fine", "Model.")
