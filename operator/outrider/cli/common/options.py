"""Options that several commands share, each written down once, and the completion of model names."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_type_hints

import typer

from outrider.cli.common.output import Form

MAX_STREAMS = 4096


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The cluster and the namespace that a command works in; None stands for kubectl's own default."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: Path | None = None


_MAX_SECONDS = 3.0
"""Time that a completion may take; the shell waits for it."""


def model_names(context: typer.Context, incomplete: str) -> list[str]:
    """The names in the namespace that begin with ``incomplete``; none where the cluster cannot be asked."""
    # The Kubernetes client takes a second to import, and most commands do without it.
    from outrider.cli.common.cluster import CannotRead
    from outrider.cli.status.reading import names_in

    # A log line would appear in the middle of what the user types.
    logging.disable()
    try:
        given = {name: context.params.get(name) for name in ("namespace", "context", "kubeconfig")}
        found = asyncio.run(asyncio.wait_for(names_in(ClusterChoice(**given)), _MAX_SECONDS))
    except (CannotRead, TimeoutError):
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [name for name in found if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of the SpeculativeModel.", autocompletion=model_names)]
Seconds = Annotated[float, typer.Option(min=2, max=3600, help="Seconds of each measurement.")]
Prompts = Annotated[
    Path | None,
    typer.Option(
        help="File with one prompt per line, as text or as JSON with the key prompt. "
        "Default: 16 prompts that come with the command."
    ),
]
MaxTokens = Annotated[int, typer.Option(min=1, max=65_536, help="Longest answer, in tokens.")]
Url = Annotated[
    str | None,
    typer.Option(help="URL at which the model answers. Default: kubectl forwards a port to one pod."),
]
GuideLlm = Annotated[str, typer.Option("--guidellm", help="Command that starts GuideLLM.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random order of measurements.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")]

_Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace. Default: the namespace of the context."),
]
_Context = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig. Default: the current context.")
]
_Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Kubeconfig file. Default: KUBECONFIG, then ~/.kube/config."),
]
_Output = Annotated[
    Form | None, typer.Option("--output", "-o", help="Print json or yaml. Default: text for people.")
]
_Json = Annotated[bool, typer.Option("--json", help="The same as -o json.", hidden=True)]

Command = Callable[..., None]


def with_shared_options(command: Command) -> Command:
    """Give a command the options behind two of its parameters.

    ``cluster``: a `ClusterChoice`, out of --namespace, --context and --kubeconfig.
    ``form``: a `Form` or None, out of --output.
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    takes_cluster, takes_form = "cluster" in own, "form" in own

    def run(**given: object) -> None:
        if takes_cluster:
            choice = {name: given.pop(name) for name in ("namespace", "context", "kubeconfig")}
            given["cluster"] = ClusterChoice(**choice)  # type: ignore[arg-type]
        if takes_form:
            as_json, form = given.pop("as_json"), given.pop("output")
            given["form"] = Form.JSON if as_json else form
        command(**given)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in own.items()
        if name not in ("cluster", "form")
    ]
    if takes_cluster:
        parameters += [
            _option("namespace", _Namespace),
            _option("context", _Context),
            _option("kubeconfig", _Kubeconfig),
        ]
    if takes_form:
        parameters += [_option("output", _Output), _option("as_json", _Json, default=False)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _option(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
