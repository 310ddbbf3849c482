"""What a reader sees of one sample. These records go into the page as JSON, and `page.js` knows them by these names."""

from tasks.records import Record


class Reason(Record):
    """What the judge said in one call."""

    call: str
    """Order and vote in words; empty where there is only one call to a dimension."""
    said: str
    """The verdict, or the status of a call that is not ok."""
    parts: tuple[tuple[str, str], ...]
    """(heading, text); one part without a heading where the text does not keep to the structure."""
    seen: str = ""
    """Of a generated image with a check: what the judge says is in it."""


class Question(Record):
    """One dimension, or one tag of a generated image, and what came of it."""

    name: str
    verdict: str
    """Of a tag its score."""
    orders: str = ""
    """Both orders' verdicts where they differ."""
    flip: bool = False
    reversal: bool = False
    reasons: tuple[Reason, ...] = ()


class Aspect(Record):
    """One aspect of a generated image."""

    name: str
    score: str
    explanation: str


class Card(Record):
    """One sample."""

    run: int
    """Which of the page's evaluations, from 0."""
    id: str
    candidate: str
    category: str = ""
    difficulty: str = ""
    tag: str = ""
    text: str
    """Caption, brief description or prompt."""
    status: str
    overall: str
    """Outcome, or score of a generated image."""
    score: float | None
    marks: dict[str, str]
    """Dimension or tag, `overall` among them -> what the reader may choose it by."""
    pictures: dict[str, str]
    """Side -> SHA-256; empty: there is none."""
    tier: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
    """What else is known, a few words each."""
    questions: tuple[Question, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    change: float | None = None
    """Against the evaluation before, in points of the overall score; None: nothing to compare with, or no change."""
    changed: tuple[str, ...] = ()
