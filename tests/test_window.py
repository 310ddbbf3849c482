"""The adaptive window of calls, and the end of refused calls, on a simulated clock."""

import pytest
from simulated_limits import LIMITS, Limits, Run, World, least_share, requests_over_calls, simulate

from tasks.endpoint.gate import FIRST_WINDOW, LEAST_RATE, Window

CALLS, SECONDS = 584, 0.2
IDEAL = {"8 at once": CALLS * SECONDS * 1.05 / 8, "20 a second": CALLS / 20, "5 a second": CALLS / 5}
"""Seconds of a run that knows the limits."""


@pytest.mark.parametrize("most", [16, 64])
@pytest.mark.parametrize("name", LIMITS)
def test_window_finds_a_limit_with_few_refusals_and_little_delay(name: str, most: int) -> None:
    [run] = simulate(0, Limits(**LIMITS[name]), 1, CALLS, bad_samples=0, most=most)
    assert len(run.answered) == CALLS and run.requests <= 1.3 * CALLS
    assert run.answered[-1] <= 1.25 * IDEAL[name]


@pytest.mark.parametrize("most", [1, 8, 64])
def test_window_opens_fully_within_a_few_rounds_without_limits(most: int) -> None:
    [run] = simulate(0, Limits(), 1, CALLS, bad_samples=0, most=most)
    assert run.requests == CALLS and run.window.size == most
    assert run.answered[-1] <= (CALLS / most + 6) * SECONDS * 1.2


@pytest.mark.parametrize("runs", [1, 2, 4, 8])
@pytest.mark.parametrize("name", LIMITS)
def test_only_calls_of_a_bad_sample_are_given_up(name: str, runs: int) -> None:
    made = simulate(1, Limits(**LIMITS[name]), runs, max(400, CALLS // runs))
    assert all(not run.lost for run in made) and made[0].ended.keys() == made[0].bad
    assert requests_over_calls(made) <= {1: 1.3, 2: 1.6 if "5" in name else 1.3}.get(runs, 2.2)
    assert least_share(made) >= 0.3


@pytest.mark.parametrize("bad_samples", [1, 5, 50])
@pytest.mark.parametrize("most", [6, 16])
@pytest.mark.parametrize("wait", [None, 1.0])
def test_always_refused_samples_cost_bounded_time(bad_samples: int, most: int, wait: float | None) -> None:
    [run] = simulate(0, Limits(), 1, 400, bad_samples, most=most, call_seconds=20.0, wait=wait)
    [without] = simulate(0, Limits(), 1, 400, 0, most=most)
    assert run.ended.keys() == run.bad
    blocks = -(-2 * 4 * bad_samples // most)
    assert max(run.ended.values()) <= 1.5 * without.answered[-1] + blocks * 20.0


@pytest.mark.parametrize("bad", [20, 100])
def test_refused_last_calls_of_a_slow_run_end_within_patience(bad: int) -> None:
    world = World(0)
    run = Run(world, Limits(), 400, frozenset(range(400 - bad, 400)), seconds=20.0)
    world.run()
    assert run.ended.keys() == run.bad and max(run.ended.values()) - max(run.answered) <= 900


def test_window_stays_within_its_bounds() -> None:
    window = Window(most=4)
    assert window.size == 4 < FIRST_WINDOW
    window.answered(1.0, window.start(0.0))
    assert window.size == 4
    for moment in range(10, 400, 10):
        window.refused(moment + 1.0, window.start(moment), 1.0)
    assert window.size == LEAST_RATE * 1.0 and window.in_flight == 0


def test_refusal_unrelated_to_load_shrinks_the_window_little() -> None:
    sizes: list[float] = []
    for weight in (1.0, 0.1, 0.0):
        window = Window(most=16)
        window.answered(1.0, window.start(0.0))
        turns = [window.start(2.0) for _ in range(9)]
        window.refused(2.5, turns.pop(), 1.0)
        window.refused(3.0, window.start(2.6), weight)
        sizes.append(window.size)
    assert sizes[0] < sizes[1] < sizes[2] == 8


def test_repeated_refusal_does_not_shrink_a_restarted_window() -> None:
    window = Window(most=16)
    window.restart()
    for moment in range(6):
        window.answered(moment + 0.5, window.start(moment))
    size = window.size
    window.refused(10.0, window.start(9.9), 0.0)
    assert (window.size, window.was_refused, window.in_flight) == (size, False, 0)


@pytest.mark.parametrize(
    ("left", "per_second", "at"), [(100, 0.0, 10.0), (0, 2.0, 10.0 + 1 / 1.9), (3, 2.0, 10.0), (0, 0.0, 70.0)]
)
def test_limit_headers_space_the_calls(left: float, per_second: float, at: float) -> None:
    window = Window(most=8)
    window.pace(10.0, left, per_second)
    assert window.may_start(10.0) == pytest.approx(at)


@pytest.mark.parametrize("name", LIMITS)
def test_refused_samples_do_not_delay_others_at_a_limited_judge(name: str) -> None:
    """Half of the samples are always refused: repeated calls show that these samples are the reason."""
    [run] = simulate(0, Limits(**LIMITS[name]), 1, 400, bad_samples=50)
    [without] = simulate(0, Limits(**LIMITS[name]), 1, 400, bad_samples=0)
    assert run.ended.keys() == run.bad and requests_over_calls([run]) <= 1.3
    assert max(run.answered) <= 3 * max(without.answered) + 100
