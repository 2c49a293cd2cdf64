"""Deployments, StatefulSets and LeaderWorkerSets, and a command line as it is typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.importing.findings import Findings
from outrider.importing.holders import COMMAND_LINE
from outrider.importing.sources.source import (
    WORKERS,
    Source,
    begin,
    drop_fields,
    metadata_of,
    of_kind,
    pod_of,
    replicas_of,
    template_metadata,
)
from outrider.importing.workload import Workload, an_object, objects, whole

_MIN_DEADLINE = 10
_DROPPED: Mapping[str, str] = {
    "minReadySeconds": "Outrider's own readiness decides",
    "paused": "outrider.dev/pause pauses the tuner, and replicas: 0 stops the engines",
    "serviceName": "Outrider makes a Service of its own",
    "podManagementPolicy": "engines are alike, so Outrider makes a Deployment",
    "updateStrategy": "Outrider makes a Deployment; spec.rollout says how it rolls out",
    "persistentVolumeClaimRetentionPolicy": "Outrider makes no claim for each pod",
    "ordinals": "engines are alike, so Outrider makes a Deployment",
}
_SETS_OF_ITS_OWN = "Outrider sets it for the groups that it makes"


def of_command_line(words: Sequence[str]) -> Workload:
    """The workload of ``vllm serve …`` or ``python -m vllm.entrypoints.openai.api_server …``.

    A shell reads one word with blanks, which is a whole command line in quotes.
    """
    in_quotes = len(words) == 1 and " " in words[0].strip()
    container: Json = {"name": "vllm", "command": ["sh", "-c", *words] if in_quotes else list(words)}
    pod: Json = {"containers": [container]}
    return Workload("command line", "", pod, container="vllm", holder=COMMAND_LINE, in_cluster=False)


def _workloads(document: Json) -> Iterator[Workload]:
    spec, findings = begin(document)
    kind, (name, namespace) = str(document.get("kind")), metadata_of(document)
    drop_fields(spec, _DROPPED, findings, unset=(None, False, 0, {}, ""))
    labels, annotations = template_metadata(spec.get("template"))
    yield Workload(
        kind,
        name,
        pod_of(spec.get("template"), f"spec.template of {kind} {name}"),
        findings,
        namespace=namespace,
        labels=labels,
        selected_by=an_object(an_object(spec.get("selector")).get("matchLabels")),
        annotations=annotations,
        replicas=replicas_of(spec.get("replicas")),
        claims={
            metadata_of(each)[0]: an_object(each.get("spec"))
            for each in objects(spec.get("volumeClaimTemplates"))
        },
        rollout=_rollout(spec, findings) if kind == "Deployment" else {},
    )


def _rollout(spec: Json, findings: Findings) -> Json:
    strategy = an_object(spec.get("strategy"))
    if strategy.get("type") == "Recreate":
        findings.dropped(
            "strategy Recreate",
            "a rollout keeps engines serving; without a spare GPU set spec.rollout.maxSurge: 0",
        )
    rolling = an_object(strategy.get("rollingUpdate"))
    given = {name: _pods(rolling.get(name)) for name in ("maxSurge", "maxUnavailable")}
    rollout: Json = {name: pods for name, pods in given.items() if pods is not None}
    none = (0, "0%")
    if rollout and rollout.get("maxSurge", 1) in none and rollout.get("maxUnavailable", 0) in none:
        rollout = {}
        findings.dropped(
            "strategy.rollingUpdate", "a rollout needs maxSurge or maxUnavailable above 0; set spec.rollout"
        )
    deadline = whole(spec.get("progressDeadlineSeconds"))
    if deadline is not None and deadline >= _MIN_DEADLINE:
        rollout["progressDeadline"] = f"{deadline}s"
    return rollout


def _pods(value: JsonValue) -> JsonValue:
    """A number of pods or a percentage; None for anything else."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit() and len(value) <= 4:
        return value
    return whole(value)


def _sets(document: Json) -> Iterator[Workload]:
    """LeaderWorkerSets: replicas of several pods."""
    spec, findings = begin(document)
    name, namespace = metadata_of(document)
    group = an_object(spec.get("leaderWorkerTemplate"))
    leader, worker = group.get("leaderTemplate"), group.get("workerTemplate")
    template = leader if leader is not None else worker
    if leader is not None and worker is not None:
        findings.check("workerTemplate", WORKERS)
    fields = ("rolloutStrategy", "startupPolicy", "networkConfig")
    drop_fields(spec, dict.fromkeys(fields, _SETS_OF_ITS_OWN), findings)
    if group.get("restartPolicy") not in (None, "RecreateGroupOnPodRestart", "Default"):
        findings.dropped("restartPolicy", "Outrider makes a group anew where one of its pods ends")
    labels, annotations = template_metadata(template)
    yield Workload(
        "LeaderWorkerSet",
        name,
        pod_of(template, f"the template of LeaderWorkerSet {name}"),
        findings,
        namespace=namespace,
        labels=labels,
        selected_by={key: value for key, value in labels.items() if key in ("app", "role")},
        annotations=annotations,
        replicas=replicas_of(spec.get("replicas")),
        nodes=whole(group.get("size")) or 1,
    )


DEPLOYMENT = Source("Deployment", of_kind("Deployment", group="apps"), _workloads)
STATEFUL_SET = Source("StatefulSet", of_kind("StatefulSet", group="apps"), _workloads)
LEADER_WORKER_SET = Source(
    "LeaderWorkerSet", of_kind("LeaderWorkerSet", group="leaderworkerset.x-k8s.io"), _sets
)
