"""Expected cost and time of calls, from replies that follow a known rule."""

import random
from pathlib import Path

import pytest
from factories import RUN, judgment, start, write_run

from tasks.ledger.run_files import read_judgments
from tasks.spending.prices import Amounts, Rates, Tariff
from tasks.spending.quote import Call, Expected, Seen, past_replies, seen, tries

DIMENSIONS = ("faithfulness", "readability")
CHEAP = Tariff((Rates(1.0, 0.1, 1.25, 10.0),), "a table")


def tokens_in(reply: Amounts) -> float:
    return reply.tokens_in


def call(number: int, dimension: str, draws: random.Random) -> Call:
    letters = int((8_000 if dimension == "faithfulness" else 2_000) * draws.lognormvariate(0, 0.6))
    text = f"{dimension} {number}"
    return Call(text, (f"s{number}", "alpha", ""), dimension, text, letters, 2, draws.uniform(0.2, 4))


def reply(request: Call, draws: random.Random, written: float = 400, known: bool = True) -> Seen:
    """Return a reply of a quarter token a letter, 700 a megapixel and 90 more; half of them are cached."""
    sent = round(90 + request.letters / 4 + 700 * request.megapixels)
    amounts = Amounts(sent, sent // 2, 0, round(written * draws.lognormvariate(0, 0.3)))
    return Seen(request.dimension, amounts, draws.uniform(2, 6), request.letters if known else None, request.megapixels)


def calls(samples: int, seed: int = 1) -> list[Call]:
    draws = random.Random(seed)
    return [call(number, dimension, draws) for number in range(samples) for dimension in DIMENSIONS]


def test_few_samples_predict_input_tokens_from_sizes() -> None:
    wanted, draws = calls(300), random.Random(2)
    replies = [reply(each, draws) for each in wanted]
    found = Expected(replies[: 5 * len(DIMENSIONS)]).total(wanted, tokens_in)
    truth = sum(each.amounts.tokens_in for each in replies)
    assert found.middle == pytest.approx(truth, rel=0.001)
    assert found.low == pytest.approx(found.high, rel=0.01), "known sizes give a narrow range"


def test_unknown_sizes_give_the_mean_with_a_wide_range() -> None:
    wanted, draws = calls(300), random.Random(3)
    replies = [reply(each, draws, known=False) for each in wanted]
    found = Expected(replies[:10]).total(wanted, tokens_in)
    truth = sum(each.amounts.tokens_in for each in replies)
    assert found.low < truth < found.high and found.high > 1.3 * found.middle


def test_expected_price_covers_every_kind_of_token() -> None:
    wanted, draws = calls(40), random.Random(4)
    replies = [reply(each, draws) for each in wanted]
    truth = sum(CHEAP.price(each.amounts) for each in replies)
    assert Expected(replies).total(wanted, CHEAP.price).middle == pytest.approx(truth, rel=0.001)
    assert Expected(replies, tries=1.5).total(wanted, CHEAP.price).middle == pytest.approx(1.5 * truth, rel=0.001)


@pytest.mark.parametrize("written", [60, 700, 2_250], ids=["short", "long", "reasoning"])
def test_range_of_a_pilot_covers_the_bill_in_most_cases(written: float) -> None:
    """19 of 20 by design; fewer than 50 of 60 would happen by chance once in a million times."""
    wanted, held = calls(100), 0
    for seed in range(60):
        draws = random.Random(seed)
        replies = [reply(each, draws, written) for each in wanted]
        pilot = [one for each in draws.sample(range(100), 5) for one in replies[2 * each : 2 * each + 2]]
        found = Expected(pilot).total(wanted, CHEAP.price)
        held += found.low <= sum(CHEAP.price(each.amounts) for each in replies) <= found.high
    assert held >= 50


def test_single_reply_gives_a_wide_range() -> None:
    wanted = [each for each in calls(10) if each.dimension == "readability"]
    found = Expected([reply(wanted[0], random.Random(5), known=False)]).total(wanted, tokens_in)
    assert (found.low, found.high) == (0.0, 2 * found.middle)


def test_expected_time_depends_on_concurrency() -> None:
    wanted = calls(50)
    replies = [Seen(each.dimension, Amounts(100), 2.0 + (n % 2), None, 0.0) for n, each in enumerate(wanted)]
    found = Expected(replies).seconds(wanted, 10)
    assert found.low <= 100 * 2.5 / 10 <= found.high == pytest.approx(100 * 2.5 / 10, rel=0.3)


def test_past_replies_are_of_the_same_judge_and_prompts(tmp_path: Path) -> None:
    fields = {"prompts": {"faithfulness": "f" * 64}}
    judge = {"judge": {"effort": "low", "temperature": 1.0}}

    def run(number: int, rows: list[dict[str, object]], **changes: object) -> None:
        about = start(f"{RUN}{number}", **{**fields, "parameters": judge, **changes})
        write_run(tmp_path, about, [judgment(f"s{at}", **row) for at, row in enumerate(rows)], None)

    run(1, [{"tokens_in": 1}, {"tokens_in": 2, "reused_from": "earlier"}, {"tokens_in": 3, "prompt_sha256": "a" * 64}])
    run(2, [{"tokens_in": 4}], judge="another")
    run(3, [{"tokens_in": 5}], parameters={"judge": {"effort": "high", "temperature": 1.0}})
    run(4, [{"tokens_in": 6}], endpoint="https://other.example/v1")
    run(6, [{"tokens_in": 9}], protocol={"layout": "shared 1"})
    unbilled = {"tokens_in": 7, "status": "unavailable", "verdict": None}
    run(5, [unbilled, {"tokens_in": 8, "status": "invalid", "verdict": None}])
    with (tmp_path / "ledger" / f"{RUN}5" / "judgments.jsonl").open("a") as ledger:
        ledger.write("{torn")
    rows = past_replies(tmp_path, start(f"{RUN}9", **fields, parameters=judge))
    assert [row.tokens_in for row in rows] == [7, 8, 1]
    assert [each.amounts.tokens_in for each in seen(rows, (), {})] == [8, 1]


def test_repeated_calls_are_paid_again(tmp_path: Path) -> None:
    rows = [judgment("s1", verdict=None, status="invalid"), judgment("s1", attempt=2), judgment("s2")]
    run = write_run(tmp_path, start(), [*rows, judgment("s3", verdict=None, status="unavailable")], None)
    assert tries(list(read_judgments(run))) == pytest.approx(1.5)
    assert tries([]) == 1.0
