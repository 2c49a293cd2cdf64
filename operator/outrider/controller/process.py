"""The operator's process: its log lines, and how it stands by, leads, stands by again, and stops cleanly."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from kubernetes.aio.client import ApiClient
from pythonjsonlogger.json import JsonFormatter

from outrider.cluster.client import ClusterClient, connect
from outrider.cluster.deep_json import room_for_deep_json
from outrider.cluster.installation import Claim
from outrider.cluster.lease import Leadership, LeadershipElsewhere, LeaseName, Sole
from outrider.controller.heartbeat import Heartbeat
from outrider.controller.http_server import serve
from outrider.controller.leader import Leader
from outrider.controller.neighbours import Alone, Neighbourhood, Neighbours
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.settings import LeaderElection, LogFormat, Settings
from outrider.controller.traces import Traces, open_traces
from outrider.loop_thread import LoopThread, ThreadEnded

log = logging.getLogger(__name__)

_STOP_SECONDS = 5.0


class Stuck(Exception):
    """A part of the operator did not end when it was told to."""


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
    # The libraries tell each request at INFO; kopf warns that signals are not its own here.
    for name in ("httpx", "httpcore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.ERROR)


async def run_operator(settings: Settings) -> None:
    """`operate` on the cluster of this process; where a part of it hangs or is lost, the process ends."""
    with room_for_deep_json(), open_traces(settings.traces_url) as traces:
        async with await connect() as api:
            try:
                await operate(settings, api, traces)
            except (Stuck, ThreadEnded) as error:
                log.critical("%s; the process ends", error)
                logging.shutdown()
                # asyncio would wait for what hangs before it lets the process end.
                os._exit(1)


async def operate(settings: Settings, api: ApiClient, traces: Traces | None = None) -> None:
    """Stand by, lead, stand by again when the Lease is lost, until told to stop; then return.

    traces: by default they go nowhere.

    Raises:
        Stuck: a candidacy did not end; two of them must not overlap.
        ThreadEnded: of the Lease or of the HTTP server.
    """
    metrics, heartbeat = OwnMetrics(), Heartbeat()
    async with LoopThread("http") as http, LoopThread("lease") as thread, _own_connection(api, thread) as own:
        elections = _Elections(settings, own, thread)
        candidacies = _Candidacies(settings, api, elections, metrics, traces or Traces())
        serving = serve(
            port=settings.http_port,
            registry=metrics.registry,
            ready=lambda: candidacies.ready,
            heartbeat=heartbeat,
        )
        await _until_first_ends(
            {
                "signals": _told_to_stop(),
                "heartbeat": heartbeat.beat_forever(),
                "server": http.run(serving),
                "candidacies": candidacies.run(),
            },
            stop_seconds=3 * _STOP_SECONDS,
        )


@asynccontextmanager
async def _own_connection(api: ApiClient, thread: LoopThread) -> AsyncIterator[ApiClient]:
    """A client for the loop of a thread, to the same API server with the same account."""
    own = ApiClient(api.configuration)
    own.user_agent = api.user_agent
    try:
        yield own
    finally:
        with suppress(ThreadEnded):
            await thread.run(own.close())  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Elections:
    """Where candidates take part. api: of the thread's loop."""

    settings: Settings
    api: ApiClient
    thread: LoopThread

    def candidate(self) -> LeadershipElsewhere | Sole:
        """A new one."""
        settings = self.settings
        if settings.leader_election is LeaderElection.OFF:
            return Sole(started_at=time.time())
        claim = Claim(frozenset(settings.watch_namespaces), settings.service_account)
        leadership = Leadership(self.api, LeaseName(settings.lease_namespace), claim=claim)
        return LeadershipElsewhere(leadership, self.thread)


class _Candidacies:
    """One after the other, each built anew, so that nothing of an old one lives on in memory."""

    def __init__(
        self, settings: Settings, api: ApiClient, elections: _Elections, metrics: OwnMetrics, traces: Traces
    ) -> None:
        self._settings = settings
        self._api = api
        self._elections = elections
        self._metrics = metrics
        self._traces = traces
        self._present = self._candidacy()

    @property
    def ready(self) -> bool:
        """The present one does what it should."""
        return self._present.ready

    async def run(self) -> None:
        """Stand by and lead until cancelled."""
        while True:
            await self._present.run()
            log.warning("leadership lost; standing by for it again")
            self._metrics.leases_lost.inc()
            self._present = self._candidacy()

    def _candidacy(self) -> _Candidacy:
        return _Candidacy(self._settings, self._api, self._elections.candidate(), self._metrics, self._traces)


class _Candidacy:
    """From standing by until the Lease is lost."""

    def __init__(
        self,
        settings: Settings,
        api: ApiClient,
        leadership: LeadershipElsewhere | Sole,
        metrics: OwnMetrics,
        traces: Traces,
    ) -> None:
        self._metrics = metrics
        self._leadership = leadership
        cluster = ClusterClient(api, fence=self._leadership.check)
        self._leader = Leader(
            settings,
            cluster,
            metrics,
            neighbours=_neighbours(self._leadership, cluster, metrics),
            term=lambda: self._leadership.term,
            traces=traces,
        )

    @property
    def ready(self) -> bool:
        """In touch with the API server and, where it leads, with a full view."""
        return self._leadership.in_touch and (self._leadership.term == 0 or self._leader.has_view)

    async def run(self) -> None:
        """Return when the Lease is lost and everything of this candidacy has ended.

        Raises:
            Stuck: something of it has not ended.
        """
        try:
            await _until_first_ends(
                {
                    "loss": self._leadership.lost(),
                    "election": self._leadership.run(),
                    "leader": self._stand_by_and_lead(),
                },
                stop_seconds=_STOP_SECONDS,
            )
        finally:
            self._metrics.leader.set(0)
            # What hangs may still act: then the Lease has to run out.
            if not isinstance(sys.exception(), Stuck):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._leadership.release(), _STOP_SECONDS)

    async def _stand_by_and_lead(self) -> None:
        log.info("standing by as %s", self._leadership.identity)
        await self._leadership.elected()
        log.info("leading, term %d", self._leadership.term)
        self._metrics.leader.set(1)
        await self._leader.lead()


def _neighbours(
    leadership: LeadershipElsewhere | Sole, cluster: ClusterClient, metrics: OwnMetrics
) -> Neighbourhood:
    if isinstance(leadership, Sole):
        return Alone()
    return Neighbours(cluster, leadership, metrics)


async def _until_first_ends(
    parts: Mapping[str, Coroutine[object, object, None]], *, stop_seconds: float
) -> None:
    """Run all; when one returns or raises, cancel the others, and raise what any of them raised.

    Raises:
        Stuck: one did not end within stop_seconds.
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


async def _told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    log.info("told to stop")
