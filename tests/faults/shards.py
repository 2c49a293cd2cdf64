"""Several operators of one installation, each behind a proxy of its own, with models that they share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench.scale.place import a_model
from tests.faults.life import CHILDREN, OVERRIDE, SETTINGS, wait_until
from tests.faults.place import MODELS, Place
from tests.faults.pods import History
from tests.faults.proxy import Proxy, a_proxy
from tests.faults.warm_operator import WarmOperator
from tests.ports import free_port

NAMES = tuple(f"m-{number}" for number in range(6))
_MODEL = re.compile(r"m-\d+")


@dataclass(frozen=True, slots=True)
class Member:
    """One process and its proxy."""

    operator: WarmOperator
    proxy: Proxy

    def leads(self) -> bool:
        """Whether it is the leader of a shard."""
        return "leading, term" in self.operator.log

    def wrote(self) -> set[str]:
        """The models about which it wrote."""
        calls = (seen.call for seen in self.proxy.gate.calls if seen.call.writes)
        found = (_MODEL.match(call.name) for call in calls if call.plural != "leases")
        return {each[0] for each in found if each is not None}


class Crowd:
    """Some models with one pod each, and the processes that share them."""

    def __init__(self, place: Place, namespace: str, stack: ExitStack) -> None:
        self.place = place
        self.namespace = namespace
        self._stack = stack
        self._count = 0

    @property
    def history(self) -> History:
        """Of all pods."""
        return self.place.pods.of(self.namespace)

    def start(self, *, shards: int) -> Member:
        """One more process with this number of shards."""
        self._count += 1
        name = f"{self.namespace}-{self._count}"
        proxy = self._stack.enter_context(a_proxy(self.place.loop, self.place.url))
        environment = {
            **self.place.server.environment,
            **SETTINGS,
            "KUBECONFIG": str(self.place.server.kubeconfig(name, port=proxy.port, scheme="http")),
            "OUTRIDER_HTTP_PORT": str(free_port()),
            "OUTRIDER_LEASE_NAMESPACE": self.namespace,
            "OUTRIDER_WATCH_NAMESPACES": self.namespace,
            "OUTRIDER_SHARDS": str(shards),
            # A shard whose process was killed has no leader for 17 s.
            "OUTRIDER_PUSH_LEASE_SECONDS": "60",
        }
        operator = WarmOperator(environment, self.place.server.folder / f"{name}.log")
        self._stack.callback(operator.stop)
        operator.start()
        return Member(operator, proxy)

    def create(self) -> None:
        """All models, with K=1."""
        for name in NAMES:
            manifest: dict[str, Any] = a_model(0)
            override = {OVERRIDE: "*:1", f"{OVERRIDE}-until": "2100-01-01T00:00:00Z"}
            manifest["metadata"] = {"name": name, "namespace": self.namespace, "annotations": override}
            manifest["spec"]["replicas"] = 1
            manifest["spec"]["engine"]["port"] = self.place.engine_port
            self.place.api.create(MODELS.format(self.namespace), manifest)

    def retune(self, k: int) -> None:
        """Ask for one K of all models, and wait until the engines have it."""
        for name in NAMES:
            path = f"{MODELS.format(self.namespace)}/{name}"
            self.place.api.patch(path, {"metadata": {"annotations": {OVERRIDE: f"*:{k}"}}})
        self.until_pushed(k)

    def until_pushed(self, k: int) -> None:
        """Wait until the engines of all models have one K."""
        wanted = [{"numSpeculativeTokens": k}]

        def lacks() -> str:
            found = self.history.serving.values()
            pushed = sum(each.source == "Pushed" and each.schedule == wanted for each in found)
            return "" if pushed == len(NAMES) else f"{pushed} of {len(NAMES)} engines have K={k}"

        wait_until(lacks)

    def states(self) -> dict[str, str]:
        """UID of the ConfigMap with the tuner state, by name."""
        found = self.place.api.items(CHILDREN["ConfigMap"].format(self.namespace))
        named = ((each["metadata"]["name"], each["metadata"]["uid"]) for each in found)
        return {name: uid for name, uid in named if name.endswith("-tuner")}


@contextmanager
def a_crowd(place: Place, namespace: str) -> Iterator[Crowd]:
    """In the block its processes may run, in an empty namespace."""
    place.create_namespace(namespace)
    with ExitStack() as stack:
        yield Crowd(place, namespace, stack)
