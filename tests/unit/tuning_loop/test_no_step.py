"""Whenever the operator is restarted, its first push is the table that was in force."""

from __future__ import annotations

from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey, PodSeries
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.telemetry.factories import Counters, PluginCounters, a_plugin_series
from tests.unit.tuning_loop.factories import NOW, World, a_model, step

TICK = 10
STEP_SECONDS = {0: 0.010, 1: 0.008, 3: 0.016, 5: 0.030}
ACCEPTED = {0: 0.0, 1: 0.7, 3: 1.6, 5: 1.8}


class Load:
    """Eight streams on an engine that follows its table; K=1 is the best there.

    The engine runs K=1 in between, as if it were probed.
    """

    def __init__(self) -> None:
        self.scrapes = [(NOW - 1, Counters(), PluginCounters())]

    def run(self, engine: FakeEngine) -> None:
        """Ten seconds in four scrapes."""
        rows = engine.schedule
        table = next(row["numSpeculativeTokens"] for row in rows if row.get("maxBatchSize", 99) >= 8)
        for k in (1, table, table, table):
            at, counters, plugin = self.scrapes[-1]
            seconds = STEP_SECONDS[k]
            steps = {
                "steps": 2.5 / seconds,
                "batch": 8,
                "k": k,
                "accepted": ACCEPTED[k],
                "step_seconds": seconds,
            }
            self.scrapes.append((at + 2.5, counters.ran(**steps), plugin.ran(**steps)))  # type: ignore[arg-type]

    def series(self) -> PodSeries:
        """As the source has it."""
        return a_plugin_series(*self.scrapes[-24:])


async def test_a_restart_at_any_moment_steps_no_table(engines: EngineClient) -> None:
    engine, load, key = FakeEngine(), Load(), PodKey("default", "engine-0")
    tables = set()
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            for _ in range(15):
                world.series = {key: load.series()}
                await step(loop)
                tables.add(str(engine.schedule))
                assert await first_push_after_a_restart(engines, world) == engine.schedule
                load.run(engine)
                world.now += TICK
    assert len(tables) > 1, "the law never changed the table, so nothing was tried"


async def first_push_after_a_restart(engines: EngineClient, world: World) -> list[dict[str, int]]:
    """Of a process that takes over two seconds later, with what the one before has left."""
    engine = FakeEngine()
    async with serving(engine) as pods:
        later = World([a_model(*pods)], series=world.series, kept=dict(world.kept), now=world.now + 2, term=2)
        with later.loop(engines) as loop:
            await step(loop)
    assert [reason for reason, _ in later.events if reason.startswith("TunerState")] == []
    return engine.schedule
