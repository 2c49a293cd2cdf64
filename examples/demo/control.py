"""Whether the operator led without a break: the restarts of its pods and the Lease, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from examples.kit.cluster import Cluster, PodCount
from outrider.cluster.errors import ClusterError
from outrider.cluster.lease import LEASE_NAME
from outrider.cluster.resources import LEASES, PODS, JsonObject

OPERATOR_LABELS = "app.kubernetes.io/name=outrider,app.kubernetes.io/component=operator"
UNKNOWN = "Whether the operator led throughout is not known: the cluster was asked in vain."


@dataclass(frozen=True, slots=True)
class Hold:
    """Who holds a Lease, and how often it has changed hands."""

    holder: str
    transitions: int


@dataclass(frozen=True, slots=True)
class Control:
    """The operator at one moment. leases: by namespace; none where leader election is off."""

    pods: PodCount
    leases: Mapping[str, Hold]


async def look(cluster: Cluster) -> Control | None:
    """Return the present state of the operator; None if the API server does not return it."""
    try:
        pods, _ = await cluster.client.list_all(PODS, None, labels=OPERATOR_LABELS)
        leases, _ = await cluster.client.list_all(LEASES, None, fields=f"metadata.name={LEASE_NAME}")
    except ClusterError:
        return None
    return Control(PodCount.of(pods), {lease["metadata"]["namespace"]: _hold(lease) for lease in leases})


def interruption(before: Control | None, after: Control | None) -> str | None:
    """What broke the operator's work in between, in one sentence; None where nothing did."""
    if before is None or after is None:
        return UNKNOWN
    restarts = after.pods.restarts_since(before.pods)
    changes = sum(_changes(held, after.leases.get(place)) for place, held in before.leases.items())
    told = [
        f"it was restarted or replaced {_times(restarts)}" if restarts else "",
        f"its Lease changed hands {_times(changes)}" if changes else "",
    ]
    found = " and ".join(one for one in told if one)
    return f"The operator did not lead throughout: {found}. Meanwhile nothing was retuned." if found else None


def _changes(before: Hold, after: Hold | None) -> int:
    """A Lease that was given back, or is gone, has changed hands as well."""
    if after is None:
        return 1
    return max(after.transitions - before.transitions, int(after.holder != before.holder))


def _hold(lease: JsonObject) -> Hold:
    spec = lease.get("spec") or {}
    return Hold(str(spec.get("holderIdentity") or ""), int(spec.get("leaseTransitions") or 0))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
