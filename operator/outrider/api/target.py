"""``spec.target``: pods that run already, and that Outrider tunes without creating or restarting any."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from outrider.api.base import ApiModel, rule
from outrider.api.quantity import LabelValue, Name
from outrider.api.request_limits import RequestLimits
from outrider.api.text import shortened
from outrider.api.tuning import SLO_HAS_A_TARGET, Slo, TuningMode

_KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

LabelKey = Annotated[str, Field(min_length=1, max_length=317, pattern=f"^{_KEY}$")]


def _keys_of_labels(labels: dict[str, str]) -> dict[str, str]:
    # Not in the CRD: the API server could not bound the cost of a pattern on keys.
    for key in labels:
        if re.fullmatch(_KEY, key, re.ASCII) is None:
            raise ValueError(
                f"'{shortened(key, 40)}' is not a key of a label; write it as in the pods' metadata"
            )
    return labels


class Operator(StrEnum):
    """The comparison of a label requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ApiModel):
    """A requirement on one label."""

    key: LabelKey
    """Key of the label."""
    operator: Operator
    """Comparison with `values`."""
    values: Annotated[list[LabelValue], Field(fail_fast=True, max_length=16)] = Field(default_factory=list)
    """Values for In and NotIn; left out for Exists and DoesNotExist."""

    @rule(
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
        "spec.target.selector.matchExpressions: operator {operator} of {key} does not fit its values; In and "
        "NotIn need values, and Exists and DoesNotExist take none",
        field=".values",
    )
    def _values_fit_the_operator(self) -> bool:
        return (self.operator in (Operator.IN, Operator.NOT_IN)) == bool(self.values)

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


class LabelSelector(ApiModel):
    """A label selector, as in a Deployment. Pods must meet all of it."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=16), AfterValidator(_keys_of_labels)] = (
        Field(default_factory=dict)
    )
    """Labels with their values. Example: app: my-model."""
    match_expressions: Annotated[list[LabelRequirement], Field(fail_fast=True, max_length=16)] = Field(
        default_factory=list
    )
    """Further requirements."""

    @rule(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
        "(has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "spec.target.selector is empty, and would select every pod of the namespace; name a label of the "
        "engines",
    )
    def _is_not_empty(self) -> bool:
        return bool(self.match_labels or self.match_expressions)

    def __str__(self) -> str:
        """Return the selector in the form of a query."""
        labels = [f"{key}={value}" for key, value in self.match_labels.items()]
        return ",".join([*labels, *map(str, self.match_expressions)])


class WorkloadKind(StrEnum):
    """The kinds whose pods Outrider finds by name."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    LEADER_WORKER_SET = "LeaderWorkerSet"
    INFERENCE_SERVICE = "InferenceService"
    LLM_INFERENCE_SERVICE = "LLMInferenceService"
    INFERENCE_POOL = "InferencePool"


API_VERSIONS: Mapping[WorkloadKind, tuple[str, ...]] = {
    WorkloadKind.DEPLOYMENT: ("apps/v1",),
    WorkloadKind.STATEFUL_SET: ("apps/v1",),
    WorkloadKind.LEADER_WORKER_SET: ("leaderworkerset.x-k8s.io/v1",),
    WorkloadKind.INFERENCE_SERVICE: ("serving.kserve.io/v1beta1",),
    WorkloadKind.LLM_INFERENCE_SERVICE: ("serving.kserve.io/v1alpha1", "serving.kserve.io/v1alpha2"),
    WorkloadKind.INFERENCE_POOL: ("inference.networking.k8s.io/v1",),
}
"""The versions of each kind that Outrider reads."""


class WorkloadReference(ApiModel):
    """An object in the same namespace that has the pods."""

    api_version: Annotated[str, Field(min_length=1, max_length=64)]
    """API version of the object. Example: apps/v1."""
    kind: WorkloadKind
    """Kind of the object. An llm-d model service is a Deployment or a LeaderWorkerSet, or an
    InferencePool."""
    name: Name
    """Name of the object."""

    @rule(
        " || ".join(
            f"(self.kind == '{kind}' && self.apiVersion in {list(versions)})"
            for kind, versions in API_VERSIONS.items()
        ),
        "spec.target.workload.apiVersion: {apiVersion} has no kind {kind} that Outrider reads. "
        + ". ".join(f"{kind} is in {versions[-1]}" for kind, versions in API_VERSIONS.items()),
        field=".apiVersion",
    )
    def _version_has_the_kind(self) -> bool:
        return self.api_version in API_VERSIONS[self.kind]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class TargetTuning(ApiModel):
    """Tuning of pods that Outrider did not create."""

    mode: TuningMode = TuningMode.AUTO
    """Off keeps the schedule that the engines were launched with. Observe reports decisions without carrying
    them out. Auto (default) tunes."""
    slo: Slo | None = None
    """Latency targets, as for a model of Outrider's own. The owner adds replicas where they need more."""

    @rule(
        "self.mode != 'Off' || !has(self.slo)",
        "spec.target.tuning.slo: mode Off measures nothing; leave slo out, or use mode Observe or Auto",
        field=".slo",
    )
    def _slo_has_a_tuner(self) -> bool:
        return self.mode is not TuningMode.OFF or self.slo is None

    @rule(
        SLO_HAS_A_TARGET,
        "spec.target.tuning.slo has no target; add interTokenLatency or timeToFirstToken, or leave slo out",
        field=".slo",
    )
    def _slo_has_a_target(self) -> bool:
        return self.slo is None or not self.slo.empty


class Target(ApiModel):
    """Engine pods of another owner, in the namespace of this object. Outrider tunes those with its plugin
    while they run. It creates and restarts no pods."""

    selector: LabelSelector | None = None
    """Selects the pods by labels. Either `selector` or `workload` is required."""
    workload: WorkloadReference | None = None
    """Names the object that has the pods."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the engine's HTTP server in the pods. Default: 8000; for an InferenceService 8080, and for an
    InferencePool its target port."""
    request_limits: RequestLimits = Field(default_factory=list)
    """K limits for some requests, as in spec.speculation.requestLimits. They apply where pods mount
    Outrider's ConfigMap, as `outrider inject` writes it."""
    tuning: TargetTuning = Field(default_factory=TargetTuning)
    """Tuning of the schedule by the load."""

    @rule(
        "has(self.selector) != has(self.workload)",
        "spec.target: write either selector, with labels of the pods, or workload, with the object that has "
        "them",
    )
    def _pods_are_named_once(self) -> bool:
        return (self.selector is None) != (self.workload is None)
