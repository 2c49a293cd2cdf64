"""ScheduleVersions rise for as long as the process lives, so that engines take what a fresh tuner pushes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.tuning import TuningMode
from outrider.controller.tune.engine_tables import ScheduleVersions
from outrider.engine.client import EngineClient
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step

ONE, FIVE = Schedule.constant(1), Schedule.constant(5)


def converged(world: World) -> str:
    found = world.condition("ActuationConverged")
    assert found is not None
    return found["reason"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50))))
def test_the_epochs_of_a_model_rise_and_exceed_what_was_seen(asked: list[tuple[str, int]]) -> None:
    epochs, last = ScheduleVersions(), {"a": 0, "b": 0}
    for uid, above in asked:
        found = epochs.next(uid, above=above)
        assert found > max(last[uid], above)
        last[uid] = found


def test_each_model_counts_its_own_tables() -> None:
    epochs = ScheduleVersions()
    assert [epochs.next("a"), epochs.next("a"), epochs.next("b")] == [1, 2, 1]


async def test_a_loop_that_starts_again_in_the_same_term_is_not_refused(engines: EngineClient) -> None:
    engine, epochs = FakeEngine(), ScheduleVersions()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, static=ONE)])
        with world.loop(engines, epochs) as loop:
            await step(loop)
            world.change(static=FIVE)
            await step(loop)
        world.change(static=ONE)
        with world.loop(engines, epochs) as loop:
            await step(loop)
    assert (engine.schedule, engine.epoch) == (ONE.to_wire(), 3)
    assert converged(world) == "Converged"


async def test_a_model_that_leaves_and_returns_is_not_refused(engines: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, static=ONE)])
        with world.loop(engines) as loop:
            await step(loop)
            gone, world.models = world.models, []
            await step(loop)
            world.models = gone
            world.change(static=FIVE)
            await step(loop)
    assert (engine.schedule, engine.epoch) == (FIVE.to_wire(), 2)
    assert converged(world) == "Converged"


@pytest.mark.parametrize("epoch", [1, 40])
async def test_an_engine_with_a_larger_epoch_of_this_term_is_outbid_at_the_next_tick(
    engines: EngineClient, epoch: int
) -> None:
    engine = FakeEngine(term=1, epoch=epoch, source="Pushed", schedule=FIVE.to_wire())
    async with serving(engine, FakeEngine("b")) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, static=ONE)])
        with world.loop(engines) as loop:
            await step(loop)
            refused = converged(world)
            await step(loop)
    assert refused == "PartiallyApplied"
    assert (engine.schedule, engine.epoch) == (ONE.to_wire(), epoch + 1)
    assert converged(world) == "Converged"


async def test_a_newer_leader_is_never_outbid(engines: EngineClient) -> None:
    engine = FakeEngine(term=2, epoch=1, source="Pushed", schedule=FIVE.to_wire())
    async with serving(engine) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF, static=ONE)], term=1)
        with world.loop(engines) as loop:
            for _ in range(3):
                await step(loop)
    assert (engine.schedule, engine.term, engine.epoch) == (FIVE.to_wire(), 2, 1)
    assert world.speculation["epoch"] == 1


class Boasting(FakeEngine):
    """Claims to be ahead of whatever is pushed."""

    def _put(self, body: dict[str, object]):  # type: ignore[no-untyped-def]
        self.term, self.epoch = 1, max(self.epoch, int(str(body["epoch"])) + 1)
        return super()._put({**body, "epoch": 0})


async def test_a_pod_that_always_claims_to_be_ahead_moves_the_epoch_of_the_others_once(
    engines: EngineClient,
) -> None:
    honest = FakeEngine("honest")
    async with serving(Boasting("boasting"), honest) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
            after_the_claim = honest.epoch
            for _ in range(3):
                await step(loop)
    assert (after_the_claim, honest.epoch) == (3, 3)


@pytest.mark.parametrize(("claimed", "next_epoch"), [(2**31 - 1, 2**31), (2**31, 1), (2**53 - 1, 1)])
async def test_a_claim_that_no_process_reaches_is_not_followed(
    engines: EngineClient, claimed: int, next_epoch: int
) -> None:
    ahead, honest = FakeEngine("ahead", term=1, epoch=claimed), FakeEngine("honest")
    async with serving(ahead, honest) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert honest.epoch == next_epoch


async def test_an_engine_that_cannot_be_tuned_anyway_is_not_outbid(engines: EngineClient) -> None:
    fixed, honest = FakeEngine("fixed", term=1, epoch=40, live_reason="one K"), FakeEngine("honest")
    async with serving(fixed, honest) as pods:
        world = World([a_model(*pods, mode=TuningMode.OFF)])
        with world.loop(engines) as loop:
            await step(loop)
            await step(loop)
    assert honest.epoch == 1
