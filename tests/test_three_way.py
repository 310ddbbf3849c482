"""Three versions of a field: the list as it was, the list as it is, and the server, where people change things."""

from typing import Any

import pytest

from flows.runtime.three_way import MISSING, digest, digests, merge

FIELD = "limit"
DEFAULTS = {FIELD: 0}
CASES = [
    # the list then, the list now, the server -> the server after, of people, and whether the list changed it, too
    ("nothing changed", 5, 5, 5, 5, ""),
    ("the list changed", 5, 6, 5, 6, ""),
    ("people changed", 5, 5, 7, 7, "kept"),
    ("both changed to the same", 5, 6, 6, 6, ""),
    ("both changed", 5, 6, 7, 7, "conflict"),
    ("the list gives it now", MISSING, 6, MISSING, 6, ""),
    ("the list gives it now, the server has the default", MISSING, 6, 0, 6, ""),
    ("the list gives it no more", 5, MISSING, 5, MISSING, ""),
    ("the list gives it no more, people changed it", 5, MISSING, 7, 7, "conflict"),
    ("only people give it", MISSING, MISSING, 7, 7, "kept"),
    ("people's form has the default", MISSING, MISSING, 0, 0, ""),
    ("people took it out", 5, 5, MISSING, MISSING, "kept"),
    ("people took it out, the list changed it", 5, 6, MISSING, MISSING, "conflict"),
    ("the server writes numbers in its own way", 20.0, 20.0, 20, 20, ""),
    ("a whole number is the same number", 20.0, 21.0, 20, 21.0, ""),
]


def given(value: Any) -> dict[str, Any]:
    return {} if value == MISSING else {FIELD: value}


@pytest.mark.parametrize(
    ("last", "listed", "found", "after", "of_people"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_change_of_the_list_takes_effect_and_one_of_people_stays(
    last: Any, listed: Any, found: Any, after: Any, of_people: str
) -> None:
    merged = merge(digests(given(last)), given(listed), given(found), DEFAULTS)
    assert merged.values == given(after)
    told = {"kept": ([FIELD], []), "conflict": ([], [FIELD]), "": ([], [])}
    assert (merged.kept, merged.conflicts) == told[of_people]


@pytest.mark.parametrize(("found", "after", "conflicts"), [(5, 5, []), (7, 7, [FIELD]), (MISSING, 5, []), (0, 5, [])])
def test_where_nobody_knows_what_the_list_was_a_difference_is_people_s(found: Any, after: Any, conflicts: Any) -> None:
    merged = merge({}, {FIELD: 5}, given(found), DEFAULTS)
    assert (merged.values, merged.conflicts) == ({FIELD: after}, conflicts)


def test_the_fields_are_merged_one_by_one() -> None:
    merged = merge(digests({"a": 1, "b": [1], "c": {}}), {"a": 2, "b": [1], "c": {}}, {"a": 1, "b": [2], "c": {}}, {})
    assert merged.values == {"a": 2, "b": [2], "c": {}} and merged.kept == ["b"]


def test_a_digest_is_that_of_the_value_whatever_it_holds() -> None:
    same = [{"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}]
    assert len({digest(value) for value in same}) == 1
    values = [MISSING, None, "", 0, False, [], {}, "half \ud835", 1.5, "1.5"]
    assert len({digest(value) for value in values}) == len(values)
