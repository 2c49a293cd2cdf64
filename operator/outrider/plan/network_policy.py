"""Who reaches the pods of a model. Each pod is isolated, and only what is listed here comes in.

Policies add up: an allowance here also opens a port in a namespace that denies by default. So nothing is
allowed that the model does not need. A team that needs more adds a policy of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.plan.children import Manifest, head
from outrider.plan.names import (
    CONTROL_PORTS,
    GROUP_LABEL,
    PORT_NAME,
    PROGRESS_PORT,
    WEIGHTS_LABEL,
    WORKERS_LABEL,
    group_set,
    selector,
    weights_claim,
)
from outrider.plan.network_peers import ControlPeers
from outrider.plan.weights.needs import needs_of


def control_port(spec: Spec) -> int:
    """Where engines serve the control API, if it has a port of its own: one that they do not serve on."""
    return next(port for port in CONTROL_PORTS if port != spec.engine.port)


def network_policies(model: SpeculativeModel, *, peers: ControlPeers) -> tuple[Manifest, ...]:
    """One for engines; one for groups of several nodes, one for downloads, where the model has such pods."""
    groups = (_groups(model),) if model.spec.parallelism.nodes > 1 else ()
    downloads = () if needs_of(model) is None else (_downloads(model, peers),)
    return (_engines(model, peers), *groups, *downloads)


def _engines(model: SpeculativeModel, peers: ControlPeers) -> Manifest:
    """Clients come to the serving port, and gateways to that of the pool. The operator comes to the serving
    port, for metrics, and to the control port. Pods at the other end of a KV connector come to every port.
    """
    serving: Json = {"port": PORT_NAME, "protocol": "TCP"}
    control: Json = {"port": control_port(model.spec), "protocol": "TCP"}
    rules: list[JsonValue] = [{"from": [peers.operator], "ports": [control, serving]}]
    # A rule whose list of peers is empty would let everybody in.
    if peers.clients:
        pool = model.spec.inference_pool
        gateway: list[JsonValue] = []
        if pool is not None and pool.port is not None:
            gateway = [{"port": pool.port, "protocol": "TCP"}]
        rules.append({"from": [*peers.clients], "ports": [serving, *gateway]})
    rules.extend(_from_transfer_peer(model.spec))
    return _policy(model, model.metadata.name, selector(model.metadata.name), rules)


def _groups(model: SpeculativeModel) -> Manifest:
    """Leaders and workers of this model reach each other on every port.

    Besides the port at which the leader waits, NCCL and vLLM's queues take ports that the kernel chooses.
    Workers hold parts of the KV cache, so the other end of a connector comes to them, too.
    """
    members = {GROUP_LABEL: group_set(model.metadata.name)}
    rules: list[JsonValue] = [{"from": [{"podSelector": {"matchLabels": {**members}}}]}]
    rules.extend(_from_transfer_peer(model.spec))
    return _policy(model, group_set(model.metadata.name), members, rules)


def _from_transfer_peer(spec: Spec) -> list[JsonValue]:
    """Engines and workers of ``engine.kvTransferPeer`` come to every port: connectors choose theirs."""
    peer = spec.engine.kv_transfer_peer
    if peer is None:
        return []
    ends: list[JsonValue] = [
        {"podSelector": {"matchLabels": {**labels}}} for labels in (selector(peer), {WORKERS_LABEL: peer})
    ]
    return [{"from": ends}]


def _downloads(model: SpeculativeModel, peers: ControlPeers) -> Manifest:
    """The operator alone asks a download how far it is."""
    port: Json = {"port": PROGRESS_PORT, "protocol": "TCP"}
    rules: list[JsonValue] = [{"from": [peers.operator], "ports": [port]}]
    name = model.metadata.name
    return _policy(model, weights_claim(name), {WEIGHTS_LABEL: name}, rules)


def _policy(
    model: SpeculativeModel, name: str, labels: Mapping[str, str], rules: list[JsonValue]
) -> Manifest:
    return {
        **head(model, "networking.k8s.io/v1", "NetworkPolicy", name),
        "spec": {
            "podSelector": {"matchLabels": dict(labels)},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        },
    }
