"""The ``outrider`` command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, cast

import typer

from outrider import __version__
from outrider.api.crd import render
from outrider.cli.bench.command import bench, sweep
from outrider.cli.common.output import CommandError, how_to_install
from outrider.cli.common.usage_errors import OneLineGroup
from outrider.cli.doctor.command import doctor
from outrider.cli.explain.command import explain
from outrider.cli.help_pages import HELP_PAGES
from outrider.cli.import_manifest import import_manifest
from outrider.cli.inject import inject
from outrider.cli.options import with_options
from outrider.cli.plan.command import plan
from outrider.cli.render import render as render_manifest
from outrider.cli.status.command import status
from outrider.cli.verify.command import verify
from outrider.controller.settings import Settings

app = typer.Typer(
    name="outrider",
    cls=OneLineGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    # Tables that rich draws cut long names of options and variables at 80 columns.
    rich_markup_mode=None,
)


def added_command(name: str, *, extra: str) -> Callable[..., None]:
    """The command that another package adds; without that package, one that says how to install it.

    extra: of the operator's package, which brings the other one.
    """
    for point in entry_points(group="outrider.commands", name=name):
        return cast(Callable[..., None], point.load())

    def missing(_: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        raise CommandError(f"`outrider {name}` is not installed. {how_to_install(extra)}")

    missing.__doc__ = f"Not installed: it needs the extra `{extra}` of the package."
    return missing


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def outrider(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Kubernetes operator that tunes speculative decoding in vLLM and SGLang while they serve."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for name, command in (
    ("plan", plan),
    ("render", render_manifest),
    ("import", import_manifest),
    ("inject", inject),
    ("simulate", added_command("simulate", extra="simulate")),
    ("explain", explain),
    ("status", status),
    ("doctor", doctor),
    ("bench", bench),
    ("verify", verify),
    ("sweep", sweep),
):
    # Options reach a command that is not installed, so that it can say so.
    context = {"ignore_unknown_options": command.__name__ == "missing"}
    app.command(name, epilog=HELP_PAGES[name].epilog(), context_settings=context)(command)


@app.command(epilog=HELP_PAGES["run"].epilog())
@with_options(Settings)
def run(settings: Settings) -> None:
    """Run the operator. Each option is also an environment variable."""
    # Only this command needs the Kubernetes client, which takes a second to import.
    from outrider.controller.process import run_operator, set_up_logs

    set_up_logs(settings.log_format, settings.log_level)
    asyncio.run(run_operator(settings))


@app.command(epilog=HELP_PAGES["crd"].epilog())
def crd(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Print the custom resource definition."""
    text = render()
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


@app.command(epilog=HELP_PAGES["version"].epilog())
def version() -> None:
    """Print the version."""
    typer.echo(__version__)
