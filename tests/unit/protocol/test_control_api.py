"""The control API between operator and plugin: its bytes, and that each side reads the other's."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from outrider.engine.errors import ProbeRunning
from outrider.engine.state import EngineState
from outrider_engine.control.probe import parse_probe, start
from outrider_engine.control.push import parse_push
from outrider_engine.control.self_test import SelfTest
from outrider_engine.control.state import unavailable
from outrider_protocol.control_api import HTTP_STATUS, Fence, ProbeOrder, Push, Reason, Slice, signed_bytes
from outrider_protocol.engine_state import Inactive, ProbeReason, State
from outrider_protocol.schedule import Row, Schedule
from tests.unit.engine_plugin.factories import FakeScheduler, a_control, a_cost_model, a_push

ORDER = ProbeOrder(Fence(3, 17), "3-1", 7, 12, (Slice(1, 1.0), Slice(0, 0.5)), deadline_seconds=20.0)


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
    push = Push(Fence(3, 17), Schedule.constant(2), 60.0, model)
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
    order = replace(ORDER, high=high)
    assert parse_probe(order.to_wire()) == order


def test_a_probe_under_way_is_read() -> None:
    running = start(parse_probe(ORDER.to_wire()), 100.0)
    state = unavailable("x")
    state["probe"] = running.to_wire()
    found = read(state).probe
    assert found is not None
    assert (found.id, found.running, found.reason) == ("3-1", True, ProbeReason.RUNNING)
    assert (found.min_batch_size, found.max_batch_size) == (7, 12)


def test_the_refusal_of_a_second_probe_has_the_name_that_the_client_knows() -> None:
    assert Reason.PROBE_RUNNING.value == ProbeRunning.__name__
    assert HTTP_STATUS[Reason.PROBE_RUNNING] == 409


def test_the_bytes_of_a_push() -> None:
    """Engines and operators of other versions read and sign these."""
    schedule = Schedule((Row(8, 3), Row(None, 0)))
    assert json.dumps(Push(Fence(3, 17), schedule, 60.0).to_wire()) == (
        '{"term": 3, "epoch": 17, "schedule": [{"maxBatchSize": 8, "numSpeculativeTokens": 3}, '
        '{"numSpeculativeTokens": 0}], "leaseSeconds": 60.0}'
    )


def test_the_bytes_of_a_probe() -> None:
    assert json.dumps(ORDER.to_wire()) == (
        '{"id": "3-1", "term": 3, "epoch": 17, "minBatchSize": 7, "maxBatchSize": 12, "slices": '
        '[{"numSpeculativeTokens": 1, "seconds": 1.0}, {"numSpeculativeTokens": 0, "seconds": 0.5}], '
        '"deadlineSeconds": 20.0}'
    )


def test_the_bytes_that_are_signed() -> None:
    digest = hashlib.sha256(b"{}").hexdigest().encode()
    assert signed_bytes(method="PUT", path="/outrider/v1/schedule", pod_uid="u-1", body=b"{}") == (
        b"18:outrider-control-1,3:PUT,21:/outrider/v1/schedule,3:u-1,64:" + digest + b","
    )


def test_the_operator_reads_only_fields_that_engines_write() -> None:
    read = {field.alias or name for name, field in EngineState.model_fields.items()}
    assert read <= set(State.__annotations__)
