"""The work of a leader: watch, reconcile and tune, each under its own supervision."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from outrider.api.reasons import EventReason
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import ClusterError
from outrider.cluster.events import EventWriter
from outrider.cluster.lease import LeadershipElsewhere, Sole
from outrider.cluster.ownership import Owner
from outrider.controller.children import Children
from outrider.controller.cpu_budget import CpuBudget, Overspent, planning_rests
from outrider.controller.fleet import TunedModel
from outrider.controller.other_installations import Installations
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.reconcile.reconciler import Reconciler
from outrider.controller.settings import EngineUser, Settings, own_namespace
from outrider.controller.status_metrics import ShownModel, shown
from outrider.controller.store import Store
from outrider.controller.store_fleet import StoreFleet
from outrider.controller.stored import Key, key_of
from outrider.controller.traces import Traces
from outrider.controller.tune.api_server import ClusterApiServer
from outrider.controller.tune.engine_tables import ScheduleVersions
from outrider.controller.tune.first_renewals import FirstRenewals
from outrider.controller.tune.metrics_source import PODS_AT_ONCE, open_source
from outrider.controller.tune.model_tuner import Engines
from outrider.controller.tune.timing import Timing
from outrider.controller.tune.tuning_loop import Observability, TuningLoop
from outrider.controller.watch import ClusterWatch, Watches
from outrider.controller.work_queue import WorkQueue, backoff_seconds
from outrider.engine.client import EngineClient
from outrider.plan import PlanSettings
from outrider.plan.network_peers import ControlPeers, read_peers
from outrider.transport import PodHttp

log = logging.getLogger(__name__)

_CPU_SHARE = 0.05
"""Ratio of one CPU for a model whose reconciles take more than that."""


@dataclass(frozen=True, slots=True)
class LeaderLimits:
    """Limits of a leader's work, in seconds."""

    cpu_seconds: float = 1.0
    """CPU time that one reconcile may take. A usual one takes about 20 ms."""
    restart_seconds: float = 5.0
    """Pause before a failed tuning loop starts again."""
    pause_seconds: float = 0.5
    """Pause between two reconciles of a model, whose pods and objects change in quick succession."""
    renewal_seconds: float = 0.01
    """Time for each pod that the other work of a new leader waits for the first renewals. In all it waits at
    least one second, and at most half a lease."""


class Leader:
    """The two loops and their watches, for one leadership term.

    others: the other installations, whose models this one leaves alone. leadership: its term fences every
    push, and no push is sent once it is over.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterClient,
        metrics: OwnMetrics,
        *,
        others: Installations,
        leadership: LeadershipElsewhere | Sole,
        traces: Traces,
        limits: LeaderLimits = LeaderLimits(),
    ) -> None:
        self._settings = settings
        self._restart_seconds = limits.restart_seconds
        self._traces = traces
        self._metrics = metrics
        self._others = others
        self._store = Store(
            left_out=lambda reason: metrics.left_out.labels(reason).inc(), shard=lambda: leadership.shard
        )
        # A push shortly after a scrape uses its connection.
        self._http = PodHttp()
        self._engines = EngineClient(
            timeout_seconds=settings.engine_timeout_seconds, http=self._http, leads=lambda: leadership.leads
        )
        self._reconciler = Reconciler(
            cluster,
            self._store,
            settings=plan_settings(settings),
            on_external_change=self._somebody_changed,
            http=self._http,
            engines=self._engines,
        )
        self._events = EventWriter(cluster)
        self._overspent: dict[Key, Overspent] = {}
        self._cpu = CpuBudget[Key](
            limits.cpu_seconds, share=_CPU_SHARE, doubling=True, overspent=self._overspent.__setitem__
        )
        self._queue = WorkQueue[Key](
            self._reconcile,
            concurrency=settings.reconcile_concurrency,
            pause=limits.pause_seconds,
            group=lambda key: key.namespace,
            # Pods start while the models before them get their next status.
            first=lambda key: key not in self._store.reconciled,
        )
        self._watch = ClusterWatch(
            cluster,
            self._store,
            self._queue.add,
            namespaces=settings.watch_namespaces,
            metrics=metrics,
            urgent=self._look_now,
        )
        self._api_server = ClusterApiServer(
            cluster,
            self._store,
            on_external_change=self._somebody_changed,
            on_order=self._queue.add,
        )
        self._versions = ScheduleVersions()
        self._term = lambda: leadership.term
        self._fleet = StoreFleet(self._store, others.manages)
        self._children = Children(cluster, self._store)
        self._timing = Timing(
            tick=settings.tuning_interval_seconds,
            push_lease=settings.push_lease_seconds,
            settle=settings.scale_settle_seconds,
            pods_at_once=PODS_AT_ONCE,
        )
        self._renewal_seconds = limits.renewal_seconds
        self._loop: TuningLoop | None = None
        self.has_view = False
        """True after the first full read; before it nothing is written. See also `ClusterWatch.has_read`."""

    async def lead(self, watches: Watches) -> None:
        """Run until cancelled. watches: deliver the events of the cluster."""
        async with self._http:
            await self._lead(watches)

    async def _lead(self, watches: Watches) -> None:
        with self._shown():
            async with asyncio.TaskGroup() as first:
                first.create_task(self._read_first())
                first.create_task(self._others.first_look())
            async with asyncio.TaskGroup() as parts:
                await self._renew_first(parts)
                parts.create_task(self._watch.watch_forever(watches))
                parts.create_task(self._watch.read_all_forever(self._settings.resync_seconds))
                parts.create_task(self._others.look_forever(self._reconcile_all))
                parts.create_task(self._queue.run())
                parts.create_task(self._supervise("tuning loop", self._tune))

    async def _renew_first(self, parts: asyncio.TaskGroup) -> None:
        """Renew what engines hold before anything else, for leases end whatever the API server does.

        Silent pods delay the other work by a short time, and then their renewals continue beside it.
        """
        models = sorted({self._store.pods.model_of(pod.metadata) for pod in self._store.pods})
        if not models:
            return
        renewals = FirstRenewals(
            self._engine_access, self._timing, read=self._before_its_reconcile, ticked=self._ticked
        )
        done = asyncio.Event()

        async def renew() -> None:
            held = await renewals.first(models)
            done.set()
            await renewals.repeat(held)

        parts.create_task(renew())
        patience = max(1.0, self._renewal_seconds * len(self._store.pods))
        with suppress(TimeoutError):
            async with asyncio.timeout(min(patience, self._timing.push_lease / 2)):
                await done.wait()

    async def _before_its_reconcile(self, key: Key) -> TunedModel | None:
        stored = self._store.models.get(key)
        if stored is None or not self._others.manages(key):
            return None
        signing_key = await self._children.signing_key(Owner(*key, stored.metadata.uid))
        return None if signing_key is None else self._fleet.before_its_reconcile(key, signing_key)

    def _ticked(self, uid: str) -> bool:
        return self._loop is not None and self._loop.has_pushed(uid)

    @property
    def _engine_access(self) -> Engines:
        return Engines(self._engines, self._versions, self._term)

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Show the metrics of a leader, until the term ends: a process on standby has none."""
        metrics = self._metrics
        metrics.queue_depth.set_function(lambda: len(self._queue))
        metrics.models.set_function(lambda: len(self._store.models))
        metrics.status.follow(self._managed_models)
        try:
            yield
        finally:
            metrics.queue_depth.set_function(lambda: 0)
            metrics.models.set_function(lambda: 0)
            metrics.status.follow(tuple)
            metrics.demand.forget_stale(now=math.inf)

    def _managed_models(self) -> list[ShownModel]:
        models = list(self._store.models)  # in one step: scrapes run on another thread than changes
        return [shown(each) for each in models if self._others.manages(key_of(each.metadata))]

    async def _read_first(self) -> None:
        """Read everything before the first reconcile, so that a restart writes nothing twice."""
        failures = 0
        while True:
            try:
                await self._watch.read_all()
                self.has_view = True
                return
            except ClusterError as error:
                failures += 1
                delay = backoff_seconds(failures)
                log.warning("the first read failed, next attempt in %.1f s: %s", delay, error)
                await asyncio.sleep(delay)

    def _reconcile_all(self) -> None:
        for stored in self._store.models:
            self._queue.add(key_of(stored.metadata))

    async def _reconcile(self, key: Key) -> float | None:
        if not self._others.manages(key) or not self._watch.has_read(key.namespace):
            return None
        if (rest := self._cpu.rest(key)) > 0:
            return rest
        outcome, known = "error", key in self._store.reconciled
        try:
            with self._metrics.reconcile_seconds.time(), self._traces.span("reconcile", key):
                again = await self._cpu.spend(key, self._reconciler.reconcile(key))
            outcome = "done"
            if not known and self._store.pods_of(key):
                # Its engines may hold a lease of the operator before, which the next tick may renew too late.
                self._look_now(key)
        finally:
            self._metrics.reconciles.labels(outcome).inc()
            await self._tell_of_cpu(key)
        return max(again or 0.0, self._cpu.rest(key)) or again

    async def _tell_of_cpu(self, key: Key) -> None:
        overspent, stored = self._overspent.pop(key, None), self._store.models.get(key)
        if overspent is not None and stored is not None:
            owner = Owner(key.namespace, key.name, stored.metadata.uid)
            await self._events.emit(owner, EventReason.CPU_BUDGET_EXCEEDED, planning_rests(overspent))

    async def _tune(self) -> None:
        try:
            async with open_source(self._settings, self._fleet, self._http) as source:
                self._loop = TuningLoop(
                    self._fleet,
                    source,
                    self._engine_access,
                    self._api_server,
                    self._timing,
                    observability=Observability(self._metrics, self._traces),
                )
                await self._loop.run()
        finally:
            self._loop = None
            # The next loop does not know which models this one has counted.
            self._metrics.tuning.clear()

    def _somebody_changed(self, key: Key) -> None:
        self._queue.add(key)
        self._look_now(key)

    def _look_now(self, key: Key) -> None:
        if self._loop is not None:
            self._loop.look_now(key)

    async def _supervise(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await run()
            except Exception:  # a supervision loop: watches and reconciles continue
                log.exception("the %s failed, restart in %.0f s", name, self._restart_seconds)
            self._metrics.tuning_restarts.inc()
            await asyncio.sleep(self._restart_seconds)


def plan_settings(settings: Settings) -> PlanSettings:
    """The settings that every plan of this operator uses."""
    peers = None
    if settings.control_peers:
        clients = read_peers(settings.client_peers)
        peers = ControlPeers(own_namespace(), settings.control_peers, clients)
    return PlanSettings(
        engine_images=settings.engine_images,
        plugin_image=settings.plugin_image,
        image_pull_secrets=settings.engine_image_pull_secrets,
        fixed_user=settings.engine_user is EngineUser.FIXED,
        control_peers=peers,
    )
