"""Removal of keys from the responses of an endpoint, before anything else reads them."""

import re
from collections.abc import Iterable

MASKED = b"[key]"
_LONG, _SHORT = 16, 8
"""Least length of a secret: of any value, and of a value with a digit."""
_RUN = re.compile(r"\\+|.", re.DOTALL)
"""A character of a value. A run of backslashes counts as one, since its length depends on the levels of escaping."""


class Mask:
    """The judge's key and the values of its headers, found in any form that JSON can give them."""

    def __init__(self, values: Iterable[str]) -> None:
        """Store the values to be removed, without empty ones."""
        given = sorted(filter(None, values), key=len, reverse=True)  # longest first: one may begin with another
        self._secrets = [_escaped(value) for value in given if _is_secret(value)]
        self._values = given

    def body(self, body: bytes) -> bytes:
        """Return a body without the secrets. Values as short as a word are kept: they may be words of the answer."""
        for secret in self._secrets:
            body = secret.sub(MASKED, body)
        return body

    def words(self, words: str) -> str:
        """Return an error message without any of the values, however short."""
        for value in self._values:
            words = words.replace(value, MASKED.decode())
        return words


def _is_secret(value: str) -> bool:
    return len(value) >= (_SHORT if any(sign.isdigit() for sign in value) else _LONG)


def _escaped(value: str) -> re.Pattern[bytes]:
    """Return a pattern of a value as it is, in JSON, and in JSON within JSON, with any of its characters escaped."""
    return re.compile(b"".join(_sign(run[0]) for run in _RUN.findall(value)))


def _sign(sign: str) -> bytes:
    # Backslashes are bounded, for a body may consist of them; four levels of JSON have fifteen.
    escaped = rb"\\{1,15}+u00(?i:%02x)" % ord(sign)
    if sign == "\\":
        return rb"(?:%b|\\{1,15}+)" % escaped
    plain = re.escape(sign).encode()
    return rb"(?:%b|%b%b)" % (escaped, rb"\\{0,15}+" if sign in '"/' else b"", plain)
