"""An engine's control API over real HTTP, with faults on demand. For faults and scale only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from outrider.controller.fleet import EnginePod
from outrider.engine.client import EngineAddress
from outrider.engine.signing import SigningKey

KEY = SigningKey.generate()


def an_address(url: str = "http://engine", pod_uid: str = "uid-engine-0") -> EngineAddress:
    return EngineAddress(url, pod_uid, KEY)


@dataclass
class FakeEngine:
    """Keeps a table as the contract says. Set a fault and the next requests show it."""

    name: str = "engine-0"
    boot_id: str = "boot-1"
    captured: frozenset[int] = frozenset({0, 1, 3, 5})
    schedule: list[dict[str, int]] = field(default_factory=lambda: [{"numSpeculativeTokens": 3}])
    source: str = "Static"
    term: int = 0
    epoch: int = 0
    failed: frozenset[int] = frozenset()  # by the self-test
    live_reason: str | None = None
    hangs: bool = False
    drips: bool = False  # a byte now and then, and never an end
    lies: bool = False  # answers 200 and changes nothing
    answer: tuple[int, str] | None = None  # (status, body) instead of the contract
    puts: int = 0
    gets: int = 0  # of the state
    cuda_graphs: str | None = None
    idle_drafter: dict[str, object] | None = None
    max_num_seqs: int | None = None
    simulated: str | None = None  # None: it says nothing of the kind, as plugins before there were stand-ins
    step_times: list[dict[str, float]] = field(default_factory=list)  # what its sweep measured
    fast_loop: dict[str, object] | None = None  # what it says of its own choice of K; None: an older plugin
    cost_model: dict[str, object] | None = None  # in force
    probes: bool = True  # False: a plugin from before there were probes and self-tests
    probe: dict[str, object] | None = None
    metrics: str = ""  # the text of /metrics, which needs no signature
    posted: list[dict[str, object]] = field(default_factory=list)
    url: str = ""
    callers: set[object] = field(default_factory=set)  # the other ends of the connections so far

    @property
    def pod_uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def pod(self) -> EnginePod:
        return EnginePod(self.name, an_address(self.url, self.pod_uid))

    def state(self) -> dict[str, object]:
        return {
            "bootId": self.boot_id,
            "engineVersion": "0.32.0",
            "capturedK": sorted(self.captured),
            "liveTuning": {"possible": self.live_reason is None, "reason": self.live_reason},
            "schedule": self.schedule,
            "source": self.source,
            "term": self.term,
            "epoch": self.epoch,
            "leaseRemainingSeconds": None,
            "enginesAgree": True,
            "cudaGraphs": self.cuda_graphs,
            "idleDrafter": self.idle_drafter,
            **({} if self.max_num_seqs is None else {"maxNumSeqs": self.max_num_seqs}),
            **({} if self.simulated is None else {"simulated": self.simulated}),
            **({"stepTimes": self.step_times} if self.step_times else {}),
            **({} if self.fast_loop is None else self.own_choice()),
            **({"probe": self.probe, "selfTest": self.self_test()} if self.probes else {}),
        }

    def own_choice(self) -> dict[str, object]:
        active = self.cost_model is not None
        return {
            "fastLoop": {
                "possible": True,
                "revision": "eagle3/64/5",
                "active": active,
                **(self.fast_loop or {}),
            }
        }

    def self_test(self) -> dict[str, object]:
        state = "Failed" if self.failed else "Passed"
        return {"state": state, "detail": "4.2 s", "failedK": sorted(self.failed)}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.callers.add(request.transport and request.transport.get_extra_info("peername"))
        if self.hangs:
            await asyncio.sleep(60)
        if self.drips:
            return await _drip(request)
        if self.answer is not None:
            return web.Response(status=self.answer[0], text=self.answer[1])
        if request.path == "/metrics":
            return web.Response(text=self.metrics)
        if request.headers.get("Authorization") != await self._signed(request):
            return _error(401, "Unauthorized", "not signed for this pod")
        self.gets += request.method == "GET"
        if request.method == "PUT":
            self.puts += 1
            refusal = self._put(await request.json())
            if refusal is not None:
                return refusal
        if request.method == "POST":
            refusal = self._probe(await request.json())
            if refusal is not None:
                return refusal
        return web.json_response(self.state())

    async def _signed(self, request: web.Request) -> str:
        """The only header that lets this request in; a signature of Ed25519 is always the same."""
        body = await request.read()
        return KEY.authorization(method=request.method, path=request.path, pod_uid=self.pod_uid, body=body)

    def _probe(self, body: dict[str, object]) -> web.Response | None:
        if not self.probes:
            return web.json_response({"detail": "Not Found"}, status=404)
        self.posted.append(body)
        if (body["term"], body["epoch"]) != (self.term, self.epoch) or self.source != "Pushed":
            return _error(409, "StaleEpoch", f"{self.term}.{self.epoch} is in force")
        if self.probe is not None and self.probe["running"] and self.probe["id"] != body["id"]:
            return _error(409, "ProbeRunning", f"{self.probe['id']} is under way")
        bounds = {name: body.get(name) for name in ("minBatchSize", "maxBatchSize")}
        self.probe = {"id": body["id"], **bounds, "running": True, "reason": "Running", "results": []}
        return None

    def _put(self, body: dict[str, object]) -> web.Response | None:
        if self.live_reason is not None:
            return _error(503, "LiveTuningImpossible", self.live_reason)
        pair = (body["term"], body["epoch"])
        rows: list[dict[str, int]] = body["schedule"]  # type: ignore[assignment]
        model: dict[str, object] | None = body.get("costModel")  # type: ignore[assignment]
        if model is not None and self.fast_loop is None:
            return _error(422, "Malformed", "costModel is not known")
        other = rows != self.schedule or model != self.cost_model
        if pair < (self.term, self.epoch) or (pair == (self.term, self.epoch) and other):
            return _error(409, "StaleEpoch", f"{self.term}.{self.epoch} is in force")
        if not {row["numSpeculativeTokens"] for row in rows} <= self.captured - self.failed:
            return _error(422, "NotCaptured")
        self.term, self.epoch = pair  # type: ignore[assignment]
        self.source = "Pushed"
        self.cost_model = model
        if not self.lies:
            self.schedule = rows
        return None

    def restart(self) -> None:
        self.boot_id += "+"
        self.schedule, self.source, self.term, self.epoch = [{"numSpeculativeTokens": 3}], "Static", 0, 0


async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.05)


def _error(status: int, reason: str, message: str = "") -> web.Response:
    return web.json_response({"error": {"reason": reason, "message": message}}, status=status)


@asynccontextmanager
async def serving(*engines: FakeEngine) -> AsyncIterator[list[EnginePod]]:
    """Serve each engine on a loopback port of its own."""
    runners = []
    for engine in engines:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", engine.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        engine.url = f"http://{host}:{port}"
        runners.append(runner)
    try:
        yield [engine.pod for engine in engines]
    finally:
        for runner in runners:
            await runner.cleanup()
