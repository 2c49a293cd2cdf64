"""`verification: Auto` in the loop: two launches side by side, and what the status says of them."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.launch import Launch, LaunchOrder, RelaunchPolicy
from outrider.controller.fleet import EnginePod
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import NOW, World, a_model, steady_series, step

ADAPTIVE = Launch(adaptive=True)
AUTO = RelaunchPolicy(compares=True)
TRIAL = LaunchOrder(canary=ADAPTIVE)


def a_world(*pods: EnginePod, order: LaunchOrder, refusal: str = "") -> World:
    model = replace(
        a_model(*pods), relaunching=AUTO, stored_order=order, replicas=len(pods), adaptive_refusal=refusal
    )
    return World([model])


def adaptive(pod: EnginePod, *, canary: bool = False) -> EnginePod:
    return replace(pod, launch=ADAPTIVE, canary=canary)


async def ticks(world: World, engines: EngineClient, count: int) -> None:
    with world.loop(engines) as loop:
        for _ in range(count):
            await step(loop)
            world.now += 10.0


async def test_both_launches_take_schedules_and_the_status_is_about_the_replicas(
    engines: EngineClient,
) -> None:
    replica, canary = FakeEngine("a"), FakeEngine("b")
    async with serving(replica, canary) as (first, second):
        world = a_world(first, adaptive(second, canary=True), order=TRIAL)
        await ticks(world, engines, 3)
    assert replica.puts == canary.puts == 3
    assert world.speculation["verification"] == "Fixed"
    assert world.speculation["appliedReplicas"] == 1


async def test_after_the_relaunch_the_status_is_about_the_adaptive_replicas(engines: EngineClient) -> None:
    one, two = FakeEngine("a"), FakeEngine("b")
    async with serving(one, two) as (first, second):
        world = a_world(first, adaptive(second, canary=True), order=TRIAL)
        with world.loop(engines) as loop:
            await step(loop)
            assert world.speculation["verification"] == "Fixed"
            world.change(pods=(adaptive(first), adaptive(second)), stored_order=LaunchOrder(ADAPTIVE))
            for _ in range(3):
                world.now += 10.0
                await step(loop)
    assert world.speculation["verification"] == "Adaptive"  # type: ignore[comparison-overlap]
    assert world.speculation["appliedReplicas"] == 2


async def test_a_better_canary_is_measured_and_then_launched_also_across_a_restart_of_the_operator(
    engines: EngineClient,
) -> None:
    """Its steps take four fifths of the time, so goodput is 1.25 times as high."""
    async with serving(FakeEngine("a"), FakeEngine("b")) as (first, second):
        world = a_world(first, adaptive(second, canary=True), order=TRIAL)
        world.series = {
            PodKey("default", "a"): steady_series(step_seconds=0.02),
            PodKey("default", "b"): steady_series(step_seconds=0.016),
        }
        for end in (500.0, 1000.0):
            with world.loop(engines) as loop:
                while world.now < NOW + end:
                    await step(loop)
                    world.now += 20.0
    assert world.orders[0].canary is None
    assert world.orders[-1] == LaunchOrder(ADAPTIVE)
    gain = world.speculation["verificationGain"]
    assert isinstance(gain, dict)
    assert float(gain["low"]) < 1.25 < float(gain["high"])
    assert world.decisions[0]["to"] == "adaptive"


async def test_a_canary_that_vllm_refuses_is_withdrawn_with_a_reason(engines: EngineClient) -> None:
    async with serving(FakeEngine("a")) as pods:
        world = a_world(*pods, order=TRIAL, refusal="FLASH_ATTN_2 cannot verify adaptively")
        world.change(replicas=2)
        await ticks(world, engines, 2)
    assert world.orders == [LaunchOrder()]
    found = world.condition("LaunchOptimal")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "AdaptiveUnavailable")
    assert "FLASH_ATTN_2" in found["message"]


async def test_a_model_with_fixed_verification_says_nothing_of_it(engines: EngineClient) -> None:
    async with serving(FakeEngine("a")) as pods:
        world = World([a_model(*pods)])
        await ticks(world, engines, 1)
    assert "verification" not in world.speculation
    assert "verificationGain" not in world.speculation


async def test_without_auto_an_adaptive_launch_is_named(engines: EngineClient) -> None:
    async with serving(FakeEngine("a")) as pods:
        world = World([replace(a_model(*pods), always_adaptive=True)])
        await ticks(world, engines, 1)
    assert world.speculation["verification"] == "Adaptive"
