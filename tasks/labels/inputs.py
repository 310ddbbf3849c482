"""Prompts and inputs of an evaluation's judge, read again for people to answer the same questions."""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from pydantic import ValidationError

from tasks.datasets.dataset import FILTERS
from tasks.datasets.entries import read_picture
from tasks.errors import InputError, first_fault
from tasks.history import queries as history
from tasks.history.database import HISTORY
from tasks.history.queries import Evaluation
from tasks.judging.case import Case, sample_texts
from tasks.judging.protocol_items import picture_policy
from tasks.ledger.evaluations import PROMPT
from tasks.pictures.preparation import Picture, Policy, as_shown, prepare
from tasks.pictures.thumbnails import scaled
from tasks.protocols import earlier_parameters, label_rules_of
from tasks.protocols.loading import load_dataset
from tasks.records import Sample
from tasks.rubrics.rubric import Rubric, RubricPrompt, load_rubric, prompt_sets

LONGEST_SIDE = 2048
"""Most pixels on the longest side of a picture for people."""
QUALITY = 92
AT_ONCE = 2
"""Pictures that are decoded at the same time; one may take 200 MB."""
_ASKED = "SELECT parameters FROM evaluations WHERE run_id = $1"
_JUDGED = """
    SELECT candidate, sample_id, list(DISTINCT dimension || ' ' || text_sha256)
    FROM judgments JOIN shard_runs s USING (run_id)
    WHERE s.evaluation_id = $1 AND coalesce(control, '') = '' GROUP BY ALL"""


class Drawable(NamedTuple):
    """A sample that people can be asked about: it has a score."""

    candidate: str
    sample_id: str
    tag: str
    prompt_id: str
    """Empty for figures."""
    pictures: Mapping[str, str]
    """Role -> SHA-256 of the picture's file."""
    question: str = ""
    """One of the sample's own questions; empty: samples share their questions."""
    weight: float = 1.0
    """Weight of this question in the sample's score."""

    @property
    def unit(self) -> tuple[str, str]:
        """Unit with one turn in a round of the drawing: a figure, or all images of a prompt."""
        return self.candidate, self.prompt_id or self.sample_id


class Inputs(NamedTuple):
    """What the judge was sent with a sample."""

    texts: Mapping[str, str] = {}
    """Input of the prompts -> its text."""
    pictures: Mapping[str, bytes] = {}
    """SHA-256 of the picture's file -> the picture as a JPEG."""
    sample: Sample | None = None
    """The sample in the dataset; None: it is lost."""
    lost: str = ""
    """Reason why the sample cannot be shown; empty: it can."""


def read_inputs(
    store: Path, evaluation: Evaluation, rubric: Rubric, drawn: Collection[Drawable], places: Mapping[str, str]
) -> dict[tuple[str, str], Inputs]:
    """Return (candidate, sample id) -> its inputs, for samples of an evaluation.

    Args:
        places: parameter of the run -> its place now, where that is another.

    Raises:
        InputError: the dataset cannot be read, or the flow has no such parameter.
    """
    try:
        [[kept]] = history.query(store, _ASKED, values=[evaluation.run_id]).rows
        asked = earlier_parameters(evaluation.flow, kept)
        if unknown := places.keys() - type(asked).model_fields:
            raise InputError(f"runs of {evaluation.flow} have no --{' or --'.join(sorted(unknown))}: leave it out")
        own = bool(label_rules_of(evaluation.flow).pooled)
        everything = {**{name: list[str]() for name in FILTERS}, "limit": 0} if not own else {}
        whole = asked.model_copy(update={**everything, "store": str(store), "shard": 0, **places})
        dataset = load_dataset(evaluation.flow, whole)
        if own and dataset.key != evaluation.dataset_key:  # it holds the right answers
            raise InputError(f"dataset {whole.dataset} has other prompts or checks than at {evaluation.run_id}")
    except ValidationError as error:
        raise InputError(f"{evaluation.run_id}: its parameters cannot be read: {first_fault(error)}") from error
    by_id: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in dataset.samples:
        by_id[sample.sample_id].append(sample)
    rows = history.query(store, _JUDGED, values=[evaluation.run_id]).rows
    judged = {(candidate, sample_id): {*texts} for candidate, sample_id, texts in rows}
    read = partial(_inputs, by_id, judged, rubric, picture_policy(asked))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return {each[:2]: found for each, found in zip(drawn, threads.map(read, drawn), strict=True)}


def _inputs(
    by_id: Mapping[str, Sequence[Sample]],
    judged: Mapping[tuple[str, str], Collection[str]],
    rubric: Rubric,
    policy: Policy,
    drawn: Drawable,
) -> Inputs:
    lost = "the dataset has no such sample"
    # A file that was renamed may have given the candidate another name: its pictures are what counts.
    for sample in sorted(by_id.get(drawn.sample_id, ()), key=lambda each: each.candidate != drawn.candidate):
        try:
            texts = _texts(sample, rubric, judged.get(drawn[:2], ()))
            return Inputs(texts, dict(_pictures(sample, drawn.pictures, policy)), sample)
        except InputError as error:
            lost = lost if lost.startswith("its") else str(error)
    return Inputs(lost=lost)


def _texts(sample: Sample, rubric: Rubric, judged: Collection[str]) -> dict[str, str]:
    """Return the texts of the prompts; InputError if their hashes are others than those in the history."""
    case, asked = Case(sample, sample_texts(sample, rubric.flow), {}), set[str]()
    for question in case.questions(rubric).values():
        asked.add(f"{question.dimension} {case.reduced_to(question).text_sha256(question.prompt)}")
    if not judged or not {*judged} <= asked:
        raise InputError("its texts are others than the judge got")
    prompts = rubric.prompts_for(sample)
    # An item asks one of the sample's own questions: it does not show all of them.
    names = sample.texts if label_rules_of(rubric.flow).pooled else case.texts
    return {name: case.texts[name] for name in names if any(name in prompt.inputs for prompt in prompts)}


def _pictures(sample: Sample, wanted: Mapping[str, str], policy: Policy) -> Iterator[tuple[str, bytes]]:
    """Yield the SHA-256 of each picture's file, and the picture as sent; InputError if it is another one."""
    for role, source_sha256 in wanted.items():
        data = read_picture(sample.pictures[role])
        if sha256(data).hexdigest() != source_sha256:
            raise InputError("its picture is another than the judge got")
        yield source_sha256, as_jpeg(prepare(data, policy))


def as_jpeg(picture: Picture) -> bytes:
    """Return a picture as it was sent, within the longest side; all are made alike, and have no metadata."""
    image = as_shown(b64decode(picture.encoded))
    buffer = BytesIO()
    shown = scaled(image, LONGEST_SIDE / max(image.size), Image.Resampling.LANCZOS)
    shown.save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()


_SCORED = """
    SELECT DISTINCT dimension, CASE WHEN "grouping" = 'aspect' THEN group_name ELSE '' END AS aspect FROM by_group
    WHERE flow = $1 AND dimension <> 'overall' ORDER BY ALL"""


def prompts_of(evaluation: Evaluation) -> Rubric:
    """Return the prompts of an evaluation. Raises InputError if the user's folder is gone or has changed since."""
    flow, prompt_set = evaluation.flow, evaluation.prompt_set
    if prompt_set in prompt_sets():
        return load_rubric(flow, prompt_set)
    asked = {name: value for name, value in evaluation.protocol.items() if name.startswith(PROMPT)}
    with suppress(InputError):
        own = load_rubric(flow, prompt_set)
        if asked.items() <= {f"{PROMPT}{each.dimension}": each.digest for each in own.prompts}.items():
            return own
    raise InputError(
        f"{evaluation.run_id}: its prompt set {prompt_set!r} is gone or has changed since: put back its files as they "
        "were"
    )


def known_questions(store: Path, flow: str) -> dict[str, dict[str, None]]:
    """Return dimension or tag -> its aspects (as keys, in order), of the default prompts and of all in the history."""
    found = {
        prompt.dimension: dict.fromkeys(prompt.aspects if isinstance(prompt, RubricPrompt) else ())
        for prompt in load_rubric(flow).prompts
    }
    scored = history.query(store, _SCORED, values=[flow]).rows if (store / HISTORY).exists() else []
    for dimension, aspect in scored:
        found.setdefault(dimension, {}).update(dict.fromkeys(filter(None, [aspect])))
    return found
