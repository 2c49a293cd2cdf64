"""One level-triggered reconcile of one SpeculativeModel: read, plan, apply, prune, report."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import httpx

from outrider.api.conditions import ConditionUpdate
from outrider.api.launch import LaunchOrder
from outrider.api.quantity import duration_seconds
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.api.weights import WeightsStatus
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NameTaken, NotFound, Refused
from outrider.cluster.events import EventWriter
from outrider.cluster.objects import Deployment, Pod
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import BUDGETS, DEPLOYMENTS, JOBS
from outrider.controller.children import Children
from outrider.controller.launch_orders import read_order
from outrider.controller.reconcile.advice import advised, known_limits, missing_memory, told_at_the_start
from outrider.controller.reconcile.downloads import (
    ProgressReader,
    finished,
    of_job,
    trouble_of,
    without_a_pod,
)
from outrider.controller.reconcile.groups import NO_GROUPS, Groups, GroupsSeen, refusal
from outrider.controller.reconcile.readiness import (
    DegradedCause,
    Workload,
    blocked,
    cause,
    downloading,
    judge,
)
from outrider.controller.reconcile.report import Report, StatusReporter
from outrider.controller.reconcile.revisions import Revisions, revision_label, role
from outrider.controller.reconcile.rollouts import Rollouts, told
from outrider.controller.store import Key, Store, StoredModel
from outrider.controller.store_fleet import StoreFleet
from outrider.controller.traces import annotate_span
from outrider.controller.watch import WriteThroughStore
from outrider.plan import ControlKeys, Manifest, Plan, PlanSettings, Role, Serving, plan
from outrider.plan.image_volumes import KubernetesVersion, turned_off
from outrider.plan.kubernetes_release import matters
from outrider.plan.names import MODEL_LABEL, canary_deployment
from outrider.plan.weights.needs import Needs
from outrider.transport import pod_http

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 30.0
_SHORTEST_LOOK_SECONDS = 5.0
_DOWNLOAD_LOOK_SECONDS = 5.0
_FAILURES_BEFORE_REPORT = 3
"""Failures in a row from which a condition reports them; a single one often passes."""
_PASS_SECONDS = 60.0
"""Maximum duration of one reconcile in seconds. The next one continues, because it skips what is already as
planned."""
_TELL_SECONDS = 20.0
"""Timeout in seconds for writing the status of a failed reconcile."""
_FAILING = "The last reconciles failed, and Outrider retries"
_NO_KEYS = ControlKeys(private="", public="")
"""Placeholder keys for a plan of which only the revisions count."""


class PassTooLong(TimeoutError):
    """A reconcile was stopped, so that a hanging server or webhook does not occupy a slot."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"a reconcile took longer than {seconds:.0f} s and was stopped, because the API server or an"
            " admission webhook answers too slowly. Look for webhooks that match objects of this"
            " namespace: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
        )


class Reconciler:
    """Makes the objects of a model agree with its spec.

    It needs no finalizer: garbage collection deletes the objects of a model with their owner.
    contest: the conditions about other installations, by namespace.
    now: wall clock, for conditions.
    on_external_change: see `WriteThroughStore`.
    http: client for the progress of downloads; by default `pod_http`.
    pass_seconds: maximum duration of a reconcile, after which it ends with `PassTooLong`.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        *,
        settings: PlanSettings,
        contest: Callable[[str], tuple[ConditionUpdate, ...]] = lambda _: (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_external_change: Callable[[Key], None] = lambda _: None,
        http: httpx.AsyncClient | None = None,
        pass_seconds: float = _PASS_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._contest = contest
        self._settings = settings
        self._now = now
        self._children = Children(cluster, store)
        self._groups = Groups(cluster, store, now=now)
        self._rollouts = Rollouts(cluster, store, settings=settings, now=now)
        self._revisions = Revisions(settings)
        self._fleet = StoreFleet(store)
        self._downloads = ProgressReader(http or pod_http())
        self._pass_seconds = pass_seconds
        self._failures: Counter[Key] = Counter()
        answers = WriteThroughStore(store, on_external_change)
        self._reporter = StatusReporter(cluster, answers, EventWriter(cluster))

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile once. Returns the seconds until the next reconcile, None if events suffice.

        Raises:
            PassTooLong: the reconcile was stopped after `pass_seconds`; the status reports it at once.
            Exception: the reconcile failed; the caller backs off and retries. From the third failure in a row
                on, the status reports it.
        """
        stored = self._store.models.get(key)
        if stored is None or stored.metadata.deletion_timestamp is not None:
            self._store.keys.pop(key, None)
            self._failures.pop(key, None)
            self._downloads.forget(key)
            self._revisions.forget(key)
            return None
        try:
            report = await self._in_time(key, stored)
        except Exception as error:
            await self._report_failure(key, stored, error)
            raise
        self._failures.pop(key, None)
        return report.requeue_after_seconds

    async def _in_time(self, key: Key, stored: StoredModel) -> Report:
        """The reconcile, stopped after `pass_seconds`."""
        try:
            async with asyncio.timeout(self._pass_seconds) as limit:
                report = await self._carry_out(key, stored)
                annotate_span(reason=cause(report.statements), ready_replicas=report.ready_replicas)
                await self._write(stored, report)
        except TimeoutError as error:
            if limit.expired():
                raise PassTooLong(self._pass_seconds) from error
            raise
        return report

    async def _write(self, stored: StoredModel, report: Report) -> None:
        whole = replace(report, statements=(*report.statements, *self._contest(stored.metadata.namespace)))
        with suppress(NotFound):  # The model is gone.
            await self._reporter.write(stored, whole, now=self._now())

    async def _report_failure(self, key: Key, stored: StoredModel, error: Exception) -> None:
        self._failures[key] += 1
        if self._failures[key] < _FAILURES_BEFORE_REPORT and not isinstance(error, PassTooLong):
            return
        try:
            async with asyncio.timeout(min(_TELL_SECONDS, self._pass_seconds)):
                await self._write(stored, self._failing(key, stored, error))
        except Exception as another:  # noqa: BLE001 - the caller gets the first error, which is repeated
            log.warning(
                "%s: the status of a failed reconcile could not be written: %s: %s",
                key,
                type(another).__name__,
                another,
            )

    async def _carry_out(self, key: Key, stored: StoredModel) -> Report:
        if stored.model is None:
            return self._blocked(
                key,
                DegradedCause(DegradedReason.INVALID_SPEC, stored.problem or "The spec cannot be parsed."),
            )
        owner = _owner(key, stored)
        kubernetes: KubernetesVersion | None = None
        try:
            signing_key = await self._children.signing_key(owner)
            keys = ControlKeys(private=signing_key.private_pem, public=signing_key.public_pem)
            order, trouble = self._order(owner)
            kubernetes = await self._kubernetes(stored.model)
            wanted = await self._wanted(key, stored.model, keys, order, kubernetes)
            if wanted.problems:
                return self._blocked(key, DegradedCause(*wanted.problems[0]))
            obstacle = await self._groups.obstacle(stored.model)
            if obstacle is not None:
                return self._blocked(key, obstacle, _LOOK_AGAIN_SECONDS)
            await self._children.prune_groups(owner, wanted.children)
            try:
                await self._children.apply(owner, wanted.children)
            except NameTaken as error:
                if not order.canary:
                    raise
                # The replicas do not depend on the canary. If their own name is taken, this fails again.
                trouble = DegradedCause(
                    DegradedReason.NAME_TAKEN, f"Outrider starts no canary: {error.message}"
                )
                wanted = await self._wanted(key, stored.model, keys, replace(order, canary=False), kubernetes)
                await self._children.apply(owner, wanted.children)
            kinds = (DEPLOYMENTS, JOBS, BUDGETS) if wanted.download is None else (JOBS,)
            await self._children.prune(owner, wanted.children, kinds=kinds)
            if wanted.download is not None:
                self._store.keys[key] = signing_key
                return await self._downloading(key, stored.model, wanted, wanted.download)
            groups = await self._groups.look(key, stored.model, wanted.revision)
        except NameTaken as error:
            return self._blocked(
                key, DegradedCause(DegradedReason.NAME_TAKEN, error.message), error.retry_after
            )
        except Refused as error:
            return self._blocked(key, _refusal(stored.model, kubernetes, error), 60.0)
        self._store.keys[key] = signing_key
        trouble = told(self._rollouts.memory(key)) or trouble or groups.trouble or self._not_tuned(stored)
        return self._progress(key, stored.model, wanted, besides=trouble, groups=groups)

    async def _wanted(
        self,
        key: Key,
        model: SpeculativeModel,
        keys: ControlKeys,
        order: LaunchOrder,
        kubernetes: KubernetesVersion | None,
    ) -> Plan:
        """The plan, changed by the outcome of the rollout before."""
        wanted = self._plan(key, model, keys, order, kubernetes)
        if wanted.problems or wanted.download is not None:
            return wanted
        return await self._rollouts.follow(
            key, model, wanted, lambda: self._plan(key, model, keys, LaunchOrder(), kubernetes)
        )

    def _plan(
        self,
        key: Key,
        model: SpeculativeModel,
        keys: ControlKeys,
        order: LaunchOrder,
        kubernetes: KubernetesVersion | None = None,
    ) -> Plan:
        serving = self._serving(key, model)
        return plan(
            model, settings=self._settings, keys=keys, order=order, serving=serving, kubernetes=kubernetes
        )

    async def _kubernetes(self, model: SpeculativeModel) -> KubernetesVersion | None:
        """The release of Kubernetes, read for each model that depends on it; it may change while we run."""
        return await self._cluster.version() if matters(model.spec) else None

    def _order(self, owner: Owner) -> tuple[LaunchOrder, DegradedCause | None]:
        try:
            return read_order(self._store, owner), None
        except ValueError as error:
            return LaunchOrder(), DegradedCause(DegradedReason.LAUNCH_ORDER_UNREADABLE, str(error))

    def _not_tuned(self, stored: StoredModel) -> DegradedCause | None:
        try:
            self._fleet.tuned(stored)
        except Exception as error:  # noqa: BLE001 - the engines serve even if the tuner cannot work with the model
            return DegradedCause(DegradedReason.NOT_TUNED, f"{type(error).__name__}: {error}")
        return None

    def _failing(self, key: Key, stored: StoredModel, error: Exception) -> Report:
        """The report of a failed reconcile, with the readiness that the known pods show."""
        trouble = DegradedCause(
            DegradedReason.RECONCILE_FAILED, f"{_FAILING}: {type(error).__name__}: {error}"
        )
        if stored.model is None or not isinstance(error, ClusterError | PassTooLong):
            return self._blocked(key, trouble)
        order, _ = self._order(_owner(key, stored))
        wanted = self._plan(key, stored.model, _NO_KEYS, order)
        good = self._rollouts.memory(key).returned
        if good is not None:
            wanted = replace(wanted, revision=good.revision, canary_revision=None)
        return self._progress(key, stored.model, wanted, above=trouble)

    def _progress(
        self,
        key: Key,
        model: SpeculativeModel,
        wanted: Plan,
        *,
        above: DegradedCause | None = None,
        besides: DegradedCause | None = None,
        groups: GroupsSeen = NO_GROUPS,
    ) -> Report:
        pods = self._store.pods_of(key)
        memory = self._rollouts.memory(key)
        weights = advised(model)
        workload = Workload(
            wanted=model.spec.replicas,
            deployments=self._deployments(key, wanted),
            pods=pods,
            current=tuple(pod for pod in _staying(pods) if revision_label(pod) in wanted.revisions),
            of_spec=self._revisions.of_spec(key, model, _staying(pods)),
            returned=memory.returned is not None,
            in_place=memory.in_place,
            advice=told_at_the_start(model, weights),
            workers=groups.workers,
            group_ended=groups.group_ended,
            overdue=groups.overdue,
            shortage=missing_memory(model.spec, weights),
            known=known_limits(model),
        )
        statements = judge(workload, self._now(), above=above, besides=besides)
        waiting = workload.current_ready < workload.wanted or besides is not None
        wanted_pods = model.spec.replicas
        # No event marks the end of a wait.
        patience = max(_SHORTEST_LOOK_SECONDS, duration_seconds(model.spec.rollout.surge_timeout))
        look_again = min(_LOOK_AGAIN_SECONDS, patience) if waiting else None
        return _report(key, workload, statements, wanted_pods, look_again, weights)

    async def _downloading(self, key: Key, model: SpeculativeModel, wanted: Plan, needs: Needs) -> Report:
        """The report while weights are downloaded. Engines start with the reconcile after it completes."""
        job = wanted.child("Job")
        assert job is not None
        name = _name_of(job)
        made = self._store.children[JOBS].get(Key(key.namespace, name))
        found = made.metadata if made is not None else None
        pods = of_job(_staying(self._store.downloads_of(key)), found)
        weights = finished(needs, pods)
        if weights is None and not pods:
            await self._children.forget_done_job(key, name)
        trouble = None
        if weights is None and pods:
            trouble = trouble_of(pods, self._now())
        elif weights is None:
            trouble = without_a_pod(found, self._now())
        if weights is None:
            progress = await self._downloads.progress_of(key, pods)
        else:
            progress = "All weights are downloaded"
            self._downloads.forget(key)
        workload = Workload(
            wanted=model.spec.replicas,
            deployments=(),
            pods=self._store.pods_of(key),
            current=(),
            of_spec=(),
        )
        there = weights or WeightsStatus(wanted=needs.digest, progress=progress)
        statements = downloading(workload, progress, trouble)
        seconds = _DOWNLOAD_LOOK_SECONDS if weights is None else 0.0
        return _report(key, workload, statements, model.spec.replicas, seconds, there)

    def _serving(self, key: Key, model: SpeculativeModel) -> Serving:
        ready = tuple(pod for pod in self._store.pods_of(key) if pod.ready)
        canaries = tuple(pod for pod in ready if role(pod) is Role.CANARY)
        return Serving(
            replicas=len(ready) - len(canaries), canaries=len(self._revisions.of_spec(key, model, canaries))
        )

    def _blocked(
        self, key: Key, trouble: DegradedCause, requeue_after_seconds: float | None = None
    ) -> Report:
        workload = Workload(wanted=0, deployments=(), pods=self._store.pods_of(key), current=(), of_spec=())
        stored = self._store.models.get(key)
        wanted = stored.model.spec.replicas if stored is not None and stored.model is not None else None
        weights = stored.status.weights if stored is not None else None
        return _report(key, workload, blocked(trouble), wanted, requeue_after_seconds, weights)

    def _deployments(self, key: Key, wanted: Plan) -> tuple[Deployment, ...]:
        names = (key.name, canary_deployment(key.name)) if wanted.canary_revision else (key.name,)
        cache = self._store.children[DEPLOYMENTS]
        stored = (cache.get(Key(key.namespace, name)) for name in names)
        return tuple(
            entry.deployment for entry in stored if entry is not None and entry.deployment is not None
        )


def _refusal(model: SpeculativeModel, kubernetes: KubernetesVersion | None, error: Refused) -> DegradedCause:
    off = turned_off(model.spec, kubernetes, error.message)
    if off is not None:
        return DegradedCause(DegradedReason.CLUSTER_TOO_OLD, off)
    return refusal(model, error) or DegradedCause(DegradedReason.APPLY_REFUSED, error.message)


def _owner(key: Key, stored: StoredModel) -> Owner:
    return Owner(key.namespace, key.name, stored.metadata.uid)


def _name_of(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def _staying(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.metadata.deletion_timestamp is None)


def _report(
    key: Key,
    workload: Workload,
    statements: tuple[ConditionUpdate, ...],
    wanted: int | None,
    requeue_after_seconds: float | None,
    weights: WeightsStatus | None,
) -> Report:
    return Report(
        statements=statements,
        wanted=wanted,
        replicas=len(workload.pods),
        ready_replicas=workload.ready,
        updated_replicas=len(workload.current),
        selector=f"{MODEL_LABEL}={key.name}",
        url=f"http://{key.name}.{key.namespace}.svc",
        weights=weights,
        requeue_after_seconds=requeue_after_seconds,
    )
