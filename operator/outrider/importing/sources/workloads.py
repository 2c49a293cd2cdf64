"""Deployments and StatefulSets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from outrider.importing.findings import Findings, ImportRefused
from outrider.importing.sources.source import Source, of_kind
from outrider.importing.workload import Workload, an_object, objects, text, whole
from outrider.plan.overlay import Json

_SHORTEST_DEADLINE = 10
_DROPPED: Mapping[str, str] = {
    "minReadySeconds": "Outrider's own readiness decides",
    "paused": "outrider.dev/pause pauses the tuner, and replicas: 0 stops the engines",
    "serviceName": "Outrider makes a Service of its own",
    "podManagementPolicy": "engines are alike, so Outrider makes a Deployment",
    "updateStrategy": "Outrider makes a Deployment; spec.rollout says how it rolls out",
    "persistentVolumeClaimRetentionPolicy": "Outrider makes no claim for each pod",
    "ordinals": "engines are alike, so Outrider makes a Deployment",
}
_LABELS = ("app.kubernetes.io/", "helm.sh/", "argocd.argoproj.io/")


def pod_of(template: object, where: str) -> Json:
    """The PodSpec of a pod template.

    Raises:
        ImportRefused: there is none.
    """
    pod = an_object(an_object(template).get("spec"))
    if not objects(pod.get("containers")):
        raise ImportRefused(f"{where} has no containers; name a file with the whole object")
    return pod


def metadata_of(document: Json) -> tuple[str, str | None]:
    """Name and namespace."""
    metadata = an_object(document.get("metadata"))
    return text(metadata.get("name")) or "", text(metadata.get("namespace"))


def note_labels(document: Json, findings: Findings) -> None:
    """Note labels and annotations of the object itself, which belong to it and not to its pods."""
    metadata = an_object(document.get("metadata"))
    for key in an_object(metadata.get("labels")):
        if not key.startswith(_LABELS) and key not in ("app",):
            findings.dropped(
                f"metadata label {key}", "it is of the old object; add it to metadata.labels of the new one"
            )


def template_metadata(template: object) -> tuple[Json, Json]:
    """Labels and annotations of the pods."""
    metadata = an_object(an_object(template).get("metadata"))
    return an_object(metadata.get("labels")), an_object(metadata.get("annotations"))


def _deployments(document: Json) -> Iterator[Workload]:
    spec = an_object(document.get("spec"))
    findings = Findings()
    _note(document, findings)
    rollout = _rollout(spec, findings)
    yield _workload(document, spec, findings, rollout=rollout, claims={})


def _stateful_sets(document: Json) -> Iterator[Workload]:
    spec = an_object(document.get("spec"))
    findings = Findings()
    _note(document, findings)
    claims = {
        metadata_of(each)[0]: an_object(each.get("spec"))
        for each in objects(spec.get("volumeClaimTemplates"))
    }
    yield _workload(document, spec, findings, rollout={}, claims=claims)


def _workload(
    document: Json, spec: Json, findings: Findings, *, rollout: Json, claims: Mapping[str, Json]
) -> Workload:
    kind = str(document.get("kind"))
    name, namespace = metadata_of(document)
    labels, annotations = template_metadata(spec.get("template"))
    replicas = whole(spec.get("replicas"))
    return Workload(
        kind,
        name,
        pod_of(spec.get("template"), f"spec.template of {kind} {name}"),
        findings,
        namespace=namespace,
        labels=labels,
        selected_by=an_object(an_object(spec.get("selector")).get("matchLabels")),
        annotations=annotations,
        replicas=1 if replicas is None else replicas,
        claims=claims,
        rollout=rollout,
    )


def _note(document: Json, findings: Findings) -> None:
    note_labels(document, findings)
    spec = an_object(document.get("spec"))
    for field, why in _DROPPED.items():
        if spec.get(field) not in (None, False, 0, {}, ""):
            findings.dropped(field, why)


def _rollout(spec: Json, findings: Findings) -> Json:
    rollout: Json = {}
    strategy = an_object(spec.get("strategy"))
    if strategy.get("type") == "Recreate":
        findings.dropped(
            "strategy Recreate",
            "a rollout keeps engines serving; without a spare GPU set spec.rollout.maxSurge: 0",
        )
    rolling = an_object(strategy.get("rollingUpdate"))
    surge, unavailable = _pods(rolling.get("maxSurge")), _pods(rolling.get("maxUnavailable"))
    if surge is not None:
        rollout["maxSurge"] = surge
    if unavailable is not None:
        rollout["maxUnavailable"] = unavailable
    if {"maxSurge", "maxUnavailable"} & rollout.keys() and not _moves(rollout):
        rollout = {}
        findings.dropped(
            "strategy.rollingUpdate", "a rollout needs maxSurge or maxUnavailable above 0; set spec.rollout"
        )
    deadline = whole(spec.get("progressDeadlineSeconds"))
    if deadline is not None and deadline >= _SHORTEST_DEADLINE:
        rollout["progressDeadline"] = f"{deadline}s"
    return rollout


def _moves(rollout: Json) -> bool:
    return rollout.get("maxSurge", 1) not in (0, "0%") or rollout.get("maxUnavailable", 0) not in (0, "0%")


def _pods(value: JsonValue) -> JsonValue:
    """A number of pods or a percentage; None for anything else."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit() and len(value) <= 4:
        return value
    return whole(value)


DEPLOYMENT = Source("Deployment", of_kind("Deployment", group="apps"), _deployments)
STATEFUL_SET = Source("StatefulSet", of_kind("StatefulSet", group="apps"), _stateful_sets)
