"""The one form that every source is brought into: a pod with a vLLM container, and what lies around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from outrider.importing.findings import Findings
from outrider.plan.overlay import Json


@dataclass(frozen=True, slots=True)
class Workload:
    """One vLLM engine as a source describes it.

    ``pod`` is a PodSpec in the form of Kubernetes; sources of other forms are translated into it.
    """

    kind: str
    name: str
    pod: Json
    findings: Findings = field(default_factory=Findings)
    namespace: str | None = None
    labels: Mapping[str, JsonValue] = field(default_factory=dict)
    """Labels of the pods."""
    selected_by: Mapping[str, JsonValue] = field(default_factory=dict)
    """Labels by which the source finds its pods; a new pod must not have them."""
    annotations: Mapping[str, JsonValue] = field(default_factory=dict)
    """Annotations of the pods."""
    replicas: int = 1
    nodes: int = 1
    """Pods per replica."""
    uri: str | None = None
    """Where the weights lie, where the source says it outside of vLLM's flags."""
    served_name: str | None = None
    """The model's name for clients, where the source says it outside of vLLM's flags."""
    container: str | None = None
    """Name of the engine's container, where the source fixes it."""
    claims: Mapping[str, Json] = field(default_factory=dict)
    """Claims that the source makes for each pod: name -> PersistentVolumeClaimSpec."""
    rollout: Json = field(default_factory=dict)
    """``spec.rollout`` of the SpeculativeModel."""
    in_cluster: bool = True
    """The source is an object of a cluster, whose name its children have."""


def an_object(value: object) -> Json:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Json]:
    """The objects of a list; empty for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """A text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """A whole number, written as a number or as digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
