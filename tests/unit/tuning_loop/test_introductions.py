"""An engine that computes nothing is never mistaken for one that does: the status says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.api.launch import Launch, RelaunchPolicy
from outrider.api.tuning import Actuation, TuningMode
from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step


async def test_the_status_says_what_an_engine_stands_in_for(engines: EngineClient) -> None:
    async with serving(FakeEngine("a", simulated="h100_8b"), FakeEngine("b", simulated="h100_8b")) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["simulated"] == "h100_8b"


async def test_the_status_names_the_cuda_graphs_of_all_engines(engines: EngineClient) -> None:
    fleet = FakeEngine("a", cuda_graphs="PIECEWISE"), FakeEngine("b", cuda_graphs="FULL_AND_PIECEWISE")
    async with serving(*fleet) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["cudaGraphs"] == "FULL_AND_PIECEWISE, PIECEWISE"


async def test_the_status_says_what_the_drafter_does_while_k_is_0(engines: EngineClient) -> None:
    ranks = "ranks of data parallelism run their drafters together"
    fleet = (
        FakeEngine("a", idle_drafter={"skipped": True, "reason": None}),
        FakeEngine("b", idle_drafter={"skipped": False, "reason": ranks}),
        FakeEngine("c"),
    )
    async with serving(*fleet) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["idleDrafter"] == f"Runs, because {ranks}; Skipped"


async def test_the_status_follows_an_engine_whose_drafter_runs_again(engines: EngineClient) -> None:
    engine = FakeEngine(idle_drafter={"skipped": True, "reason": None})
    fault = "the drafter's hook failed: in a worker: ValueError: another shape"
    async with serving(engine) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
            assert world.speculation["idleDrafter"] == "Skipped"
            engine.idle_drafter = {"skipped": False, "reason": fault}
            world.now += 31
            await step(loop)
    assert world.speculation["idleDrafter"] == f"Runs, because {fault}"


async def test_one_among_real_engines_is_enough_and_different_ones_are_all_named(
    engines: EngineClient,
) -> None:
    fleet = FakeEngine("a", simulated="h100_8b"), FakeEngine("b"), FakeEngine("c", simulated="a40_7b")
    async with serving(*fleet) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["simulated"] == "a40_7b, h100_8b"


async def test_an_engine_that_says_nothing_of_it_is_a_real_one(engines: EngineClient) -> None:
    async with serving(FakeEngine()) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["state"] == "Active"
    assert "simulated" not in world.speculation


async def test_a_pod_that_no_table_is_pushed_to_is_asked_as_well(engines: EngineClient) -> None:
    async with serving(FakeEngine(simulated="h100_8b")) as (pod,):
        world = World([a_model(replace(pod, launch=Launch(drafter=False)))])
        with world.loop(engines) as loop:
            await step(loop)
    assert (world.speculation["state"], world.speculation["simulated"]) == ("HardOff", "h100_8b")


async def test_a_pod_is_asked_until_it_answers_and_never_again(engines: EngineClient) -> None:
    engine = FakeEngine(simulated="h100_8b", answer=(500, ""))
    async with serving(engine) as (pod,):
        world = World([a_model(replace(pod, launch=Launch(drafter=False)))])
        with world.loop(engines) as loop:
            await step(loop)
            assert "simulated" not in world.speculation
            engine.answer = None
            for _ in range(3):
                await step(loop)
                world.now += 31
    assert world.speculation["simulated"] == "h100_8b"
    assert engine.gets == 1


async def test_it_goes_with_the_pod_that_said_it(engines: EngineClient) -> None:
    async with serving(FakeEngine("a", simulated="h100_8b"), FakeEngine("b")) as (twin, real):
        world = World([a_model(twin)])
        with world.loop(engines) as loop:
            await step(loop)
            world.change(pods=(real,))
            world.now += 31
            await step(loop)
    assert "simulated" not in world.speculation


async def test_stock_engines_are_asked_nothing(engines: EngineClient) -> None:
    engine = FakeEngine(simulated="h100_8b")
    async with serving(engine) as pods:
        model = replace(
            a_model(*pods, mode=TuningMode.OBSERVE), relaunching=RelaunchPolicy(Actuation.ROLLOUT)
        )
        world = World([model])
        with world.loop(engines) as loop:
            await step(loop)
    assert (engine.puts, engine.gets) == (0, 0)


CELLS = [
    {
        "batchSize": size,
        "numSpeculativeTokens": k,
        "contextTokens": 50.0,
        "stepSeconds": 0.01 + k / 1000,
        "error": 0.02,
        "steps": 12,
    }
    for size in (1, 2, 4, 8)
    for k in (0, 1, 3, 5)
]


async def test_the_status_says_that_a_map_is_known_and_the_law_has_it_for_its_first_decision(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[StepTimeProfile | None] = []

    def spying(context: TickContext) -> Decision:
        given.append(context.step_times)
        return decide(context)

    monkeypatch.setattr(model_tuner, "decide", spying)
    async with serving(FakeEngine("a", step_times=CELLS)) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["stepTimeProfile"] == "16 cells, measured by a before it served"
    (first,) = given
    assert first is not None
    assert len(first.cells) == len(CELLS)


async def test_the_first_push_to_an_engine_with_a_map_has_a_cost_model(engines: EngineClient) -> None:
    """Also where the operator was waiting for its first pod, and no metrics source was asked yet."""
    engine = FakeEngine("a", step_times=CELLS, max_num_seqs=8, fast_loop={})
    async with serving(engine) as pods:
        model = a_model(*pods)
        world = World([replace(model, policy=replace(model.policy, max_num_seqs=8))])
        with world.loop(engines) as loop:
            await loop.resume()
    assert (engine.epoch, engine.cost_model is not None) == (1, True)


async def test_a_map_that_makes_no_sense_is_none_and_the_engine_is_tuned(engines: EngineClient) -> None:
    async with serving(FakeEngine("a", step_times=[{"batchSize": 0}])) as pods:
        world = World([a_model(*pods)])
        with world.loop(engines) as loop:
            await step(loop)
    assert world.speculation["state"] == "Active"
    assert "stepTimeProfile" not in world.speculation
