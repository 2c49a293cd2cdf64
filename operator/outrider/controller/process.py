"""The operator's process: logs, standby, leadership, loss of the Lease, and shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from kubernetes.aio.client import ApiClient
from pythonjsonlogger.json import JsonFormatter

from outrider.cluster.client import ClusterClient, connect
from outrider.cluster.installation import Claim
from outrider.cluster.lease import LEASE_NAME, Leadership, LeadershipElsewhere, LeaseName, Sole
from outrider.cluster.shard_election import ShardElection
from outrider.cluster.shards import Shard
from outrider.cluster.term_lock import Turn
from outrider.controller.garbage import short_collections
from outrider.controller.http_server import Heartbeat, serve
from outrider.controller.kopf_operator import run_in_thread
from outrider.controller.leader import Leader
from outrider.controller.other_installations import Installations, OtherInstallations
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.settings import LeaderElection, LogFormat, Settings
from outrider.controller.traces import Traces, open_traces
from outrider.controller.turns_of_threads import short_turns
from outrider.loop_thread import LoopThread, ThreadEnded

log = logging.getLogger(__name__)

_DEEPEST = 10_000
"""Levels that the API server accepts. Source: ``maxDepth`` in the JSON decoders of k8s.io/apimachinery."""
_CALLS_AROUND_IT = 2_000


class Stuck(Exception):
    """A part of the operator did not end after its cancellation."""


_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_FIELDS = "%(asctime)s %(levelname)s %(name)s %(message)s"
_RENAMED = {"asctime": "time", "levelname": "severity", "name": "logger"}


def set_up_logs(log_format: LogFormat, level: str) -> None:
    """Send all log lines to standard error, once per process."""
    handler = logging.StreamHandler()
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonFormatter(_FIELDS, rename_fields=_RENAMED))
    else:
        handler.setFormatter(logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The libraries log each request at INFO; kopf warns that it does not handle signals here.
    for name in ("httpx", "httpcore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.ERROR)


@contextmanager
def room_for_deep_json() -> Iterator[None]:
    """Let this process read objects that are nested as deep as the API server allows.

    Python's parser stops at a tenth of that. One such object would then make whole lists unreadable and
    end every watch. A level needs about 200 bytes of a stack of 8 MiB.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST + _CALLS_AROUND_IT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


async def run_operator(settings: Settings) -> None:
    """Run `operate` on the cluster of this process. If a part hangs or is lost, end the process."""
    with (
        room_for_deep_json(),
        short_turns(),
        short_collections(),
        open_traces(settings.traces_url) as traces,
    ):
        async with await connect() as api:
            try:
                await operate(settings, api, traces)
            except (Stuck, ThreadEnded) as error:
                log.critical("%s; the process ends", error)
                logging.shutdown()
                # asyncio would wait for what hangs before it lets the process end.
                os._exit(1)


async def operate(
    settings: Settings, api: ApiClient, traces: Traces | None = None, *, stop_seconds: float = 5.0
) -> None:
    """Wait for the Lease, lead, and wait again after a loss, until a signal asks to stop.

    traces: by default they are dropped.
    stop_seconds: time for the parts of a term to end.

    Raises:
        Stuck: a part of a term did not end; two terms must not overlap.
        ThreadEnded: the thread of the Lease or of the HTTP server ended.
    """
    metrics, heartbeat = OwnMetrics(shards=settings.shards), Heartbeat()
    async with LoopThread("http") as http, LoopThread("lease") as thread, _own_connection(api, thread) as own:
        candidate = _Candidate(
            settings,
            api,
            partial(_leadership, settings, own, thread),
            metrics,
            traces or Traces(),
            stop_seconds=stop_seconds,
        )
        serving = serve(
            port=settings.http_port,
            registry=metrics.registry,
            ready=lambda: candidate.ready,
            heartbeat=heartbeat,
        )
        await _until_first_ends(
            {
                "signals": _stop_signal(),
                "heartbeat": heartbeat.beat_forever(),
                "server": http.run(serving),
                "leadership": candidate.run(),
            },
            stop_seconds=3 * stop_seconds,
        )


@asynccontextmanager
async def _own_connection(api: ApiClient, thread: LoopThread) -> AsyncIterator[ApiClient]:
    """A client on the loop of a thread, for the same API server and account."""
    own = ApiClient(api.configuration)
    own.user_agent = api.user_agent
    try:
        yield own
    finally:
        with suppress(ThreadEnded):
            await thread.run(own.close())  # type: ignore[no-untyped-call]


class _Candidate:
    """Waits for the Lease and leads, again after each loss, with new objects, so that no old state remains.

    elect: makes a new candidate for the Lease. stop_seconds: time for the parts of one term to end.
    """

    def __init__(
        self,
        settings: Settings,
        api: ApiClient,
        elect: Callable[[], LeadershipElsewhere | Sole],
        metrics: OwnMetrics,
        traces: Traces,
        *,
        stop_seconds: float,
    ) -> None:
        self._settings = settings
        self._api = api
        self._elect = elect
        self._metrics = metrics
        self._traces = traces
        self._stop_seconds = stop_seconds
        self._begin()

    def _begin(self) -> None:
        self._leadership = leadership = self._elect()
        cluster = ClusterClient(self._api, fence=leadership.check)
        self._leader = Leader(
            self._settings,
            cluster,
            self._metrics,
            others=_others(leadership, cluster, self._metrics),
            leadership=leadership,
            traces=self._traces,
        )

    @property
    def ready(self) -> bool:
        """True if the API server is reachable and a leader has read everything."""
        return self._leadership.in_touch and (self._leadership.term == 0 or self._leader.has_view)

    async def run(self) -> None:
        """Wait and lead until cancelled.

        Raises:
            Stuck: a part of a term has not ended after its loss.
        """
        while True:
            await self._until_lost()
            log.warning("leadership lost; waiting for the Lease again")
            self._metrics.leases_lost.inc()
            self._begin()

    async def _until_lost(self) -> None:
        try:
            await _until_first_ends(
                {
                    "loss": self._leadership.lost(),
                    "election": self._leadership.run(),
                    "leader": self._wait_and_lead(),
                },
                stop_seconds=self._stop_seconds,
            )
        finally:
            self._metrics.show_standby()
            # A hanging part may still act; then the Lease has to expire.
            if not isinstance(sys.exception(), Stuck):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._leadership.release(), self._stop_seconds)

    async def _wait_and_lead(self) -> None:
        shards = self._settings.shards
        one = "the Lease" if shards == 1 else f"the Lease of one of {shards} shards"
        log.info("waiting for %s as %s", one, self._leadership.identity)
        await self._leadership.elected()
        shard = self._leadership.shard
        log.info("leading, term %d%s", self._leadership.term, "" if shards == 1 else f", shard {shard}")
        self._metrics.show_leader(shard.number)
        await self._leader.lead(partial(run_in_thread, namespaces=self._settings.watch_namespaces))


def _leadership(settings: Settings, api: ApiClient, thread: LoopThread) -> LeadershipElsewhere | Sole:
    """A new candidate. api: client on the thread's loop."""
    if settings.leader_election is LeaderElection.OFF:
        return Sole(started_at=time.time())
    turn, namespace, shards = Turn(), settings.lease_namespace, settings.shards
    candidates = []
    for shard in Shard.all_of(shards):
        claim = Claim(frozenset(settings.watch_namespaces), settings.service_account, shard=shard)
        lease = LeaseName(namespace, shard.lease_name(LEASE_NAME))
        candidates.append(Leadership(api, lease, claim=claim, turn=turn))
    # Two processes that start together then seldom want the same shard first.
    random.shuffle(candidates)
    return LeadershipElsewhere(candidates[0] if shards == 1 else ShardElection(candidates), thread)


def _others(
    leadership: LeadershipElsewhere | Sole, cluster: ClusterClient, metrics: OwnMetrics
) -> Installations:
    if isinstance(leadership, Sole):
        return Installations()
    return OtherInstallations(cluster, leadership, metrics)


async def _until_first_ends(
    parts: Mapping[str, Coroutine[object, object, None]], *, stop_seconds: float
) -> None:
    """Run all parts. When one returns or raises, cancel the others, and raise the error of any of them.

    Raises:
        Stuck: a part did not end within stop_seconds.
    """
    tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        _, stuck = await asyncio.wait(tasks, timeout=stop_seconds)
        if stuck:
            names = ", ".join(sorted(task.get_name() for task in stuck))
            raise Stuck(f"{names} did not end within {stop_seconds:.0f} s")
    for task in tasks:
        if not task.cancelled():
            task.result()


async def _stop_signal() -> None:
    received = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.set)
    await received.wait()
    log.info("received a signal to stop")
