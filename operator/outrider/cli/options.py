"""Command-line options from a settings model, so that each setting is written down once."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from outrider.api.mistakes import mistakes
from outrider.cli.common.output import CommandError

ModelT = TypeVar("ModelT", bound=BaseModel)

_PREFIX = "OUTRIDER_"


def variable(field_name: str) -> str:
    """The environment variable of a setting."""
    return _PREFIX + field_name.upper()


def flag(field_name: str) -> str:
    """The command-line flag of a setting."""
    return "--" + field_name.replace("_", "-")


def with_options(model: type[ModelT]) -> Callable[[Callable[[ModelT], None]], Callable[..., None]]:
    """Make a command from a function that takes the settings, with one option per field of ``model``.

    An option that is not given has the default of the model. A value that is refused ends the command.
    """

    def decorate(command: Callable[[ModelT], None]) -> Callable[..., None]:
        def run(**options: object) -> None:
            given = {name: value for name, value in options.items() if value not in (None, [])}
            command(_validated(model, given))

        parameters = [_parameter(name, field) for name, field in model.model_fields.items()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__doc__ = command.__doc__
        return run

    return decorate


def _validated(model: type[ModelT], given: dict[str, object]) -> ModelT:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise CommandError(*(_named_as_flag(line) for line in mistakes(error, given))) from error


def _named_as_flag(line: str) -> str:
    """A mistake by the flag and the variable of the setting."""
    name, colon, what = line.partition(": ")
    field = name.partition(".")[0]
    return f"{flag(field)} ({variable(field)}): {what}" if colon and field.isidentifier() else line


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    option = typer.Option(flag(name), envvar=variable(name), help=_help(field), show_default=False)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[_option_type(field), option],
    )


def _help(field: FieldInfo) -> str:
    default = field.get_default()
    text = field.description or ""
    if field.default_factory is not None or default in (None, ()):
        return text
    return f"{text} Default: {default}."


def _option_type(field: FieldInfo) -> object:
    annotation = field.annotation
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (dict, tuple):
        return list[str] | None
    if origin is types.UnionType:
        annotation = next(argument for argument in arguments if argument is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum | Path | str | int | float):
        return annotation | None
    raise TypeError(f"no option for a field of type {annotation}")
