"""Keys of comparable runs: hashes of all settings that affect the meaning of their numbers."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

PROMPT = "prompt "
"""Prefix of the protocol items about prompts."""
ASKED = "model asked"
"""Only item outside of the key: the model that answered counts."""


def digest(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of values, independent of their order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def protocol_key(protocol: Mapping[str, str]) -> str:
    """Return the SHA-256 of an answered protocol: equal for runs with comparable numbers."""
    return digest({name: value for name, value in protocol.items() if name != ASKED})


def judge_key(protocol: Mapping[str, str]) -> str:
    """Return the SHA-256 of an answered protocol without prompts: equal across flows for one judge and its settings."""
    return protocol_key({name: value for name, value in protocol.items() if not name.startswith(PROMPT)})


def joint_key(keys: Iterable[str]) -> str:
    """Return the protocol key of an evaluation in shards: the shards' common key, or a hash of all their keys."""
    distinct = sorted(set(keys))
    return distinct[0] if len(distinct) == 1 else hashlib.sha256(" ".join(distinct).encode()).hexdigest()


def protocol_differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the sorted names of the items in which the keys of two answered protocols differ."""
    return [name for name in sorted(one.keys() | other.keys()) if name != ASKED and one.get(name) != other.get(name)]
