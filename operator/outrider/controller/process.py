"""The operator's process: stand by, lead, and stop cleanly."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from kubernetes.aio.client import ApiClient

from outrider.cluster.client import ClusterClient, connect
from outrider.cluster.lease import Leadership, LeaseName, Sole
from outrider.controller.http_server import serve
from outrider.controller.leader import Leader
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.settings import LeaderElection, Settings

log = logging.getLogger(__name__)

_STOP_SECONDS = 5.0


async def run_operator(settings: Settings) -> None:
    """Stand by until elected, lead until told to stop or until the Lease is lost; then return.

    A lost Lease ends the process, so that nothing of an old reign lives on in memory.
    """
    async with await connect() as api:
        await _run(settings, api)


async def _run(settings: Settings, api: ApiClient) -> None:
    metrics = OwnMetrics()
    leadership = _candidate(settings, api)
    cluster = ClusterClient(api, fence=leadership.check)
    leader = Leader(settings, cluster, metrics, term=lambda: leadership.term)

    async def stand_by_and_lead() -> None:
        log.info("standing by as %s", leadership.identity)
        await leadership.elected()
        log.info("leading, term %d", leadership.term)
        metrics.leader.set(1)
        await leader.lead()

    def ready() -> bool:
        return leadership.in_touch and (leadership.term == 0 or leader.has_view)

    try:
        await _until_first_ends(
            [
                _told_to_stop(),
                _lost(leadership),
                leadership.run(),
                serve(port=settings.http_port, registry=metrics.registry, ready=ready),
                stand_by_and_lead(),
            ]
        )
    finally:
        metrics.leader.set(0)
        with suppress(TimeoutError):
            await asyncio.wait_for(leadership.release(), _STOP_SECONDS)


def _candidate(settings: Settings, api: ApiClient) -> Leadership | Sole:
    if settings.leader_election is LeaderElection.OFF:
        return Sole(started_at=time.time())
    return Leadership(api, LeaseName(settings.lease_namespace))


async def _until_first_ends(parts: Sequence[Coroutine[object, object, None]]) -> None:
    """Run all; when one returns or raises, cancel the others, and raise what it raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_STOP_SECONDS)
    for task in done:
        task.result()


async def _told_to_stop() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    log.info("told to stop")


async def _lost(leadership: Leadership | Sole) -> None:
    await leadership.lost()
    log.warning("leadership lost; the process ends")
