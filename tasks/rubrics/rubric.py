"""Prompt files, the sets that they form, and the rubric of one run."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from tasks.errors import InputError
from tasks.files import read_regular_text, real_place
from tasks.ledger.evaluations import digest
from tasks.records import OVERALL_SCORE, SEEN, VERDICTS, DimensionOutcome, Judgment, Outcome, Record, Sample, Verdict
from tasks.records.parameters import CHECKLIST, PAIRWISE, T2I
from tasks.text import listed

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Prompt(Record):
    """One prompt file: its source, then its TOML front matter, whose fields list the allowed values as descriptions."""

    named_by_flow: ClassVar[bool]
    """True if a published document names a prompt under its flow, in a heading that may contain more words than the
    dimension. False if the dimension alone names it; being a common word, it must then be the whole heading."""
    flow: str
    dimension: str
    """Name of the file: dimension, or tag of a text-to-image prompt."""
    body: str
    """System message, sent unchanged."""
    sha256: str
    """SHA-256 of the body as sent (UTF-8), in hex."""
    file: str
    position: int = Field(0, ge=1, strict=True, description="a whole number from 1 on, the place in tables")
    """Place among the prompts of the flow. A file that replaces a default prompt takes over its place, or names one."""

    inputs: Mapping[Any, Label]
    """Name of each text or picture -> its label, in the order of the request; each kind has names of its own."""

    @classmethod
    def problems_together(cls, fronts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return the problems between the prompts of one flow, one line each: places that several prompts name.

        Args:
            fronts: dimension -> its front matter, unchecked: faults of a single file are reported with that file.
        """
        places = defaultdict[int, list[str]](list)
        for dimension, front in fronts.items():
            if isinstance(place := front.get("position"), int):
                places[place].append(dimension)
        return [
            f"key `position`: found {place} in {', '.join(names)}; allowed: a number of its own for each prompt"
            for place, names in places.items()
            if len(names) > 1
        ]

    @property
    def about(self) -> str:
        """Facts of the prompt, in words, for a list of prompts."""
        return ""

    def of_published(self, text: str) -> dict[str, Any]:
        """Return the front matter for a published text in place of this prompt.

        Raises InputError if the text lacks what the front matter needs, or the kind has no published texts.
        """
        raise InputError(f"{self.flow} has no published prompts")

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over all that makes verdicts comparable; the file and the place in tables do not."""
        return digest(self.model_dump(mode="json", exclude={"file", "position"}))


SOURCE = ("flow", "dimension", "body", "sha256", "file")
"""Fields of a prompt that its front matter does not have."""


def kept(rules: Mapping[str, bool], inputs: dict[str, str]) -> dict[str, str]:
    """Return the inputs if their labels differ and they keep the rules. Raises InputError with the broken rules."""
    different = {"a label once only": len(set(inputs.values())) == len(inputs)}
    if broken := [rule for rule, is_kept in {**different, **rules}.items() if not is_kept]:
        raise InputError(" and ".join(broken))
    return inputs


_LABEL = re.compile(r"^\d+\.[ \t]+\*\*(.+?)\*\*: \[", re.MULTILINE)


class PairwisePrompt(Prompt):
    """One pairwise question: the system prompt of a dimension, and the inputs of its request."""

    named_by_flow = True
    tier: Literal[1, 2] = Field(description="1 or 2, the tier of the decision rule")
    verdicts: tuple[Verdict, ...] = Field(description=f"an array of at least one of {', '.join(VERDICTS)}")
    default: str = Field("", description="one of the verdicts of this file, or no such key")
    inputs: dict[Literal["context", "caption", "human", "model"], Label] = Field(  # pyright: ignore
        description="a table of context, caption, human and model, each with a label that is non-empty text"
    )

    @field_validator("verdicts")
    @classmethod
    def _some_and_unique(cls, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        if not verdicts or len(set(verdicts)) < len(verdicts):
            raise InputError(f"at least one of {listed(VERDICTS)}, each once")
        return verdicts

    @field_validator("default")
    @classmethod
    def _among_verdicts(cls, default: str, info: ValidationInfo) -> str:
        # If the verdicts are at fault themselves, the default is checked against all verdicts.
        allowed = info.data.get("verdicts", VERDICTS)
        if default and default not in allowed:
            raise InputError(f"one of {listed(allowed)}, or no such key")
        return default

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        absent = [label for label in inputs.values() if label not in info.data["body"]]
        rules = {
            "both human and model": {"human", "model"} <= inputs.keys(),
            f"labels that the body names (it lacks {listed(absent)})": not absent,
        }
        return kept(rules, inputs)

    @property
    def about(self) -> str:
        """Tier of the prompt, in words."""
        return f"tier {self.tier}"

    @classmethod
    def problems_together(cls, fronts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Check also that each tier has a dimension; invalid tiers are reported with their file."""
        problems = super().problems_together(fronts)
        tiers = [front.get("tier") for front in fronts.values()]
        if any(tier not in (1, 2) for tier in tiers):
            return problems
        empty = [number for number in (1, 2) if number not in tiers]
        return problems + [
            f"key `tier`: found {number} in no prompt; allowed: 1 and 2 at least once" for number in empty
        ]

    def of_published(self, text: str) -> dict[str, Any]:
        """Read the labels in a published prompt's input list, `1.  **Diagram Caption**: [content]`; copy the rest."""
        labels: list[str] = _LABEL.findall(text)
        inputs = dict(zip(self.inputs, labels, strict=False))
        figures = all(role in inputs.get(role, "").lower() for role in ("human", "model"))
        if len(labels) != len(self.inputs) or not figures:
            raise InputError(
                f"found the inputs {listed(labels)}; allowed: a numbered list with a line `1. **Label**: [...]` "
                f"for each of {listed(self.inputs)}, in this order"
            )
        default = {"default": self.default} if self.default else {}
        return {"tier": self.tier, "verdicts": self.verdicts, **default, "inputs": inputs}


_KEYS = re.compile(r"\bkeys\b[^`.\n]*(`[^.\n]*)")
_KEY = re.compile(r"`([A-Za-z0-9_]+)`")
_NOT_APPLICABLE = re.compile(r"^.*\b(?:null|not applicable|n/a)\b.*$", re.MULTILINE | re.IGNORECASE)
_SCALE = re.compile(r"^Score: 0 \((.+)\) to 10 \((.+)\)\.?[ \t\r]*$", re.MULTILINE)

_OF_SCORES = (OVERALL_SCORE, SEEN, "explanation", "score")
_OF_OBJECTS = ("objects", "object", "present", "count", "color", "relation_holds")
"""Further keys of a reply with a check: its values would be taken for scores of an aspect with such a name."""

AspectKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


class Aspect(Record):
    """One line of a rubric, scored from 0 to 10."""

    zero: Label = Field(description="non-empty text with the meaning of a score of 0")
    ten: Label = Field(description="non-empty text with the meaning of a score of 10")
    not_applicable: str = Field("", description="when the aspect does not apply and its score is null, or no such key")


class RubricPrompt(Prompt):
    """Rubric of one tag: the system prompt, the inputs of its request, and the aspects to score."""

    named_by_flow = False
    aspects: dict[AspectKey, Aspect] = Field(
        description="a table with a key of small letters, digits and _ for each aspect, and in it zero, ten and, "
        "where the aspect may not apply, not_applicable"
    )
    """Aspects in the order of the reply."""
    inputs: dict[Literal["prompt", "image", "objects", "relation"], Label] = Field(  # pyright: ignore
        description="a table of prompt and image, and objects and relation for a check, each with a label that is "
        "non-empty text"
    )

    @field_validator("aspects")
    @classmethod
    def _some_and_free(cls, aspects: dict[str, Aspect], info: ValidationInfo) -> dict[str, Aspect]:
        taken = (*_OF_SCORES, *(_OF_OBJECTS if "objects" in info.data.get("inputs", ()) else ()))
        if not aspects or not aspects.keys().isdisjoint(taken):
            raise InputError(f"at least one aspect, with another name than {listed(taken)}, which are keys of a reply")
        return aspects

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str]) -> dict[str, str]:
        rules = {
            "both prompt and image": {"prompt", "image"} <= inputs.keys(),
            "relation only with objects": "relation" not in inputs or "objects" in inputs,
        }
        return kept(rules, inputs)

    @property
    def about(self) -> str:
        """Names of the aspects, in words."""
        return f"aspects {', '.join(self.aspects)}"

    def of_published(self, text: str) -> dict[str, Any]:
        """Read the aspects as the published rubrics name and anchor them: keys in backticks, then a `Score:` line each.

        An aspect may be null only if a line of the text names it and calls it null or not applicable.
        """
        sentence = _KEYS.search(text)
        keys = [key for key in _KEY.findall(sentence[1] if sentence else "") if key != OVERALL_SCORE]
        scales: list[tuple[str, str]] = _SCALE.findall(text)
        if not keys or len(keys) != len(scales):
            raise InputError(
                f"found the keys {listed(keys)} and lines `Score: 0 (...) to 10 (...)`: {len(scales)}; allowed: a "
                "sentence that names the keys in backticks, and one such line for each, in this order"
            )
        exceptions = {key: line.strip() for line in _NOT_APPLICABLE.findall(text) for key in _KEY.findall(line)}
        aspects = {
            key: {"zero": zero, "ten": ten} | ({"not_applicable": exceptions[key]} if key in exceptions else {})
            for key, (zero, ten) in zip(keys, scales, strict=True)
        }
        return {"inputs": self.inputs, "aspects": aspects}


class InstrumentPrompt(Prompt):
    """Prompt of one way to ask the checks of a list: the system prompt, and the inputs of its request."""

    named_by_flow = False
    inputs: dict[Literal["image", "prompt", "checks"], Label] = Field(  # pyright: ignore
        description="a table of image and checks, and perhaps prompt, each with a label that is non-empty text"
    )

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str]) -> dict[str, str]:
        return kept({"both image and checks": {"image", "checks"} <= inputs.keys()}, inputs)


DEFAULT_SET = "default"
PROMPTS = Path(__file__).parents[2] / "prompts"
SETS = PROMPTS / "sets"
NOTE = "imported.json"
"""File of an imported set that names its source."""
_NAMES = "a small letter, then at most 39 small letters, digits and `_`"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_COLUMNS = {*Judgment.model_fields, *Outcome.model_fields, *DimensionOutcome.model_fields}
_TAKEN = _COLUMNS | {OVERALL_SCORE, "good", "constructor"}
"""Names that no dimension or tag can have: columns and measures of the history, and a key of all objects in scripts."""
_NEARLY = re.compile(r"\.(md|markdown|txt)", re.IGNORECASE)
"""Endings of files that their author may take for prompts."""
_FILE = re.compile(r"\+\+\+[ \t]*\n(?P<front>.*?)^\+\+\+[ \t]*$(?P<body>.*)", re.DOTALL | re.MULTILINE)
LONGEST = 1_000_000
"""Largest prompt file, in bytes."""


PROMPT_MODELS: dict[str, type[Prompt]] = {
    **dict.fromkeys(PAIRWISE, PairwisePrompt),
    **dict.fromkeys(T2I, RubricPrompt),
    **dict.fromkeys(CHECKLIST, InstrumentPrompt),
}
"""Flow -> model of its prompts, which also determines its kind of judging."""


class _PromptFile(NamedTuple):
    """A parsed prompt file with unchecked front matter."""

    file: Path
    front: dict[str, Any]
    body: str = ""
    problem: str = ""
    """Reason why the file could not be parsed; empty: it could."""


class Rubric(Record):
    """Prompts of one flow under one prompt set, in the order of their positions."""

    flow: str
    prompt_set: str
    prompts: tuple[Prompt, ...]

    def prompt(self, dimension: str) -> Prompt:
        """Return the prompt of a dimension or tag. Raises InputError if this rubric has none."""
        found = {prompt.dimension: prompt for prompt in self.prompts}
        if dimension not in found:
            raise InputError(f"{self.flow} has no dimension {dimension!r}; it has {listed(found)}")
        return found[dimension]

    def prompts_for(self, sample: Sample) -> tuple[Prompt, ...]:
        """Return the prompts that judge a sample: that of its tag, or all if it has none."""
        return (self.prompt(sample.tag),) if sample.tag else self.prompts


def load_rubric(flow: str, prompt_set: str = DEFAULT_SET, only: Collection[str] = ()) -> Rubric:
    """Load the prompts of `flow`, with the replacements from `prompt_set`.

    A set is a name (see `prompt_sets`) or a folder that contains `<flow>/<dimension>.md`. A dimension that it lacks
    keeps its default prompt; one that the default set lacks is added. Raises InputError if the flow or the set does not
    exist, or the set has nothing for this flow (of images: for any of their flows). If prompts are at fault, one
    InputError lists every problem of every file, one line each.

    Args:
        only: dimensions whose prompts are asked; empty: all.
    """
    default = _prompt_files(PROMPTS / flow) if flow in PROMPT_MODELS else {}
    if not default:
        raise InputError(f"there are no prompts for flow {flow!r}; flows with prompts: {listed(holdings())}")
    own = _overlay(flow, prompt_set)
    sources = {name: _placed(_read_file(file), default.get(name)) for name, file in {**default, **own}.items()}
    model = PROMPT_MODELS[flow]
    problems, prompts = _not_prompts(_folder(prompt_set) / flow), list[Prompt]()
    for name, source in sources.items():
        problems += [] if name in default else _new_problems(flow, name, sources, prompt_set)
        problems += [f"{source.file}: {problem}" for problem in _read_prompt(model, flow, name, source, prompts)]
    problems += model.problems_together({dimension: source.front for dimension, source in sources.items()})
    if problems:
        raise InputError("\n".join([f"the prompts of {flow} (prompt set {prompt_set!r}) cannot be used:", *problems]))
    prompts.sort(key=lambda prompt: prompt.position)
    asked = tuple(prompt for prompt in prompts if not only or prompt.dimension in only)
    return Rubric(flow=flow, prompt_set=prompt_set, prompts=asked)


def prompt_sets() -> list[str]:
    """Return the names of the sets that come with the program, `default` first."""
    return [DEFAULT_SET, *(folder.name for folder in sorted(SETS.glob("*")) if folder.is_dir())]


def holdings(prompt_set: str = DEFAULT_SET) -> dict[str, list[str]]:
    """Return flow -> dimensions that the set itself has prompts for. Raises InputError if the set does not exist."""
    flows = sorted(path for path in _folder(prompt_set).glob("*") if path.is_dir() and path != SETS)
    return {path.name: list(files) for path in flows if (files := _prompt_files(path))}


def tags_of(flow: str, prompt_set: str) -> list[str]:
    """Return the tags that a flow judges under a prompt set. Raises InputError if the set does not exist."""
    return sorted({*holdings().get(flow, ()), *holdings(prompt_set).get(flow, ())})


def is_imported(prompt_set: str) -> bool:
    """Return whether a set is a published document, word for word. Raises InputError if the set does not exist."""
    return (_folder(prompt_set) / NOTE).is_file()


def _folder(prompt_set: str) -> Path:
    known = prompt_sets()
    if prompt_set == DEFAULT_SET:
        return PROMPTS
    folder = SETS / prompt_set if prompt_set in known else Path(prompt_set).expanduser()
    if not folder.is_dir():
        raise InputError(f"prompt set {prompt_set!r} is neither a known set ({listed(known)}) nor a folder")
    return folder


def _overlay(flow: str, prompt_set: str) -> dict[str, Path]:
    """Return the files that a set has for `flow`. Raises InputError if the set is not one for this flow."""
    held = holdings(prompt_set)
    # The tags of all flows of images have one overall score, so a set for one of these flows is one for all.
    if flow in held or (flow in T2I and not held.keys().isdisjoint(T2I)):
        return _prompt_files(_folder(prompt_set) / flow)
    listing = "; ".join(f"{name}: {listed(dimensions)}" for name, dimensions in held.items())
    found = f"holds {listing}; nothing for {flow}" if held else "holds no file <flow>/<dimension>.md"
    raise InputError(f"prompt set {prompt_set!r} {found}")


def _prompt_files(folder: Path) -> dict[str, Path]:
    return {file.stem: file for file in sorted(folder.glob("*.md"))}


def _placed(source: _PromptFile, default: Path | None) -> _PromptFile:
    """Return the file with the place of the default prompt that it replaces, unless it names its own."""
    place = _read_file(default).front.get("position") if default else None
    return source if place is None else source._replace(front={"position": place, **source.front})


def _not_prompts(folder: Path) -> list[str]:
    """Return a problem for each file that is no prompt only because of its ending."""
    files = sorted(file for file in folder.glob("*") if file.suffix != ".md" and not file.name.startswith("."))
    return [
        f"{file}: found the ending {file.suffix!r}; allowed: .md, or another folder for a text that is no prompt"
        for file in files
        if _NEARLY.fullmatch(file.suffix)
    ]


def _new_problems(flow: str, name: str, sources: Mapping[str, _PromptFile], prompt_set: str) -> list[str]:
    """Return the problems of a dimension or tag because it is new, one line each."""
    source, problems = sources[name], list[str]()
    if not _NAME.fullmatch(name):
        problems.append(f"found the name {name!r}; allowed: {_NAMES}")
    elif name in _TAKEN:
        problems.append(f"found the name {name!r}, which the history uses itself; allowed: another name")
    if flow in T2I:
        others = [other for other in T2I if other != flow and name in tags_of(other, prompt_set)]
        problems += [f"found a tag of the flow {other}; allowed: a name that no other flow has" for other in others]
    if not source.problem and "position" not in source.front:
        places = [place for each in sources.values() if isinstance(place := each.front.get("position"), int)]
        problems.append(
            f"key `position`: found nothing; allowed: the place of {name!r} in tables, such as "
            f"`position = {max(places, default=0) + 10}`; or the name of a prompt to replace: "
            f"{listed(_prompt_files(PROMPTS / flow))}"
        )
    return [f"{source.file}: {problem}" for problem in problems]


def _read_file(file: Path) -> _PromptFile:
    """Parse a prompt file. A fault becomes its `problem`, so that all files are checked."""
    try:
        # A link may lead to another file of its set.
        parts = _FILE.fullmatch(read_regular_text(file, LONGEST, (real_place(file.parent.parent),)))
    except UnicodeDecodeError as error:
        return _PromptFile(file, {}, problem=f"found a byte at {error.start} that is not UTF-8; allowed: UTF-8")
    except InputError as error:
        return _PromptFile(file, {}, problem=str(error).removeprefix(f"{file}: "))
    except OSError as error:
        return _PromptFile(file, {}, problem=f"cannot be read: {error.strerror}")
    if not parts:
        return _PromptFile(file, {}, problem="found no front matter; allowed: TOML between two `+++` lines, at the top")
    try:
        # An empty line replaces the opening `+++`, so that line numbers in TOML errors are those of the file.
        front = tomllib.loads("\n" + parts["front"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return _PromptFile(file, {}, problem=f"front matter is not TOML: {error}")
    return _PromptFile(file, front, parts["body"].strip())


def _read_prompt(
    model: type[Prompt], flow: str, dimension: str, source: _PromptFile, prompts: list[Prompt]
) -> list[str]:
    """Add the prompt of a file to `prompts`; return all problems of the file instead, if there are any."""
    if source.problem:
        return [source.problem]
    problems = [] if source.body else ["found an empty body; allowed: the text of the prompt"]
    known = [name for name in model.model_fields if name not in SOURCE]
    digest = sha256(source.body.encode()).hexdigest()
    named = {"flow": flow, "dimension": dimension, "body": source.body, "sha256": digest, "file": str(source.file)}
    try:
        prompts.append(model.model_validate({**source.front, **named}))
    except ValidationError as error:
        problems += [_sentence(detail, model, known) for detail in error.errors()]
    return problems + [f"unknown key `{key}`; allowed: {listed(known)}" for key in SOURCE if key in source.front]


def _sentence(detail: ErrorDetails, model: type[Prompt], known: Sequence[str]) -> str:
    """Describe one problem of one key: the value found and the values allowed."""
    key = ".".join(str(part) for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        return f"unknown key `{key}`; allowed: {listed(Aspect.model_fields if len(detail['loc']) > 1 else known)}"
    allowed = model.model_fields[str(detail["loc"][0])].description
    if detail["type"] == "value_error":
        allowed = str(_found_by_rule(detail))
    found = "nothing" if detail["type"] == "missing" else repr(detail["input"])
    return f"key `{key}`: found {found}; allowed: {allowed}"


def _found_by_rule(detail: ErrorDetails) -> InputError:
    """Return the error of a front matter rule. Raise any other ValueError in a rule, which pydantic collects, too."""
    error: Exception = detail.get("ctx", {})["error"]
    if not isinstance(error, InputError):
        raise error
    return error
