"""An operator whose main loop is blocked for twice as long as a Lease lasts, with another one that waits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from outrider.api.crd import render
from tests.lifecycle.api_server import ApiServer, an_api_server, running
from tests.lifecycle.operators import QUICK, an_operator
from tests.lifecycle.stored_models import a_model, eventually_so, is_taken
from tests.ports import free_port

BLOCKED_SECONDS = 30
LEASE_SECONDS = 15
BLOCKABLE = f"""
import signal, sys, time
from outrider.cli.main import app

def block(*_):
    until = time.monotonic() + {BLOCKED_SECONDS}
    while time.monotonic() < until:
        sum(range(1000))

signal.signal(signal.SIGUSR1, block)
sys.argv = ["outrider", "run"]
app()
"""
"""The operator; at this signal its main thread computes and takes no turn."""


def renewal(server: ApiServer) -> tuple[str, str]:
    """Holder and time of the last renewal, as the Lease has them."""
    lease = server.get("lease", "outrider")
    spec = lease["spec"] if lease else {}
    return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")


def longest_gap(server: ApiServer, seconds: float) -> tuple[set[str], float]:
    """The holders in that time, and how long no renewal was seen at most."""
    began = seen_at = time.monotonic()
    seen, gap = renewal(server), 0.0
    holders = {seen[0]}
    while time.monotonic() < began + seconds:
        found = renewal(server)
        holders.add(found[0])
        if found != seen:
            seen, seen_at = found, time.monotonic()
        gap = max(gap, time.monotonic() - seen_at)
        time.sleep(0.2)
    return holders, gap


def status(port: int, path: str) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


async def test_an_operator_keeps_its_lease_while_its_main_loop_is_blocked(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as processes:
        server = await asyncio.to_thread(processes.enter_context, an_api_server(tmp_path))
        await asyncio.to_thread(server.kubectl, "apply", "-f", "-", stdin=render())
        await eventually_so("a model is taken", lambda: is_taken(server, a_model()))
        environment = {**server.environment, **QUICK, "OUTRIDER_HTTP_PORT": str(port)}
        log = tmp_path / "first.log"
        first = processes.enter_context(running(sys.executable, ["-c", BLOCKABLE], log, environment))
        await eventually_so("the first leads and plans", lambda: server.get("deployment", "m") is not None)
        second = processes.enter_context(an_operator(server, "second"))
        leader = renewal(server)[0]

        os.kill(first.pid, signal.SIGUSR1)
        watching = asyncio.create_task(asyncio.to_thread(longest_gap, server, BLOCKED_SECONDS - 3))
        await eventually_so("it answers probes", lambda: status(port, "/healthz") == 200)
        assert status(port, "/metrics") == 200
        holders, gap = await watching
        print(f"main loop blocked for {BLOCKED_SECONDS} s: longest time without a renewal {gap:.1f} s")
        assert holders == {leader}
        assert gap < LEASE_SECONDS

        await eventually_so("it works on", lambda: is_taken(server, a_model("n")))
        await eventually_so("it plans", lambda: server.get("deployment", "n") is not None)
        assert renewal(server)[0] == leader
        assert second.poll() is None
