"""The two models of the bench, with and without a drafter. Only one of them has a pod at a time."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.demo.arms import converged, in_force, is_true, why
from examples.demo.cluster import Cluster, DemoFailed
from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL
from outrider.api.reasons import ConditionType
from outrider.api.resource import SpeculativeModel
from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode
from outrider.api.status import Status
from outrider.cluster.objects import Pod
from outrider.cluster.resources import PODS, JsonObject
from outrider.plan.runtimes.vllm.limits import max_num_seqs
from outrider.simulate.rivals.tuners import hand_table
from outrider.telemetry.series import PodKey
from outrider.tuning.policy import Policy
from tests.bench.engine.records import Push

SPECULATIVE_NAME = "bench-engine"
PLAIN_NAME = "bench-engine-plain"
IN_FORCE_SECONDS = 90.0
POLL_SECONDS = 0.2
OVERRIDE_HOURS = 6.0


def speculative_manifest(example: JsonObject) -> JsonObject:
    """The example under the bench's name, with the hand table as the static one and without tuning."""
    manifest = _named(example, SPECULATIVE_NAME)
    candidates = SpeculativeModel.model_validate(example).spec.candidates()
    speculation = manifest["spec"]["speculation"]
    speculation["schedule"] = hand_table(candidates).to_wire()
    speculation["tuning"] = {**speculation.get("tuning", {}), "mode": TuningMode.OFF.value}
    return manifest


def plain_manifest(example: JsonObject) -> JsonObject:
    """The same engine launched without speculation."""
    manifest = _named(example, PLAIN_NAME)
    manifest["spec"]["speculation"] = {"method": "none"}
    return manifest


def law_of(example: JsonObject) -> Policy:
    """What rules may know of the engine: its candidates and its largest batch."""
    spec = SpeculativeModel.model_validate(example).spec
    return Policy(spec.candidates(), max_num_seqs(spec.engine.args))


def _named(example: JsonObject, name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = copy.deepcopy(dict(example))
    labels = {"app.kubernetes.io/part-of": SPECULATIVE_NAME}
    manifest["metadata"] = {"name": name, "labels": labels}
    manifest["spec"]["replicas"] = 1
    return manifest


@dataclass(frozen=True)
class Engine:
    """One model in the cluster."""

    cluster: Cluster
    manifest: JsonObject

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.manifest["metadata"]["name"])

    @property
    def url(self) -> str:
        """Where clients in the cluster send requests."""
        return f"http://{self.name}.{self.cluster.namespace}.svc/v1"

    async def launch(self, timeout_seconds: float) -> None:
        """Bring up one pod and wait until it serves.

        Raises:
            DemoFailed: not within `timeout_seconds`.
        """
        generation = await self._apply(self.manifest)

        def serves(status: Status) -> bool:
            ready = status.condition(ConditionType.READY)
            known = ready is not None and (ready.observed_generation or 0) >= generation
            live = status.condition(ConditionType.ACTUATION_CONVERGED)
            confirmed = converged(status) if self._speculates else live is None or converged(status)
            return known and is_true(status, ConditionType.READY) and confirmed

        await self._wait(serves, f"{self.name} did not serve", timeout_seconds)

    async def stop(self) -> None:
        """Scale to nothing and wait until the pods are gone."""
        manifest = self._copy()
        manifest["spec"]["replicas"] = 0
        await self._apply(manifest)
        while (await self.cluster.engine_pods(self.name)).restarts:
            await asyncio.sleep(POLL_SECONDS)

    async def pods(self) -> tuple[PodKey, ...]:
        """The pods that serve."""
        found, _ = await self.cluster.client.list_all(
            PODS, self.cluster.namespace, labels=f"outrider.dev/model={self.name}"
        )
        pods = (Pod.model_validate(pod) for pod in found)
        return tuple(PodKey(self.cluster.namespace, pod.metadata.name) for pod in pods if pod.ready)

    async def put(self, table: Schedule) -> Push:
        """Put a table in force by the override annotation; returns when status confirms it."""
        manifest = self._copy()
        until = datetime.now(UTC) + timedelta(hours=OVERRIDE_HOURS)
        manifest["metadata"]["annotations"] = {
            OVERRIDE: str(table.merged()),
            OVERRIDE_UNTIL: until.isoformat(timespec="seconds"),
        }
        asked = time.time()
        generation = await self._apply(manifest)
        wanted = str(table.merged())

        def confirmed(status: Status) -> bool:
            return converged(status, generation) and in_force(status) == wanted

        await self._wait(confirmed, f"the engines did not confirm {wanted}", IN_FORCE_SECONDS)
        return Push(asked=asked, table=wanted, in_force=time.time())

    async def tune(self, *, forget_seconds: float) -> None:
        """Hand the table to the operator, with nothing learnt: through mode Off and the static table.

        forget_seconds: rest in mode Off, until what was scraped under the load before is behind.
        """
        off = await self._apply(self.manifest)
        await self._wait(lambda status: converged(status, off), "mode Off did not hold", IN_FORCE_SECONDS)
        await asyncio.sleep(forget_seconds)
        manifest = self._copy()
        manifest["spec"]["speculation"]["tuning"]["mode"] = TuningMode.AUTO.value
        auto = await self._apply(manifest)
        await self._wait(lambda status: converged(status, auto), "mode Auto did not hold", IN_FORCE_SECONDS)

    @property
    def _speculates(self) -> bool:
        return bool(self.manifest["spec"]["speculation"]["method"] != "none")

    def _copy(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.manifest))

    async def _apply(self, manifest: JsonObject) -> int:
        await self.cluster.apply(manifest)
        model = await self.cluster.model(self.name)
        if model is None:
            raise DemoFailed(f"SpeculativeModel {self.name} is gone")
        return int(model["metadata"]["generation"])

    async def _wait(self, done: Callable[[Status], bool], complaint: str, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not done(status := await self.cluster.status(self.name)):
            if time.monotonic() > deadline:
                raise DemoFailed(f"{complaint} within {timeout_seconds:.0f} s: {why(status)}")
            await asyncio.sleep(POLL_SECONDS)
