"""Engines whose vLLM is not the release of the spec are named, with what to do, and are tuned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outrider.controller.fleet import EnginePod
from outrider.controller.tune.engine_info import EngineInfo, other_versions
from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.signing import SigningKey
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step

REASON = "EngineVersionDiffers"


def a_pod(name: str, wanted: str | None) -> EnginePod:
    address = EngineAddress("http://localhost:1", f"uid-{name}", SigningKey.generate())
    return EnginePod(name, address, wanted_version=wanted)


def info(pod: str, version: str | None) -> EngineInfo:
    return EngineInfo(pod, "r1", None, None, None, version=version)


@pytest.mark.parametrize(
    ("wanted", "version", "differs"),
    [
        ("0.33.0", "0.33.0", False),
        ("0.33.0", "0.33.0+cu130", False),
        ("0.33.0", "0.33.0.post1", False),
        ("0.33.0", "0.33.01", True),
        ("0.27.0", "0.27.1", True),
        ("0.33.0", "0.1.dev1+gabc", True),
        ("0.33.0", None, False),
        (None, "0.32.0", False),
    ],
)
def test_a_suffix_is_the_same_release_and_a_pod_of_another_spec_is_not_compared(
    wanted: str | None, version: str | None, differs: bool
) -> None:
    found = other_versions([a_pod("m-1", wanted)], [info("m-1", version)])
    assert [(one.pod, one.version, one.wanted) for one in found] == (
        [("m-1", version, wanted)] if differs else []
    )


def conditions(world: World) -> list[dict[str, Any]]:
    status: Any = world.statuses[-1]
    return [one for one in status["conditions"] if one["reason"] == REASON]


@pytest.mark.asyncio
async def test_the_condition_says_what_differs_and_what_to_do_until_the_pods_are_alike(
    engines: EngineClient,
) -> None:
    world = World()
    first, second = FakeEngine(), FakeEngine()
    async with serving(first, second) as pods:
        model = a_model(*(replace(pod, wanted_version="0.33.0") for pod in pods))
        world.models = [model]
        with world.loop(engines) as loop:
            await step(loop)
            (said,) = conditions(world)
            world.models = [a_model(*(replace(pod, wanted_version="0.32.0") for pod in pods))]
            world.now += 10
            await step(loop)
    assert said["type"] == "LaunchOptimal"
    assert said["status"] == "False"
    assert f"2 pods, {min(pod.name for pod in pods)} among them, run 0.32.0" in said["message"]
    assert "set spec.engine.version to the release of the image" in said["message"]
    assert first.schedule is not None
    assert not conditions(world)
