"""One level-triggered reconcile of one SpeculativeModel: read, plan, apply, prune, observe, report."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from outrider.api.launch import LaunchOrder
from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.api.target import Target
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError, NameTaken, NotFound, Refused
from outrider.cluster.events import EventWriter
from outrider.cluster.objects import Pod
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import BUDGETS, DEPLOYMENTS, JOBS, PODS
from outrider.controller.children import Children, ControlSecret
from outrider.controller.launch_orders import read_order
from outrider.controller.neighbours import forget_neighbours, read_neighbours
from outrider.controller.policy_from_spec import require_tunable
from outrider.controller.reconcile.downloads import ProgressReader
from outrider.controller.reconcile.groups import Groups, refusal
from outrider.controller.reconcile.observation import Observer
from outrider.controller.reconcile.pools import Pools
from outrider.controller.reconcile.readiness import DegradedCause, cause
from outrider.controller.reconcile.report import Report, StatusReporter
from outrider.controller.reconcile.revisions import Revisions, role
from outrider.controller.reconcile.rollouts import Rollouts, returned_because
from outrider.controller.reconcile.targets import Targets, blocked_target
from outrider.controller.store import Reconciled, Store
from outrider.controller.stored import Key, StoredModel, key_of
from outrider.controller.traces import annotate_span
from outrider.controller.watch import WriteThroughStore
from outrider.engine.client import EngineClient
from outrider.plan import ControlKeys, Plan, PlanSettings, Rendered, Role, Serving, settled
from outrider.plan.inference_pool import POOL_KIND
from outrider.plan.kubernetes_release import KubernetesVersion, matters, turned_off
from outrider.plan.names import MODEL_LABEL
from outrider.plan.transfer_peer import difference
from outrider.transport import PodHttp

log = logging.getLogger(__name__)

_OBSTACLE_SECONDS = 30.0
_REFUSED_SECONDS = 60.0
_ENGINE_SECONDS = 3.0
_FAILURES_BEFORE_REPORT = 3
"""Failures in a row from which a condition reports them; a single one often passes."""
_PASS_SECONDS = 60.0
"""Maximum duration of one reconcile in seconds. The next one continues, because it skips what is already as
planned."""
_REPORT_SECONDS = 20.0
"""Timeout in seconds for writing the status of a failed reconcile."""
_FAILING = "The last reconciles failed, and Outrider retries"
_AFTER_A_TICK_SECONDS = 30.0
_NO_PLAN = Plan((), "")


class PassTooLong(TimeoutError):
    """A reconcile was stopped, so that a hanging server or webhook does not occupy a slot."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"a reconcile took longer than {seconds:.0f} s and was stopped, because the API server or an"
            " admission webhook answers too slowly. Look for webhooks that match objects of this"
            " namespace: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
        )


class Blocked(Exception):
    """The spec cannot be carried out. requeue_after_seconds: None to wait for events."""

    def __init__(self, cause: DegradedCause, requeue_after_seconds: float | None = None) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.requeue_after_seconds = requeue_after_seconds


@dataclass(slots=True)
class _Pass:
    """One reconcile, filled by its steps.

    besides: a cause of Degraded that counts if the pods have none. of_pool: one of the InferencePool, which
    counts after it.
    """

    key: Key
    stored: StoredModel
    model: SpeculativeModel
    rendered: Rendered
    secret: ControlSecret | None = None
    order: LaunchOrder = field(default_factory=LaunchOrder)
    kubernetes: KubernetesVersion | None = None
    besides: DegradedCause | None = None
    of_pool: DegradedCause | None = None
    wanted: Plan = _NO_PLAN
    serving: Serving | None = None
    """None before `Reconciler._read`."""

    @property
    def owner(self) -> Owner:
        return Owner(self.key.namespace, self.key.name, self.stored.metadata.uid)

    @property
    def keys(self) -> ControlKeys:
        """The key pair of the control API; empty before it is read, when only revisions count."""
        if self.secret is None:
            return ControlKeys("", "")
        return ControlKeys(self.secret.key.private_pem, self.secret.key.public_pem)


class Reconciler:
    """Makes the objects of a model agree with its spec.

    It needs no finalizer: garbage collection deletes the objects of a model with their owner.
    now: wall clock, for conditions.
    on_external_change: see `WriteThroughStore`.
    http: client for the progress of downloads; by default real HTTP.
    engines: client of the engines of targets; by default with a timeout of `_ENGINE_SECONDS`.
    pass_seconds: maximum duration of a reconcile, after which it ends with `PassTooLong`.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        *,
        settings: PlanSettings,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_external_change: Callable[[Key], None] = lambda _: None,
        http: PodHttp | None = None,
        engines: EngineClient | None = None,
        pass_seconds: float = _PASS_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._now = now
        self._children = Children(cluster, store)
        self._groups = Groups(cluster, store, now=now)
        self._pools = Pools(cluster, store, self._children)
        self._rollouts = Rollouts(cluster, store, now=now)
        self._revisions = Revisions()
        self._downloads = ProgressReader(http or PodHttp())
        self._observer = Observer(store, self._rollouts, self._revisions, self._downloads, now=now)
        self._targets = Targets(
            cluster, store, self._children, engines or EngineClient(timeout_seconds=_ENGINE_SECONDS), now=now
        )
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
            self._forget(key)
            return None
        try:
            report = await self._in_time(key, stored)
        except Exception as error:
            await self._report_failure(key, stored, error)
            raise
        if self._store.models.get(key) is None:
            self._forget(key)
            return None
        self._failures.pop(key, None)
        return report.requeue_after_seconds

    def _forget(self, key: Key) -> None:
        """Drop what is remembered of a model that is gone, or soon will be."""
        self._store.reconciled.pop(key, None)
        self._failures.pop(key, None)
        self._downloads.forget(key)
        self._revisions.forget(key)
        self._targets.forget(key)
        self._pools.forget(key)
        self._groups.forget(key)
        forget_neighbours(self._store)

    async def _in_time(self, key: Key, stored: StoredModel) -> Report:
        """The reconcile, stopped after `pass_seconds`."""
        try:
            async with asyncio.timeout(self._pass_seconds) as limit:
                report = await self._carry_out(key, stored)
                annotate_span(reason=cause(report.statements), ready_replicas=report.ready_replicas)
                return await self._write(stored, report)
        except TimeoutError as error:
            if limit.expired():
                raise PassTooLong(self._pass_seconds) from error
            raise

    async def _write(self, stored: StoredModel, report: Report) -> Report:
        try:
            await self._reporter.write(stored, report, now=self._now())
            removed = await self._reporter.remove_tuners_part(
                self._store.models.get(key_of(stored.metadata)) or stored, report
            )
        except NotFound:
            # The model is gone. Its deletion may have come before the entry, so no event may follow.
            self._store.models.drop(stored.metadata)
            return report
        if not removed:
            return report
        # A tick that was under way may write once more.
        sooner = min(report.requeue_after_seconds or _AFTER_A_TICK_SECONDS, _AFTER_A_TICK_SECONDS)
        return replace(report, requeue_after_seconds=sooner)

    async def _carry_out(self, key: Key, stored: StoredModel) -> Report:
        """Take one step after the other. The first obstacle becomes the report."""
        if stored.model is None:
            problem = stored.problem or "The spec cannot be parsed."
            return self._observer.blocked(key, DegradedCause(DegradedReason.INVALID_SPEC, problem))
        if stored.model.spec.target is not None:
            return await self._carry_out_target(key, stored, stored.model, stored.model.spec.target)
        await read_neighbours(self._cluster, self._store, stored.model)
        this = self._a_pass(key, stored, stored.model)
        try:
            await self._read(this)
            await self._plan(this)
            await self._apply(this)
            await self._prune(this)
            return await self._observe(this)
        except Blocked as error:
            return self._observer.blocked(key, error.cause, error.requeue_after_seconds)
        except NameTaken as error:
            taken = DegradedCause(DegradedReason.NAME_TAKEN, error.message)
            return self._observer.blocked(key, taken, error.retry_after)
        except Refused as error:
            return self._observer.blocked(key, _refusal(this, error), _REFUSED_SECONDS)

    async def _carry_out_target(
        self, key: Key, stored: StoredModel, model: SpeculativeModel, target: Target
    ) -> Report:
        try:
            return await self._targets.reconcile(key, stored, model, target)
        except NameTaken as error:
            return blocked_target(DegradedCause(DegradedReason.NAME_TAKEN, error.message))
        except Refused as error:
            return blocked_target(DegradedCause(DegradedReason.APPLY_REFUSED, error.message))

    def _a_pass(self, key: Key, stored: StoredModel, model: SpeculativeModel) -> _Pass:
        this = _Pass(key, stored, model, Rendered(model, self._settings))
        try:
            this.order = read_order(self._store, this.owner)
        except ValueError as error:
            this.besides = DegradedCause(DegradedReason.LAUNCH_ORDER_UNREADABLE, str(error))
        return this

    async def _read(self, this: _Pass) -> None:
        """Read what the store does not have."""
        this.secret = await self._children.control_secret(this.owner)
        if matters(this.model.spec):
            # Read in each pass, because a cluster may be upgraded while we run.
            this.kubernetes = await self._cluster.version()
        this.serving = await self._serving(this)

    async def _serving(self, this: _Pass) -> Serving:
        """The pods that serve. Before a canary ends, they are read: a watch may be late with the end of a
        replica, and then neither would serve."""
        serving = self._observer.serving(this.key, this.rendered)
        if not serving.canaries or this.order.canary is not None:
            return serving
        labels = f"{MODEL_LABEL}={this.key.name}"
        found, _ = await self._cluster.list_all(PODS, this.key.namespace, labels=labels)
        pods = [Pod.model_validate(raw) for raw in found]
        ready = sum(pod.ready and role(pod) is Role.REPLICA for pod in pods)
        return replace(serving, replicas=min(serving.replicas, ready))

    async def _plan(self, this: _Pass) -> None:
        """Plan, and follow the outcome of the rollout before."""
        this.wanted = self._planned(this, this.order)
        if this.wanted.problems:
            raise Blocked(DegradedCause(*this.wanted.problems[0]))
        unlike = self._unlike_its_peer(this)
        if unlike is not None:
            cause = DegradedCause(DegradedReason.TRANSFER_PEER_DIFFERS, unlike)
            raise Blocked(cause, _OBSTACLE_SECONDS)
        if this.wanted.download is None:
            this.wanted = await self._rollouts.follow(
                this.key,
                this.rendered,
                this.wanted,
                lambda trial: self._planned(this, LaunchOrder(), trial=trial),
                verdict=this.order.drafter,
            )

    def _planned(self, this: _Pass, order: LaunchOrder, *, trial: bool = False) -> Plan:
        serving = this.serving or self._observer.serving(this.key, this.rendered)
        return this.rendered.plan(
            keys=this.keys, order=order, serving=serving, kubernetes=this.kubernetes, trial=trial
        )

    def _unlike_its_peer(self, this: _Pass) -> str | None:
        """The difference from the model at the other end of the KV connector; None if it is unknown."""
        name = this.model.spec.engine.kv_transfer_peer
        peer = None if name is None else self._store.model(Key(this.key.namespace, name))
        if name is None or peer is None or peer.model is None:
            return None
        return difference(this.model.spec, peer.model.spec, name=name)

    async def _apply(self, this: _Pass) -> None:
        obstacle = await self._groups.obstacle(this.model)
        if obstacle is not None:
            raise Blocked(obstacle, _OBSTACLE_SECONDS)
        await self._children.prune_groups(this.owner, this.wanted.children)
        try:
            await self._apply_needed(this)
        except NameTaken as error:
            if this.order.canary is None:
                raise
            # The replicas do not depend on the canary. If their own name is taken, this fails again.
            message = f"Outrider starts no canary: {error.message}"
            this.besides = DegradedCause(DegradedReason.NAME_TAKEN, message)
            this.order = replace(this.order, canary=None)
            await self._plan(this)
            await self._apply_needed(this)
        this.of_pool = await self._pools.follow(this.owner, this.model, this.wanted.children)

    async def _apply_needed(self, this: _Pass) -> None:
        """Apply everything without which the engines do not serve."""
        needed = [child for child in this.wanted.children if child["kind"] != POOL_KIND]
        await self._children.apply(this.owner, needed, secret=this.secret)

    async def _prune(self, this: _Pass) -> None:
        kinds = (DEPLOYMENTS, JOBS, BUDGETS) if this.wanted.download is None else (JOBS,)
        await self._children.prune(this.owner, this.wanted.children, kinds=kinds)

    async def _observe(self, this: _Pass) -> Report:
        """The report by what the objects show now."""
        key, wanted = this.key, this.wanted
        if wanted.download is None:
            groups = await self._groups.look(key, this.model, wanted.revision)
        assert this.secret is not None
        self._store.reconciled[key] = Reconciled(this.secret.key, wanted.revisions)
        if wanted.download is not None:
            download = self._observer.download(key, wanted)
            if download.lost:
                await self._children.forget_done_job(key, download.name)
            return await self._observer.downloading(key, this.model, download, besides=this.of_pool)
        rolled_back = returned_because(self._rollouts.memory(key))
        besides = rolled_back or this.besides or groups.trouble or this.of_pool or _not_tuned(this.model)
        report = self._observer.progress(key, this.rendered, wanted, besides=besides, groups=groups)
        return report if this.model.spec.inference_pool is None else _looking_again(report)

    async def _report_failure(self, key: Key, stored: StoredModel, error: Exception) -> None:
        self._failures[key] += 1
        if self._failures[key] < _FAILURES_BEFORE_REPORT and not isinstance(error, PassTooLong):
            return
        try:
            async with asyncio.timeout(min(_REPORT_SECONDS, self._pass_seconds)):
                await self._write(stored, self._failing(key, stored, error))
        except Exception as another:  # noqa: BLE001 - the caller gets the first error, which is repeated
            log.warning(
                "%s: the status of a failed reconcile could not be written: %s: %s",
                key,
                type(another).__name__,
                another,
            )

    def _failing(self, key: Key, stored: StoredModel, error: Exception) -> Report:
        """The report of a failed reconcile, with the readiness that the known pods show."""
        failed = DegradedCause(
            DegradedReason.RECONCILE_FAILED, f"{_FAILING}: {type(error).__name__}: {error}"
        )
        if stored.model is not None and stored.model.spec.target is not None:
            return blocked_target(failed)
        if stored.model is None or not isinstance(error, ClusterError | PassTooLong):
            return self._observer.blocked(key, failed)
        this = self._a_pass(key, stored, stored.model)
        wanted = self._planned(this, this.order)
        good = self._rollouts.memory(key).kept
        if good is not None:
            wanted = replace(wanted, revision=good.revision, canary_revision=None)
        return self._observer.progress(key, this.rendered, wanted, above=failed)


def _looking_again(report: Report) -> Report:
    """The report of a model with an InferencePool, which gateways answer in its unwatched status."""
    seconds = report.requeue_after_seconds
    return replace(report, requeue_after_seconds=min(seconds or _OBSTACLE_SECONDS, _OBSTACLE_SECONDS))


def _not_tuned(model: SpeculativeModel) -> DegradedCause | None:
    try:
        require_tunable(settled(model).spec)
    except Exception as error:  # noqa: BLE001 - the engines serve even if the tuner cannot work with the model
        return DegradedCause(DegradedReason.NOT_TUNED, f"{type(error).__name__}: {error}")
    return None


def _refusal(this: _Pass, error: Refused) -> DegradedCause:
    off = turned_off(this.model.spec, this.kubernetes, error.message)
    if off is not None:
        return DegradedCause(DegradedReason.CLUSTER_TOO_OLD, off)
    return refusal(this.model, error) or DegradedCause(DegradedReason.APPLY_REFUSED, error.message)
