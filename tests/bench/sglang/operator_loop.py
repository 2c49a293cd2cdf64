"""Outrider beside one engine without a cluster: the operator's scrapes, windows, tuner, client and pushes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from outrider.controller.fleet import EnginePod
from outrider.controller.tune.engine_info import EngineInfo, EngineInfos
from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.errors import ProbeRunning
from outrider.runtimes.sglang.metrics import DIALECT
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.series import PodKey
from outrider.telemetry.windows import build_window
from outrider.tuning.cost_model import next_cost_model
from outrider.tuning.decision import Probe
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_lab.rivals.tuners import hand_table
from outrider_protocol.control_api import Fence, ProbeOrder, Push, Slice
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule
from tests.bench.sglang.drive import Client
from tests.bench.sglang.plan import CANDIDATES, MAX_NUM_SEQS
from tests.contract.engine import KEY, POD_UID

POD = PodKey("default", "engine")
TICK_SECONDS = 10.0
"""Engine time between two ticks: the operator's default."""
LEASE_SECONDS, PROBE_SECONDS = 3600.0, 600.0
"""Limits by the machine's clock, which a busy machine must not reach."""
_BEGAN = 1_000_000.0
"""Unix seconds when the engine's clock began, for windows."""


class Operator:
    """One model with one pod. info: what the engine reports once. traffic: whose engine time is the clock."""

    def __init__(self, client: EngineClient, traffic: Client, info: EngineInfo) -> None:
        self._client, self._info, self._traffic = client, info, traffic
        self.source = PodScrapeSource(lambda: [Target(POD, traffic.url)], clock=lambda: self._now)
        self._address = EngineAddress(traffic.url, POD_UID, KEY)
        self._policy = Policy(CANDIDATES, MAX_NUM_SEQS)
        self._state = TunerState.start(hand_table(CANDIDATES), self._policy)
        self._cost_model: CostModel | None = None
        self._epoch, self._pushed = 0, (self._state.schedule, self._cost_model)
        self._now = self._measured_until = _BEGAN
        self.decisions: list[str] = []
        """Reason and sentence of each tick."""

    async def run(self) -> None:
        """Tick until cancelled."""
        await self._push(self._state.schedule)
        while True:
            began = await self._traffic.counts()
            await self.tick()
            await self._traffic.until(began, TICK_SECONDS)

    async def tick(self) -> None:
        """Measure, decide, and push."""
        now = self._now = _BEGAN + (await self._traffic.counts()).seconds
        seen = await self.source.fetch(now - self._measured_until + 2.0)
        window = build_window(
            POD, seen.get(POD), dialect=DIALECT, since=self._measured_until, until=now, max_age_seconds=30.0
        )
        if isinstance(window, Window):
            self._measured_until = window.ended_at
        decision = decide(
            TickContext(
                (window,),
                self._state,
                policy=self._policy,
                now=now,
                step_times=self._info.step_times,
                tick_seconds=TICK_SECONDS,
            )
        )
        self._state = decision.state
        self._cost_model = next_cost_model(self._cost_model, decision)
        if self._cost_model is not None and self._info.launch is not None:
            self._cost_model = replace(self._cost_model, revision=self._info.launch)
        self.decisions.append(f"{decision.reason}: {decision.sentence}")
        await self._push(decision.schedule)
        if decision.probe is not None:
            await self._probe(decision.probe)

    async def _push(self, schedule: Schedule) -> None:
        wanted = (schedule, self._cost_model)
        if wanted != self._pushed or self._epoch == 0:
            self._epoch, self._pushed = self._epoch + 1, wanted  # type: ignore[assignment]
        push = Push(Fence(1, self._epoch), schedule, LEASE_SECONDS, self._cost_model)
        await self._client.push(self._address, push)

    async def _probe(self, probe: Probe) -> None:
        slices = tuple(Slice(part.num_speculative_tokens, part.seconds) for part in probe.slices)
        fence, name = Fence(1, self._epoch), f"probe-{len(self.decisions)}"
        order = ProbeOrder(fence, name, probe.low, probe.high, slices, PROBE_SECONDS)
        try:
            await self._client.probe(self._address, order)
        except ProbeRunning:
            return


async def _info(client: EngineClient, url: str) -> EngineInfo:
    (info,) = await EngineInfos(client).of([EnginePod("engine", EngineAddress(url, POD_UID, KEY))])
    return info


@asynccontextmanager
async def operating(traffic: Client) -> AsyncIterator[Operator]:
    """Outrider tunes the engine until the block ends.

    Raises:
        ExceptionGroup: a tick failed.
    """
    client = EngineClient(timeout_seconds=10.0)
    try:
        operator = Operator(client, traffic, await _info(client, traffic.url))
        async with operator.source, asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            yield operator
            running.cancel()
    finally:
        await client.aclose()
