"""Two operators on two machines; that of the one that leads is lost, or cut off, and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.kubectl import Object, has_condition
from tests.cluster.models import read_twin
from tests.environment.place import OPERATOR_IMAGE, TWIN_IMAGE
from tests.lifecycle.model_on_nodes import HOME, MODEL, ON_ALL_MACHINES, install_operator, override
from tests.lifecycle.nodes import Nodes, bring_back, connect_again, cut_off, lose, several_nodes
from tests.lifecycle.stored_models import KIND, eventually

ENGINES = f"outrider.dev/model={MODEL}"
OPERATORS = "app.kubernetes.io/name=outrider"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
START_SECONDS = 600.0
TICKS = 3
"""Pushes that are waited for to see that no other comes between them."""


@dataclass(frozen=True)
class Ruled:
    """What an engine says of its table."""

    term: int
    k: frozenset[int]
    lease_seconds: float
    """Longer than at the last look: it was pushed again."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """With two operators on two machines, and a model whose engines serve."""
    with several_nodes(tmp_path_factory.mktemp("nodes"), OPERATOR_IMAGE, TWIN_IMAGE) as found:
        install_operator(found, {"replicas": 2})
        found.apply(a_model())
        yield found


def a_model() -> Object:
    """Its first engine is beside the control plane, on a machine that stays; the next ones are elsewhere."""
    manifest = read_twin()
    manifest["metadata"] |= {"name": MODEL, "namespace": "default"}
    first = {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}
    where: dict[str, Any] = {
        "tolerations": [{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": first}]
            }
        },
        "topologySpreadConstraints": [
            {**ON_ALL_MACHINES, "labelSelector": {"matchLabels": {"outrider.dev/model": MODEL}}}
        ],
    }
    manifest["spec"]["podTemplate"]["spec"] |= where
    return manifest


def leader(nodes: Nodes) -> str:
    """The pod that holds the Lease."""
    return str(nodes.get("lease", "outrider", HOME)["spec"]["holderIdentity"]).rpartition("_")[0]


def machines(nodes: Nodes, selector: str, namespace: str = "default") -> dict[str, str]:
    """Of the ready pods, by name."""
    pods = nodes.pods(selector, namespace)
    ready = [name for name, pod in pods.items() if has_condition(pod, "Ready", "True")]
    return {name: pods[name]["spec"]["nodeName"] for name in ready}


def look(nodes: Nodes, engine: str) -> Ruled | None:
    """None while it does not answer."""
    page = nodes.page(engine, 8000)
    lines = [line for line in (page or "").splitlines() if line.startswith("outrider:")]
    families = text_string_to_metric_families("\n".join([*lines, ""]))
    samples = [sample for family in families for sample in family.samples]
    value = {sample.name: sample.value for sample in samples}
    k = frozenset(int(sample.value) for sample in samples if sample.name == "outrider:num_speculative_tokens")
    if not k:
        return None
    return Ruled(int(value["outrider:term"]), k, value["outrider:lease_remaining_seconds"])


def all_use(nodes: Nodes, engines: list[str], k: int, *, above: int = 0) -> bool:
    """Whether each has this K for all batches, by a leader of a later term."""
    found = [look(nodes, engine) for engine in engines]
    return all(each is not None and each.k == {k} and each.term > above for each in found)


def stands_by(nodes: Nodes, operator: str) -> bool:
    """Whether it answers, and says that it does not lead."""
    return '\noutrider_operator_leader{shard=""} 0.0\n' in (nodes.page(operator, 8080, HOME) or "")


@pytest.mark.parametrize(
    ("replicas", "take_away", "give_back"),
    [
        pytest.param(1, lose, bring_back, id="lost"),
        pytest.param(3, lose, bring_back, id="lost-with-an-engine"),
        pytest.param(3, cut_off, connect_again, id="cut-off-with-an-engine"),
    ],
)
def test_a_leader_whose_machine_is_away_is_followed_and_pushes_nothing_when_it_is_back(
    nodes: Nodes, replicas: int, take_away: Callable[[str], None], give_back: Callable[[str], None]
) -> None:
    nodes.kubectl("scale", KIND, MODEL, f"--replicas={replicas}")
    eventually("all serve", lambda: len(machines(nodes, ENGINES)) == replicas, seconds=START_SECONDS)
    engines = machines(nodes, ENGINES)
    override(nodes, 2)
    eventually("the leader rules all", lambda: all_use(nodes, list(engines), 2))
    operators = machines(nodes, OPERATORS, HOME)
    assert len(set(operators.values())) == len(operators) == 2
    old = leader(nodes)
    away = operators[old]
    left = [engine for engine, machine in engines.items() if machine != away]
    assert left
    first = look(nodes, left[0])
    assert first is not None

    began = time.monotonic()
    take_away(away)
    try:
        override(nodes, 3)
        eventually("another leader pushes", lambda: all_use(nodes, left, 3, above=first.term))
        print(f"{len(left)} of {replicas} engines had it {time.monotonic() - began:.1f} s after")
        new = leader(nodes)
        assert new != old
    finally:
        give_back(away)

    seen: list[Ruled] = []

    def watch() -> int:
        """How often the engine was pushed since."""
        seen.extend(found for found in [look(nodes, left[0])] if found is not None)
        return sum(later.lease_seconds > earlier.lease_seconds for earlier, later in pairwise(seen))

    def is_back() -> bool:
        watch()
        return stands_by(nodes, old) and all_use(nodes, list(engines), 3, above=first.term)

    eventually("all are back, and ruled by the new leader", is_back, seconds=START_SECONDS)
    pushed = watch()
    eventually("more pushes", lambda: watch() >= pushed + TICKS)
    assert {(each.term, each.k) for each in seen} == {(seen[0].term, frozenset({3}))}
    assert leader(nodes) == new
    assert stands_by(nodes, old)
