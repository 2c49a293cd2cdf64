"""One reconcile of a SpeculativeModel with `spec.target`: find its pods, ask them, and report.

Outrider does not watch these pods, because their labels are the user's: a watch would bring every pod of the
cluster. It lists them at each reconcile, every few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.api.conditions import ConditionUpdate
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.api.target import Target
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import Refused
from outrider.cluster.objects import Pod
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, PODS, JsonObject
from outrider.controller.children import Children, ControlSecret
from outrider.controller.fleet import EnginePod, engine_address
from outrider.controller.reconcile.readiness import DegradedCause, blocked
from outrider.controller.reconcile.report import Report
from outrider.controller.reconcile.target_pods import (
    MAX_TARGET_PODS,
    Answer,
    Claim,
    TargetJudgement,
    TargetSeen,
    judge_target,
    keeper,
)
from outrider.controller.reconcile.workload_pods import (
    PodsWanted,
    pods_of_workload,
    resource_of_workload,
    selected,
)
from outrider.controller.store import Reconciled, Store
from outrider.controller.stored import Key, StoredChild, StoredModel
from outrider.controller.target_launch import TargetPods, static_schedule_of
from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.errors import EngineDefect, EngineError, EngineUnreachable
from outrider.engine.signing import SigningKey
from outrider.engine.state import EngineState
from outrider.foreign.readers import TABLE_FILE
from outrider.foreign.reading import read_json
from outrider.plan import ControlKeys
from outrider.plan.names import PLUGIN_ANNOTATION, schedule_config_map
from outrider.plan.target import target_children
from outrider.runtimes.engine_launch import SCHEDULE_FILE
from outrider_protocol.schedule import Schedule

LOOK_SECONDS = 5.0
"""Time between two lists of the pods of a target."""
ASK_SECONDS = 10.0
"""Time in which one reconcile begins to ask pods, and limit of one answer. Silent pods would take it all."""
_ASKED_AT_ONCE = 20
_MAX_SELECTOR = 512
"""Limit of a selector in the status, in characters."""


class CannotFindPods(Exception):
    """The target does not lead to pods; its cause is for Degraded."""

    def __init__(self, reason: DegradedReason, message: str) -> None:
        super().__init__(message)
        self.cause = DegradedCause(reason, message)


@dataclass(frozen=True, slots=True)
class _Target:
    """A target at one reconcile."""

    key: Key
    stored: StoredModel
    model: SpeculativeModel
    target: Target

    @property
    def owner(self) -> Owner:
        return Owner(self.key.namespace, self.key.name, self.stored.metadata.uid)


class Targets:
    """Reconciles targets. now: wall clock."""

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        children: Children,
        engines: EngineClient,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._children = children
        self._engines = engines
        self._now = now
        self._answers: dict[Key, dict[str, Answer]] = {}
        """The last answers of the pods of a target by UID, the oldest first.

        What counts of a state stays the same while a pod lives; after an error, the pod is asked again."""

    def forget(self, key: Key) -> None:
        """Drop the pods of a target that is gone."""
        self._store.targets.pop(key, None)
        self._answers.pop(key, None)

    async def reconcile(
        self, key: Key, stored: StoredModel, model: SpeculativeModel, target: Target
    ) -> Report:
        """Reconcile once.

        Raises:
            ClusterError: see `outrider.cluster.errors`.
        """
        this = _Target(key, stored, model, target)
        secret = await self._children.control_secret(this.owner)
        try:
            wanted = await self._pods_wanted(this)
            found = await self._list(this, wanted)
        except CannotFindPods as error:
            await self._apply(this, secret, self._stored_schedule(key))
            self._store.targets[key] = TargetPods(frozenset())
            return blocked_target(error.cause)
        seen = await self._look(this, wanted, found, secret.key)
        judgement = judge_target(seen, self._now())
        static = self._static(this, seen, judgement)
        await self._apply(this, secret, static)
        self._keep(this, seen, judgement, static, secret.key)
        return _report(judgement.statements, seen.pods, judgement.tuned, wanted.labels)

    async def _pods_wanted(self, this: _Target) -> PodsWanted:
        workload = this.target.workload
        if workload is None:
            return selected(this.target)
        resource = resource_of_workload(workload)
        right = f"the right to get {resource.plural}.{resource.group}"
        try:
            found = await self._cluster.get(resource, this.key.namespace, workload.name)
        except Refused as error:
            raise CannotFindPods(
                DegradedReason.TARGET_NOT_READABLE,
                f"Outrider tunes nothing, because the API server does not let it read {workload} "
                f"({error.message}). To change it, give the operator {right}, or use spec.target.selector.",
            ) from error
        if found is None:
            raise CannotFindPods(
                DegradedReason.TARGET_NOT_FOUND,
                f"Outrider tunes nothing, because namespace {this.key.namespace} has no {workload} of "
                f"{workload.api_version}. To change it, correct spec.target.workload.",
            )
        try:
            return pods_of_workload(this.target, workload, found)
        except ValueError as error:
            raise CannotFindPods(
                DegradedReason.TARGET_NOT_READABLE,
                f"Outrider tunes nothing, because it does not find the pods of {workload}: {error}. "
                "To change it, use spec.target.selector.",
            ) from error

    async def _list(self, this: _Target, wanted: PodsWanted) -> list[Pod]:
        """The pods that are not being deleted, by name."""

        def keep(raw: JsonObject) -> Pod | None:
            entry = self._store.pods.read(raw)
            return None if entry is None else entry.pod

        try:
            pods, _ = await self._cluster.list_through(PODS, this.key.namespace, keep, labels=wanted.labels)
        except Refused as error:
            raise CannotFindPods(
                DegradedReason.TARGET_NOT_READABLE,
                f"Outrider tunes nothing, because the API server does not list pods by {wanted.labels} "
                f"({error.message}). To change it, correct spec.target.",
            ) from error
        staying = (pod for pod in pods if pod.metadata.deletion_timestamp is None)
        alive = (pod for pod in staying if pod.status.phase not in ("Succeeded", "Failed"))
        return sorted(alive, key=lambda pod: pod.metadata.name)

    async def _look(
        self, this: _Target, wanted: PodsWanted, found: Sequence[Pod], signing_key: SigningKey
    ) -> TargetSeen:
        """Ask every ready pod that no other SpeculativeModel tunes, until it has answered once."""
        pods = tuple(found[:MAX_TARGET_PODS])
        own = Claim(this.stored.metadata, frozenset())
        others = self._other_claims(this.key)
        keepers = {pod.metadata.uid: name for pod in pods if (name := keeper(pod, own, others)) is not None}
        addresses = {
            pod.metadata.uid: address
            for pod in pods
            if pod.ready and pod.metadata.uid not in keepers
            if (address := engine_address(pod, signing_key, port=wanted.port)) is not None
        }
        answers = await self._ask_all(this.key, addresses)
        made = self._config_map(this.key)
        return TargetSeen(
            name=this.key.name,
            where=str(this.target.workload or f"selector {wanted.labels}"),
            port=wanted.port,
            pods=pods,
            answers=answers,
            keepers=keepers,
            left_out=len(found) - len(pods),
            key_made=None if made is None else made.metadata.creation_timestamp,
        )

    async def _ask_all(self, key: Key, addresses: Mapping[str, EngineAddress]) -> Mapping[str, Answer]:
        """The last answer of each pod by UID, once no more can be asked within `ASK_SECONDS`.

        Pods that were never asked come first, then those that were asked the longest ago. An answer is kept
        as it arrives, so that a reconcile that is stopped here is not in vain.
        """
        known = self._answers.get(key, {})
        answers = self._answers[key] = {uid: known[uid] for uid in known if uid in addresses}
        failed = (uid for uid, answer in answers.items() if not isinstance(answer, EngineState))
        waiting = iter([*(uid for uid in addresses if uid not in answers), *failed])
        clock = asyncio.get_running_loop()
        ends_at = clock.time() + ASK_SECONDS

        async def ask_one_by_one() -> None:
            while clock.time() < ends_at and (uid := next(waiting, None)) is not None:
                answer = await self._ask(addresses[uid])
                answers.pop(uid, None)
                answers[uid] = answer

        await asyncio.gather(*(ask_one_by_one() for _ in range(_ASKED_AT_ONCE)))
        return dict(answers)

    async def _ask(self, address: EngineAddress) -> Answer:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                state = await self._engines.state(address)
        except TimeoutError:
            return EngineUnreachable(f"timeout: no complete answer within {ASK_SECONDS:g} s")
        except EngineError as error:
            return error
        except Exception as error:  # noqa: BLE001 - isolation: one pod's answer must not hide the others
            return EngineDefect(error)
        return state.model_copy(update={"step_times": ()})  # hundreds of numbers that nothing here reads

    def _other_claims(self, key: Key) -> list[Claim]:
        """The other targets of the namespace, the oldest first."""
        claims = [
            Claim(stored.metadata, pods.claimed)
            for other, pods in self._store.targets.items()
            if other.namespace == key.namespace and other != key
            if (stored := self._store.models.get(other)) is not None
            and stored.metadata.deletion_timestamp is None
        ]
        return sorted(claims, key=lambda claim: claim.age)

    async def _apply(self, this: _Target, secret: ControlSecret, static: Schedule | None) -> None:
        keys = ControlKeys(secret.key.private_pem, secret.key.public_pem)
        wanted = target_children(this.model, keys=keys, static=static)
        await self._children.apply(this.owner, wanted, secret=secret)

    def _static(self, this: _Target, seen: TargetSeen, judgement: TargetJudgement) -> Schedule | None:
        """The schedule that the tuned engines were launched with, as one of them or an earlier look says."""
        stored = self._stored_schedule(this.key)
        if judgement.launch is None:
            return stored
        answers = (seen.answer(pod) for pod in judgement.tuned)
        said = (static_schedule_of(answer) for answer in answers if isinstance(answer, EngineState))
        return judgement.launch.static(next(filter(None, said), stored))

    def _config_map(self, key: Key) -> StoredChild | None:
        return self._store.children[CONFIG_MAPS].get(Key(key.namespace, schedule_config_map(key.name)))

    def _stored_schedule(self, key: Key) -> Schedule | None:
        """The static schedule of an earlier look, when no pushed schedule hid it."""
        stored = self._config_map(key)
        text = None if stored is None else stored.data.get(SCHEDULE_FILE)
        if text is None:
            return None
        try:
            return Schedule.from_wire(read_json(TABLE_FILE, text))
        except ValueError:
            return None  # written by hand

    def _keep(
        self,
        this: _Target,
        seen: TargetSeen,
        judgement: TargetJudgement,
        static: Schedule | None,
        signing_key: SigningKey,
    ) -> None:
        """Give the tuned pods to the tuner. Starting pods are those that name this SpeculativeModel."""
        starting = [
            pod
            for pod in seen.pods
            if not pod.ready and pod.metadata.annotations.get(PLUGIN_ANNOTATION) == this.key.name
        ]

        def engines(pods: Sequence[Pod]) -> tuple[EnginePod, ...]:
            found = ((pod, engine_address(pod, signing_key, port=seen.port)) for pod in pods)
            return tuple(
                EnginePod(pod.metadata.name, address) for pod, address in found if address is not None
            )

        self._store.targets[this.key] = TargetPods(
            claimed=frozenset(pod.metadata.uid for pod in seen.pods),
            launch=judgement.launch,
            static=static,
            ready=engines(judgement.tuned),
            starting=engines(starting),
        )
        self._store.reconciled[this.key] = Reconciled(signing_key)


def blocked_target(cause: DegradedCause) -> Report:
    """Return the report of a target whose pods are unknown."""
    return _report(blocked(cause), (), (), None)


def _report(
    statements: tuple[ConditionUpdate, ...], pods: Sequence[Pod], tuned: Sequence[Pod], labels: str | None
) -> Report:
    return Report(
        statements=statements,
        wanted=len(pods),
        replicas=len(pods),
        ready_replicas=sum(pod.ready for pod in pods),
        updated_replicas=len(tuned),
        selector=labels if labels is None or len(labels) <= _MAX_SELECTOR else None,
        url=None,
        weights=None,
        requeue_after_seconds=LOOK_SECONDS,
    )
