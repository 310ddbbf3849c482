"""Parameter models as command-line options: one option a field, nested ones with a dot, and errors in one place."""

import argparse
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tasks.errors import InputError

M = TypeVar("M", bound=BaseModel)


def add_options(parser: argparse.ArgumentParser, model: type[BaseModel], prefix: str = "") -> None:
    """Add an option for every field of a model: `judge.base_url` becomes `--judge.base-url`."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            add_options(parser, kind, f"{path}.")
        elif info.default == []:
            parser.add_argument(_option(path), dest=path, metavar="A,B", action="append", help=_help(info))
        elif info.default is False:
            parser.add_argument(_option(path), dest=path, action=argparse.BooleanOptionalAction, help=_help(info))
        else:
            parser.add_argument(_option(path), dest=path, metavar=_metavar(name, info), help=_help(info))


def parse_options(found: argparse.Namespace, model: type[M]) -> M:
    """Build the model from the options that were given; the others keep their defaults.

    Raises:
        InputError: values out of range or of the wrong kind, all of them in one message, by option name.
    """
    values: dict[str, Any] = {}
    for path, value in vars(found).items():
        if value is None or not _is_field(model, path):
            continue
        *parents, name = path.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = _items(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType]
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError("\n".join(_sentence(each) for each in error.errors())) from None


def _option(path: str) -> str:
    return "--" + path.replace("_", "-")


def _metavar(name: str, info: FieldInfo) -> str:
    """What stands for the value: the choices where there are some, else the last word of the field's name."""
    return "|".join(get_args(info.annotation)) or name.rsplit("_", 1)[-1].upper()


def _help(info: FieldInfo) -> str:
    default = "" if info.default in ("", [], None) else f" (default: {info.default})"
    return f"{info.description}{default}".replace("%", "%%")


def _is_field(model: type[BaseModel], path: str) -> bool:
    return path.split(".")[0] in model.model_fields


def _items(values: list[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _sentence(error: Any) -> str:
    words = error["msg"].removeprefix("Value error, ")
    if isinstance(error["input"], dict):  # Several fields do not go together; the words name them.
        return words
    return f"{_option('.'.join(map(str, error['loc'])))}: {words}, found {error['input']!r}"
