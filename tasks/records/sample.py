"""Samples: frozen dataclasses, since a run has all of them in memory, where Pydantic models would take five times as
much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.records.terms import Record


@dataclass(frozen=True, slots=True)
class Place:
    """Position of one record, so that texts and pictures are read when their chunk is judged, not before."""

    path: str
    """Absolute path of the file."""
    start: int = 0
    """First byte of the record in the file."""
    length: int = 0
    """Bytes of the record; 0: the record is the whole file."""
    within: tuple[str, ...] = ()
    """Files and folders that must be or contain the file each time it is opened; see `open_regular`."""


@dataclass(frozen=True, slots=True)
class PictureSource:
    """Place of a picture's bytes, or the reason why there are none."""

    place: Place | None = None
    field: str = ""
    """Key or column that holds the picture (base64 text or bytes); empty: the file itself is the picture."""
    problem: str = ""
    """Reason why there is no picture; empty if there is one."""
    carried_from: str = ""
    """Earlier stage of the generator that made the picture, since its critic was content then; empty: its own stage."""


class Requirement(Record):
    """Object that a text-to-image prompt asks for, or must not get: an entry of GenEval's `include` or `exclude`."""

    name: str
    """Name of the object: `bench`, `sports ball`."""
    count: int = 1
    """Least number of objects; in an exclusion, the least number that is too many."""
    color: str = ""
    """Color of the object; empty: any."""
    relation: str = ""
    """Position: `left of`, `right of`, `above` or `below` the target; empty: anywhere."""
    target: int | None = None
    """Number of the required object, from 0, that the relation refers to."""


def entries(requirements: Sequence[Requirement]) -> list[dict[str, Any]]:
    """Return requirements as entries of GenEval's `include` or `exclude`."""
    return [
        {"class": each.name, "count": each.count}
        | ({"color": each.color} if each.color else {})
        | ({"position": [each.relation, each.target]} if each.relation else {})
        for each in requirements
    ]


CheckForm = Literal["yes_no", "number", "choice", "ordinal"]


@dataclass(frozen=True, slots=True)
class Check:
    """Question about a picture, and the answers that are right."""

    check_id: str
    question: str
    expected: tuple[str, ...]
    """Spellings of the right answer: yes or no, a number, the letters of options, or 0, 1 or 2."""
    form: CheckForm = "yes_no"
    options: tuple[tuple[str, str], ...] = ()
    """Letter and words of each option; only of the form `choice`."""
    group: str = ""
    parents: tuple[str, ...] = ()
    weight: float = 1.0
    absence: bool = False
    """True if an empty picture gives the right answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One thing to judge, of one candidate. All its values were checked when its dataset was read."""

    sample_id: str
    candidate: str
    tag: str = ""
    """Category of a text-to-image prompt, which selects its rubric; empty: every prompt of the flow is asked."""
    prompt_id: str = ""
    """Id that the images of one text-to-image prompt share; empty: this sample is alone."""
    category: str = ""
    difficulty: str = ""
    record: Place
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text field of the prompt (`context`, `caption`) -> key of the record that holds it."""
    uncut: bool = False
    """True if the texts are sent with the links to images in them."""
    texts_key: str = ""
    """Hash of the texts of a figure, for the key of the dataset; empty: an image, whose dataset has keys by prompt."""
    own_order: bool = False
    """True if a text is data whose keys are not in alphabetical order. Earlier versions sent them sorted."""
    pictures: Mapping[str, PictureSource] = field(default_factory=dict[str, PictureSource])
    """Role (`human` and `model`, or `image`) -> source of that picture."""
    required: tuple[Requirement, ...] = ()
    """All objects that the text-to-image prompt asks for; empty: unknown."""
    excluded: tuple[Requirement, ...] = ()
    """Objects that the image must not show."""
    checks: tuple[Check, ...] = ()
    """Questions of a checklist; empty: another kind of judging."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader: `empty context`, `2 image links dropped`."""
    injected: str = ""
    """Defect put into the sample on purpose, or the name of a kind without a defect; empty: unknown."""
    control: str = ""
    """Kind of control sample, made from a real one to test the judge, or `anchor`; empty: a real sample."""

    @property
    def subject(self) -> str:
        """Return the unit of scoring, for all candidates: the sample, or all images of its text-to-image prompt."""
        return self.prompt_id or self.sample_id

    @property
    def carried_from(self) -> str:
        """Return the earlier stage whose picture is judged in place of the candidate's own; empty: its own is."""
        return next((source.carried_from for source in self.pictures.values() if source.carried_from), "")
