"""Keys by which years of runs are told to be comparable, and replies to be reusable: they never change by accident."""

import hashlib
import json
from collections.abc import Iterator

import pytest

from tasks.judging.protocol import answered_protocol, asked_protocol
from tasks.judging.questions import call_key
from tasks.ledger.protocol_keys import judge_key, protocol_key
from tasks.parameters import PAIRWISE, T2I, Judge, parameters_of
from tasks.rubrics.rubric import Rubric, holdings, load_rubric

SETS = ("default", "paper", "checked")
JUDGES = (Judge(), Judge(model="gpt-x", base_url="https://judge.example/v1"))


def rubrics() -> Iterator[Rubric]:
    for flow in (*PAIRWISE, *T2I):
        yield from (load_rubric(flow, name) for name in SETS if flow in holdings(name))


def keys() -> dict[str, str]:
    """Call, protocol and judge keys of every prompt that comes with the program, under two judges."""
    found: dict[str, str] = {}
    for rubric in rubrics():
        parameters = parameters_of(rubric.flow)
        for judge in JUDGES:
            place = f"{rubric.flow}/{rubric.prompt_set}"
            for prompt in rubric.prompts:
                digests = {name: format(at, "x") * 64 for at, name in enumerate(prompt.inputs)}
                for order in parameters(votes=2).order_list():
                    key = call_key(prompt, digests, order, 1, judge)
                    found[f"{place}/{prompt.dimension}/{judge.model}/{order}"] = key
            asked = asked_protocol(parameters(judge=judge, votes=2), rubric)
            answered = answered_protocol(asked, {"m-1"}, {"json_schema"}, {"detail"})
            found[f"{place}/{judge.model} protocol"] = protocol_key(answered)
            found[f"{place}/{judge.model} judge"] = judge_key(answered)
    return found


def test_all_keys_are_those_of_the_first_version() -> None:
    found = keys()
    assert len(found) == 92
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    assert digest == "1eec45354938260969ab1d48362859ac67ab3d066cbe43cbae45735c8e22c6ec"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (
            "diagram/default/faithfulness/gpt-x/human_first",
            "4b60764b324d730b94b89627a05121fb798e31219e0bec4bd3c622f42d58f24f",
        ),
        (
            "plot/default/readability/pixel-baseline/human_first",
            "2f5fc333d4c9ecb651fb8643b237b9e36c9ecf5f210a69960d12ecb299be43fe",
        ),
        ("colors/checked/colors/gpt-x/single", "6d3273e0c50d0a846a856091fa1cc55a8ebfacfc6779d62f6a2bf5f3f0c1e578"),
        ("diagram/paper/gpt-x protocol", "8691e5f26a7bd0de42776dd81863806a75bbaf626d451ef156e27cafb9fcd2b3"),
        ("position/default/gpt-x judge", "d0ff0ca09204949ae98775c7480440d5b6ce7ab5a0cc56427da5f3f1722d1a98"),
    ],
)
def test_a_key_of_each_sort(name: str, key: str) -> None:
    assert keys()[name] == key
