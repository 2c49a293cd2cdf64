"""Short ways to say which operators there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from outrider.cluster.installation import Claim, Installation

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def an_installation(
    namespace: str = "a",
    *,
    watches: str = "",
    began: float = 0.0,
    renewed: float = 0.0,
    term: int = 1,
    holder: str = "somebody",
    sees_others: bool = True,
) -> Installation:
    """watches: namespaces, all by default. began, renewed: seconds."""
    return Installation(
        namespace=namespace,
        claim=Claim(frozenset(watches.split()), "outrider", sees_others),
        holder=holder,
        term=term,
        reign_began=BEGAN + timedelta(seconds=began),
        renewed=BEGAN + timedelta(seconds=renewed),
        lasts=timedelta(seconds=15),
    )


def a_raw_lease(
    namespace: str = "a", *, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "outrider",
            "namespace": namespace,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": Claim(account="outrider").annotations() if annotations is None else annotations,
        },
        "spec": {
            "holderIdentity": "somebody",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 3,
            "acquireTime": "2026-01-01T00:01:00.000001Z",
            "renewTime": "2026-01-01T00:02:00.000001Z",
            **spec,
        },
    }
