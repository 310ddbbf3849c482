"""How large a report may become."""

import pytest

from tasks.pages.size_limits import fair_share, picture_limit


@pytest.mark.parametrize(
    ("sizes", "budget", "share"),
    [([10, 20, 30], 100, 30), ([10, 20, 30], 60, 30), ([10, 20, 30], 50, 20), ([100, 100, 1], 101, 50), ([], 7, 7)],
)
def test_a_budget_is_shared_fairly(sizes: list[int], budget: int, share: int) -> None:
    assert fair_share(sizes, budget) == share
    assert sum(min(size, share) for size in sizes) <= budget


def test_292_pairs_of_the_largest_thumbnails_stay_below_30_megabytes() -> None:
    assert 584 * picture_limit([90_000] * 584) * 4 / 3 < 24e6
