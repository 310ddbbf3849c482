"""Scheduled runs against the last comparable one: which that is, and what became of each candidate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import end, image, judgment, outcome, start, write_run

from tasks.comparing.earlier_runs import look_back
from tasks.comparing.since_last import Since, since_last
from tasks.history.asking import query
from tasks.history.loading import sync
from tasks.pages.artifact import markdown
from tasks.pages.report_data import gather
from tasks.pages.report_page import page
from tasks.pages.run_summary import summarize
from tasks.pages.summary_texts import sentence
from tasks.records import Judgment, Outcome

WON, LOST = ("MMMM", "Model"), ("HHHH", "Human")


def night(
    store: Path,
    day: int,
    rows: Sequence[Outcome | Judgment],
    key: str = "p",
    calls: int = 4,
    number: int = 1,
    **changes: Any,
) -> str:
    """A finished scheduled run of a night in November; returns its id."""
    run_id = f"202611{day:02}T03000{number}000-diagram-0000{day:02}"
    at = f"2026-11-{day:02}T03:00:0{number}+00:00"
    begun = start(run_id, **{"scheduled": True, "started_at": at, **changes})
    write_run(store, begun, [*rows], end(protocol_key=key * 64, calls=calls, reused=4 - calls))
    return run_id


def figures(*results: tuple[str, str | None], **changes: Any) -> list[Outcome]:
    return [outcome(f"s{number:02}", *each, **changes) for number, each in enumerate(results)]


def found(store: Path, run_id: str) -> Since:
    since = since_last(store, run_id)
    assert since
    return since


@pytest.mark.parametrize(
    ("before", "after", "words", "worse"),
    [
        ([WON] * 20, [LOST] * 15 + [WON] * 5, "worse at n = 20 samples: −75.0 [", True),
        ([LOST] * 20, [WON] * 15 + [LOST] * 5, "better at n = 20 samples: +75.0 [", False),
        ([WON, LOST] * 10, [LOST, WON] * 10, "no difference shown (at n = 20 samples): 0.0 [", False),
        ([WON] * 7, [LOST] * 7, "too few to tell: 7 samples on both sides, 100.0 → 0.0", False),
    ],
)
def test_a_run_is_better_or_worse_or_shows_no_difference_and_only_a_drop_is_worse(
    tmp_path: Path, before: list[tuple[str, str]], after: list[tuple[str, str]], words: str, worse: bool
) -> None:
    night(tmp_path, 19, figures(*before))
    since = found(tmp_path, night(tmp_path, 20, figures(*after)))
    [sentence] = since.sentences
    assert sentence.startswith(f"alpha: {words}")
    assert [each.worse for each in since.standings] == [worse]
    assert [row.dimension for row in since.standings[0].rows][:2] == ["overall", "faithfulness"]


def test_the_last_comparable_run_is_the_newest_that_asked_the_same_in_the_same_way(tmp_path: Path) -> None:
    same = figures(*[WON] * 9)
    wanted = night(tmp_path, 9, same, scheduled=False)
    night(tmp_path, 10, same, calls=0)
    night(tmp_path, 11, same, key="q")
    night(tmp_path, 12, same, dataset_key="e" * 64)
    night(tmp_path, 13, same, candidates=("beta",))
    night(tmp_path, 14, same, flow="plot")
    write_run(tmp_path, start("20261115T030000000-diagram-000015"), [], None)
    damaged = night(tmp_path, 16, same)
    (tmp_path / "ledger" / damaged / "run.json").write_text("{")
    run_id = night(tmp_path, 20, same)
    night(tmp_path, 21, same)
    assert found(tmp_path, run_id).earlier.run_id == wanted
    assert since_last(tmp_path, night(tmp_path, 22, same, calls=0)) is None
    assert since_last(tmp_path, night(tmp_path, 23, same, key="z")) is None


def test_shards_are_compared_as_the_evaluation_that_they_make_up(tmp_path: Path) -> None:
    rows = figures(*[WON] * 16)
    for day, verdicts in ((18, rows), (20, figures(*[LOST] * 16))):
        for number, part in ((1, verdicts[:8]), (2, verdicts[8:])):
            night(tmp_path, day, part, number=number, shard=number, shards=2, evaluation_id=f"e{day}", scheduled=False)
    night(tmp_path, 19, rows[:8], shard=1, shards=2, evaluation_id="e19")  # its other shard never finished
    since = found(tmp_path, "e20")
    assert since.earlier.run_id == "e18" and since.standings[0].rows[0].difference.n == 16
    assert since_last(tmp_path, "e19") is None


def test_an_evaluation_of_which_no_shard_finished_is_passed_over(tmp_path: Path) -> None:
    rows = figures(*[WON] * 9)
    wanted = night(tmp_path, 18, rows)
    lost = start(
        "20261119T030000000-diagram-000019", shards=2, evaluation_id="e19", started_at="2026-11-19T03:00:00+00:00"
    )
    write_run(tmp_path, lost, [], None)
    assert found(tmp_path, night(tmp_path, 20, rows)).earlier.run_id == wanted


@pytest.mark.usefixtures("laid_out", "drawn_here")
def test_replies_that_both_runs_share_are_told_and_a_run_that_took_most_over_is_not_compared(tmp_path: Path) -> None:
    asked = [judgment(f"s{number:02}", key=str(number)) for number in range(10)]
    for day, taken in ((18, 0), (19, 4), (20, 6)):
        rows = (
            [
                row.model_copy(
                    update={"reused_from": "20261118T030001000-diagram-000018"}
                    if place < taken
                    else {"judged_at": f"2026-11-{day}T13:00:00+00:00"}
                )
                for place, row in enumerate(asked)
            ]
            if taken
            else asked
        )
        night(tmp_path, day, [*rows, *figures(*[WON] * 10)], calls=4 - taken)
    second, third = (f"202611{day}T030001000-diagram-0000{day}" for day in (19, 20))
    assert "4 of 10 replies of" in found(tmp_path, second).shared
    assert since_last(tmp_path, third) is None
    sync(tmp_path)
    begun = start(third, started_at="2026-11-20T03:00:01+00:00")
    shown = markdown(summarize(tmp_path, third), (), look_back(tmp_path, begun))
    nothing = "Nothing was measured: 6 of 10 replies about samples were taken over from earlier runs."
    nothing += " About these the judge was not asked again."
    assert shown.startswith(f"**{nothing}**") and "so that nothing is compared" in shown
    assert nothing in sentence(summarize(tmp_path, third))
    assert query(tmp_path, "SELECT DISTINCT run_id FROM trend ORDER BY 1").rows[-1] == (second,)
    text = page(gather(tmp_path, [third]), {})
    assert nothing in text and "no difference shown" not in text


def test_calls_about_controls_alone_do_not_make_a_run_measured(tmp_path: Path) -> None:
    rows = figures(*[WON] * 9)
    night(tmp_path, 18, rows)
    begun = start("20261119T030000000-diagram-000019", started_at="2026-11-19T03:00:00+00:00")
    write_run(tmp_path, begun, rows, end(protocol_key="p" * 64, calls=3, control_calls=3, reused=4))
    assert since_last(tmp_path, begun.run_id) is None


def test_more_candidates_need_a_clearer_drop(tmp_path: Path) -> None:
    """9 samples lose and 2 win: the interval of a single candidate excludes zero, that of one of eight does not."""

    def worse(names: tuple[str, ...], first: int) -> list[bool]:
        before, after = [WON] * 9 + [LOST] * 15, [LOST] * 9 + [WON] * 2 + [LOST] * 13
        for day, results in ((first, before), (first + 1, after)):
            rows = [each for name in names for each in figures(*results, candidate=name)]
            run_id = night(tmp_path, day, rows, candidates=names)
        return [each.worse for each in found(tmp_path, run_id).standings]

    assert worse(("a",), 10) == [True]
    assert worse(tuple("abcdefgh"), 20) == [False] * 8


def test_a_text_to_image_run_is_tested_once_on_the_mean_over_its_prompts(tmp_path: Path) -> None:
    """One tag falls by as much as the other rises: the flow's own score shows no difference; tags are only shown."""
    for day, change in ((19, 0.0), (20, 3.0)):
        scores = {"colors": 3 + change, "color_attr": 6 - change}
        rows = [
            image(f"{tag}{number}/0", score + number % 3, tag=tag)
            for tag, score in scores.items()
            for number in range(20)
        ]
        run_id = night(tmp_path, day, rows, flow="colors", parameters={"threshold": 7.0})
    [standing] = found(tmp_path, run_id).standings
    headline, *tags = [(row.dimension, row.difference.decision) for row in standing.rows if row.measure == "score"]
    assert headline == ("all prompts", "no difference shown") and dict(tags) == {
        "colors": "better",
        "color_attr": "worse",
    }
    assert not standing.worse


def test_other_numbers_of_images_a_prompt_are_warned_of(tmp_path: Path) -> None:
    def said(day: int, images: int) -> str:
        rows = [image(f"{number}/{nth}", 5.0 + number % 3) for number in range(9) for nth in range(images)]
        [words] = found(tmp_path, night(tmp_path, day, rows, flow="counting", parameters={"threshold": 7.0})).sentences
        return words

    rows = [image(f"{number}/{nth}", 5.0) for number in range(9) for nth in range(4)]
    night(tmp_path, 18, rows, flow="counting", parameters={"threshold": 7.0})
    assert "Images a prompt differ" not in said(19, 4)
    assert said(20, 2).endswith(
        ". Images a prompt differ: 4 before, 2 after; the share of prompts with a good one grows so."
    )
