"""A played kubelet whose engines stand behind gates, and what became of the pods of each namespace."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.bench.scale.engines import BusyEngine
from tests.bench.scale.node import Node
from tests.cluster.kubectl import Object
from tests.faults.faults import Call
from tests.faults.gate import Gate

START_SECONDS = 0.1
"""From a running container to a listening engine."""
DRAIN_SECONDS = 0.3
"""A deleted pod takes new requests for so long, because some are on their way."""
OVERTAKING_SECONDS = 10.0
"""The leader has two requests to an engine on the way at a time for less than that."""
ANSWER_SECONDS = 0.3
"""A client waits so long for its answer."""
ENGINE = "engine"
COMPLETIONS = "/v1/completions"
NODE = "played"
_LOOK_SECONDS = 0.05


log = logging.getLogger(__name__)


class Engine(BusyEngine):
    """One whose requests go through the gate of its namespace."""

    def __init__(self, name: str, gate: Gate) -> None:
        super().__init__(name, model=0)
        self.gate = gate
        self.refused: list[str] = []
        """Pushes that its fence refused, except those that a newer one overtook on the way."""
        self.running = 0
        """Requests of clients."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """As its gate allows, which no client passes. Scrapes and the control API are calls of two names."""
        if request.path == COMPLETIONS:
            return await self._complete()
        part = "metrics" if request.path == "/metrics" else "control"
        before = super().handle

        async def forward() -> web.StreamResponse:
            response = await before(request)
            if request.method == "PUT" and response.status == 409:
                self._refuse(await request.json())
            return response

        await request.read()
        return await self.gate.answer(request, Call(request.method, ENGINE, part=part), forward)

    def _refuse(self, push: dict[str, Any]) -> None:
        """Record it, unless a newer push of the same leader came just before: renewals run beside ticks."""
        ago = time.time() - (self.renewed_at or 0.0)
        overtaken = push["term"] == self.term and push["epoch"] < self.epoch
        if not overtaken or ago > OVERTAKING_SECONDS:
            fences = f"{push['term']}.{push['epoch']} after {self.term}.{self.epoch}"
            self.refused.append(f"{fences}, which came {ago:.1f} s before")

    async def _complete(self) -> web.StreamResponse:
        self.running += 1
        try:
            await asyncio.sleep(ANSWER_SECONDS)
        finally:
            self.running -= 1
        return web.json_response({"choices": []})


@dataclass
class History:
    """What happened to the pods of one namespace.

    started: UIDs, of all that ever were. ready: those that are, by UID.
    fewest: ready ones since `count_from_here`.
    lapses, refused: leases that ended, and pushes that fences refused, of engines whose pods are gone.
    """

    gate: Gate
    started: set[str] = field(default_factory=set)
    ready: dict[str, Object] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    fewest: int | None = None
    lapses: int = 0
    refused: list[str] = field(default_factory=list)

    def count_from_here(self) -> None:
        """Let `fewest` begin anew."""
        self.fewest = len(self.ready)

    def forget(self, uid: str) -> None:
        """Its pod is gone, and with it the engine."""
        self.ready.pop(uid, None)
        engine = self.engines.pop(uid, None)
        if engine is not None:
            self.lapses, self.refused = self.lapses + engine.lapses, self.refused + engine.refused

    def troubles(self) -> tuple[int, list[str]]:
        """Leases that ended, and pushes that were refused, of all engines."""
        engines = self.engines.values()
        return self.lapses + sum(e.lapses for e in engines), sum((e.refused for e in engines), self.refused)

    @property
    def serving(self) -> dict[str, Engine]:
        """The engines of ready pods, by UID."""
        return {uid: self.engines[uid] for uid in sorted(self.ready) if uid in self.engines}


class Pods(Node):
    """The node. gate_of: the gate before the engines of a namespace."""

    def __init__(self, url: str, http: aiohttp.ClientSession, gate_of: Callable[[str], Gate]) -> None:
        super().__init__(url, http, start_seconds=START_SECONDS)
        self._gate_of = gate_of
        self._histories: dict[str, History] = {}
        self._ending: set[str] = set()

    def of(self, namespace: str) -> History:
        """The history of a namespace."""
        if namespace not in self._histories:
            self._histories[namespace] = History(self._gate_of(namespace))
        return self._histories[namespace]

    def saw(self, change: str, pod: dict[str, Any], starting: asyncio.TaskGroup) -> None:
        """Keep what a pod became. One that was deleted and is there again is of a restored etcd."""
        history, uid = self.of(pod["metadata"]["namespace"]), pod["metadata"]["uid"]
        history.started.add(uid)
        if change == "DELETED":
            history.forget(uid)
        elif not _is_ready(pod):
            history.ready.pop(uid, None)
        else:
            history.ready[uid] = pod
        if history.fewest is not None:
            history.fewest = min(history.fewest, len(history.ready))
        if "deletionTimestamp" in pod["metadata"]:
            if uid not in self._ending:
                self._ending.add(uid)
                starting.create_task(self._end(pod))
        elif change == "ADDED" and uid in self._ending:
            self._ending.remove(uid)
            self._engines[pod["status"]["podIP"]] = self.engine_of(pod)
        super().saw(change, pod, starting)

    def listed(self, uids: Set[str]) -> None:
        """Forget the pods of which a restored etcd has no trace."""
        for history in self._histories.values():
            for uid in history.engines.keys() - uids:
                history.forget(uid)

    async def _start(self, pod: dict[str, Any], address: str) -> None:
        """Bind it, as a scheduler would. Kubernetes deletes a pod without a node at once."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": {"kind": "Node", "name": NODE},
        }
        async with self._http.post(f"{self._path(pod)}/binding", json=binding) as answer:
            if answer.status not in (201, 404, 409):  # gone, or about to go: it needs no node
                log.warning("%s is not bound: %s", pod["metadata"]["name"], await answer.text())
        await super()._start(pod, address)

    async def _end(self, pod: dict[str, Any]) -> None:
        """Let the engine end the requests that it has, and the pod go."""
        uid = pod["metadata"]["uid"]
        engine = self.of(pod["metadata"]["namespace"]).engines.get(uid)
        if engine is not None:
            await asyncio.sleep(DRAIN_SECONDS)
            while engine.running:
                await asyncio.sleep(_LOOK_SECONDS)
            self._engines.pop(pod["status"]["podIP"], None)
        now = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        async with self._http.delete(self._path(pod), json=now):
            pass

    def _path(self, pod: dict[str, Any]) -> str:
        meta = pod["metadata"]
        return f"{self._url}/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    def engine_of(self, pod: dict[str, Any]) -> Engine:
        """The engine that a pod starts."""
        history = self.of(pod["metadata"]["namespace"])
        engine = history.engines[pod["metadata"]["uid"]] = Engine(pod["metadata"]["name"], history.gate)
        return engine


def _is_ready(pod: dict[str, Any]) -> bool:
    staying = "deletionTimestamp" not in pod["metadata"]
    conditions = pod.get("status", {}).get("conditions", ())
    return staying and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
