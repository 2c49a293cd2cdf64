"""One level-triggered pass over one SpeculativeModel: read, plan, apply, prune, report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import NameTaken, NotFound, Refused
from outrider.cluster.events import EventWriter
from outrider.cluster.objects import Deployment
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import DEPLOYMENTS
from outrider.controller.children import Children
from outrider.controller.readiness import Trouble, Verdict, Workload, blocked, judge
from outrider.controller.report import Report, StatusReporter
from outrider.controller.store import Key, Store, StoredModel
from outrider.plan import Plan, PlanSettings, plan
from outrider.plan.names import MODEL_LABEL, REVISION_LABEL

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 30.0


class Reconciler:
    """Makes the cluster agree with a model's spec, as often as asked.

    There is no finalizer: children go with their owner by garbage collection.
    now: wall clock, for conditions.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        *,
        settings: PlanSettings,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._settings = settings
        self._now = now
        self._children = Children(cluster, store)
        self._reporter = StatusReporter(cluster, store, EventWriter(cluster))

    async def reconcile(self, key: Key) -> float | None:
        """One pass; answers seconds until the next look, None where events suffice.

        Raises:
            ClusterError: the pass could not be finished; the caller backs off and repeats it.
        """
        stored = self._store.models.get(key)
        if stored is None or stored.metadata.deletion_timestamp is not None:
            self._store.tokens.pop(key, None)
            return None
        report = await self._carry_out(key, stored)
        try:
            await self._reporter.write(stored, report, now=self._now())
        except NotFound:
            return None
        return report.look_again_seconds

    async def _carry_out(self, key: Key, stored: StoredModel) -> Report:
        if stored.model is None:
            return self._blocked(key, Trouble(DegradedReason.INVALID_SPEC, stored.problem or "unreadable"))
        owner = Owner(key.namespace, key.name, stored.metadata.uid)
        try:
            token = await self._children.control_token(owner)
            wanted = plan(stored.model, settings=self._settings, control_token=token)
            if wanted.problems:
                return self._blocked(key, Trouble(*wanted.problems[0]))
            await self._children.apply(owner, wanted.children)
            await self._children.prune(owner, wanted.children)
        except NameTaken as error:
            return self._blocked(key, Trouble(DegradedReason.NAME_TAKEN, error.message), error.retry_after)
        except Refused as error:
            return self._blocked(key, Trouble(DegradedReason.APPLY_REFUSED, error.message), 60.0)
        self._store.tokens[key] = token
        return self._progress(key, stored.model, wanted)

    def _progress(self, key: Key, model: SpeculativeModel, wanted: Plan) -> Report:
        workload = self._workload(key, model.spec.replicas, wanted.revision)
        verdicts = judge(workload, self._now())
        waiting = workload.current_ready < workload.wanted
        return _report(key, workload, verdicts, _LOOK_AGAIN_SECONDS if waiting else None)

    def _blocked(self, key: Key, trouble: Trouble, look_again_seconds: float | None = None) -> Report:
        return _report(key, self._workload(key, 0, None), blocked(trouble), look_again_seconds)

    def _workload(self, key: Key, wanted: int, revision: str | None) -> Workload:
        stored = self._store.children[DEPLOYMENTS].get(key)
        pods = self._store.pods_of(key)
        current = tuple(
            pod
            for pod in pods
            if revision is not None
            and pod.metadata.labels.get(REVISION_LABEL) == revision
            and pod.metadata.deletion_timestamp is None
        )
        return Workload(
            wanted=wanted,
            deployment=Deployment.model_validate(stored.raw) if stored is not None else None,
            pods=pods,
            current=current,
        )


def _report(
    key: Key, workload: Workload, verdicts: tuple[Verdict, ...], look_again_seconds: float | None
) -> Report:
    return Report(
        verdicts=verdicts,
        replicas=len(workload.pods),
        ready_replicas=workload.ready,
        updated_replicas=len(workload.current),
        selector=f"{MODEL_LABEL}={key.name}",
        url=f"http://{key.name}.{key.namespace}.svc",
        look_again_seconds=look_again_seconds,
    )
