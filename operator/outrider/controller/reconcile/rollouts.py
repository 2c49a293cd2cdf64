"""Detection of rollouts that do not end, the pods of the last good revision, and the trial of a drafter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from math import fsum

from kubernetes.utils.quantity import parse_quantity

from outrider.api.json_object import Json
from outrider.api.launch import DrafterVerdict, Launch, RelaunchPolicy
from outrider.api.quantity import IntOrPercent, duration_seconds
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.api.rollout import Rollout
from outrider.api.tuning import Canary
from outrider.cluster.client import ClusterClient
from outrider.cluster.objects import Deployment, Pod
from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, REPLICA_SETS, JsonObject
from outrider.controller.reconcile.readiness import DegradedCause, Workload, find_trouble, gave_up
from outrider.controller.store import Store
from outrider.controller.stored import Key
from outrider.foreign import read_json
from outrider.foreign.readers import LAST_WORDS, TABLE_FILE
from outrider.plan import Plan, Rendered, Role, settled
from outrider.plan.names import (
    MODEL_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    canary_deployment,
    schedule_config_map,
)
from outrider.plan.rollout import (
    Good,
    Memory,
    Seen,
    Target,
    besides_drafter,
    followed,
    remembering,
    returning,
    without_canary,
)
from outrider.runtimes.engine_launch import SCHEDULE_FILE
from outrider_protocol.schedule import Schedule

_INSUFFICIENT = re.compile(r"Insufficient ([a-z0-9./-]*[a-z0-9])")
"""The scheduler's phrase for a resource of which no node has enough."""


class Rollouts:
    """Changes plans by the outcome of the rollout before. now: wall clock."""

    def __init__(self, cluster: ClusterClient, store: Store, *, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._store = store
        self._now = now

    def memory(self, key: Key) -> Memory:
        """The memory of rollouts in the annotations of the model's Deployment."""
        deployment = self._deployment(key, key.name)
        return Memory() if deployment is None else Memory.of(deployment.metadata.annotations)

    async def follow(
        self,
        key: Key,
        rendered: Rendered,
        plan: Plan,
        unordered: Callable[[bool], Plan],
        *,
        verdict: DrafterVerdict | None = None,
    ) -> Plan:
        """The plan to carry out, with the memory in the annotations of its Deployment.

        unordered: the same plan without the launch configuration that the tuner ordered, and with a canary of
            the spec where the argument is True.
        verdict: the tuner's on a new drafter.

        Raises:
            ClusterError: the last good revision could not be read.
        """
        deployment, model = self._deployment(key, key.name), rendered.model
        spec = rendered.revision(Launch(), Role.REPLICA)
        if deployment is None or spec is None or plan.child(DEPLOYMENTS.kind) is None:
            return plan
        seen = self._seen(key, deployment, rendered)
        target = _target(model, plan.revision, spec)
        memory = followed(Memory.of(deployment.metadata.annotations), target, seen, verdict)
        good = memory.kept
        if memory.trial is not None and memory.trial.promoted:
            # The canary has the new drafter already, and stands in for a replica until the others have it.
            plan = unordered(True)
        if good is not None:
            template = await self._template(key, deployment, good)
            if template is None:
                memory = memory.without_return()
            else:
                plan = returning(unordered(memory.trying), good, template, memory.returned_table)
                # The canary of a trial serves until the replica that it stands in for is back.
                plan = plan if memory.before_trial else without_canary(plan)
        return remembering(plan, memory)

    def _deployment(self, key: Key, name: str) -> Deployment | None:
        stored = self._store.children[DEPLOYMENTS].get(Key(key.namespace, name))
        return None if stored is None else stored.deployment

    def _seen(self, key: Key, deployment: Deployment, rendered: Rendered) -> Seen:
        live, rollout = _revision(deployment), rendered.model.spec.rollout
        staying = tuple(pod for pod in self._store.pods_of(key) if pod.metadata.deletion_timestamp is None)
        pods = tuple(pod for pod in staying if ROLE_LABEL not in pod.metadata.labels)
        of_it = tuple(pod for pod in pods if pod.metadata.labels.get(REVISION_LABEL) == live)
        before = tuple(pod for pod in pods if pod not in of_it and pod.ready)
        canary = self._deployment(key, canary_deployment(key.name))
        of_spec = canary is not None and _revision(canary) == rendered.revision(Launch(), Role.CANARY)
        return Seen(
            revision=live,
            complete=deployment.complete,
            stuck=self._stuck(deployment, pods),
            no_room=no_room(of_it, before, deployment.spec.replicas, rollout, self._now()),
            table=self._table(key),
            canary_stuck=self._stuck(canary, staying) if of_spec and canary is not None else None,
        )

    def _stuck(self, deployment: Deployment, pods: Sequence[Pod]) -> tuple[str, str] | None:
        """Reason and message if a Deployment made no progress in time. pods: of any revision."""
        if not gave_up(deployment):
            return None
        live = _revision(deployment)
        of_it = tuple(pod for pod in pods if pod.metadata.labels.get(REVISION_LABEL) == live)
        workload = Workload(deployment.spec.replicas, (deployment,), tuple(pods), of_it, of_it)
        trouble = find_trouble(workload, self._now())
        return None if trouble is None else (str(trouble.reason), trouble.message)

    def _table(self, key: Key) -> str:
        stored = self._store.children[CONFIG_MAPS].get(Key(key.namespace, schedule_config_map(key.name)))
        return "" if stored is None else table_of(stored.data)

    async def _template(self, key: Key, deployment: Deployment, good: Good) -> Json | None:
        """The pod template of a revision; None if the Deployment has no ReplicaSet of it any more.

        After a `kubectl rollout restart` there are several; the one with the most pods restarts the fewest.
        """
        labels = f"{MODEL_LABEL}={key.name},{REVISION_LABEL}={good.revision}"
        found, _ = await self._cluster.list_all(REPLICA_SETS, key.namespace, labels=labels)
        own = [each for each in found if _controlled_by(deployment, each)]
        most = max(own, key=lambda each: int(each["spec"].get("replicas", 0)), default=None)
        return None if most is None else most["spec"]["template"]


def _target(model: SpeculativeModel, revision: str, spec: str) -> Target:
    """What a model asks for. revision: as launched by order of the tuner. spec: without an order."""
    # Another drafter of engines that are not tuned is not compared.
    tuned, tuning = settled(model).spec, model.spec.speculation.tuning
    return Target(
        revision,
        spec,
        str(model.spec.static_schedule()),
        model.spec.rollout.on_failure,
        besides=besides_drafter(model.spec),
        tries_drafters=RelaunchPolicy.of(tuned).tries_drafters(tuned.tuning_mode, tuned.replicas),
        keeps_tried=tuning.canary is Canary.ALLOW,
    )


def _revision(deployment: Deployment) -> str:
    return deployment.spec.template.metadata.labels.get(REVISION_LABEL, "")


def _controlled_by(deployment: Deployment, replica_set: JsonObject) -> bool:
    owners = replica_set["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == deployment.metadata.uid for owner in owners)


def table_of(data: Mapping[str, str]) -> str:
    """The static schedule in a ConfigMap's data, such as ``8:3,*:0``; "" if it cannot be parsed."""
    try:
        return str(Schedule.from_wire(read_json(TABLE_FILE, data[SCHEDULE_FILE])))
    except (KeyError, ValueError):
        return ""


def no_room(
    pods: Sequence[Pod], before: Sequence[Pod], replicas: int, rollout: Rollout, now: datetime
) -> bool:
    """Whether a new pod is unschedulable for too long, and would fit if a serving pod were removed.

    pods: those of the new revision. before: ready ones of older revisions. The last serving pod is never
    removed, and none is removed for a pod that requests more.
    """
    ready = len(before) + sum(pod.ready for pod in pods)
    if ready < 2 or _share(rollout.max_unavailable, replicas) > 0:
        return False
    patience = timedelta(seconds=duration_seconds(rollout.surge_timeout))
    return any(
        (lacks := _lacking(pod, now - patience)) and any(_would_do(old, pod, lacks) for old in before)
        for pod in pods
    )


def _lacking(pod: Pod, since: datetime) -> frozenset[str]:
    """Resources of which no node has had enough for this pod since the given time."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.holds or scheduled.reason != "Unschedulable":
        return frozenset()
    at = scheduled.last_transition_time
    return (
        frozenset(_INSUFFICIENT.findall(scheduled.message[: LAST_WORDS.most_bytes]))
        if at is not None and at <= since
        else frozenset()
    )


def _would_do(old: Pod, new: Pod, resources: frozenset[str]) -> bool:
    return all(_requested(old, name) >= _requested(new, name) for name in resources)


def _requested(pod: Pod, resource: str) -> float:
    amounts = (container.resources.requests.get(resource, "0") for container in pod.spec.containers)
    return fsum(parse_quantity(amount) for amount in amounts)  # type: ignore[no-untyped-call]


def _share(pods: IntOrPercent, replicas: int) -> int:
    """A number of pods. A percentage is rounded down, as Kubernetes does for maxUnavailable."""
    return replicas * int(pods.removesuffix("%")) // 100 if isinstance(pods, str) else pods


def returned_because(memory: Memory) -> DegradedCause | None:
    """The cause for a rollout that was rolled back; None without one."""
    if memory.failed is None or memory.good is None:
        return None
    if memory.failed.reason == DegradedReason.DRAFTER_SLOWER:
        return DegradedCause(DegradedReason.DRAFTER_SLOWER, memory.failed.message)
    message = (
        f"Outrider {'kept' if memory.failed.tried else 'restored'} the last good revision "
        f"{memory.good.revision}, because {'the canary' if memory.failed.tried else 'the rollout'} of this "
        f"spec failed ({memory.failed.reason}: {memory.failed.message}). {_remedy(memory.failed.reason)}"
    )
    return DegradedCause(DegradedReason.ROLLED_BACK, message)


def _remedy(reason: str) -> str:
    if reason == DegradedReason.DEADLINE_EXCEEDED:
        return (
            "To try again, change the spec. If engines only take long to start, raise "
            "rollout.progressDeadline, and set rollout.onFailure: Hold until they serve."
        )
    return "To try again, change the spec."
