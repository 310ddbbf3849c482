"""A trend as a small line of SVG, for a page that shows many: no axes, and gaps where evaluations do not compare.

Owns its form. What a trend is stands in `comparing`; the charts of a report, which have axes and words, are drawn by
`presentation`.
"""

from collections.abc import Sequence

from markupsafe import Markup, escape

from tasks.comparing.points import Point
from tasks.text import number_words

WIDTH, HEIGHT, EDGE = 240, 48, 5
"""Of the drawing, in units of the SVG; the outermost points keep that far from its edges."""


def sparkline(points: Sequence[Point]) -> Markup:
    """The scores in the order of time, evenly spaced; nothing where there are fewer than two.

    Args:
        points: scored ones, oldest first.
    """
    if len(points) < 2:
        return Markup("")
    places = _places(points)
    marks = f"{_marks('break', _broken(points), places)}{_marks('joint', _joined(points), places)}"
    body = f"{marks}{_line(points, places)}{_dot(places[-1])}"
    words = escape(_words(points))
    shape = f'class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    return Markup(f'<svg role="img" aria-label="{words}" {shape}><title>{words}</title>{body}</svg>')


def _places(points: Sequence[Point]) -> list[tuple[float, float]]:
    scores = [point.score or 0.0 for point in points]
    low, reach = min(scores), (max(scores) - min(scores)) or 1.0
    step = (WIDTH - 2 * EDGE) / (len(points) - 1)
    return [
        (round(EDGE + at * step, 1), round(HEIGHT - EDGE - (score - low) / reach * (HEIGHT - 2 * EDGE), 1))
        for at, score in enumerate(scores)
    ]


def _broken(points: Sequence[Point]) -> list[int]:
    """Places of the points that do not compare with the one before."""
    return [at for at, point in enumerate(points) if at and point.break_reason]


def _joined(points: Sequence[Point]) -> list[int]:
    """Places of the points with which another judge goes on, by a bridge."""
    return [at for at, point in enumerate(points) if at and point.joint and not point.break_reason]


def _line(points: Sequence[Point], places: Sequence[tuple[float, float]]) -> str:
    """A path through the points, begun anew where a series breaks."""
    begins = {0, *_broken(points)}
    steps = [f"{'M' if at in begins else 'L'}{x} {y}" for at, (x, y) in enumerate(places)]
    return f'<path class="line" d="{" ".join(steps)}"/>'


def _marks(kind: str, at: Sequence[int], places: Sequence[tuple[float, float]]) -> str:
    """A line across the drawing before each of these points."""
    middles = [round((places[each - 1][0] + places[each][0]) / 2, 1) for each in at]
    return "".join(f'<path class="{kind}" d="M{x} 0 V{HEIGHT}"/>' for x in middles)


def _dot(place: tuple[float, float]) -> str:
    return f'<path class="dot" d="M{place[0]} {place[1]}h0"/>'


def _words(points: Sequence[Point]) -> str:
    """What the line shows, for who cannot see it."""
    first, last = points[0], points[-1]
    broken, joined = len(_broken(points)), len(_joined(points))
    ends = " to ".join(f"{number_words(each.score, 1)} on {each.started_at:%Y-%m-%d}" for each in (first, last))
    breaks = f", broken {broken} time{'s' * (broken > 1)}, where evaluations do not compare" if broken else ""
    joints = f", joined {joined} time{'s' * (joined > 1)} by a bridge between judges" if joined else ""
    return f"{len(points)} evaluations: {ends}{breaks}{joints}"
