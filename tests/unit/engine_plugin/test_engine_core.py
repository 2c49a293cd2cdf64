"""How the control is attached to vLLM's classes, on stand-ins of the same shape."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.settings import MEASURE_VARIABLE
from outrider_engine.control.verbs import (
    BEGIN_PROFILE,
    BEGIN_SELF_TEST,
    END_SELF_TEST,
    LONGEST_STEP_SECONDS,
    MEASUREMENT,
    PUT_MEASURING,
    PUT_SCHEDULE,
    START_PROBE,
    STATE,
    VISITING,
    PushPayload,
)
from outrider_engine.counting.measure import MAX_WAITING
from outrider_engine.idle_drafter.drafter_skip import SKIP, DrafterOrder
from outrider_engine.plugin import register
from outrider_engine.vllm_adapter.engine_config import facts_of
from outrider_engine.vllm_adapter.scheduler import ORDER
from outrider_protocol.control_api import Push, Reason, Refusal, Slice
from outrider_protocol.environment import CANDIDATES_VARIABLE, K0_VARIABLE, STATIC_SCHEDULE_VARIABLE
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin import fake_vllm
from tests.unit.engine_plugin.factories import (
    LAUNCHED,
    MAX_NUM_SEQS,
    STATIC,
    a_cost_model,
    a_probe,
    a_push,
)
from tests.unit.engine_plugin.fake_vllm import (
    CUDAGraphMode,
    Engine,
    Plan,
    a_drafter,
    a_speculation,
    decoding,
    prompts,
    some_config,
)

pytestmark = pytest.mark.usefixtures("vllm", "static_schedule")


def put(engine: Engine, push: Push, fault: str | None = None) -> Any:
    return engine.ask(PUT_SCHEDULE, PushPayload(push=push.to_wire(), costModelFault=fault))


def test_the_static_table_is_in_force_at_the_first_step() -> None:
    assert Engine(some_config()).lookup() == list(STATIC.dense(MAX_NUM_SEQS))


def test_an_engine_launched_without_a_table_gets_one_for_its_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CANDIDATES_VARIABLE, "0,2,5")
    engine = Engine(some_config(), launched=None)
    assert engine.lookup() == list(STATIC.dense(MAX_NUM_SEQS))
    found = engine.ask(STATE)
    assert (found["capturedK"], found["liveTuning"]["possible"]) == ([0, 2, 5], True)


def test_a_table_of_the_launch_is_kept_whatever_the_candidates_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CANDIDATES_VARIABLE, "0,2,5")
    found = Engine(some_config()).ask(STATE)
    assert found["capturedK"] == [0, 1, 2, 3, 5]


def test_candidates_of_another_launch_leave_the_engine_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CANDIDATES_VARIABLE, "0,3")
    engine = Engine(some_config(), launched=None)
    assert engine.lookup() is None
    assert "OUTRIDER_CANDIDATES=0,3" in engine.ask(STATE)["liveTuning"]["reason"]


@pytest.mark.parametrize(
    ("several", "why"), [(False, None), (True, "a drafter of several modules cannot catch up")]
)
def test_on_v2_several_prediction_modules_run_in_every_step(several: bool, why: str | None) -> None:
    speculation = SimpleNamespace(
        method="mtp",
        num_speculative_tokens=5,
        parallel_drafting=False,
        use_multi_module_mtp=lambda: several,
        draft_model_config=a_drafter(),
    )
    engine = Engine(some_config(speculative_config=speculation, use_v2_model_runner=True))
    state = engine.ask(STATE)
    assert state["liveTuning"]["possible"], "K is at least the verification width"
    assert state["idleDrafter"] == {"skipped": why is None, "reason": why}


def test_the_utility_methods_set_and_report_the_table() -> None:
    engine = Engine(some_config())
    put(engine, a_push(term=2, epoch=3))
    found = engine.ask(STATE)
    assert (found["term"], found["epoch"], found["schedule"]) == (2, 3, [{"numSpeculativeTokens": 3}])
    assert (found["engineVersion"], found["method"], found["runner"]) == ("0.32.0", "draft_model", "V1")
    assert engine.lookup() == [0] + [3] * MAX_NUM_SEQS


@pytest.mark.parametrize(
    ("mode", "found"), [(CUDAGraphMode.PIECEWISE, "PIECEWISE"), (CUDAGraphMode.NONE, None)]
)
def test_the_state_names_the_cuda_graphs(mode: CUDAGraphMode, found: str | None) -> None:
    engine = Engine(some_config(compilation_config=SimpleNamespace(cudagraph_mode=mode)))
    assert engine.ask(STATE)["cudaGraphs"] == found


def test_a_refusal_is_an_answer_and_no_exception() -> None:
    engine = Engine(some_config())
    put(engine, a_push(epoch=2))
    stale = PushPayload(push=a_push(epoch=1).to_wire(), costModelFault=None)
    assert engine.core.outrider_run(PUT_SCHEDULE.name, stale)["error"]["reason"] == "StaleEpoch"
    malformed = PushPayload(push={}, costModelFault=None)
    assert engine.core.outrider_run(PUT_SCHEDULE.name, malformed)["error"]["reason"] == "Malformed"


def test_arguments_and_result_of_a_step_pass_through() -> None:
    engine = Engine(some_config())
    plan = decoding("a")
    assert engine.core.scheduler.schedule(plan).throttled is False
    scheduled = engine.core.scheduler.schedule(plan, True)
    assert scheduled.throttled is True
    result = engine.core.scheduler.update_from_output(scheduled, plan)
    assert [len(output.new_token_ids) for output in result[0].outputs] == [1]


def test_every_step_lets_the_lease_lapse_before_it_looks_up_k(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(some_config())
    scheduler = engine.core.scheduler
    marked = [0] + [2] * MAX_NUM_SEQS
    monkeypatch.setattr(
        EngineCoreControl, "before_schedule", lambda _self: setattr(scheduler, "dynamic_sd_lookup", marked)
    )
    assert engine.lookup() == marked


def test_attaching_twice_wraps_once() -> None:
    engine = Engine(some_config())
    before = dict(vars(engine.scheduler_class))
    engine.attach()
    assert dict(vars(engine.scheduler_class)) == before


def test_an_engine_of_another_shape_serves_and_says_why_it_has_no_control() -> None:
    engine = Engine(SimpleNamespace())
    assert engine.lookup() == list(LAUNCHED)
    found = engine.ask(STATE)
    assert not found["liveTuning"]["possible"]
    assert "AttributeError" in found["liveTuning"]["reason"]
    with pytest.raises(Refusal) as refused:
        put(engine, a_push())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_a_scheduler_of_another_class_serves_and_has_no_control() -> None:
    engine = Engine(some_config())
    engine.core.scheduler = SimpleNamespace(dynamic_sd_lookup=None)
    assert not engine.ask(STATE)["liveTuning"]["possible"]


def test_a_static_file_that_is_no_json_is_reported(static_schedule: Path) -> None:
    static_schedule.write_text("{")
    engine = Engine(some_config())
    assert engine.lookup() == [0] * (MAX_NUM_SEQS + 1)
    assert engine.ask(STATE)["problems"]


def test_no_static_file_leaves_the_launch_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATIC_SCHEDULE_VARIABLE)
    assert Engine(some_config()).lookup() == list(LAUNCHED)


def test_an_engine_without_speculation_says_so() -> None:
    engine = Engine(some_config(speculative_config=None))
    found = engine.ask(STATE)
    assert (found["method"], found["numSpeculativeTokens"]) == (None, 0)
    assert "without speculation" in found["liveTuning"]["reason"]


@pytest.mark.parametrize(
    ("extra", "found"), [({"simulated": "an H100"}, "an H100"), ({}, None), (Ellipsis, None)], ids=str
)
def test_an_engine_that_computes_nothing_says_so(extra: object, found: str | None) -> None:
    engine = Engine(some_config(additional_config=extra))
    assert engine.ask(STATE)["simulated"] == found


def test_registering_in_a_vllm_without_these_classes_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    register()
    assert "cannot be controlled" in caplog.text


# Measurement


def cells(engine: Engine) -> dict[tuple[int, int | None], Any]:
    found = engine.ask(MEASUREMENT)["cells"]
    return {(cell["minBatchSize"], cell["numSpeculativeTokens"]): cell for cell in found}


def test_a_step_is_counted_with_its_tokens_and_drafts() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(3)))
    engine.step(prompts("a", "b", tokens=50))
    engine.step(decoding("a", "b", drafts=3, accepted=1, context=50))
    ((key, cell),) = cells(engine).items()
    assert key == (2, 3)
    assert (cell["steps"], cell["scheduledRequests"], cell["emittedTokens"]) == (2, 4, 2 + 4)
    assert (cell["prefillTokens"], cell["contextTokens"]) == (100, 100)
    assert cell["draftTokens"] == [2, 2, 2, 0, 0]
    assert cell["acceptedTokens"] == [2, 0, 0, 0, 0]


def verifying_adaptively(**overrides: object) -> Any:
    config = some_config(use_v2_model_runner=True, **overrides)
    config.speculative_config.method = "eagle3"
    config.speculative_config.enable_adaptive_verification = True
    return config


def test_trimmed_drafts_are_neither_verified_nor_rejected() -> None:
    engine = Engine(verifying_adaptively())
    put(engine, a_push(table=Schedule.constant(3)))
    engine.step(decoding("a", "b", drafts=3, accepted=1, outrider_verified=[1, 2]))
    (cell,) = cells(engine).values()
    assert cell["draftTokens"] == [2, 1, 0, 0, 0]
    assert cell["trimmedTokens"] == [0, 1, 2, 0, 0]
    assert cell["acceptedTokens"] == [2, 0, 0, 0, 0]
    assert engine.ask(STATE)["verification"]["trimmedDraftsCounted"]


def test_drafts_of_a_request_that_was_aborted_are_not_trimmed() -> None:
    engine = Engine(verifying_adaptively())
    put(engine, a_push(table=Schedule.constant(3)))
    engine.step(decoding("a", "b", drafts=3, accepted=0, outrider_verified=[2, 0], aborted=["b"]))
    (cell,) = cells(engine).values()
    assert (cell["draftTokens"], cell["trimmedTokens"]) == ([1, 1, 0, 0, 0], [0, 0, 1, 0, 0])


def test_a_step_without_drafts_needs_nothing_of_the_worker() -> None:
    engine = Engine(verifying_adaptively())
    engine.step(prompts("a"))
    assert engine.ask(STATE)["verification"]["trimmedDraftsCounted"]


def test_where_trimmed_drafts_are_not_reported_the_schedule_stays() -> None:
    engine = Engine(verifying_adaptively())
    put(engine, a_push(table=Schedule.constant(3), cost_model=a_cost_model()))
    engine.step(decoding("a", drafts=3, accepted=1))
    found = engine.ask(STATE)
    assert found["verification"]["trimmedDraftsCounted"] is False
    assert found["liveTuning"] == {"possible": False, "reason": found["verification"]["reason"]}
    assert not found["fastLoop"]["active"]
    assert (found["measuring"], found["problems"]) == (True, [])
    (cell,) = cells(engine).values()
    assert (cell["draftTokens"], cell["trimmedTokens"]) == ([1, 1, 1, 0, 0], [0] * 5)
    with pytest.raises(Refusal) as refused:
        put(engine, a_push(epoch=2))
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_with_adaptive_verification_no_startup_profile_is_measured() -> None:
    engine = Engine(verifying_adaptively())
    assert engine.ask(BEGIN_PROFILE, 20.0) == []
    found = engine.ask(STATE)["startupProfile"]
    assert found["state"] == "Skipped"
    assert "adaptive verification" in found["detail"]


def test_a_pause_of_the_counting_leaves_no_drafts_behind() -> None:
    engine = Engine(verifying_adaptively())
    engine.ask(PUT_MEASURING, False)
    engine.step(decoding("a", drafts=3, outrider_verified=[0]))
    engine.ask(PUT_MEASURING, True)
    engine.step(decoding("b", drafts=2, outrider_verified=[1]))
    (cell,) = cells(engine).values()
    assert (cell["draftTokens"], cell["trimmedTokens"]) == ([1, 0, 0, 0, 0], [0, 1, 0, 0, 0])


def test_drafts_that_vllm_counts_in_another_way_end_the_counting_and_not_the_step() -> None:
    engine = Engine(verifying_adaptively())
    engine.core.scheduler.make_spec_decoding_stats(None, name="a")
    found = engine.ask(STATE)
    assert (found["measuring"], found["liveTuning"]["possible"]) == (False, True)


def test_the_fast_loop_credits_a_draft_with_what_was_accepted_of_all_that_was_drafted() -> None:
    """The verified ones are those that promised most."""
    engine = Engine(verifying_adaptively())
    put(engine, a_push(table=Schedule.constant(5), cost_model=a_cost_model(revision="eagle3/16/5")))
    k = engine.step(prompts("a", "b")).num_spec_tokens_to_schedule
    for _ in range(200):
        plan = decoding("a", "b", drafts=k, accepted=0, outrider_verified=[0, 0])
        k = engine.step(plan).num_spec_tokens_to_schedule
    assert engine.ask(STATE)["fastLoop"]["numSpeculativeTokens"] == 0


def test_a_prompt_in_pieces_is_counted_as_it_is_computed() -> None:
    engine = Engine(some_config())
    engine.step(prompts("a", tokens=50))
    engine.step(Plan(tokens={"a": 30}, computed={"a": 50}, outputs={"a": 0}, emitted={"a": 1}))
    assert sum(cell["prefillTokens"] for cell in cells(engine).values()) == 80


def test_a_last_piece_of_one_token_is_a_prompt_too() -> None:
    engine = Engine(some_config())
    engine.step(Plan(tokens={"a": 1}, computed={"a": 50}, outputs={"a": 0}, emitted={"a": 1}))
    assert sum(cell["prefillTokens"] for cell in cells(engine).values()) == 1


def test_what_a_preempted_request_computes_again_is_counted_as_prefill() -> None:
    engine = Engine(some_config())
    again = Plan(
        tokens={"a": 57, "b": 4}, computed={"a": 0, "b": 9}, outputs={"a": 7, "b": 7}, drafts={"b": 3}
    )
    engine.step(again)
    assert sum(cell["prefillTokens"] for cell in cells(engine).values()) == 57


def test_an_empty_step_is_not_counted() -> None:
    engine = Engine(some_config())
    engine.step(Plan(tokens={}, gone=["a"]))
    assert cells(engine) == {}


def test_steps_that_are_scheduled_ahead_are_counted_in_their_own_cells() -> None:
    engine = Engine(some_config())
    scheduler = engine.core.scheduler
    plans = [prompts("a"), decoding("a", drafts=0), decoding("a", "b", drafts=0)]
    first = scheduler.schedule(plans[0])
    second = scheduler.schedule(plans[1])
    scheduler.update_from_output(first, plans[0])
    third = scheduler.schedule(plans[2])
    scheduler.update_from_output(second, plans[1])
    scheduler.update_from_output(third, plans[2])
    sizes = {low: cell["steps"] for (low, _), cell in cells(engine).items()}
    assert sizes == {1: 2, 2: 1}


def test_a_probe_is_driven_by_the_steps() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(3)))
    engine.step(decoding("a", drafts=3))
    answer = engine.ask(START_PROBE, a_probe(Slice(5, steps=2), low=1, high=1).to_wire())
    assert answer["probe"]["running"]
    ks = [engine.step(decoding("a", drafts=3)).num_spec_tokens_to_schedule for _ in range(4)]
    assert ks == [5, 5, 3, 3]
    probe = engine.ask(STATE)["probe"]
    assert (probe["reason"], probe["results"][0]["steps"]) == ("Completed", 1)


def test_the_fast_loop_follows_the_drafts_step_by_step() -> None:
    """A draft costs little, and then all of them are refused."""
    engine = Engine(some_config())
    answer = put(engine, a_push(table=Schedule.constant(5), cost_model=a_cost_model()))
    assert answer["fastLoop"]["active"]
    first = engine.step(prompts("a", "b")).num_spec_tokens_to_schedule
    assert first > 0
    ks = [first]
    for _ in range(200):
        drafts = ks[-1]
        ks.append(engine.step(decoding("a", "b", drafts=drafts)).num_spec_tokens_to_schedule)
    wire = engine.ask(STATE)["fastLoop"]
    assert wire["numSpeculativeTokens"] == 0
    assert ks.count(0) > 100
    assert sum(row["steps"] for row in wire["steps"]) == len(ks)
    assert engine.ask(STATE)["schedule"] == [{"numSpeculativeTokens": 5}]


def test_a_probe_is_exact_while_the_fast_loop_chooses() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(3), cost_model=a_cost_model(max_k=1)))
    engine.ask(START_PROBE, a_probe(Slice(5, steps=4), low=1, high=1).to_wire())
    ks = [engine.step(decoding("a", drafts=5)).num_spec_tokens_to_schedule for _ in range(6)]
    assert ks[:4] == [5] * 4
    assert max(ks[4:]) <= 1
    probe = engine.ask(STATE)["probe"]
    assert (probe["reason"], probe["results"][0]["steps"]) == ("Completed", 4)


def test_the_time_of_the_fast_loop_is_part_of_that_of_the_hooks() -> None:
    engine = Engine(some_config())
    put(engine, a_push(cost_model=a_cost_model()))
    for _ in range(10):
        engine.step(decoding("a", drafts=3))
    found = engine.ask(MEASUREMENT)
    assert 0 < found["state"]["fastLoop"]["hookSeconds"] < found["hookSeconds"]


def test_a_cost_model_that_the_server_could_not_read_is_reported_by_the_core() -> None:
    engine = Engine(some_config())
    answer = put(engine, a_push(), "stepSeconds must be finite")
    wire = answer["fastLoop"]
    assert (wire["active"], wire["inactiveReason"]) == (False, "Refused")
    assert wire["inactiveDetail"] == "stepSeconds must be finite"
    assert engine.lookup() == [0] + [3] * MAX_NUM_SEQS


def test_an_output_of_another_shape_ends_the_fast_loop_and_not_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(some_config())
    put(engine, a_push(cost_model=a_cost_model()))
    monkeypatch.setattr(fake_vllm, "scheduler_output", lambda *_: "another shape")
    assert engine.core.scheduler.schedule(decoding("a")) == "another shape"
    found = engine.ask(STATE)
    assert not found["fastLoop"]["possible"]
    assert found["liveTuning"]["possible"]


def test_the_longest_step_has_a_verb_of_its_own() -> None:
    engine = Engine(some_config())
    engine.step(prompts("a"))
    found = engine.ask(LONGEST_STEP_SECONDS)
    assert found == engine.ask(MEASUREMENT)["longestStepSeconds"] > 0


def test_a_fault_in_the_measuring_hook_ends_the_measuring_and_nothing_else() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(3)))
    engine.core.scheduler.has_unfinished_requests = None
    plan = decoding("a")
    result = engine.core.scheduler.update_from_output(engine.core.scheduler.schedule(plan), plan)
    assert len(result[0].outputs) == 1
    found = engine.ask(STATE)
    assert (found["measuring"], found["liveTuning"]["possible"]) == (False, True)
    assert any("TypeError" in problem for problem in found["problems"])
    assert engine.lookup() == [0] + [3] * MAX_NUM_SEQS
    assert engine.ask(MEASUREMENT)["hookFailures"] == 1


def test_a_scheduler_output_of_another_shape_ends_the_measuring_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(some_config())
    monkeypatch.setattr(fake_vllm, "scheduler_output", lambda *_: "another shape")
    assert engine.core.scheduler.schedule(decoding("a")) == "another shape"
    found = engine.ask(STATE)
    assert (found["measuring"], found["liveTuning"]["possible"]) == (False, True)


def test_measuring_can_be_off_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEASURE_VARIABLE, "0")
    engine = Engine(some_config())
    engine.step(prompts("a"))
    assert cells(engine) == {}
    engine.ask(PUT_MEASURING, True)
    engine.step(prompts("b"))
    assert len(cells(engine)) == 1


def test_without_the_statistics_of_vllm_steps_are_not_counted() -> None:
    engine = Engine(some_config(), log_stats=False)
    engine.step(prompts("a"))
    assert not engine.ask(STATE)["measuring"]
    with pytest.raises(Refusal) as refused:
        engine.ask(PUT_MEASURING, True)
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_a_scheduler_without_control_has_an_empty_measurement() -> None:
    engine = Engine(some_config())
    engine.core.scheduler = SimpleNamespace()
    assert engine.ask(MEASUREMENT)["cells"] == []
    assert engine.ask(LONGEST_STEP_SECONDS) == 0
    assert engine.ask(BEGIN_SELF_TEST) == engine.ask(BEGIN_PROFILE, 20.0) == []
    assert not engine.ask(VISITING)
    engine.ask(END_SELF_TEST, "no control")


# When steps are counted.


def counted(engine: Engine) -> int:
    """Steps that the meter knows of, without asking the engine."""
    control: EngineCoreControl = engine.core.scheduler._outrider_hooks.control
    assert control.meter is not None
    return sum(cell["steps"] for cell in control.meter.sums())


def test_steps_are_counted_some_at_a_time() -> None:
    engine = Engine(some_config())
    known = []
    for _ in range(MAX_WAITING):
        engine.step(decoding("a"))
        known.append(counted(engine))
    assert set(known) == {0, MAX_WAITING // 2, MAX_WAITING}


def test_an_answer_counts_every_step() -> None:
    engine = Engine(some_config())
    engine.step(decoding("a"))
    assert [cell["steps"] for cell in engine.ask(MEASUREMENT)["cells"]] == [1]


def test_while_a_probe_runs_each_step_is_counted_at_once() -> None:
    engine = Engine(some_config())
    put(engine, a_push())
    engine.step(decoding("a"))
    probe = a_probe(Slice(5, steps=9), low=1, high=1)
    engine.ask(START_PROBE, probe.to_wire())
    known = []
    for _ in range(3):
        engine.step(decoding("a"))
        known.append(counted(engine))
    assert known == [2, 3, 4]


# The drafter.


def orders(engine: Engine, *plans: Plan) -> list[Any]:
    return [getattr(engine.step(plan), ORDER, None) for plan in plans]


def test_with_k_0_a_step_that_only_decodes_is_ordered_to_go_without_the_drafter() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(0)))
    assert orders(engine, prompts("a"), decoding("a", context=50)) == [None, SKIP]
    put(engine, a_push(epoch=2))
    assert orders(engine, decoding("a", context=51)) == [DrafterOrder(missed={"a": (50, [50])})]
    found = engine.ask(MEASUREMENT)
    assert (found["drafterStepsSkipped"], found["drafterTokensCaughtUp"]) == (1, 1)


def test_a_step_without_the_drafter_is_not_asked_for_drafts() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(0)))
    asked = []
    for plan in (prompts("a"), decoding("a", context=50), decoding("a", context=51), prompts("b")):
        engine.step(plan)
        asked.append(engine.core.asked_for_drafts)
    assert asked == [1, 1, 1, 2]


def test_without_control_drafts_are_asked_for() -> None:
    engine = Engine(some_config())
    engine.core.scheduler = SimpleNamespace()
    engine.core.post_step(model_executed=True)
    assert engine.core.asked_for_drafts == 1


@pytest.mark.parametrize(("k0", "order"), [("Sync", None), ("Auto", SKIP), ("Skip", SKIP)])
def test_the_launch_says_whether_steps_go_without_the_drafter(
    monkeypatch: pytest.MonkeyPatch, k0: str, order: DrafterOrder | None
) -> None:
    monkeypatch.setenv(K0_VARIABLE, k0)
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(0)))
    assert orders(engine, decoding("a")) == [order]


def test_a_fault_of_the_drafters_hook_ends_the_hook_and_not_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(0)))
    monkeypatch.delattr(engine.core.scheduler.kv_cache_manager, "get_block_ids")
    assert orders(engine, decoding("a"), decoding("a")) == [None, None]
    found = engine.ask(MEASUREMENT)
    assert (found["hookFailures"], found["drafterStepsSkipped"]) == (1, 0)
    assert "the drafter's hook failed" in found["state"]["problems"][0]
    assert found["state"]["liveTuning"]["possible"]
    assert found["state"]["idleDrafter"]["reason"] == found["state"]["problems"][0]


def test_a_fault_in_a_worker_ends_the_skip_and_the_state_says_so() -> None:
    engine = Engine(some_config())
    put(engine, a_push(table=Schedule.constant(0)))
    fault = "ValueError: another shape"
    assert orders(engine, decoding("a"), decoding("a", outrider_drafter_fault=fault)) == [SKIP, SKIP]
    assert orders(engine, decoding("a", outrider_drafter_fault=fault)) == [None]
    found = engine.ask(MEASUREMENT)
    why = f"the drafter's hook failed: in a worker: {fault}"
    assert found["state"]["idleDrafter"] == {"skipped": False, "reason": why}
    assert (found["hookFailures"], found["state"]["problems"]) == (1, [why])


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (some_config(), {"skipped": True, "reason": None}),
        (some_config(speculative_config=None), None),
        (
            some_config(kv_transfer_config=object()),
            {"skipped": False, "reason": "other engines would get a KV cache with gaps"},
        ),
    ],
    ids=["a draft model", "no drafter", "a connector"],
)
def test_the_state_says_whether_steps_skip_the_drafter_and_why_not(config: Any, found: object) -> None:
    assert Engine(config).ask(STATE)["idleDrafter"] == found


def test_on_v2_orders_name_positions_because_workers_have_the_text() -> None:
    engine = Engine(some_config(use_v2_model_runner=True, speculative_config=a_speculation(method="eagle3")))
    put(engine, a_push(table=Schedule.constant(0)))
    engine.step(decoding("a", context=50))
    put(engine, a_push(epoch=2))
    assert orders(engine, decoding("a", context=51)) == [DrafterOrder(missed={"a": (50, range(50, 51))})]


@pytest.mark.parametrize(
    ("drafter", "changed"),
    [
        ({"get_sliding_window": lambda: 128}, "windowed_drafter"),
        ({"is_hybrid": True}, "recurrent_drafter"),
    ],
)
def test_vllm_says_what_a_drafter_cannot_catch_up_on(
    monkeypatch: pytest.MonkeyPatch, drafter: Mapping[str, object], changed: str
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.32.0"))
    config = some_config(speculative_config=a_speculation(draft_model_config=a_drafter(**drafter)))
    change: dict[str, Any] = {changed: True}
    assert facts_of(config) == replace(facts_of(some_config()), **change)


@pytest.mark.parametrize("name", ["is_hybrid", "is_attention_free", "has_inner_state"])
def test_vllm_says_whether_its_model_carries_a_state(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.29.0"))
    model = SimpleNamespace(is_multimodal_model=False, max_model_len=512)
    assert not facts_of(some_config(model_config=model)).recurrent
    setattr(model, name, True)
    assert facts_of(some_config(model_config=model)).recurrent
