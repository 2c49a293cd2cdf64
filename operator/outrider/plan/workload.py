"""What makes the pods of a model: a Deployment, or a LeaderWorkerSet where a replica is a group of pods.

Another kind of workload has its place here: `workload` chooses, and nothing else of the planner asks.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from outrider.api.json_object import Json
from outrider.api.resource import SpeculativeModel
from outrider.plan.children import Manifest, deployment, head, with_revision
from outrider.plan.names import group_set


@dataclass(frozen=True, slots=True)
class ReplicaPods:
    """The pod templates of one replica, without revision label."""

    main: Json
    """Template of the pod that serves."""
    worker: Json | None = None
    """Template of the others of its group; None where it is alone."""

    @property
    def revision(self) -> str:
        """Hash of all that is in them."""
        whole = self.main if self.worker is None else {"leader": self.main, "worker": self.worker}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def workload(model: SpeculativeModel, pods: ReplicaPods, *, replicas: int) -> Manifest:
    """The object that makes ``replicas`` of these."""
    if pods.worker is None:
        return deployment(model, template=pods.main, revision=pods.revision, replicas=replicas)
    return _groups(model, pods.main, pods.worker, revision=pods.revision, replicas=replicas)


def _groups(model: SpeculativeModel, leader: Json, worker: Json, *, revision: str, replicas: int) -> Manifest:
    """A group for each replica.

    Its controller ends a whole group when a container of it ends. An engine does not outlive one of its
    ranks: the others would wait for a rank that starts anew.
    """
    rollout = model.spec.rollout
    own = head(model, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", group_set(model.metadata.name))
    return {
        **own,
        "spec": {
            "replicas": replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {
                    "maxSurge": rollout.max_surge,
                    "maxUnavailable": rollout.max_unavailable,
                },
            },
            "leaderWorkerTemplate": {
                "size": model.spec.parallelism.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": with_revision(leader, revision),
                "workerTemplate": with_revision(worker, revision),
            },
        },
    }
