"""What makes two runs comparable, and what is told of those that are not."""

from tasks.ledger.protocol_keys import (
    ASKED,
    PROMPT,
    differences,
    joint_key,
    judge_key,
    protocol_differences,
    protocol_key,
)

PROTOCOL = {ASKED: "gpt-x", "model answered": "gpt-x-1", "temperature": "1", f"{PROMPT}readability": "a"}


def test_the_model_asked_differs_but_keeps_no_two_runs_apart() -> None:
    other = PROTOCOL | {ASKED: "gpt-x-latest"}
    assert protocol_key(other) == protocol_key(PROTOCOL)
    assert (differences(PROTOCOL, other), protocol_differences(PROTOCOL, other)) == ([ASKED], [])


def test_items_that_changed_came_or_went_are_named_in_order() -> None:
    other = {ASKED: "y", "temperature": "0", "model answered": "gpt-x-1", "votes": "3"}
    assert differences(PROTOCOL, other) == [ASKED, f"{PROMPT}readability", "temperature", "votes"]
    assert protocol_differences(other, PROTOCOL) == [f"{PROMPT}readability", "temperature", "votes"]
    assert protocol_key(other) != protocol_key(PROTOCOL)


def test_a_judge_is_the_same_whatever_it_is_prompted_with() -> None:
    other = PROTOCOL | {f"{PROMPT}readability": "b", f"{PROMPT}aesthetics": "c"}
    assert protocol_key(other) != protocol_key(PROTOCOL) and judge_key(other) == judge_key(PROTOCOL)


def test_shards_judged_alike_share_their_key_and_others_get_one_of_their_own() -> None:
    assert joint_key(["a", "a"]) == "a"
    assert joint_key(["a", "b"]) == joint_key(["b", "a", "b"]) not in ("a", "b")
