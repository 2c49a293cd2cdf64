"""How the control is attached to SGLang's scheduler, on stand-ins of the same shape."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from outrider_engine.control.verbs import (
    MEASUREMENT,
    PUT_MEASURING,
    START_PROBE,
    STATE,
)
from outrider_engine.http.termination_message import TERMINATION_LOG_VARIABLE
from outrider_protocol.control_api import Reason, Refusal, Slice
from outrider_protocol.cost_model import launch_revision
from outrider_protocol.schedule import Schedule
from outrider_sglang.sglang_adapter import scheduler_process
from outrider_sglang.sglang_adapter.channel import METHOD, PAYLOAD, VERB
from outrider_sglang.sglang_adapter.launch_facts import OPEN_ROUTE_VARIABLE, SIMULATED_VARIABLE
from outrider_sglang.sglang_adapter.scheduler_process import LookupOrder, rank_of
from tests.unit.engine_plugin.factories import a_cost_model, a_probe, a_push
from tests.unit.sglang_plugin import fake_sglang
from tests.unit.sglang_plugin.engine import Engine
from tests.unit.sglang_plugin.fake_sglang import CANDIDATES, MAX_RUNNING, Request


def reason(engine: Engine) -> str:
    found: str = engine.ask(STATE)["liveTuning"]["reason"]
    return found


# K of a round.


def test_the_static_schedule_is_in_force_in_the_first_round() -> None:
    engine = Engine()
    assert engine.round(Request("a"), accepted=[1]) == 1
    assert engine.round(Request("a"), Request("b"), Request("c"), accepted=[0, 0, 0]) == 0


def test_a_push_is_in_force_in_the_next_round_up_and_down() -> None:
    engine, request = Engine(), Request("a")
    state = engine.put(3, epoch=1)
    assert (state["source"], state["schedule"]) == ("Pushed", [{"numSpeculativeTokens": 3}])
    assert engine.round(request, accepted=[2]) == 3
    engine.put(0, epoch=2)
    assert engine.round(request, accepted=[0]) == 0


def test_no_k_without_a_state_of_sglang_is_ever_in_force() -> None:
    engine = Engine()
    with pytest.raises(Refusal) as refused:
        engine.put(2)
    assert refused.value.reason is Reason.NOT_CAPTURED
    assert engine.round(Request("a"), accepted=[1]) in CANDIDATES


def test_a_batch_beyond_the_limit_gets_the_k_of_the_largest() -> None:
    engine = Engine()
    engine.put(3)
    requests = [Request(str(number)) for number in range(MAX_RUNNING + 2)]
    assert engine.round(*requests, accepted=[1] * len(requests)) == 3


def test_the_policy_of_sglang_learns_nothing_and_changes_nothing() -> None:
    engine = Engine()
    engine.put(3)
    engine.round(Request("a"), accepted=[0])
    policy = engine.worker.adaptive_controller
    assert (policy.estimate, policy.on_verify_complete([0], 1)) == ([], None)


def test_a_lease_ends_before_the_next_round() -> None:
    engine = Engine()
    engine.put(3, lease_seconds=1e-9)
    assert engine.round(Request("a"), accepted=[0]) == 1
    assert engine.ask(STATE)["source"] == "Fallback"


def test_with_a_cost_model_the_fast_loop_chooses_k() -> None:
    engine, request = Engine(), Request("a")
    revision = launch_revision("eagle3", MAX_RUNNING, 3)
    model = a_cost_model(candidates=CANDIDATES, revision=revision, max_k=3, per_draft=1e-5)
    state = engine.push(a_push(table=Schedule.constant(1), cost_model=model))
    assert state["fastLoop"]["active"]
    chosen = [engine.round(request, accepted=[engine.worker.speculative_num_steps]) for _ in range(40)]
    assert chosen[-1] == 3, "drafts that cost nothing and are accepted make it draft more"
    assert engine.ask(STATE)["fastLoop"]["steps"]


# Several ranks.


def test_a_follower_takes_the_lookup_of_the_leader_when_the_leader_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributed: Any = sys.modules["torch"].distributed
    engine = Engine()
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    distributed.get_world_size = lambda: 2
    distributed.get_rank = lambda: 1
    follower = rank_of(engine.scheduler)
    distributed.get_rank = lambda: 0
    leader = scheduler_process._process.rank = rank_of(engine.scheduler)
    assert follower.order() is None
    assert follower.steps(1) == leader.steps(1) == max(CANDIDATES), "until the first order"
    order = leader.order()
    assert order is not None
    assert leader.steps(1) == max(CANDIDATES), "what the follower has not got is not in force"
    assert leader.order() is None, "each lookup travels once"
    for rank in (leader, follower):
        order.reach(rank.scheduler)
    assert [rank.steps(size) for rank in (leader, follower) for size in (1, 3)] == [1, 0, 1, 0]


def test_an_order_reaches_no_code_of_sglang() -> None:
    engine = Engine()
    assert engine.ingest(LookupOrder([0, *[3] * MAX_RUNNING]), "a request") == ["a request"]
    assert engine.round(Request("a"), accepted=[1]) == 3


def test_with_several_ranks_the_fast_loop_is_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed: Any = sys.modules["torch"].distributed
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    distributed.get_world_size, distributed.get_rank = lambda: 2, lambda: 0
    state = Engine().ask(STATE)
    assert state["liveTuning"]["possible"]
    assert "tensor-parallel" in state["fastLoop"]["reason"]


# Counts.


def test_drafts_are_counted_by_position_under_the_k_of_their_round() -> None:
    engine = Engine()
    engine.put(3)
    engine.round(Request("a"), Request("b"), accepted=[2, 0])
    cell = engine.cells()[2, 3]
    assert (cell["draftTokens"], cell["acceptedTokens"]) == ([2, 2, 2], [1, 1, 0])
    assert (cell["steps"], cell["scheduledRequests"], cell["emittedTokens"]) == (1, 2, 4)
    assert cell["contextTokens"] == 20


def test_where_rounds_overlap_a_result_counts_under_the_k_of_its_launch() -> None:
    engine, request = Engine(), Request("a")
    engine.put(3, epoch=1)
    first = engine.launch(request)
    engine.put(1, epoch=2)
    second = engine.launch(request)
    engine.finish(first, [3])
    engine.finish(second, [1])
    found = {k: cell["acceptedTokens"] for (_, k), cell in engine.cells().items()}
    assert found == {3: [1, 1, 1], 1: [1, 0, 0]}


def test_a_request_that_has_ended_drafts_nothing_that_counts() -> None:
    engine, done, live = Engine(), Request("a"), Request("b")
    engine.put(3)
    launched = engine.launch(done, live)
    done.ended = True
    engine.finish(launched, [3, 1])
    cell = engine.cells()[2, 3]
    assert (cell["draftTokens"], cell["acceptedTokens"]) == ([1, 1, 1], [1, 0, 0])
    assert cell["emittedTokens"] == 2


def test_tokens_beyond_the_end_of_an_answer_are_not_emitted() -> None:
    engine, request = Engine(), Request("a")
    engine.put(3)
    launched = engine.launch(request)
    request.finished_len = 2
    engine.finish(launched, [3])
    assert engine.cells()[1, 3]["emittedTokens"] == 2


def test_a_batch_of_prompts_belongs_to_no_k() -> None:
    engine = Engine()
    engine.finish(engine.launch(Request("a"), Request("b"), prompts=20))
    assert {key: cell["prefillTokens"] for key, cell in engine.cells().items()} == {(2, None): 20}


def test_a_probe_runs_its_parts_and_ends() -> None:
    engine, request = Engine(), Request("a")
    engine.put(0)
    probe = a_probe(Slice(3, steps=2), Slice(1, steps=2), low=1, high=1)
    engine.ask(START_PROBE, probe.to_wire())
    assert [engine.round(request, accepted=[0]) for _ in range(5)] == [3, 3, 1, 1, 0]
    assert engine.ask(STATE)["probe"]["reason"] == "Completed"


def test_counting_can_pause() -> None:
    engine = Engine()
    engine.ask(PUT_MEASURING, payload=False)
    engine.round(Request("a"), accepted=[0])
    assert engine.cells() == {}


def test_an_engine_with_one_k_is_counted_and_not_tuned() -> None:
    engine = Engine(None, speculative_algorithm="STANDALONE")
    engine.finish(engine.launch(Request("a")), [2])
    assert engine.cells()[1, 3]["acceptedTokens"] == [1, 1, 0]
    assert "no adaptive mode for method draft_model" in reason(engine)


def test_drafts_of_another_shape_than_a_chain_are_not_counted() -> None:
    engine = Engine(None, speculative_algorithm="NGRAM")
    engine.finish(engine.launch(Request("a")), [2])
    assert engine.cells() == {}


# Engines that cannot be tuned, and faults.


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"dp_size": 2}, "data-parallel ranks is not tested"),
        ({"pp_size": 2}, "only the last pipeline stage"),
        ({"disaggregation_mode": "decode"}, "prefill and decode apart"),
        ({"speculative_algorithm": None}, "without speculation"),
    ],
)
def test_a_launch_that_cannot_be_tuned_says_why(arguments: dict[str, Any], why: str) -> None:
    engine = Engine(**arguments)
    assert why in reason(engine)
    with pytest.raises(Refusal) as refused:
        engine.put(1)
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_where_sglang_has_turned_its_adaptive_mode_off_the_state_says_where_to_look() -> None:
    assert "SGLang's log says at the start why" in reason(Engine(None))


def test_a_release_that_was_not_checked_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_sglang.install(monkeypatch, version="0.6.0")
    assert reason(Engine()).startswith("SGLang 0.6.0 was not checked")


@pytest.mark.parametrize("name", ["get_steps_for_batch", "run_batch", "run_event_loop"])
def test_a_release_without_a_seam_names_it_and_serves(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fake_sglang.install(monkeypatch, without=[name])
    engine = Engine()
    found = engine.ask(MEASUREMENT)
    assert (found["hookFailures"], found["state"]["liveTuning"]["possible"]) == (1, False)
    assert f"{name}, by which the plugin changes K" in found["state"]["liveTuning"]["reason"]
    assert any(name in problem for problem in found["state"]["problems"])


def test_a_scheduler_of_another_shape_serves_without_control() -> None:
    engine = Engine(dp_size="two")
    assert "ValueError" in reason(engine)
    assert engine.round(Request("a"), accepted=[0]) == max(CANDIDATES), "SGLang's own policy decides"


def test_a_fault_while_counting_costs_the_counting_alone() -> None:
    engine = Engine()
    engine.put(3)
    launched = engine.launch(Request("a"))
    launched[1].num_correct_drafts_per_req_cpu = None
    engine.scheduler.waiting_queue = None
    engine.scheduler.running_batch = None
    engine.finish(launched, [1])
    found = engine.ask(MEASUREMENT)
    assert (found["hookFailures"], found["state"]["liveTuning"]["possible"]) == (1, True)
    engine.scheduler.waiting_queue = []
    assert engine.round(Request("a"), accepted=[1]) == 3


def test_an_open_route_of_the_channel_ends_live_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPEN_ROUTE_VARIABLE, "reuse")
    engine = Engine()
    assert OPEN_ROUTE_VARIABLE in reason(engine)
    with pytest.raises(Refusal) as refused:
        engine.ask(START_PROBE, a_probe(low=1, high=1).to_wire())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_a_verb_that_is_not_known_is_answered() -> None:
    output = Engine().send(METHOD, {VERB: "sing", PAYLOAD: None})
    assert (output.success, output.error) == (False, "KeyError: 'sing'")


def test_requests_of_the_debugging_tool_reach_it() -> None:
    assert Engine().send("dump", {}).error == "no dump"


def test_what_ends_the_scheduler_is_left_for_kubernetes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(log))
    with pytest.raises(RuntimeError):
        Engine().scheduler.run_event_loop()
    assert log.read_text() == "RuntimeError: out of memory\n"


# The state.


def test_the_state_names_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIMULATED_VARIABLE, "H100")
    state = Engine(speculative_algorithm="NEXTN").ask(STATE)
    assert (state["engineVersion"], state["method"], state["runner"]) == ("0.5.23", "mtp", None)
    assert (state["capturedK"], state["maxNumSeqs"]) == ([0, 1, 3], MAX_RUNNING)
    assert (state["simulated"], state["idleDrafter"]["skipped"]) == ("H100", False)


def test_a_process_without_a_scheduler_is_not_hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = sys.modules["sglang.srt.managers.scheduler"]
    monkeypatch.delitem(sys.modules, "sglang.srt.managers.scheduler")
    scheduler_process.attach_to_scheduler()
    assert fake_sglang.HookRegistry.hooks == {}
    assert not hasattr(scheduler.Scheduler.run_batch, "__wrapped__")
