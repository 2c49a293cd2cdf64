"""Operator and engine plugin understand each other's messages. Neither imports the other."""

from __future__ import annotations

import json

import pytest

from outrider.engine.client import ProbeOrder
from outrider.engine.errors import ProbeRunning
from outrider.engine.state import EngineState
from outrider.tuning.decision import Probe, Slice
from outrider_engine.control import Fence
from outrider_engine.probe import Probe as PluginProbe
from outrider_engine.probe import ProbeReason, ProbeRequest, parse_probe, start
from outrider_engine.probe import Slice as PluginSlice
from outrider_engine.refusal import HTTP_STATUS, Reason
from outrider_engine.selftest import SelfTest
from outrider_engine.state import State, unavailable

PROBE = Probe("default/m-1", 7, 12, (Slice(1, 1.0), Slice(0, 0.5)))


def read(state: State) -> EngineState:
    return EngineState.model_validate_json(json.dumps(state))


def test_a_state_of_the_plugin_is_read() -> None:
    found = read(unavailable("no speculation"))
    assert (found.live_tuning.possible, found.live_tuning.reason) == (False, "no speculation")
    assert found.probe is None
    assert found.failed_k == frozenset()


def test_a_failed_self_test_of_the_plugin_is_read() -> None:
    state = unavailable("x")
    state["selfTest"] = SelfTest(faults={5: "RuntimeError"}).to_wire()
    assert read(state).failed_k == {5}


@pytest.mark.parametrize("high", [12, None])
def test_an_order_of_the_operator_is_what_the_plugin_parses(high: int | None) -> None:
    probe = Probe(PROBE.pod, 7, high, PROBE.slices)
    order = ProbeOrder("3-1", probe, term=3, epoch=17, deadline_seconds=20.0)
    assert parse_probe(order.to_wire()) == ProbeRequest(
        fence=Fence(3, 17),
        id="3-1",
        low=7,
        high=high,
        slices=(PluginSlice(1, seconds=1.0), PluginSlice(0, seconds=0.5)),
        deadline_seconds=20.0,
    )


def test_a_probe_under_way_is_read() -> None:
    order = ProbeOrder("3-1", PROBE, term=3, epoch=17, deadline_seconds=20.0)
    running: PluginProbe = start(parse_probe(order.to_wire()), 100.0)
    state = unavailable("x")
    state["probe"] = running.to_wire()
    found = read(state).probe
    assert found is not None
    assert (found.id, found.running, found.reason) == ("3-1", True, ProbeReason.RUNNING)
    assert (found.min_batch_size, found.max_batch_size) == (7, 12)


def test_the_refusal_of_a_second_probe_has_the_name_that_the_client_knows() -> None:
    assert Reason.PROBE_RUNNING.value == ProbeRunning.__name__
    assert HTTP_STATUS[Reason.PROBE_RUNNING] == 409
