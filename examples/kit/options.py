"""Command-line options of every run on a cluster: where it is, and what sends the load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[Path | None, typer.Option(envvar="KUBECONFIG", help="Default: kubectl's own.")]
Context = Annotated[str | None, typer.Option(envvar="KUBECONTEXT", help="Default: the current one.")]
Kubectl = Annotated[str, typer.Option(help="The kubectl to use.")]
ClientImage = Annotated[str, typer.Option(help="Image with Python and httpx.")]

EXAMPLE = Path("examples/tiny-draft-model.yaml")
KUBECTL = "kubectl"
CLIENT_IMAGE = "outrider/operator:dev"
