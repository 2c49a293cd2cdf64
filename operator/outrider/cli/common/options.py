"""Options that several commands share, each written down once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from outrider.cli.common.output import Form

MAX_STREAMS = 4096


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The cluster and the namespace that a command works in; None stands for kubectl's own default."""

    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace. Default: the namespace of the context."),
    ] = None
    context: Annotated[
        str | None, typer.Option(help="Context of the kubeconfig. Default: the current context.")
    ] = None
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig file. Default: KUBECONFIG, then ~/.kube/config.")
    ] = None


Seconds = Annotated[float, typer.Option(min=2, max=3600, help="Seconds of each measurement.")]
Prompts = Annotated[
    Path | None,
    typer.Option(
        help="File with one prompt per line, as text or as JSON with the key prompt. "
        "Default: 16 prompts that come with the command."
    ),
]
Url = Annotated[
    str | None,
    typer.Option(help="URL at which the model answers. Default: kubectl forwards a port to one pod."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")]

_FORM: Mapping[str, tuple[object, object]] = {
    "output": (
        Annotated[
            Form | None, typer.Option("--output", "-o", help="Print json or yaml. Default: text for people.")
        ],
        None,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="The same as -o json.", hidden=True)], False),
}


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options behind some of its parameters.

    A parameter that is a dataclass has an option for each of its fields. ``form``, a `Form` or None, is
    --output.
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: hints[name] for name in own if is_dataclass(hints[name])}

    def run(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        if "form" in own:
            as_json, form = given.pop("as_json"), given.pop("output")
            given["form"] = Form.JSON if as_json else form
        command(**given)

    options: dict[str, tuple[object, object]] = {}
    for name, parameter in own.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            defaults = {each.name: each.default for each in fields(groups[name])}
            options |= {
                each: (types[each], inspect.Parameter.empty if default is MISSING else default)
                for each, default in defaults.items()
            }
        elif name == "form":
            options |= _FORM
        else:
            options[name] = hints[name], parameter.default
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
    )
    run.__annotations__ = {name: annotation for name, (annotation, _) in options.items()}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
