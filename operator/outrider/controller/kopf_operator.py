"""Outrider as kopf runs it: startup, login, event handlers, probe and cleanup.

By decision 9, kopf watches, and a queue of our own reconciles. kopf leaves no state, finalizer or timer on
objects. `outrider run` elects a leader, which runs these handlers on a thread. For development,
``kopf run -m outrider.controller.kopf_operator`` runs them with a leader that needs no Lease.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kopf

from outrider.cluster.client import ClusterClient, connect, runs_in_cluster
from outrider.cluster.lease import Sole
from outrider.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    MODELS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    WATCHED_CHILDREN,
    Resource,
)
from outrider.controller.leader import Leader
from outrider.controller.other_installations import Installations
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.settings import Settings
from outrider.controller.stored import MANAGED_SELECTOR
from outrider.controller.traces import Traces
from outrider.controller.watch import Receive

log = logging.getLogger(__name__)

_OBJECTS_AT_ONCE = 4


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    """Let kopf only watch, and retry forever."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.persistence.diffbase_storage = NothingKept()
    settings.networking.error_backoffs = EndlessBackoffs()
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 5.0
    settings.watching.connect_timeout = 5.0
    # kopf holds a whole chunk, text and objects, of each kind. A tenant may store objects of 1.5 MB.
    settings.watching.chunk_size = _OBJECTS_AT_ONCE
    settings.queueing.idle_timeout = 0.5
    # The process must outlive kopf; by default kopf kills it when its own end takes too long.
    settings.process.ultimate_exiting_timeout = None
    for kind in (PODS, *WATCHED_CHILDREN):
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = MANAGED_SELECTOR


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def lead(memo: kopf.Memo, **_: object) -> None:
    """Start a leader under ``kopf run``. In `run_in_thread`, the receiver of the events exists already."""
    if "receive" in memo:
        return
    settings = Settings.from_environment()
    memo.api = await connect()
    memo.leader = Leader(
        settings,
        ClusterClient(memo.api),
        OwnMetrics(),
        others=Installations(),
        leadership=Sole(started_at=time.time()),
        traces=Traces(),
    )
    attached = asyncio.Event()

    async def attach(receive: Receive) -> None:
        memo.receive = receive
        attached.set()
        await asyncio.Event().wait()

    memo.leading = asyncio.create_task(memo.leader.lead(attach))
    # kopf copies the memo for every object, so events have to wait for the receiver.
    await attached.wait()


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Log in with the pod's service account, or with the kubeconfig outside a cluster."""
    if runs_in_cluster():
        return kopf.login_with_service_account(**arguments)
    return kopf.login_with_kubeconfig(**arguments)


def _kind(resource: Resource) -> dict[str, Any]:
    return {
        "group": resource.group,
        "version": resource.version,
        "plural": resource.plural,
        "param": resource,
    }


@kopf.on.event(**_kind(MODELS))
@kopf.on.event(**_kind(PODS))
@kopf.on.event(**_kind(DEPLOYMENTS))
@kopf.on.event(**_kind(SERVICES))
@kopf.on.event(**_kind(CONFIG_MAPS))
@kopf.on.event(**_kind(SERVICE_ACCOUNTS))
@kopf.on.event(**_kind(JOBS))
@kopf.on.event(**_kind(BUDGETS))
async def on_event(*, event: Mapping[str, Any], memo: Any, param: Any = None, **_: Any) -> None:
    """Pass a state of an object to the leader, which stores it and queues the model. param: its kind."""
    memo.receive(param, event["type"], event["object"])


@kopf.on.probe(id="leading")
def leading(memo: kopf.Memo, **_: object) -> bool:
    """Whether the leader has read everything and runs, for ``kopf run --liveness``."""
    return "leading" in memo and memo.leader.has_view and not memo.leading.done()


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: object) -> None:
    """End the leader that `lead` started."""
    if "leading" in memo:
        memo.leading.cancel()
        await asyncio.wait([memo.leading])
        await memo.api.close()


async def run_in_thread(receive: Receive, *, namespaces: Sequence[str]) -> None:
    """Run kopf on a thread and a loop of its own until it ends.

    kopf ends on errors that a Kubernetes client should survive, such as an ERROR event with code 500 or 401
    for some seconds. It then cancels every task of its event loop.

    receive: called in that thread.
    namespaces: empty for all.
    """
    loop = asyncio.get_running_loop()
    stop_flag, ended = threading.Event(), asyncio.Event()
    scope: dict[str, Any] = {"namespaces": tuple(namespaces)} if namespaces else {"clusterwide": True}

    async def until_it_ends() -> None:
        settings = kopf.OperatorSettings()
        # kopf never ends the thread of its login, and its remains are seldom looked at for garbage.
        settings.execution.executor = executor = ThreadPoolExecutor(1, thread_name_prefix="kopf")
        try:
            tasks = await kopf.spawn_tasks(
                settings=settings,
                memo=kopf.Memo(receive=receive),
                standalone=True,
                stop_flag=stop_flag,
                **scope,
            )
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            # kopf can take a minute to end; the next one need not wait for it.
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

    def work() -> None:
        try:
            asyncio.run(until_it_ends())
        except Exception as error:  # noqa: BLE001 - a supervision loop: kopf is restarted after any error
            log.warning("the watches failed: %s: %s", type(error).__name__, error)

    threading.Thread(target=work, name="watches", daemon=True).start()
    try:
        await ended.wait()
    finally:
        stop_flag.set()


class EndlessBackoffs:
    """Endless growing delays in seconds between retries of a failed request."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        yield from itertools.repeat(4.0)


class NothingKept(kopf.DiffBaseStorage):
    """Storage without content: only kopf's handlers of changes need a copy and an annotation per event."""

    def build(self, **_: object) -> kopf.BodyEssence:
        """Return an empty essence."""
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> None:
        """Return nothing."""

    def store(self, **_: object) -> None:
        """Store nothing."""
