"""Who reaches an engine: clients every port but that of the control API, the operator's pods that one.

The policy takes away nothing else. What a team says in policies of its own adds to it, as policies do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.plan.children import Manifest, head
from outrider.plan.names import CONTROL_PORTS, PORT_NAME, selector
from outrider.plan.overlay import Json

_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ControlPeers:
    """The pods of the operator, as a policy finds them."""

    namespace: str
    labels: Mapping[str, str]


def control_port(spec: Spec) -> int:
    """Where engines serve the control API, if it has a port of its own: one that they do not serve on."""
    return next(port for port in CONTROL_PORTS if port != spec.engine.port)


def network_policy(model: SpeculativeModel, *, peers: ControlPeers) -> Manifest:
    """Lets only ``peers`` come to the control port.

    The serving port has an entry of its own: a network that knows no ranges of ports reads the first port
    of each, and would keep clients out.
    """
    name, port = model.metadata.name, control_port(model.spec)
    operator: Json = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": peers.namespace}},
        "podSelector": {"matchLabels": dict(peers.labels)},
    }
    others = [_range(1, port - 1, "TCP"), _range(port + 1, _LAST_PORT, "TCP"), _range(1, _LAST_PORT, "UDP")]
    rules: list[JsonValue] = [
        {"ports": [{"port": PORT_NAME, "protocol": "TCP"}, *others]},
        {"from": [operator], "ports": [{"port": port, "protocol": "TCP"}]},
    ]
    return {
        **head(model, "networking.k8s.io/v1", "NetworkPolicy", name),
        "spec": {
            "podSelector": {"matchLabels": dict(selector(name))},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        },
    }


def _range(first: int, last: int, protocol: str) -> Json:
    return {"port": first, "endPort": last, "protocol": protocol}
