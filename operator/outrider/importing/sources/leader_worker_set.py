"""LeaderWorkerSets: replicas of several pods."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.importing.findings import Findings
from outrider.importing.sources.source import Source, of_kind
from outrider.importing.sources.workloads import metadata_of, note_labels, pod_of, template_metadata
from outrider.importing.workload import Workload, an_object, whole
from outrider.plan.overlay import Json


def _sets(document: Json) -> Iterator[Workload]:
    name, namespace = metadata_of(document)
    spec = an_object(document.get("spec"))
    group = an_object(spec.get("leaderWorkerTemplate"))
    leader, worker = group.get("leaderTemplate"), group.get("workerTemplate")
    template = leader if leader is not None else worker
    findings = Findings()
    note_labels(document, findings)
    if leader is not None and worker is not None:
        findings.check("workerTemplate", "Outrider makes workers of the leader's pod; see that it suits both")
    for field in ("rolloutStrategy", "startupPolicy", "networkConfig"):
        if spec.get(field) is not None:
            findings.dropped(field, "Outrider sets it for the groups that it makes")
    if group.get("restartPolicy") not in (None, "RecreateGroupOnPodRestart", "Default"):
        findings.dropped("restartPolicy", "Outrider makes a group anew where one of its pods ends")
    labels, annotations = template_metadata(template)
    replicas = whole(spec.get("replicas"))
    yield Workload(
        "LeaderWorkerSet",
        name,
        pod_of(template, f"the template of LeaderWorkerSet {name}"),
        findings,
        namespace=namespace,
        labels=labels,
        selected_by={key: value for key, value in labels.items() if key in ("app", "role")},
        annotations=annotations,
        replicas=1 if replicas is None else replicas,
        nodes=whole(group.get("size")) or 1,
    )


LEADER_WORKER_SET = Source(
    "LeaderWorkerSet", of_kind("LeaderWorkerSet", group="leaderworkerset.x-k8s.io"), _sets
)
