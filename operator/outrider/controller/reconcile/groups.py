"""Replicas that are groups of pods: the state of a LeaderWorkerSet and of its pods.

Its controller has no progress deadline, and deletes the pods of a failed group with their messages. So this
module keeps both: the time of the last progress, and the last message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from outrider.api.quantity import duration_seconds
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import Refused
from outrider.cluster.objects import LeaderWorkerSet, Pod
from outrider.cluster.resources import LEADER_WORKER_SETS
from outrider.controller.reconcile.readiness import DegradedCause, end_of
from outrider.controller.store import Store
from outrider.controller.stored import Key
from outrider.plan.names import REVISION_LABEL, group_set

TAKEN_UP_WITHIN = timedelta(seconds=45)
"""Time in which a running controller reacts; it normally takes less than a second."""

_INSTALL = (
    "Install LeaderWorkerSet (leaderworkerset.x-k8s.io/v1) and set leaderWorkerSets.enabled: true in "
    "Outrider's chart, or set spec.parallelism.nodes: 1."
)

_Wanted = tuple[str, str]
"""The UID of a model and the revision of its pods. A name may have another model later."""


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """The state of a model's groups; see the fields of the same name of `Workload`.

    trouble: the cause to report if the pods have none.
    """

    workers: tuple[Pod, ...] = ()
    group_ended: DegradedCause | None = None
    overdue: bool = False
    trouble: DegradedCause | None = None


NO_GROUPS = GroupsSeen()


class Groups:
    """Reads the groups of models. now: wall clock."""

    def __init__(self, cluster: ClusterClient, store: Store, *, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._store = store
        self._now = now
        self._ends: dict[Key, tuple[_Wanted, DegradedCause]] = {}

    def forget(self, key: Key) -> None:
        """Drop what is known of a model that is gone."""
        self._ends.pop(key, None)

    async def obstacle(self, model: SpeculativeModel) -> DegradedCause | None:
        """The cause that prevents groups in this cluster; None without one, or if the model needs none."""
        if model.spec.parallelism.nodes == 1 or await self._cluster.serves(LEADER_WORKER_SETS):
            return None
        message = f"LeaderWorkerSet is not installed; replicas across several nodes require it. {_INSTALL}"
        return DegradedCause(DegradedReason.LEADER_WORKER_SET_MISSING, message)

    async def look(self, key: Key, model: SpeculativeModel, revision: str) -> GroupsSeen:
        """The state of a model's groups. revision: that of the wanted pods.

        Raises:
            ClusterError: the LeaderWorkerSet cannot be read.
        """
        if model.spec.parallelism.nodes == 1:
            self._ends.pop(key, None)
            return NO_GROUPS
        raw = await self._cluster.get(LEADER_WORKER_SETS, key.namespace, group_set(key.name))
        leaders = _of(revision, self._store.pods_of(key))
        if sum(pod.ready for pod in leaders) >= model.spec.replicas:
            self._ends.pop(key, None)
            return NO_GROUPS
        workers = _of(revision, self._store.workers_of(key))
        groups = None if raw is None else LeaderWorkerSet.model_validate(raw)
        deadline = timedelta(seconds=duration_seconds(model.spec.rollout.progress_deadline))
        return GroupsSeen(
            workers=tuple(pod for pod in workers if pod.metadata.deletion_timestamp is None),
            group_ended=self._last_end(key, (model.metadata.uid, revision), (*leaders, *workers)),
            overdue=groups is not None and overdue(groups, leaders, deadline, self._now()),
            trouble=None if groups is None else not_taken_up(groups, self._now()),
        )

    def _last_end(self, key: Key, wanted: _Wanted, pods: Sequence[Pod]) -> DegradedCause | None:
        found = next((end for pod in pods if (end := end_of(pod, self._now()))), None)
        if found is not None:
            self._ends[key] = (wanted, found)
        of, cause = self._ends.get(key, (None, None))
        return cause if of == wanted else None


def refusal(model: SpeculativeModel, error: Refused) -> DegradedCause | None:
    """The cause if RBAC forbids LeaderWorkerSets to the operator; None for another refusal."""
    if model.spec.parallelism.nodes == 1 or LEADER_WORKER_SETS.plural not in error.message:
        return None
    if "forbidden" not in error.message:
        return None
    message = f"The operator must not create a LeaderWorkerSet ({error.message}). {_INSTALL}"
    return DegradedCause(DegradedReason.LEADER_WORKER_SET_MISSING, message)


def overdue(groups: LeaderWorkerSet, leaders: Sequence[Pod], deadline: timedelta, now: datetime) -> bool:
    """Whether the groups made no progress within the deadline: no new condition, no further ready leader.

    A new pod does not count as progress, because a group that fails is created again and again.
    """
    ready = (pod.condition("Ready") for pod in leaders)
    conditions = (*groups.status.conditions, *(each for each in ready if each is not None and each.holds))
    times = (groups.metadata.creation_timestamp, *(each.last_transition_time for each in conditions))
    newest = max(filter(None, times), default=now)
    return now - newest > deadline


def not_taken_up(groups: LeaderWorkerSet, now: datetime) -> DegradedCause | None:
    """The cause if no controller reacts to the LeaderWorkerSet; None otherwise."""
    made = groups.metadata.creation_timestamp
    if groups.status.conditions or made is None or now - made < TAKEN_UP_WITHIN:
        return None
    message = (
        f"No controller reacted to the LeaderWorkerSet {groups.metadata.name} within "
        f"{TAKEN_UP_WITHIN.total_seconds():.0f} s. Check that the Deployment of LeaderWorkerSet runs."
    )
    return DegradedCause(DegradedReason.LEADER_WORKER_SET_MISSING, message)


def _of(revision: str, pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.metadata.labels.get(REVISION_LABEL) == revision)
