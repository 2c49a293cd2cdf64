"""One run of an arm: an engine, all traffic, and what was counted by phase."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import mean

from outrider.engine.client import EngineAddress, EngineClient
from outrider_protocol.control_api import Fence, Push
from outrider_protocol.schedule import Schedule
from tests.bench.sglang.drive import SETTLE_SECONDS, Client, client
from tests.bench.sglang.engines import FIXED, OUTRIDER, Installed, running
from tests.bench.sglang.operator_loop import operating
from tests.bench.sglang.plan import CANDIDATES, Load, Phase, loads
from tests.contract.engine import KEY, POD_UID

WARM_UP = Load(4, ("code",))
WARM_UP_SECONDS = 5.0
SLICE_SECONDS = 15.0
"""Of each fixed K under each load, in engine time, as all seconds of loads: a machine that is late has other
seconds. A shorter slice holds fewer prompts than a phase: 3 s made fixed K up to 7 % too fast."""
LEASE_SECONDS = 3600.0

Row = dict[str, object]
Say = Callable[[str], None]


async def run(
    arm: str,
    installed: Installed,
    simulation: Mapping[str, object],
    phases: Sequence[Phase],
    say: Say,
    *,
    fixed: bool,
) -> list[Row]:
    """All rows of one run, with a fresh engine that has learnt nothing.

    fixed: hold each fixed K afterwards, in the same engine, which must have the plugin.
    """
    with (
        tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder,
        running(arm, installed, Path(folder), simulation) as engine,
    ):
        async with client(engine.url) as traffic:
            rows = await _adaptive(arm, traffic, phases, say)
            return rows + (await _fixed(traffic, loads(phases), say) if fixed else [])


async def _adaptive(arm: str, traffic: Client, phases: Sequence[Phase], say: Say) -> list[Row]:
    rows: list[Row] = []
    async with _decisions(arm, traffic) as decisions:
        await traffic.hold(WARM_UP)
        await traffic.until(await traffic.counts(), WARM_UP_SECONDS)
        for phase in phases:
            known, parts = len(decisions), []
            for load in phase.loads:
                await traffic.hold(load)
                before = await traffic.counts()
                counted = (await traffic.until(before, phase.seconds)).since(before)
                parts.append({"load": load.name, **counted})
            rate = mean(float(str(part["tokens_per_second"])) for part in parts)
            rows.append(
                {
                    "arm": arm,
                    "phase": phase.name,
                    "tokens_per_second": round(rate, 2),
                    "loads": parts,
                    "decisions": decisions[known:],
                }
            )
            say(f"{arm}, {phase.name}: {rate:.1f} tok/s; {[(part['rounds']) for part in parts]}")
    return rows


@asynccontextmanager
async def _decisions(arm: str, traffic: Client) -> AsyncIterator[Sequence[str]]:
    if arm != OUTRIDER:
        yield ()
        return
    async with operating(traffic) as operator:
        yield operator.decisions


async def _fixed(traffic: Client, of: Sequence[Load], say: Say) -> list[Row]:
    """Each K in turn under each load; the plugin holds it for every batch size."""
    rows: list[Row] = []
    address, engines = EngineAddress(traffic.url, POD_UID, KEY), EngineClient(timeout_seconds=10.0)
    try:
        for epoch, (load, k) in enumerate(((load, k) for load in of for k in CANDIDATES), start=1):
            push = Push(Fence(2, epoch), Schedule.constant(k), LEASE_SECONDS)
            await engines.push(address, push)
            await traffic.hold(load)
            before = await traffic.until(await traffic.counts(), SETTLE_SECONDS)
            counted = (await traffic.until(before, SLICE_SECONDS)).since(before)
            rows.append({"arm": FIXED, "load": load.name, "k": k, **counted})
            say(f"K={k}, {load.name}: {counted['tokens_per_second']} tok/s")
    finally:
        await engines.aclose()
    return rows
