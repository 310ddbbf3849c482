"""How large a report may become: what is large in it gets an equal share of a fixed number of bytes.

292 samples with two pictures each stay under 30 MB: 16 MB of pictures are 21.4 MB in base64, and 6 MB of reasons come
on top. Whatever is smaller than its share leaves the rest to the others.
"""

from collections.abc import Sequence

PICTURES = 16_000_000
"""Bytes of all pictures together, as long as there are no more than leave each its least."""
LEAST_PICTURE = 8_000
"""Bytes that a picture is allowed however many there are: about 300 pixels of a figure."""
REASONS = 6_000_000
"""Bytes of all the judge's words together."""


def fair_share(sizes: Sequence[int], budget: int) -> int:
    """The largest limit for which all sizes, each cut to it, stay within the budget; the largest size if they fit."""
    left = budget
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        others = len(ordered) - at
        if size * others > left:
            return left // others
        left -= size
    return ordered[-1] if ordered else budget


def picture_limit(sizes: Sequence[int]) -> int:
    """Bytes that each of these pictures may have."""
    return max(LEAST_PICTURE, fair_share(sizes, PICTURES))
