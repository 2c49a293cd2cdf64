"""The two models of the bench, with and without a drafter. Only one of them has a pod at a time."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.kit.cluster import POLL_SECONDS, Cluster, RunFailed, address
from examples.kit.status import converged, in_force, is_true
from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL
from outrider.api.conditions import ConditionType
from outrider.api.resource import SpeculativeModel
from outrider.api.status import Status
from outrider.api.tuning import TuningMode
from outrider.cluster.objects import Pod
from outrider.cluster.resources import PODS, JsonObject
from outrider.plan.names import MODEL_LABEL
from outrider.runtimes.vllm.limits import MAX_DEFAULT_BATCH, max_num_seqs
from outrider.telemetry.series import PodKey
from outrider.tuning.policy import Policy
from outrider_lab.rivals.tuners import hand_table
from outrider_protocol.schedule import Schedule
from tests.bench.engine.records import Push

SPECULATIVE_NAME = "bench-engine"
PLAIN_NAME = "bench-engine-plain"
IN_FORCE_SECONDS = 90.0
OVERRIDE_HOURS = 6.0


def speculative_manifest(example: JsonObject, *, pods: int = 1) -> JsonObject:
    """The example under the bench's name, with the hand table as the static one and without tuning."""
    manifest = _named(example, SPECULATIVE_NAME, pods)
    candidates = SpeculativeModel.model_validate(example).spec.candidates()
    speculation = manifest["spec"]["speculation"]
    speculation["schedule"] = hand_table(candidates).to_wire()
    speculation["tuning"] = {**speculation.get("tuning", {}), "mode": TuningMode.OFF.value}
    return manifest


def plain_manifest(example: JsonObject, *, pods: int = 1) -> JsonObject:
    """The same engine launched without speculation."""
    manifest = _named(example, PLAIN_NAME, pods)
    manifest["spec"]["speculation"] = {"method": "none"}
    return manifest


def law_of(example: JsonObject) -> Policy:
    """What rules may know of the engine: its candidates and its largest batch."""
    spec = SpeculativeModel.model_validate(example).spec
    return Policy(spec.candidates(), max_num_seqs(spec.engine.args) or MAX_DEFAULT_BATCH)


def _named(example: JsonObject, name: str, pods: int) -> dict[str, Any]:
    manifest: dict[str, Any] = copy.deepcopy(dict(example))
    labels = {"app.kubernetes.io/part-of": SPECULATIVE_NAME}
    manifest["metadata"] = {"name": name, "labels": labels}
    manifest["spec"]["replicas"] = pods
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
        return address(self.name, self.cluster.namespace)

    async def launch(self, timeout_seconds: float) -> None:
        """Bring up its pods and wait until they serve.

        Raises:
            RunFailed: not within `timeout_seconds`.
        """
        generation = await self.cluster.apply_model(self.manifest)

        def serves(status: Status) -> bool:
            ready = status.condition(ConditionType.READY)
            known = ready is not None and (ready.observed_generation or 0) >= generation
            live = status.condition(ConditionType.ACTUATION_CONVERGED)
            confirmed = converged(status) if self._speculates else live is None or converged(status)
            return known and is_true(status, ConditionType.READY) and confirmed

        await self.cluster.wait(self.name, serves, f"{self.name} did not serve", timeout_seconds)
        wanted, deadline = self.manifest["spec"]["replicas"], time.monotonic() + timeout_seconds
        while len(await self.pods()) < wanted:
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.name} has fewer than {wanted} pods after {timeout_seconds:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Scale to nothing and wait until the pods are gone."""
        manifest = self._copy()
        manifest["spec"]["replicas"] = 0
        await self.cluster.apply_model(manifest)
        while (await self.cluster.engine_pods(self.name)).restarts:
            await asyncio.sleep(POLL_SECONDS)

    async def pods(self) -> tuple[PodKey, ...]:
        """The pods that serve."""
        found, _ = await self.cluster.client.list_all(
            PODS, self.cluster.namespace, labels=f"{MODEL_LABEL}={self.name}"
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
        generation = await self.cluster.apply_model(manifest)
        wanted = str(table.merged())

        def confirmed(status: Status) -> bool:
            return converged(status, generation) and in_force(status) == wanted

        await self.cluster.wait(
            self.name, confirmed, f"the engines did not confirm {wanted}", IN_FORCE_SECONDS
        )
        return Push(asked=asked, table=wanted, in_force=time.time())

    async def tune(self, *, forget_seconds: float) -> None:
        """Hand the table to the operator, with nothing learnt: through mode Off and the static table.

        forget_seconds: rest in mode Off, until what was scraped under the load before is behind.
        """
        off = await self.cluster.apply_model(self.manifest)
        await self.cluster.wait(
            self.name, lambda status: converged(status, off), "mode Off did not hold", IN_FORCE_SECONDS
        )
        await asyncio.sleep(forget_seconds)
        manifest = self._copy()
        manifest["spec"]["speculation"]["tuning"]["mode"] = TuningMode.AUTO.value
        auto = await self.cluster.apply_model(manifest)
        await self.cluster.wait(
            self.name, lambda status: converged(status, auto), "mode Auto did not hold", IN_FORCE_SECONDS
        )

    @property
    def _speculates(self) -> bool:
        return bool(self.manifest["spec"]["speculation"]["method"] != "none")

    def _copy(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self.manifest))
