"""Removal of the key from what an endpoint sends, before anything else reads it."""

import re
from collections.abc import Iterable

MASKED = b"[key]"
_LONG, _SHORT = 16, 8
"""Characters from which on a value is a secret: any value, and one that holds a digit."""
_RUN = re.compile(r"\\+|.", re.DOTALL)
"""A sign of a value; backslashes in a row are one, since how many they become depends on what is read of them."""


class Mask:
    """The judge's key and the values of its headers, found in any text that JSON can make of them."""

    def __init__(self, values: Iterable[str]) -> None:
        """Take the values to be removed; empty ones are skipped."""
        given = sorted(filter(None, values), key=len, reverse=True)  # one may begin with another
        self._secrets = [_escaped(value) for value in given if _is_secret(value)]
        self._values = given

    def body(self, body: bytes) -> bytes:
        """Return a body without the secrets. A value as short as a word is none, and may be a word of the answer."""
        for secret in self._secrets:
            body = secret.sub(MASKED, body)
        return body

    def words(self, words: str) -> str:
        """Return the words of an error without any of the values, however short."""
        for value in self._values:
            words = words.replace(value, MASKED.decode())
        return words


def _is_secret(value: str) -> bool:
    return len(value) >= (_SHORT if any(sign.isdigit() for sign in value) else _LONG)


def _escaped(value: str) -> re.Pattern[bytes]:
    """Return a pattern of a value as it is, in JSON, and in JSON within JSON, whichever signs are escaped."""
    return re.compile(b"".join(_sign(run[0]) for run in _RUN.findall(value)))


def _sign(sign: str) -> bytes:
    # Backslashes are bounded, for a body may hold nothing else; four levels of JSON have fifteen.
    escaped = rb"\\{1,15}+u00(?i:%02x)" % ord(sign)
    if sign == "\\":
        return rb"(?:%b|\\{1,15}+)" % escaped
    plain = re.escape(sign).encode()
    return rb"(?:%b|%b%b)" % (escaped, rb"\\{0,15}+" if sign in '"/' else b"", plain)
