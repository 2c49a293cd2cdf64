"""The pods of an object that `spec.target.workload` names, by a label selector. Pure.

Sources of the labels: the constants of LeaderWorkerSet and of KServe (``pkg/constants/constants.go``), and
the Gateway API Inference Extension v1. No release of KServe ran with this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from outrider.api.target import LabelSelector, Target, WorkloadKind, WorkloadReference
from outrider.cluster.resources import JsonObject, Resource

_PLURALS: Mapping[WorkloadKind, str] = {
    WorkloadKind.DEPLOYMENT: "deployments",
    WorkloadKind.STATEFUL_SET: "statefulsets",
    WorkloadKind.LEADER_WORKER_SET: "leaderworkersets",
    WorkloadKind.INFERENCE_SERVICE: "inferenceservices",
    WorkloadKind.LLM_INFERENCE_SERVICE: "llminferenceservices",
    WorkloadKind.INFERENCE_POOL: "inferencepools",
}
_PORT = 8000
"""vLLM's default."""
_KSERVE_PORT = 8080
"""Port of a predictor's container, unless its manifest names another one."""


@dataclass(frozen=True, slots=True)
class PodsWanted:
    """A label selector in the form of a query, and the port of the engines."""

    labels: str
    port: int


def resource_of_workload(workload: WorkloadReference) -> Resource:
    """Return the kind of a referenced object."""
    group, _, version = workload.api_version.rpartition("/")
    return Resource(group, version, workload.kind, _PLURALS[workload.kind])


def selected(target: Target) -> PodsWanted:
    """Return the pods of `spec.target.selector`."""
    return PodsWanted(str(target.selector), target.port or _PORT)


def pods_of_workload(target: Target, workload: WorkloadReference, found: JsonObject) -> PodsWanted:
    """Return the pods of a referenced object. found: the object.

    Raises:
        ValueError: the object does not say which pods it has.
    """
    name, port = workload.name, target.port
    match workload.kind:
        case WorkloadKind.DEPLOYMENT | WorkloadKind.STATEFUL_SET:
            return PodsWanted(_selector_in(found), port or _PORT)
        case WorkloadKind.INFERENCE_POOL:
            return PodsWanted(_selector_in(found), port or _target_port(found))
        case WorkloadKind.LEADER_WORKER_SET:
            # Workers serve no requests.
            own = "leaderworkerset.sigs.k8s.io"
            return PodsWanted(f"{own}/name={name},{own}/worker-index=0", port or _PORT)
        case WorkloadKind.INFERENCE_SERVICE:
            return PodsWanted(
                f"serving.kserve.io/inferenceservice={name},component=predictor", port or _KSERVE_PORT
            )
        case WorkloadKind.LLM_INFERENCE_SERVICE:
            # Prefill pods generate one token of each request, so K does nothing there.
            labels = (
                f"app.kubernetes.io/name={name}",
                "app.kubernetes.io/part-of=llminferenceservice",
                "kserve.io/component=workload",
                "llm-d.ai/role notin (prefill)",
            )
            return PodsWanted(",".join(labels), port or _PORT)


def _selector_in(found: JsonObject) -> str:
    spec = found.get("spec")
    raw = spec.get("selector") if isinstance(spec, Mapping) else None
    try:
        return str(LabelSelector.model_validate(raw))
    except ValidationError as error:
        raise ValueError("its spec.selector is empty or not a label selector") from error


def _target_port(found: JsonObject) -> int:
    match found.get("spec"):
        case {"targetPorts": [{"number": int(number)}, *_]}:
            return number
        case _:
            return _PORT
