"""A kind of source, and what all kinds share: metadata, fields that are not carried, and pod templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.workload import Workload, an_object, objects, text, whole

AUTOSCALED = "an HPA or KEDA scales spec.replicas, see docs/guide/autoscaling.md"
WORKERS = "Outrider makes workers of the leader's pod; see that it suits both"
_LABELS = ("app.kubernetes.io/", "helm.sh/", "argocd.argoproj.io/")


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of object that runs vLLM."""

    name: str  # for people
    takes: Callable[[Json], bool]  # whether an object is of this kind
    workloads: Callable[[Json], Iterator[Workload]]  # its engines; raises ImportRefused


def of_kind(kind: str, *, group: str) -> Callable[[Json], bool]:
    """A test for objects of a kind, of any version of its API group."""
    return lambda document: (
        document.get("kind") == kind and str(document.get("apiVersion", "")).partition("/")[0] == group
    )


def metadata_of(document: Json) -> tuple[str, str | None]:
    """Name and namespace."""
    metadata = an_object(document.get("metadata"))
    return text(metadata.get("name")) or "", text(metadata.get("namespace"))


def begin(document: Json) -> tuple[Json, Findings]:
    """The spec of an object, and findings that name the labels which the object has and its pods have not."""
    findings = Findings()
    for key in an_object(an_object(document.get("metadata")).get("labels")):
        if not key.startswith(_LABELS) and key != "app":
            findings.dropped(
                f"metadata label {key}", "it is of the old object; add it to metadata.labels of the new one"
            )
    return an_object(document.get("spec")), findings


def drop_fields(
    given: Json, reasons: Mapping[str, str], findings: Findings, *, unset: Iterable[JsonValue] = (None,)
) -> None:
    """Note fields that are not carried. reasons: by field. unset: values that say nothing."""
    for field, why in reasons.items():
        if given.get(field) not in unset:
            findings.dropped(field, why)


def replicas_of(value: JsonValue) -> int:
    """A number of replicas; 1 where none is given."""
    number = whole(value)
    return 1 if number is None else number


def pod_of(template: object, where: str) -> Json:
    """The PodSpec of a pod template.

    Raises:
        ImportRefused: there is none.
    """
    pod = an_object(an_object(template).get("spec"))
    if not objects(pod.get("containers")):
        raise ImportRefused(f"{where} has no containers; name a file with the whole object")
    return pod


def template_metadata(template: object) -> tuple[Json, Json]:
    """Labels and annotations of the pods."""
    metadata = an_object(an_object(template).get("metadata"))
    return an_object(metadata.get("labels")), an_object(metadata.get("annotations"))
