"""``outrider render``: the objects that the operator makes from a manifest, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import JsonValue

from outrider.api.crd import PlainDumper
from outrider.api.json_object import Json
from outrider.api.resource import SpeculativeModel
from outrider.cli.common.files import read_text
from outrider.cli.common.manifests import all_checked, raw_models
from outrider.cli.common.names import check_namespace
from outrider.cli.common.output import CommandError
from outrider.plan import ControlKeys, Manifest, Plan, PlanSettings, plan
from outrider.plan.additions import additions
from outrider.runtimes import runtime_of

KEYS = ControlKeys(private="made by the operator", public="made by the operator")
"""Text in place of the key pair, which never leaves the cluster."""
_TEMPLATES = {"Deployment": ("template",), "LeaderWorkerSet": ("leaderWorkerTemplate", "leaderTemplate")}
"""Kind -> the path of the pod template of an engine that serves, in its spec."""


def render(
    file: Annotated[
        Path, typer.Argument(help="File with SpeculativeModels as YAML or JSON; - for standard input.")
    ],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of models that name none.")
    ] = "default",
) -> None:
    """Check a manifest, and print the objects of the operator.

    It needs no cluster.

    The objects have the operator's defaults. They lack what only a cluster has: the UID of the owner, and the
    key pair of the control API. Exit code 2: the manifest has mistakes; each is one line.
    """
    check_namespace(namespace)
    raws = [_with_namespace(raw, namespace) for raw in raw_models(read_text(file), str(file))]
    texts = [text_of(model) for model in all_checked(raws, str(file))]
    typer.echo("---\n".join(texts), nl=False)


def text_of(model: SpeculativeModel) -> str:
    """The child objects of one model as YAML documents, in the order in which the operator applies them."""
    planned = plan(model, settings=PlanSettings(), keys=KEYS)
    if planned.problems:
        name = model.metadata.name
        raise CommandError(*(f"{name}: {reason}: {message}" for reason, message in planned.problems))
    comments = "".join(f"# {line}\n" for line in _comments(model, planned))
    children = (_ownerless(child) if not model.metadata.uid else child for child in planned.children)
    return comments + "---\n".join(
        yaml.dump(child, Dumper=PlainDumper, sort_keys=False, width=250) for child in children
    )


def _comments(model: SpeculativeModel, planned: Plan) -> Iterator[str]:
    """Comments above the objects: known issues, what a client may have dropped, and what Outrider adds."""
    name, spec = model.metadata.name, model.spec
    for text in runtime_of(spec).advice(spec, model.status.weights):
        yield f"{name}: {_plain(text)}"
    # An object of a cluster has only the nulls that arrived there.
    overlay = spec.pod_template.spec if spec.pod_template is not None and not model.metadata.uid else {}
    for place in _nulls(overlay, "spec.podTemplate.spec"):
        yield (
            f"{name}: {place} is null, which `kubectl apply` drops before it sends anything: the pod would "
            "keep its field. Write {$patch: delete} in its place, or use `kubectl apply --server-side`"
        )
    for template in _templates(planned):
        added = dict.fromkeys(additions(spec, template))
        if added:
            yield f"Outrider adds to what {name} says:"
        yield from (f"  {_plain(what)}: {why}" for what, why in added)


def _templates(planned: Plan) -> Iterator[Json]:
    """The pod templates of the engines that serve."""
    for child in planned.children:
        spec = child.get("spec")
        path = _TEMPLATES.get(str(child["kind"]), ())
        for name in path:
            spec = spec.get(name) if isinstance(spec, dict) else None
        if path and isinstance(spec, dict):
            yield spec


def _nulls(value: JsonValue, place: str) -> Iterator[str]:
    """The paths of all nulls."""
    if value is None:
        yield place
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _nulls(part, f"{place}.{_plain(key)}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _nulls(part, f"{place}[{index}]")


def _plain(text: str) -> str:
    """The text on one line, so that a comment stays a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _ownerless(child: Manifest) -> Manifest:
    metadata = child["metadata"]
    assert isinstance(metadata, dict)
    return {**child, "metadata": {key: part for key, part in metadata.items() if key != "ownerReferences"}}


def _with_namespace(raw: Mapping[str, JsonValue], namespace: str) -> Mapping[str, JsonValue]:
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        return raw
    return {**raw, "metadata": {"namespace": namespace, **metadata}}
