"""``outrider render``: the objects that the operator makes of a manifest, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import JsonValue

from outrider.api.resource import KIND, SpeculativeModel
from outrider.cli.exit_codes import cannot
from outrider.cli.manifest_file import ManifestRefused, checked, raw_models
from outrider.plan import ControlKeys, Manifest, PlanSettings, plan

KEYS = ControlKeys(private="made by the operator", public="made by the operator")
"""In place of the key pair, which never leaves the cluster."""


class CannotRender(Exception):
    """Nothing to print; the message says why, in one line."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def render(
    file: Annotated[Path, typer.Argument(help="One or more SpeculativeModels as YAML or JSON; - for stdin.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of models that name none.")
    ] = "default",
) -> None:
    """Print the objects that the operator would apply for a manifest. Needs no cluster.

    With the operator's own defaults, and without what only a cluster can know: the UID of the owner, and the
    key pair of the control API. Exit code 2: the manifest would be refused, or could not be carried out.
    """
    try:
        texts = [text_of(model) for model in _models(_read(file), str(file), namespace)]
    except (CannotRender, ManifestRefused) as error:
        raise cannot("render", error) from error
    typer.echo("---\n".join(texts), nl=False)


def text_of(model: SpeculativeModel) -> str:
    """The children of one model as YAML documents, in the order in which they are applied.

    Raises:
        CannotRender: the spec cannot be carried out.
    """
    planned = plan(model, settings=PlanSettings(), keys=KEYS)
    if planned.problems:
        reason, message = planned.problems[0]
        raise CannotRender(f"{model.metadata.name}: {reason}: {message}")
    children = (_ownerless(child) if not model.metadata.uid else child for child in planned.children)
    return "---\n".join(yaml.dump(child, Dumper=_Dumper, sort_keys=False, width=250) for child in children)


def _ownerless(child: Manifest) -> Manifest:
    metadata = child["metadata"]
    assert isinstance(metadata, dict)
    return {**child, "metadata": {key: part for key, part in metadata.items() if key != "ownerReferences"}}


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRender(f"{file} cannot be read: {error}; name another file") from error


def _models(text: str, source: str, namespace: str) -> Iterator[SpeculativeModel]:
    """Every model of a text. A model is checked as at admission."""
    found = raw_models(text, source)
    if not found:
        raise CannotRender(f"{source} holds no {KIND}; name a file that does")
    for raw in found:
        yield checked(_with_namespace(raw, namespace), source)


def _with_namespace(raw: Mapping[str, JsonValue], namespace: str) -> Mapping[str, JsonValue]:
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        return raw
    return {**raw, "metadata": {"namespace": namespace, **metadata}}
