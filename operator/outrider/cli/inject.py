"""``outrider inject``: a manifest of someone else's engines with Outrider's plugin in its pods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from outrider.api.crd import PlainDumper
from outrider.cli.common.files import read_text
from outrider.cli.common.names import check_image, check_model_name
from outrider.cli.common.output import CommandError
from outrider.importing.findings import ImportRefused
from outrider.importing.injection import Injected, Injection
from outrider.importing.injection import inject as injected


def inject(
    file: Annotated[
        list[Path],
        typer.Option("--filename", "-f", help="A YAML or JSON file; - for standard input. Repeatable."),
    ],
    plugin_image: Annotated[
        str, typer.Option(envvar="OUTRIDER_PLUGIN_IMAGE", help="Image with Outrider's plugin alone.")
    ],
    name: Annotated[
        str | None,
        typer.Option(help="Name of the SpeculativeModel whose key the pods accept. Default: the object's."),
    ] = None,
    container: Annotated[str | None, typer.Option(help="Name of the container that runs vLLM.")] = None,
) -> None:
    """Print a manifest with Outrider's plugin in its vLLM pods. Needs no cluster.

    Each pod template with a vLLM container gets an init container, volumes and variables. Its command, image
    and probes stay. Objects without such a pod are printed as they are. Standard error names each change.
    Exit code 2: an engine cannot be tuned; the message says why.
    """
    check_image("--plugin-image", plugin_image)
    if name is not None:
        check_model_name(name)
    wanted = Injection(image=plugin_image, name=name, container=container)
    found = [each for one in file for each in _injected(one, wanted)]
    if not any(each.changes for each in found):
        raise CommandError("no pod of the manifest runs vLLM; name its container with --container")
    texts = [yaml.dump(each.manifest, Dumper=PlainDumper, sort_keys=False, width=250) for each in found]
    typer.echo("---\n".join(texts), nl=False)
    for each in found:
        _report(each)


def _injected(file: Path, wanted: Injection) -> list[Injected]:
    try:
        return list(injected(read_text(file), wanted))
    except ImportRefused as refused:
        raise CommandError(f"{file}: {refused}") from refused


def _report(injected: Injected) -> None:
    if not injected.changes:
        typer.echo(f"{injected.what}: not changed, because no pod of it runs vLLM", err=True)
        return
    typer.echo(f"{injected.what}, for SpeculativeModel {injected.name}:", err=True)
    for change in injected.changes:
        typer.echo(f"  {change}", err=True)
