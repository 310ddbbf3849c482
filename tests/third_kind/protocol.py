"""Protocol of the kind: a manifest of statements with pictures, and answers that are yes or no."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import picture_in
from tasks.datasets.paths import Folder
from tasks.datasets.rows import find_rows
from tasks.errors import Problems
from tasks.files import real_place
from tasks.protocols.protocol import Decided, Protocol, Reading, ReplyForm, Tally, last_attempts
from tasks.records import OVERALL, DimensionOutcome, Judgment, RunStart, Sample
from tasks.rubrics.rubric import Rubric
from tasks.statistics.scores import ScoreTally
from tasks.statistics.series import Compared, Measure, Measured
from third_kind.prompt import PresenceParameters, PresencePrompt

WORTH = {"yes": 100.0, "no": 0.0}


class PresenceProtocol(Protocol[PresencePrompt, PresenceParameters]):
    """Judging of one picture by the truth of a statement."""

    parameters = PresenceParameters
    unit = "samples"
    decimals = 1
    highest = 100.0

    def read_dataset(self, source: Path, flow: str, parameters: PresenceParameters) -> Dataset:
        problems, folder = Problems(), Folder(source.parent, parameters.follow_links)
        samples = tuple(
            Sample(
                sample_id=str(row.values["id"]),
                candidate=str(row.values["candidate"]),
                record=row.place,
                texts={"caption": "statement"},
                pictures={"image": picture_in(row, "image", folder)},
            )
            for row in find_rows(source, problems, (real_place(source),))
        )
        problems.stop(f"dataset {source.name}")
        key = sha256(json.dumps(sorted(each.sample_id for each in samples)).encode()).hexdigest()
        candidates = tuple(dict.fromkeys(each.candidate for each in samples))
        return Dataset(name=source.name, key=key, samples=samples, candidates=candidates, warnings=())

    def reply_form(self, prompt: PresencePrompt, sample: Sample) -> ReplyForm:
        properties = {"answer": {"type": "string", "enum": [*WORTH]}}
        schema = {"type": "object", "properties": properties, "required": ["answer"], "additionalProperties": False}
        return ReplyForm(schema, 'Reply with a JSON object: "answer" is "yes" or "no".', [*WORTH])

    def read_reply(self, text: str, prompt: PresencePrompt, sample: Sample) -> Reading:
        try:
            answer = json.loads(text)["answer"]
        except (ValueError, KeyError, TypeError):
            return Reading(error=f"no answer: {text}")
        return Reading(verdict=answer, recovery="strict") if answer in WORTH else Reading(error=f"answer is {answer!r}")

    def decide(
        self,
        sample: Sample,
        judgments: Sequence[Judgment],
        rubric: Rubric,
        parameters: PresenceParameters,
        problems: Mapping[str, str],
    ) -> Decided:
        verdict_of = {row.dimension: row.verdict for row in last_attempts(judgments).values()}
        verdicts = {prompt.dimension: verdict_of.get(prompt.dimension) for prompt in rubric.prompts}
        dimensions = tuple(
            DimensionOutcome(dimension=name, verdict=verdict, score=WORTH.get(verdict or ""))
            for name, verdict in verdicts.items()
        )
        scores = [each.score for each in dimensions if each.score is not None]
        if problems:
            return Decided("bad_picture", None, "no picture", dimensions, problem=problems["image"])
        if len(scores) < len(dimensions):
            return Decided("incomplete", None, "an answer is missing", dimensions)
        score = sum(scores) / len(scores)
        return Decided("complete", score, "share of yes", dimensions, overall="yes" if score == 100 else "no")

    def score_tally(self, start: RunStart) -> Tally:
        return ScoreTally()

    def measured(self, outcome: Compared) -> Measured:
        return Measured(outcome.sample_id, outcome.status, "", {Measure(OVERALL): outcome.score})


PROTOCOL = PresenceProtocol()
