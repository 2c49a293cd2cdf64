"""``outrider doctor``: checks a cluster and says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict

import typer

from outrider.cli.common.options import ClusterChoice, with_shared_options
from outrider.cli.common.output import ExitCode, Form, printed
from outrider.cli.doctor.findings import Finding, Level

_COLOURS = {Level.FINE: "green", Level.WARNING: "yellow", Level.BAD: "red", Level.UNSEEN: "cyan"}


@with_shared_options
def doctor(cluster: ClusterChoice, form: Form | None) -> None:
    """Check a cluster, and say what to do.

    It checks CRD, operator, rights, Prometheus, plugin, GPUs and clocks, and changes nothing. Your rights are
    checked in the namespace. Exit code 1: models cannot be served or tuned in this cluster.
    """
    # The Kubernetes client takes a second to import, and most commands do without it.
    from rich.console import Console

    from outrider.cli.doctor.checks import findings
    from outrider.cli.doctor.reading import look_at_cluster

    with Console(stderr=True).status("Looking at the cluster"):
        found = findings(asyncio.run(look_at_cluster(cluster)))
    if form is not None:
        typer.echo(printed({"findings": [asdict(each) for each in found]}, form))
    else:
        for line in (line for finding in found for line in _lines(finding)):
            typer.echo(line)
    if any(finding.level is Level.BAD for finding in found):
        raise typer.Exit(ExitCode.NOT_WELL)


def _lines(finding: Finding) -> Iterator[str]:
    level = typer.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
    yield f"{level} {finding.subject}: {finding.message}"
    if finding.action:
        yield f"         do: {finding.action}"
