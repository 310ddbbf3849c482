"""Prompt files, the sets that they form, and the rubric of one run."""

import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tasks.errors import InputError
from tasks.files import read_regular_text, real_place
from tasks.parameters import PAIRWISE, T2I
from tasks.records import Record, Sample
from tasks.rubrics.pairwise_prompt import PairwisePrompt
from tasks.rubrics.rubric_prompt import Aspect, RubricPrompt
from tasks.text import listed

DEFAULT_SET = "default"
PROMPTS = Path(__file__).parents[2] / "prompts"
SETS = PROMPTS / "sets"
NOTE = "imported.json"
"""File of an imported set that names its source."""
DIMENSION_SEQUENCE = (
    *("faithfulness", "conciseness", "readability", "aesthetics"),
    *("single_object", "two_object", "counting", "colors", "color_attr", "position"),
)
"""Dimensions and tags in the order of the protocols; others follow by name."""
_FILE = re.compile(r"\+\+\+[ \t]*\n(?P<front>.*?)^\+\+\+[ \t]*$(?P<body>.*)", re.DOTALL | re.MULTILINE)
LONGEST = 1_000_000
"""Largest prompt file, in bytes."""


Prompt = PairwisePrompt | RubricPrompt
PromptModel = type[PairwisePrompt] | type[RubricPrompt]
PROMPT_MODELS: dict[str, PromptModel] = {
    **dict.fromkeys(PAIRWISE, PairwisePrompt),
    **dict.fromkeys(T2I, RubricPrompt),
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
    """Prompts of one flow under one prompt set: the protocol's own first, in its order, then others by name."""

    flow: str
    prompt_set: str
    prompts: tuple[Prompt, ...]

    def prompt(self, dimension: str) -> Prompt:
        """Return the prompt of a dimension or tag. Raises InputError if this rubric has none."""
        found = {prompt.dimension: prompt for prompt in self.prompts}
        if dimension not in found:
            raise InputError(f"{self.flow} has no dimension {dimension!r}; it has {listed(found)}")
        return found[dimension]

    def asked_of(self, sample: Sample) -> tuple[Prompt, ...]:
        """Return the prompts that judge a sample: that of its tag, or all if it has none."""
        return (self.prompt(sample.tag),) if sample.tag else self.prompts


def load_rubric(flow: str, prompt_set: str = DEFAULT_SET) -> Rubric:
    """Load the prompts of `flow`, with the replacements from `prompt_set`.

    A set is a name (see `prompt_sets`) or a folder that contains `<flow>/<dimension>.md`; a dimension that it lacks
    keeps its default prompt. Raises InputError if the flow or the set does not exist, or the set has nothing for this
    flow. If prompts are at fault, one InputError lists every problem of every file, one line each.
    """
    default = _prompt_files(PROMPTS / flow)
    if not default:
        raise InputError(f"there are no prompts for flow {flow!r}; flows with prompts: {listed(_holdings(PROMPTS))}")
    own = _overlay(flow, prompt_set)
    sources = {dimension: _read_file(own.get(dimension, file)) for dimension, file in default.items()}
    unknown = [
        f"{file}: {name!r} is no dimension of {flow}; allowed: {listed(default)}"
        for name, file in own.items()
        if name not in default
    ]
    model = PROMPT_MODELS[flow]
    problems = unknown + [
        problem for source in sources.values() for problem in _file_problems(source, model.front_matter)
    ]
    problems += model.problems_together({dimension: source.front for dimension, source in sources.items()})
    if problems:
        raise InputError("\n".join([f"the prompts of {flow} (prompt set {prompt_set!r}) cannot be used:", *problems]))
    prompts = [_prompt(model, flow, dimension, source) for dimension, source in sources.items()]
    prompts.sort(key=lambda prompt: (*(prompt.dimension != name for name in DIMENSION_SEQUENCE), prompt.dimension))
    return Rubric(flow=flow, prompt_set=prompt_set, prompts=tuple(prompts))


def prompt_sets() -> list[str]:
    """Return the names of the sets that come with the program, `default` first."""
    return [DEFAULT_SET, *(folder.name for folder in sorted(SETS.glob("*")) if folder.is_dir())]


def holdings(prompt_set: str = DEFAULT_SET) -> dict[str, list[str]]:
    """Return flow -> dimensions that the set itself has prompts for. Raises InputError if the set does not exist."""
    return _holdings(_folder(prompt_set))


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
    """Return the files of a set that replace default prompts of `flow`. Raises InputError if it has none."""
    if files := _prompt_files(_folder(prompt_set) / flow):
        return files
    held = "; ".join(f"{name}: {listed(dimensions)}" for name, dimensions in holdings(prompt_set).items())
    found = f"holds {held}; nothing for {flow}" if held else "holds no file <flow>/<dimension>.md"
    raise InputError(f"prompt set {prompt_set!r} {found}")


def _holdings(folder: Path) -> dict[str, list[str]]:
    """Return flow -> dimensions of the prompt files under `folder`."""
    flows = sorted(path for path in folder.glob("*") if path.is_dir() and path != SETS)
    return {path.name: list(files) for path in flows if (files := _prompt_files(path))}


def _prompt_files(folder: Path) -> dict[str, Path]:
    return {file.stem: file for file in sorted(folder.glob("*.md"))}


def _prompt(model: PromptModel, flow: str, dimension: str, source: _PromptFile) -> Prompt:
    digest = sha256(source.body.encode()).hexdigest()
    named = {"flow": flow, "dimension": dimension, "body": source.body, "sha256": digest, "file": str(source.file)}
    return model.model_validate({**source.front, **named})


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


def _file_problems(source: _PromptFile, front_matter: type[Record]) -> list[str]:
    """Return all problems of one file, one line each; `front_matter` is the model of the part above its body."""
    if source.problem:
        return [f"{source.file}: {source.problem}"]
    problems = [] if source.body else [f"{source.file}: found an empty body; allowed: the text of the prompt"]
    try:
        front_matter.model_validate(source.front, context={"body": source.body})
    except ValidationError as error:
        problems += [f"{source.file}: {_sentence(detail, front_matter)}" for detail in error.errors()]
    return problems


def _sentence(detail: ErrorDetails, front_matter: type[Record]) -> str:
    """Describe one problem of one key: the value found and the values allowed."""
    key = ".".join(str(part) for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        known = Aspect.model_fields if len(detail["loc"]) > 1 else front_matter.model_fields
        return f"unknown key `{key}`; allowed: {listed(known)}"
    allowed = front_matter.model_fields[str(detail["loc"][0])].description
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
