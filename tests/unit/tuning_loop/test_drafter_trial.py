"""The trial of a new drafter in the loop: two drafters side by side, and what the status says of them."""

from __future__ import annotations

from dataclasses import replace

from outrider.api.launch import DrafterTrial, RelaunchPolicy, TrialStage
from outrider.api.reasons import EventReason
from outrider.api.tuning import Canary
from outrider.controller.fleet import EnginePod
from outrider.controller.tune.launch_side import LaunchSide, LaunchSides
from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.signing import SigningKey
from outrider.telemetry.series import PodKey
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning.factories import a_start
from tests.unit.tuning_loop.factories import NOW, World, a_model, steady_series, step

AN_ADDRESS = EngineAddress("http://127.0.0.1:1", "uid", SigningKey.generate())
TRIAL = DrafterTrial("s2", drafter="hf://org/new")


def a_world(replica: EnginePod, canary: EnginePod) -> World:
    tried = replace(canary, canary=True, tried=True)
    allow = RelaunchPolicy(canary=Canary.ALLOW)
    model = replace(a_model(replica, tried), relaunching=allow, replicas=2, trial=TRIAL)
    return World([model])


async def compared(engines: EngineClient, *, before: float, new: float) -> World:
    """Step times of both drafters. The operator restarts in between."""
    async with serving(FakeEngine("a"), FakeEngine("b")) as (first, second):
        world = a_world(first, second)
        world.series = {
            PodKey("default", "a"): steady_series(step_seconds=before),
            PodKey("default", "b"): steady_series(step_seconds=new),
        }
        for end in (500.0, 1000.0):
            with world.loop(engines) as loop:
                while world.now < NOW + end:
                    await step(loop)
                    world.now += 20.0
    return world


async def test_a_faster_drafter_is_promoted_with_its_interval(engines: EngineClient) -> None:
    world = await compared(engines, before=0.02, new=0.016)
    verdict = world.orders[-1].drafter
    assert verdict is not None
    assert (verdict.spec, verdict.promoted) == ("s2", True)
    gain = world.speculation["drafterGain"]
    assert isinstance(gain, dict)
    assert float(gain["low"]) < 1.25 < float(gain["high"])
    assert gain["drafter"] == "hf://org/new"
    assert "verification" not in world.speculation
    assert [reason for reason, _ in world.events].count(EventReason.DRAFTER_PROMOTED) == 1


async def test_a_slower_drafter_is_returned(engines: EngineClient) -> None:
    world = await compared(engines, before=0.016, new=0.02)
    verdict = world.orders[-1].drafter
    assert verdict is not None
    assert not verdict.promoted
    found = world.condition("LaunchOptimal")
    assert found is not None
    assert "it is slower" in found["message"]
    assert (EventReason.DRAFTER_KEPT, "Warning") in world.events


def test_what_was_learnt_of_a_promoted_drafter_stays_after_its_trial() -> None:
    first, second = EnginePod("a", AN_ADDRESS), EnginePod("b", AN_ADDRESS)
    former, new = (LaunchSide(None, state=a_start()) for _ in range(2))  # type: ignore[arg-type]
    sides = LaunchSides(former, new, apart=False)
    on_trial = replace(a_model(first, replace(second, canary=True, tried=True)), trial=TRIAL)
    sides.follow(on_trial)
    assert (sides.main, sides.apart) == (former, False)
    rolled_out = (replace(first, tried=True), replace(second, tried=True))
    sides.follow(replace(on_trial, pods=rolled_out, trial=replace(TRIAL, stage=TrialStage.PROMOTED)))
    assert (sides.main, sides.other, sides.apart) == (new, former, True)
    sides.follow(replace(on_trial, pods=(first, second), trial=None))
    assert (sides.main, sides.apart) == (new, False)
