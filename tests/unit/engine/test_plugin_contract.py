"""Operator and engine plugin understand each other's messages. Neither imports the other."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from outrider.api.schedule import Schedule
from outrider.engine.client import ProbeOrder, Push
from outrider.engine.errors import ProbeRunning
from outrider.engine.state import EngineState
from outrider.tuning.decision import Probe, Slice
from outrider_engine.control.fast_loop_chooser import Inactive
from outrider_engine.control.probe import Probe as PluginProbe
from outrider_engine.control.probe import ProbeReason, ProbeRequest, parse_probe, start
from outrider_engine.control.probe import Slice as PluginSlice
from outrider_engine.control.push import Fence, parse_push
from outrider_engine.control.refusal import HTTP_STATUS, Reason
from outrider_engine.control.self_test import SelfTest
from outrider_engine.control.state import State, unavailable
from tests.unit.engine_plugin.factories import FakeScheduler, a_control, a_cost_model, a_push

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


def test_a_push_of_the_operator_is_what_the_plugin_parses() -> None:
    model = a_cost_model()
    push = Push(Schedule.constant(2), term=3, epoch=17, lease_seconds=60.0, cost_model=model)
    parsed = parse_push(push.to_wire())
    assert (parsed.cost_model, parsed.cost_model_fault) == (model, None)
    assert parse_push(push.without_cost_model().to_wire()) == replace(parsed, cost_model=None)


def test_a_fast_loop_that_chooses_is_read() -> None:
    control = a_control(FakeScheduler())
    found = read(control.put(a_push(cost_model=a_cost_model()))).fast_loop
    assert found is not None
    assert (found.possible, found.active, found.revision) == (True, True, a_cost_model().revision)
    assert found.num_speculative_tokens == 3
    assert found.survival is not None


def test_a_refused_cost_model_is_read_with_its_cause() -> None:
    control = a_control(FakeScheduler())
    found = read(control.put(a_push(cost_model=a_cost_model(revision="eagle3/64/5")))).fast_loop
    assert found is not None
    assert (found.possible, found.active, found.inactive_reason) == (True, False, Inactive.REFUSED)
    assert "eagle3/64/5" in str(found.inactive_detail)


def test_an_engine_without_a_fast_loop_is_read() -> None:
    found = read(unavailable("no speculation")).fast_loop
    assert found is not None
    assert not found.possible


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
