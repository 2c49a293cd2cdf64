"""The kinds that the operator uses. The list is fixed, so no discovery request is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonObject = Mapping[str, Any]
"""A Kubernetes object as parsed JSON."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind. ``group`` is empty for the core API."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """The apiVersion of manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of a collection or an object; namespace None means all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        parts = [part for part in (self.plural, name, subresource) if part]
        return f"{root}{scope}/{'/'.join(parts)}"


MODELS = Resource("outrider.dev", "v1alpha1", "SpeculativeModel", "speculativemodels")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets")
PODS = Resource("", "v1", "Pod", "pods")
SERVICES = Resource("", "v1", "Service", "services")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
SECRETS = Resource("", "v1", "Secret", "secrets")
JOBS = Resource("batch", "v1", "Job", "jobs")
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews")
OWN_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"
)
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
NODES = Resource("", "v1", "Node", "nodes")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
INFERENCE_POOLS = Resource("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")
"""Kinds of optional add-ons, read by name and never watched. Their pods show their state."""

WATCHED_CHILDREN = (DEPLOYMENTS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, JOBS, BUDGETS)
"""Kinds of children that the operator watches by label. Secrets would need the right to list them."""

_BY_KIND = {
    (resource.api_version, resource.kind): resource
    for resource in (
        MODELS,
        PODS,
        SECRETS,
        CLAIMS,
        NETWORK_POLICIES,
        LEADER_WORKER_SETS,
        INFERENCE_POOLS,
        EVENTS,
        *WATCHED_CHILDREN,
    )
}


def resource_of(manifest: JsonObject) -> Resource:
    """Return the kind of a manifest.

    Raises:
        KeyError: the operator does not use this kind.
    """
    return _BY_KIND[manifest["apiVersion"], manifest["kind"]]
