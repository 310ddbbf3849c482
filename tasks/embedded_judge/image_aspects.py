"""The text-to-image rules of the embedded judge: from blobs to the finding for one aspect of a rubric.

Owns the limits and the words. Where the prompt names drawn shapes, an outline shows which object is which; of all other
objects pixels show how many areas there are, how large, of which color and where, but not which is which. How blobs are
found stands in `blobs`, the overall score of all aspects in `image_scores`.
"""

from collections import Counter

from tasks.embedded_judge.image_view import Blob, Finding, View, cannot_tell

UNLIKE = 3.0
"""An object whose outline is not that of the drawn shape asked for scores this at most."""
CLEAR_CONTRAST = 25.0
"""Difference of colors from which an object stands out as well as any: about that of white on medium gray."""
EVEN_SIZES = 0.5
"""Objects at least so many times as long as the longest are of like size."""
CARD = 0.9
"""An area that fills so much of its bounding box is a rectangle, which may hide what it touches."""
TOUCHING = 4.0
"""Objects that touch score this at most for being apart."""
MARGIN = 0.1
"""Objects lie beside each other when their centers are farther apart than this share of both their sizes: GenEval's."""


def completeness(view: View) -> Finding:
    """Whether one object is in one piece and, where its outline is known, has that outline."""
    first, name = view.blobs[0], view.asked[0].name if view.named else ""
    share = first.area / sum(blob.area for blob in view.blobs)
    words = f"{view.counted()}; the largest has {share:.0%} of all that differs from the ground"
    if not name:
        return Finding(10 * share, words)
    if first.shape == name:
        return Finding(10 * share, f"{words} and the outline of a drawn {name}")
    return Finding(min(UNLIKE, 10 * share), f"{words} and not the outline of a drawn {name}")


def contrast(view: View) -> Finding:
    """How far the palest object asked for differs from the ground."""
    least = min(blob.contrast for blob in view.largest())
    words = f"color difference to the ground at least {least:.0f} (from {CLEAR_CONTRAST:.0f} it is clear)"
    return Finding(10 * min(1, least / CLEAR_CONTRAST), words)


def covering(view: View) -> Finding:
    """How much of an area a rectangle covers that touches it."""
    touching = view.survey.touching()
    if not touching:
        return Finding(10, f"{view.counted()}; none touches another")
    group = [blob for blob in view.blobs if blob.group == touching[0][0].group]
    card = next((blob for blob in group if blob.filled >= CARD), None)
    if card is None:
        return cannot_tell(f"{len(group)} areas touch, none a rectangle; which one is in front")
    share = card.area / sum(blob.area for blob in group)
    return Finding(10 * (1 - share), f"a plain {card.color} rectangle takes {share:.0%} of {len(group)} touching areas")


def separation(view: View) -> Finding:
    """Whether as many areas as asked for stand apart."""
    if len(view.blobs) < view.wanted:
        return Finding(0, view.counted())
    touching = view.survey.touching()
    if not touching:
        return Finding(10, f"{view.counted()}; none touches another")
    share = max(_common(*pair) for pair in touching)
    words = f"{view.counted()}; some touch, with up to {share:.0%} of a bounding box in common"
    return Finding(min(TOUCHING, 10 * (1 - share)), words)


def wholeness(view: View) -> Finding:
    """How many of the objects are there in one piece."""
    if view.named:
        whole = sum(min(one.count, len(view.alike(one.name))) for one in view.asked)
        of = max(view.wanted, len(view.blobs))
        return Finding(10 * whole / of, f"{view.counted()}; {whole} of {of} have an outline asked for")
    if len(view.blobs) < view.wanted:
        return Finding(10 * len(view.blobs) / view.wanted, view.counted())
    share = sum(blob.area for blob in view.largest()) / sum(blob.area for blob in view.blobs)
    words = f"{view.counted()}; the largest {len(view.largest())} have {share:.0%} of all that differs from the ground"
    return Finding(10 * share, words)


def proportion(view: View) -> Finding:
    """Whether the two objects are of like size; what is right for real ones, pixels cannot tell."""
    if len(view.blobs) < 2:
        return cannot_tell(f"{view.counted()}; their proportion")
    small, large = sorted(blob.length for blob in view.blobs[:2])
    words = f"the smaller is {small / large:.0%} as long as the larger (from {EVEN_SIZES:.0%} they are alike)"
    return Finding(10 * min(1, small / large / EVEN_SIZES), words)


def count(view: View) -> Finding:
    """Whether there are as many areas as objects asked for."""
    return Finding(10 if view.survey.found == view.wanted else 0, view.counted())


def uniformity(view: View) -> Finding:
    """How alike the objects are in color, outline and size, by what they are least alike in."""
    total = len(view.blobs)
    if total < 2:
        return cannot_tell(f"{view.counted()}; whether objects are alike")
    color, shape = (_most(words) for words in ([b.color for b in view.blobs], [b.shape for b in view.blobs]))
    size = min(blob.length for blob in view.blobs) / max(blob.length for blob in view.blobs)
    words = f"{color} of {total} have one color, {shape} one outline; the smallest is {size:.0%} as long as the largest"
    return Finding(10 * min(color / total, shape / total, size / EVEN_SIZES, 1), words)


def legibility(view: View) -> Finding:
    """How many of the areas stand alone."""
    joined = {blob.group for pair in view.survey.touching() for blob in pair}
    alone = sum(blob.group not in joined for blob in view.blobs)
    return Finding(10 * alone / len(view.blobs), f"{alone} of {len(view.blobs)} areas touch no other")


def fidelity(view: View) -> Finding:
    """How much of the objects has the color asked for."""
    color = next((one.color for one in view.asked if one.color), "")
    if not color:
        return cannot_tell("the prompt names no color; whether it is right")
    total = sum(blob.area for blob in view.largest())
    share = sum(blob.area * blob.hues.get(color, 0) for blob in view.largest()) / total
    return Finding(10 * share, f"{share:.0%} of the area is {color}, most is {view.blobs[0].color}; asked {color}")


def consistency(view: View) -> Finding:
    """Whether several objects have one color; does not apply to one object."""
    if view.wanted < 2:
        return Finding(None, "the prompt asks for one object")
    if len(view.blobs) < 2:
        return cannot_tell(f"{view.counted()}; whether colors agree")
    same = _most([blob.color for blob in view.blobs])
    return Finding(10 * same / len(view.blobs), f"{same} of {len(view.blobs)} areas have one color")


def binding(view: View) -> Finding:
    """Whether each object has the color asked for it."""
    colored = [one for one in view.asked if one.color]
    if not colored:
        return cannot_tell("the prompt names no color; whether it is right")
    words = f"areas are {', '.join(f'{blob.color} {blob.shape}'.strip() for blob in view.blobs)}"
    if view.named:
        right = sum(any(blob.color == one.color for blob in view.alike(one.name)) for one in colored)
        return Finding(10 * right / len(colored), f"{words}; {right} of {len(colored)} as asked")
    there = sum(any(blob.color == one.color for blob in view.blobs) for one in colored)
    if there == len(colored):
        return cannot_tell(f"{words}; all colors asked for are there, and which object has which")
    return Finding(10 * there / len(colored), f"{words}; {there} of {len(colored)} colors asked for are there")


def position(view: View) -> Finding:
    """Whether one object lies where it was asked for, seen from the other."""
    holds, words = relation(view)
    return cannot_tell(words) if holds is None else Finding(10 if holds else 0, words)


def relation(view: View) -> tuple[bool | None, str]:
    """Whether the relation asked for holds (None: pixels cannot tell), and what was measured."""
    placed = next((one for one in view.asked if one.relation), None)
    if placed is None or placed.target is None:
        return None, "the prompt names no place; whether it is right"
    target = view.asked[placed.target]
    ones, others = view.alike(placed.name), view.alike(target.name)
    if view.named and ones and others:
        (x, y), (to_x, to_y) = ones[0].center, others[0].center
        words = f"the {placed.name}'s center is {to_x - x:+.2f} left of and {to_y - y:+.2f} above the {target.name}'s"
        return _lies(ones[0], placed.relation, others[0]), f"{words}, in shares of the picture's longest side"
    if len(view.blobs) < 2 or (view.named and not view.survey.touching()):
        return False, f"{view.counted()}; not both outlines were found" if view.named else view.counted()
    pair = view.blobs[:2]
    if len(view.blobs) == 2 and not any(_lies(a, placed.relation, b) for a, b in (pair, pair[::-1])):
        return False, f"{view.counted()}; neither lies {placed.relation} the other"
    return None, f"{view.counted()}; which of them is the {placed.name}"


def _lies(one: Blob, where: str, other: Blob) -> bool:
    axis, sign = (0 if where in ("left of", "right of") else 1), (-1 if where in ("left of", "above") else 1)
    sizes = [(blob.right - blob.left, blob.bottom - blob.top)[axis] for blob in (one, other)]
    return sign * (one.center[axis] - other.center[axis]) > MARGIN * sum(sizes)


def _common(one: Blob, other: Blob) -> float:
    """Area that two bounding boxes share, as a share of the smaller box."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    smaller = min((blob.right - blob.left) * (blob.bottom - blob.top) for blob in (one, other))
    return max(0, width) * max(0, height) / smaller


def _most(words: list[str]) -> int:
    return Counter(words).most_common(1)[0][1]
