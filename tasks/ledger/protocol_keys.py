"""The keys by which runs are told to be comparable: hashes of all that makes their numbers mean the same."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

PROMPT = "prompt "
"""How the items of a protocol that are about prompts begin."""
ASKED = "model asked"
"""The one item that is no part of the key: what counts is the model that answered."""


def digest(value: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of values, whatever their order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def protocol_key(protocol: Mapping[str, str]) -> str:
    """SHA-256 of an answered protocol: equal for runs whose numbers may be compared."""
    return digest({name: value for name, value in protocol.items() if name != ASKED})


def judge_key(protocol: Mapping[str, str]) -> str:
    """SHA-256 of an answered protocol without its prompts: equal for runs of several flows by one judge in one way."""
    return protocol_key({name: value for name, value in protocol.items() if not name.startswith(PROMPT)})


def joint_key(keys: Iterable[str]) -> str:
    """The protocol key of an evaluation in shards from theirs: the one that they share, or a hash of all of them."""
    distinct = sorted(set(keys))
    return distinct[0] if len(distinct) == 1 else hashlib.sha256(" ".join(distinct).encode()).hexdigest()


def protocol_differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Names of the items that keep two answered protocols from having one key, sorted."""
    return [name for name in sorted(one.keys() | other.keys()) if name != ASKED and one.get(name) != other.get(name)]
