"""Both orders and several votes through the whole pipeline: known habits of a judge are measured correctly."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import VERDICTS, Reply, Request, example, leaning_reply, text
from written_datasets import png, write_figures
from written_images import prompt_row, write_geneval

POSITION, NOISE = 0.3, 0.2
TRUTH = {"Model": 13, "Human": 9, "Both are good": 4}
"""Number of samples by the judge's true opinion."""
SAMPLES = sum(TRUTH.values())
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")

pytestmark = pytest.mark.usefixtures("prefect_server")


class Expected(NamedTuple):
    """Expected measures of a sample."""

    flip: float
    first: float
    agree: float
    tier_1: float
    score: float


def replies(truth: str, first: str) -> dict[str, float]:
    """Probability of each verdict: the habit, else the noise, else the truth."""
    by_chance = (1 - POSITION) * NOISE / len(VERDICTS)
    found = dict.fromkeys(VERDICTS, by_chance)
    found[truth] += (1 - POSITION) * (1 - NOISE)
    found[first] += POSITION
    return found


def majority_of_three(vote: dict[str, float]) -> dict[str, float]:
    """Return the probabilities of the verdict of three votes: the one that two give, else Mixed. Three different votes
    have no majority, or a neutral one of two different verdicts.
    """
    found = {verdict: p**3 + 3 * p**2 * (1 - p) for verdict, p in vote.items()}
    return {**found, "Mixed": 1 - sum(found.values())}


def first_named(human_first: dict[str, float], model_first: dict[str, float]) -> float:
    """Return the mean share of decisive verdicts for the figure shown first, over the orders with any.

    In each order, every decisive vote has the same probability of naming the first figure. The mean share is therefore
    that probability, however many of the three votes are decisive.
    """
    sides = [(human_first, "Human", "Model"), (model_first, "Model", "Human")]
    (a, any_a), (b, any_b) = ((p[one] / (p[one] + p[two]), 1 - (1 - p[one] - p[two]) ** 3) for p, one, two in sides)
    both, only_a, only_b = any_a * any_b, any_a * (1 - any_b), (1 - any_a) * any_b
    return (both * (a + b) / 2 + only_a * a + only_b * b) / (both + only_a + only_b)


def expected(truth: str) -> Expected:
    """Compute the measures by hand from the protocol: merge votes, then orders, then tiers."""
    asked = [replies(truth, first) for first in ("Human", "Model")]
    one, other = map(majority_of_three, asked)
    same = {verdict: one[verdict] * other[verdict] for verdict in one}
    model, human = same["Model"], same["Human"]
    neutral = 1 - model - human
    won, lost = model**2 + 2 * model * neutral, human**2 + 2 * human * neutral
    tie = 1 - won - lost
    return Expected(
        flip=1 - sum(same.values()),
        first=first_named(*asked),
        agree=sum(p**2 for vote in asked for p in vote.values()) / 2,
        tier_1=1 - tie,
        score=100 * (won + tie * won) + 50 * tie**2,
    )


def dataset(root: Path, samples: int) -> list[str]:
    given = write_figures(root, samples)
    for number in range(samples):
        (root / "diagram" / "images" / f"{number}.png").write_bytes(png(number))
    return given


def test_intervals_cover_the_judges_true_habits(tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    opinions = [truth for truth, n in TRUTH.items() for _ in range(n)]

    def true_verdict(request: Request) -> str:
        caption = next(line for text in request.texts for line in text.splitlines() if line.startswith("caption "))
        return opinions[int(caption.split()[1])]

    loopback.answer, loopback.keep_requests = leaning_reply(true_verdict, POSITION, NOISE), False
    given = dataset(tmp_path / "data", len(opinions))
    code, _, err = jury("run", "diagram", *given, *judged_by(loopback), "--orders", "both", "--votes", "3")
    assert code == 0, err

    found = {row["measure"]: row for row in ask("SELECT * FROM rates WHERE dimension = 'overall'")}
    parts = [[n * value for value in expected(truth)] for truth, n in TRUTH.items()]
    flip, first, agree, tier_1, score = (sum(values) / SAMPLES for values in zip(*parts, strict=True))
    shares = {"order_flip": flip, "first_position": first, "repeat_agreement": agree, "tier_1": tier_1}
    for measure, true in shares.items():
        assert found[measure]["n"] == SAMPLES, measure
        assert found[measure]["ci_low"] <= true <= found[measure]["ci_high"], measure
    assert found["first_position"]["ci_low"] > 0.5

    [board] = ask("SELECT * FROM leaderboard WHERE dimension = 'overall'")
    assert board["ci_low"] <= score <= board["ci_high"]


def test_votes_measure_the_spread_of_image_scores(tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    asked: Counter[str] = Counter()

    def answer(request: Request) -> Reply:
        reply = example(request.schema, {})
        if "overall_score" in reply:
            clock = next(found[1] for line in request.texts if (found := re.search(r"clock (\d)", line)))
            asked[clock] += 1
            score = 6 if asked[clock] == 1 else 6 + int(clock) % 4
            reply["overall_score"] = {"explanation": "in turn", "score": score}
        return text(json.dumps(reply))

    loopback.answer = answer
    rows = [prompt_row(f"clock {number}", "counting") for number in range(8)]
    root = write_geneval(tmp_path / "images", rows, images_per_prompt=1)
    for votes in (1, 2):
        code, out, err = jury("run", "counting", "--dataset", root, *judged_by(loopback), "--votes", votes, "--json")
        assert code == 0, err
    assert loopback.count == 1 + 8 + 1 + 8, "the first questions, and another vote for each image"
    counts = ask("SELECT calls, reused FROM runs ORDER BY started_at")
    assert [(row["calls"], row["reused"]) for row in counts] == [(8, 0), (8, 8)]
    [rate] = ask("SELECT * FROM rates")
    assert (rate["dimension"], rate["measure"], rate["n"]) == ("counting", "repeat_difference", 8)
    assert rate["value"] == 1.5
    printed = [row for row in json.loads(out) if row["measure"] == "repeat_difference"]
    assert printed == [{name: value for name, value in rate.items() if name != "run_id"}]
