"""What must hold after any fault, by the objects of a model and what its engines saw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.kubectl import Object

Objects = Mapping[str, Sequence[Object]]
"""By kind."""

_COMPARED = ("Deployment", "Service", "ConfigMap", "Secret", "ServiceAccount", "PodDisruptionBudget")
_OF_ONE_OBJECT = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "namespace",
)
_OF_ONE_KEY = ("outrider.dev/applied",)
"""Annotations that differ between two models of one spec, because each has a key and UIDs of its own."""
_EXPLAINED = "cannot be used: it is for other candidates or batch sizes"
"""Said by an operator that starts after the spec has changed."""
_LEARNT = "-tuner"
"""End of the name of the ConfigMap with what the tuner learnt, which time changes."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A settled model, in what does not differ between two lives.

    children: kind and name to content. templates: pod templates that ever were in force. pods: that ever
    started.
    """

    children: Mapping[str, Any]
    templates: int
    pods: int


def picture(objects: Objects, started: int, namespace: str) -> Picture:
    """The picture of these objects. started: pods that ever were."""
    children = {
        f"{kind} {each['metadata']['name']}": _canonical(each, namespace)
        for kind in _COMPARED
        for each in objects[kind]
        if not each["metadata"]["name"].endswith(_LEARNT)
    }
    return Picture(children, len(objects["ReplicaSet"]), started)


def _canonical(found: Object, namespace: str) -> Any:
    metadata = {name: value for name, value in found["metadata"].items() if name not in _OF_ONE_OBJECT}
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = {n: v for n, v in annotations.items() if n not in _OF_ONE_KEY}
    owners = metadata.get("ownerReferences", ())
    metadata["ownerReferences"] = [{n: v for n, v in owner.items() if n != "uid"} for owner in owners]
    content = {name: value for name, value in found.items() if name not in ("metadata", "status")}
    content = _without(content, lambda name: name in ("clusterIP", "clusterIPs"))
    if "data" in content:
        content["data"] = {n: "" if "key" in n else v for n, v in content["data"].items()}
    return _replaced({**content, "metadata": metadata}, namespace)


def _without(value: Any, left_out: Callable[[str], bool]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, left_out) for name, each in value.items() if not left_out(name)}
    return [_without(each, left_out) for each in value] if isinstance(value, list) else value


def _replaced(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, namespace) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, namespace) for each in value]
    return value.replace(namespace, "{namespace}") if isinstance(value, str) else value


def differences(reference: Picture, found: Picture) -> list[str]:
    """What a life has otherwise than the reference; empty if nothing."""
    problems = []
    if reference.children.keys() != found.children.keys():
        lost = sorted(reference.children.keys() - found.children.keys())
        added = sorted(found.children.keys() - reference.children.keys())
        problems.append(f"objects: {lost} lack, {added} are too many")
    for name in sorted(reference.children.keys() & found.children.keys()):
        wanted, live = reference.children[name], found.children[name]
        problems += [f"{name}: {where}" for where in _unlike(wanted, live, "")]
    if reference.templates != found.templates:
        problems.append(f"{found.templates} pod templates in place of {reference.templates}")
    if reference.pods != found.pods:
        problems.append(f"{found.pods} pods started in place of {reference.pods}")
    return problems


def _unlike(wanted: Any, found: Any, where: str) -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        names = sorted(wanted.keys() | found.keys())
        return [p for n in names for p in _unlike(wanted.get(n), found.get(n), f"{where}.{n}")]
    return [] if wanted == found else [f"{where} is {found!r:.200}, not {wanted!r:.200}"]


def orphans(objects: Objects) -> list[str]:
    """Objects that stay after the deletion of their model."""
    return [f"{kind} {each['metadata']['name']}" for kind, found in objects.items() for each in found]


def complaints(log: str) -> list[str]:
    """Lines of the operator's log that no fault explains: defects, and not libraries' words about answers."""
    found = (line for line in log.splitlines() if " CRITICAL " in line or " ERROR   outrider" in line)
    return [line for line in found if _EXPLAINED not in line]
