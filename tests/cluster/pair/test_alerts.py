"""Alerts about two engines: what they are for is done to a model that is well, and they hold for it alone."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.alerts import BROKEN, Labels, held, wait_until_held
from tests.cluster.engines import ask, name_of, ready_pods, signal_engine_core
from tests.cluster.kubectl import Object, condition, kubectl, namespace, wait_for
from tests.cluster.models import in_force
from tests.cluster.pair import NAME, TICKS, look, override, rules, tune
from tests.cluster.pair.watching import a_new_pod_of
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

LOOKED_BACK = 120.0
"""Seconds for which an expression bridges a change of leaders, and so holds on after the cause is gone."""
MEASURING = "/outrider/v1/measuring"
STREAMS = 12
"""Six for each engine: there the static table drafts 5 tokens."""


async def test_an_engine_that_takes_no_table_is_seen(pair: Sender) -> None:  # noqa: ARG001
    alert = "OutriderNotConverged"
    rules(1)
    wait_until_held(alert, seconds=LOOKED_BACK, model=NAME)
    frozen, _ = ready_pods(NAME)
    signal_engine_core(frozen, "SIGSTOP")
    try:
        override("*:3")
        wait_until_held(alert, the_model(), seconds=TICKS, model=NAME)
    finally:
        signal_engine_core(frozen, "SIGCONT")
    wait_for("both have K=3", look, in_force("*:3", replicas=2), seconds=TICKS)


async def test_a_plugin_that_does_not_count_is_seen_in_its_pod_alone(pair: Sender) -> None:
    """The pod is a new one: of another, steps that it counted would be in sight for five minutes."""
    alert = "OutriderEnginePluginNotCounting"
    gone, stays = ready_pods(NAME)
    kubectl("delete", "pod", gone, "-n", namespace(), "--wait=false")
    new = wait_for("another one", a_new_pod_of({gone, stays}), lambda seen: seen is not None, seconds=120)
    assert new is not None
    pod = name_of(new)
    of_the_model = {"namespace": namespace(), "outrider_dev_model": NAME}
    assert held(alert, **of_the_model) == []
    counts(pod, enabled=False)
    try:
        async with pair.holding(STREAMS):
            in_the_pod = of_the_model | {"pod": pod}
            await asyncio.to_thread(wait_until_held, alert, in_the_pod, seconds=TICKS, **of_the_model)
            counts(pod, enabled=True)
            await asyncio.to_thread(wait_until_held, alert, seconds=TICKS, **of_the_model)
    finally:
        counts(pod, enabled=True)


async def test_drafts_that_cost_more_than_they_bring_are_seen_in_mode_observe(pair: Sender) -> None:
    alert = "OutriderSpeculationSlower"
    tune("Observe")
    async with pair.holding(STREAMS):
        await asyncio.to_thread(wait_for, "judged", look, pays, seconds=2 * TICKS)
    assert held(alert, model=NAME) == []
    async with pair.holding(STREAMS, text=BROKEN):
        await asyncio.to_thread(wait_until_held, alert, the_model(), seconds=2 * TICKS, model=NAME)


def the_model() -> Labels:
    """As alerts name it."""
    return {"model_namespace": namespace(), "model": NAME}


def counts(pod: str, *, enabled: bool) -> None:
    """The plugin of this engine counts steps, or does not."""
    said = ask(pod, signed_for=pod, method="PUT", path=MEASURING, body={"enabled": enabled})
    assert said["measuring"] == enabled, said


def pays(seen: Object | None) -> bool:
    """Speculation was judged and is not slower."""
    found = condition(seen, "SpeculationEffective")
    return found is not None and found["status"] != "False"
