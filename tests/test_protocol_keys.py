"""Keys that decide which runs are comparable and which replies are reusable: they must not change by accident."""

import hashlib
import json

from factories import any_sample

from tasks.judging.protocol_items import answered_protocol, asked_protocol
from tasks.judging.questions import call_key
from tasks.ledger.evaluations import ASKED, PROMPT, joint_key, judge_key, protocol_differences, protocol_key
from tasks.protocols import parameters_of
from tasks.records.judge import Judge
from tasks.records.parameters import PAIRWISE, T2I
from tasks.rubrics.rubric import holdings, load_rubric

SETS = ("default", "paper", "checked")
JUDGES = (Judge(), Judge(model="gpt-x", base_url="https://judge.example/v1"))
PROTOCOL = {ASKED: "gpt-x", "model answered": "gpt-x-1", "temperature": "1", f"{PROMPT}readability": "a"}


def keys() -> dict[str, str]:
    """Return the call, protocol and judge keys of every shipped prompt, with two judges."""
    found: dict[str, str] = {}
    for rubric in (load_rubric(flow, name) for flow in (*PAIRWISE, *T2I) for name in SETS if flow in holdings(name)):
        parameters = parameters_of(rubric.flow)
        for judge in JUDGES:
            place = f"{rubric.flow}/{rubric.prompt_set}"
            for prompt in rubric.prompts:
                digests = {name: format(at, "x") * 64 for at, name in enumerate(prompt.inputs)}
                for order in parameters(votes=2).order_list():
                    key = call_key(prompt, any_sample(), digests, order, 1, judge)
                    found[f"{place}/{prompt.dimension}/{judge.model}/{order}"] = key
            asked = asked_protocol(parameters(judge=judge, votes=2), rubric)
            answered = answered_protocol(asked, {"m-1"}, {"json_schema"}, {"detail"})
            found[f"{place}/{judge.model} protocol"] = protocol_key(answered)
            found[f"{place}/{judge.model} judge"] = judge_key(answered)
    return found


def test_keys_equal_those_of_the_first_version() -> None:
    found = keys()
    assert len(found) == 92
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    assert digest == "fe4e814d9643253220b74ad81735ff22553081d69359a7aa760260f8864005cc"


def test_protocol_key_ignores_the_requested_model() -> None:
    other = PROTOCOL | {ASKED: "gpt-x-latest"}
    assert protocol_key(other) == protocol_key(PROTOCOL)
    assert protocol_differences(PROTOCOL, other) == []


def test_changed_added_and_removed_items_are_named_in_order() -> None:
    other = {ASKED: "y", "temperature": "0", "model answered": "gpt-x-1", "votes": "3"}
    assert protocol_differences(other, PROTOCOL) == [f"{PROMPT}readability", "temperature", "votes"]
    assert protocol_key(other) != protocol_key(PROTOCOL)


def test_judge_key_ignores_prompts() -> None:
    other = PROTOCOL | {f"{PROMPT}readability": "b", f"{PROMPT}aesthetics": "c"}
    assert protocol_key(other) != protocol_key(PROTOCOL) and judge_key(other) == judge_key(PROTOCOL)


def test_joint_key_of_shards_is_shared_or_derived() -> None:
    assert joint_key(["a", "a"]) == "a"
    assert joint_key(["a", "b"]) == joint_key(["b", "a", "b"]) not in ("a", "b")
