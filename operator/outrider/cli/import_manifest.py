"""``outrider import``: a SpeculativeModel out of what runs an engine today, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.common.files import standard_input
from outrider.cli.common.names import check_namespace
from outrider.cli.common.output import CommandError, ExitCode, say
from outrider.foreign.readers import IMPORTED
from outrider.importing import (
    Imported,
    ImportRefused,
    Options,
    Outcome,
    Refused,
    import_command,
    import_text,
    text_of,
)

_COMMAND = "import"


def import_manifest(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: a command line such as vllm serve MODEL --flag value."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--filename", "-f", help="A YAML or JSON file; - for standard input. Repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the SpeculativeModel. For one engine only.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the SpeculativeModel.")
    ] = None,
    container: Annotated[str | None, typer.Option(help="Name of the container that runs the engine.")] = None,
    keep_image: Annotated[
        bool,
        typer.Option("--keep-image", help="Add no plugin, and change K by rolling restarts."),
    ] = False,
) -> None:
    """Print a SpeculativeModel for an engine that you already run. Needs no cluster.

    It reads a Deployment, StatefulSet or LeaderWorkerSet, or a command line of vLLM or SGLang after --. It
    also reads an InferenceService or LLMInferenceService of KServe, a Model of KubeAI, and values of the
    production stack.
    Standard error names what it could not carry, and why. Exit code 2: an engine became no SpeculativeModel.
    """
    if namespace is not None:
        check_namespace(namespace)
    options = Options(name=name, namespace=namespace, container=container, keep_image=keep_image)
    if bool(file) == bool(command):
        raise CommandError(
            "give a file with -f, or a command line after --, such as -- vllm serve Qwen/Qwen3-8B"
        )
    if command:
        _require_no_option_of_manifests(keep_image=keep_image, container=container)
    try:
        results = [import_command(command, options)] if command else list(_files(file or [], options))
    except ImportRefused as refused:
        raise CommandError(str(refused)) from refused
    found = [each for each in results if isinstance(each, Imported)]
    if name is not None and len(found) > 1:
        raise CommandError(f"the source has {len(found)} engines, and --name names one; leave it out")
    typer.echo("---\n".join(text_of(each) for each in found), nl=False)
    for each in results:
        _report(each)
    missing = any(isinstance(each, Refused) and each.runs_engines for each in results)
    if not found and not missing:
        raise CommandError("the source runs no engine; name a file with a workload that runs vLLM or SGLang")
    if missing:
        raise typer.Exit(ExitCode.CANNOT)


def _require_no_option_of_manifests(*, keep_image: bool, container: str | None) -> None:
    if keep_image:
        raise CommandError(
            "--keep-image keeps the image of a manifest, and a command line names none; leave the option "
            "out, or name a manifest with -f"
        )
    if container is not None:
        raise CommandError(
            "--container chooses a container of a manifest, and a command line has none; leave the option "
            "out, or name a manifest with -f"
        )


def _files(files: Iterable[Path], options: Options) -> Iterator[Imported | Refused]:
    for file in files:
        try:
            yield from import_text(_read(file), options)
        except ImportRefused as refused:
            yield Refused(str(file), str(refused), runs_engines=True)


def _read(file: Path) -> str:
    """At most one character more than is read, so that a large file costs no memory."""
    most = IMPORTED.most_bytes + 1
    try:
        if str(file) == "-":
            return standard_input().read(most)
        with file.open(encoding="utf-8") as opened:
            return opened.read(most)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ImportRefused(f"it cannot be read: {reason}; name another file") from error


def _report(result: Imported | Refused) -> None:
    if isinstance(result, Refused):
        say(_COMMAND, f"{result.what}: {result.why}")
        return
    typer.echo(f"{result.source} becomes SpeculativeModel {result.name}", err=True)
    for outcome in Outcome:
        found = result.findings.of(outcome)
        if found:
            typer.echo(f"{outcome}:", err=True)
        for finding in found:
            typer.echo(f"  {finding}", err=True)
