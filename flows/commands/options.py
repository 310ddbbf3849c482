"""Options that several commands share, and options made from the fields of a parameter model.

Each field is an option; nested ones have a dot. The model receives the values as written, so that one message lists
all mistakes, by the names that command line, form and list of deployments share.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast, get_args

import click
from click.core import ParameterSource
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from flows.commands.console import ALL, Option
from tasks.endpoint.catalog import RECOMMENDED_ENDPOINT, RECOMMENDED_MODEL, addressed, judge_named
from tasks.errors import InputError
from tasks.protocols import parameters_of
from tasks.records.parameters import DEFAULT_STORE, OF_SHARDS, ROOTS, Parameters, Probe, roots
from tasks.records.terms import MOST_NEEDED, TOPIC_ORDER, TOPICS

M = TypeVar("M", bound=Parameters | Probe)
F = TypeVar("F", bound=Callable[..., Any])

WITH_JUDGE = ("judge.model", "judge.base_url", "quote")
"""Fields that the short help lists besides those with which a form begins."""
PLACES = ("dataset", "results", "images", "metadata", "prompt_set", "store", "export")
"""Fields that name files or folders, which a shell can complete."""
ALONE = {"quote": "pilot"}
"""Fields whose option may have no value -> the value that is used then."""
JUDGE = "JURY_JUDGE"
"""Environment variable with the default of `--judge`."""
BETWEEN = "__"
"""Replacement for the dot of a nested field where a name must be an identifier."""


def store_option(function: F) -> F:
    """Add `--store`, the place of ledgers and history."""
    add = click.option(
        "--store",
        envvar="JURY_STORE",
        default=DEFAULT_STORE,
        show_default=True,
        show_envvar=True,
        metavar="STORE",
        help="Folder or s3://… of ledgers and history.",
        type=click.Path(),
    )
    return add(function)


def json_option(words: str) -> Callable[[F], F]:
    """Add `--json`, with words about its output."""
    return click.option("--json", "as_json", is_flag=True, help=words)


def path_option(*names: str, metavar: str, words: str, default: str = "") -> Callable[[F], F]:
    """Add an option that names a file or folder, which a shell can complete."""
    return click.option(
        *names, default=default, show_default=bool(default), metavar=metavar, help=words, type=click.Path()
    )


def no_pictures_option(function: F) -> F:
    """Add `--no-pictures`, for pages that go to places where pictures are not allowed."""
    words = "Leave all pictures out of the pages, and say so on them: for a bucket or website where they may not lie."
    return click.option("--no-pictures", is_flag=True, help=words)(function)


def notify_option(function: F) -> F:
    """Add `--notify`, the notification block for drops."""
    words = "Tell people through this notification block when the score of scheduled runs has dropped."
    return click.option("--notify", default="", metavar="TYPE/NAME", help=words)(function)


def model_options(model: type[BaseModel]) -> list[click.Parameter]:
    """Return an option for every field of a model, by topics: `judge.base_url` becomes `--judge.base-url`."""
    fields = sorted(_fields(model), key=lambda field: TOPIC_ORDER.index(field[0].partition(".")[0]))
    options = [_option(path, info) for path, info in fields]
    judge = next(place for place, option in enumerate(options) if option.heading == "Judge")
    return [*options[:judge], judge_option(), *options[judge:], _help_all_option(len(options) + 1)]


def flow_options(flow: str) -> list[click.Parameter]:
    """Return an option for every parameter of a flow; see `model_options`."""
    return model_options(parameters_of(flow))


def _help_all_option(options: int) -> Option:
    """Return `--help-all`, which lists the rare options of a command, too."""

    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.meta[ALL] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    words = f"Show this for all {options} options."
    return Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=words)


def parse_options(given: Mapping[str, Any], model: type[M]) -> M:
    """Build the model from the values of its options that were given; the others keep their defaults.

    Raises:
        InputError: values out of range or of the wrong kind, all in one message, by option name; or an unknown short
            name of an endpoint.
    """
    named = {path: given.get(path.replace(".", BETWEEN)) for path, _ in _fields(model)}
    values = nest({path: _items(value) for path, value in named.items() if value not in (None, ())})
    try:
        if short := given.get("judge"):
            values["judge"] = judge_named(short) | values.get("judge", {})
        return addressed(model.model_validate(values))
    except ValidationError as error:
        raise InputError("\n".join(_sentence(each, model) for each in error.errors())) from None
    except InputError as error:
        raise InputError(by_options(str(error), model)) from None


def parse_flow_options(given: Mapping[str, Any], flow: str) -> Parameters:
    """Build the parameters of a flow from the values of its options; see `parse_options`."""
    return parse_options(given, parameters_of(flow))


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields with their paths; the fields of a nested model take the place of the field that holds it."""
    for name, info in model.model_fields.items():
        if name in OF_SHARDS:
            continue
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", info


def judge_option() -> Option:
    """Return the option that gives endpoint and model of a judge together; `--judge.model` and such count above it."""
    option = Option(
        ["--judge"],
        envvar=JUDGE,
        show_envvar=True,
        callback=_not_behind_the_fence,
        metavar="ENDPOINT/MODEL",
        help=f"Judge at a known endpoint, such as {RECOMMENDED_ENDPOINT}/{RECOMMENDED_MODEL}; `jury judge endpoints` "
        "lists them.",
    )
    option.heading = "Judge"
    return option


def _not_behind_the_fence(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Return the judge; InputError if only the environment of a fenced worker names it, where nobody would look."""
    return judge_of_environment() if context.get_parameter_source("judge") is ParameterSource.ENVIRONMENT else value


def judge_of_environment() -> str:
    """Return the judge that the environment names; empty: none; InputError if it is that of a fenced worker."""
    value = os.environ.get(JUDGE, "")
    if value and roots():
        raise InputError(f"{JUDGE} is set where {ROOTS} confines what runs: name the judge with --judge {value}")
    return value


def _option(path: str, info: FieldInfo) -> Option:
    name = path.rpartition(".")[2]
    make = partial(Option, help=_help(path, info), default=None)
    key = path.replace(".", BETWEEN)
    if info.default is False:
        option = make([f"{_name(path)}/--no-{_name(path)[2:]}", key], is_flag=True)
    elif info.default == []:
        option = make([_name(path), key], multiple=True, metavar="A,B")
    else:
        make = partial(make, is_flag=False, flag_value=ALONE[path]) if path in ALONE else make
        make = partial(make, type=click.Path()) if path in PLACES else make
        option = make([_name(path), key], metavar=_metavar(name, info))
    option.heading = next(topic for topic, names in TOPICS.items() if path.partition(".")[0] in names)
    option.is_rare = path not in (*MOST_NEEDED, *WITH_JUDGE)
    return option


def _name(path: str) -> str:
    return "--" + path.replace("_", "-")


def _metavar(name: str, info: FieldInfo) -> str:
    """Return the placeholder of the value: its choices if there are any, else the last word of the field's name."""
    if isinstance(info.default, dict):
        return "JSON"
    choices = [each for each in get_args(info.annotation) if isinstance(each, str) and each]  # people never type ""
    return "|".join(choices) or name.rsplit("_", 1)[-1].upper()


def _help(path: str, info: FieldInfo) -> str:
    is_given = path == "dataset" or info.default in ("", [], {}, None)  # a command takes no dataset but the one named
    default = "" if is_given else f" (default: {info.default})"
    return f"{info.description}{default}"


def _items(given: Any) -> Any:
    """Return the items of an option that may be repeated and holds several at once; other values as they are."""
    if not isinstance(given, tuple):
        return given
    return [item.strip() for value in cast(tuple[str, ...], given) for item in value.split(",") if item.strip()]


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by path as a form: that of `judge.model` is in the map `judge`."""
    form: dict[str, Any] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        place = form
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return form


def by_options(words: str, model: type[BaseModel]) -> str:
    """Replace the names of fields, such as `judge.base_url`, by their options in a message; plain words remain."""
    paths = {path for path, _ in _fields(model) if "." in path or "_" in path}
    return re.sub(
        r"(?<![\w./'\"-])[a-z_]+(\.[a-z_]+)?\b", lambda found: _name(found[0]) if found[0] in paths else found[0], words
    )


def _sentence(error: Any, model: type[BaseModel]) -> str:
    words = by_options(error["msg"].removeprefix("Value error, "), model)
    ours = isinstance(error.get("ctx", {}).get("error"), InputError)
    if ours or isinstance(error["input"], dict):  # The words name the fields; the value may be a key.
        return words
    return f"{_name('.'.join(map(str, error['loc'])))}: {words}, found {error['input']!r}"
