"""Two operators, and a network that drops all between the one that leads and the API server."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from outrider.api.crd import render
from outrider.engine.signing import SigningKey
from outrider.plan.names import PRIVATE_KEY, control_secret
from tests.cluster.annotations import OVERRIDE, OVERRIDE_UNTIL
from tests.lifecycle.api_server import ApiServer, an_api_server
from tests.lifecycle.line import a_line
from tests.lifecycle.operators import an_operator
from tests.lifecycle.stored_models import KIND, a_model, eventually_so, is_taken
from tests.unit.engine import fake_engine
from tests.unit.engine.fake_engine import FakeEngine

ENGINE = "127.77.0.1"
TICKS = 5
"""Pushes that are waited for to see that no other comes between them."""


@dataclass
class Engine(FakeEngine):
    """One that takes every note of who pushed what, also where it refuses."""

    uid: str = ""
    asked: list[tuple[int, int]] = field(default_factory=list)
    """Term and K for large batches, of each push."""

    @property
    def pod_uid(self) -> str:
        return self.uid

    def _put(self, body: dict[str, object]) -> web.Response | None:
        rows: list[dict[str, int]] = body["schedule"]  # type: ignore[assignment]
        self.asked.append((int(str(body["term"])), rows[-1]["numSpeculativeTokens"]))
        return super()._put(body)


def leader(server: ApiServer) -> str:
    lease = server.get("lease", "outrider")
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def override(server: ApiServer, k: int) -> None:
    """What a user wants from now on."""
    words = (f"{OVERRIDE}=*:{k}", f"{OVERRIDE_UNTIL}=2100-01-01T00:00:00Z")
    server.kubectl("annotate", KIND, "m", "--overwrite", *words)


def a_pod(server: ApiServer) -> str:
    """The uid of a pod as a Deployment's controller and a node make it: ready, at the engine's address."""
    deployment = server.get("deployment", "m")
    assert deployment is not None
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": "m-1", "namespace": "default"}
    server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "podIP": ENGINE, "podIPs": [{"ip": ENGINE}], "conditions": [ready]}
    change = json.dumps({"status": status})
    server.kubectl("patch", "pod", "m-1", "--subresource=status", "--type", "merge", "-p", change)
    pod = server.get("pod", "m-1")
    assert pod is not None
    return str(pod["metadata"]["uid"])


@asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[None]:
    """At the address in the pod's status."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", engine.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, ENGINE, 8000).start()
    try:
        yield
    finally:
        await runner.cleanup()


def is_planned(server: ApiServer) -> bool:
    return server.get("deployment", "m") is not None


def key_of(server: ApiServer) -> SigningKey:
    """By which the operators sign what they ask of the engine."""
    secret = server.get("secret", control_secret("m"))
    assert secret is not None
    return SigningKey.read(base64.b64decode(secret["data"][PRIVATE_KEY]))


async def test_a_leader_that_is_cut_off_is_followed_and_pushes_nothing_more_when_the_network_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, log = Engine(captured=frozenset(range(9))), tmp_path / "second.log"
    with ExitStack() as processes:
        server = await asyncio.to_thread(processes.enter_context, an_api_server(tmp_path))
        await asyncio.to_thread(server.kubectl, "apply", "-f", "-", stdin=render())
        await eventually_so("a model is taken", lambda: is_taken(server, a_model()))
        async with a_line(server.port) as line, serving(engine):
            by_line = server.kubeconfig("first", port=line.port)
            processes.enter_context(an_operator(server, "first", by_line))
            await eventually_so("the first leads and plans", lambda: is_planned(server))
            monkeypatch.setattr(fake_engine, "KEY", await asyncio.to_thread(key_of, server))
            engine.uid = await asyncio.to_thread(a_pod, server)
            override(server, 2)
            await eventually_so("it pushes", lambda: bool(engine.asked) and engine.asked[-1][1] == 2)
            first, old = leader(server), engine.term
            second = processes.enter_context(an_operator(server, "second"))
            await eventually_so("the second stands by", lambda: "waiting for the Lease" in log.read_text())

            line.fall_silent()
            began = time.monotonic()
            override(server, 1)
            await eventually_so("another leader pushes", lambda: engine.term > old)
            print(f"the other one pushed {time.monotonic() - began:.1f} s after the network fell silent")
            assert leader(server) not in ("", first)

            line.heal()
            heard, new = len(engine.asked), engine.term
            await eventually_so("more pushes", lambda: len(engine.asked) >= heard + TICKS)
            since = engine.asked[engine.asked.index((new, 1)) :]
            assert set(since) == {(new, 1)}
            assert leader(server) not in ("", first)
            assert second.poll() is None
