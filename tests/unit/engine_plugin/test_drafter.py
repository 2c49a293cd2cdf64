"""How an order reaches the drafter, on stand-ins of the shape of vLLM's runner and proposer.

What the drafter does with real tensors is for the contract tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.idle_drafter.drafter_skip import DrafterOrder
from outrider_engine.idle_drafter.kv_backfill import Run, parts
from outrider_engine.vllm_adapter import drafter
from outrider_engine.vllm_adapter.drafter import Drafter, attach
from outrider_engine.vllm_adapter.drafter_fault import FAULT
from outrider_engine.vllm_adapter.scheduler import ORDER

SKIP = DrafterOrder(skip=True)
MISSED = {"b": (7, [1, 2])}
READ = DrafterOrder(missed=MISSED)

STATES, LAYERS = "the target's hidden states", ["of its first layer", "of its last"]


class Worker:
    """A runner with its drafter.

    calls: the K of each of the drafter's passes. prepared: how often the runner prepared its inputs.
    """

    def __init__(self, *, use_async_scheduling: bool) -> None:
        calls: list[int] = []
        self.prepared = 0
        worker = self

        class Proposer:
            pass_hidden_states_to_model = True
            _draft_attn_layer_names = frozenset({"first", "last"})
            vllm_config = None

            def propose(self, num_speculative_tokens: int, **_: Any) -> str:
                calls.append(num_speculative_tokens)
                return "drafts"

        class Runner:
            def __init__(self) -> None:
                self.drafter = Proposer()
                self.input_batch = SimpleNamespace(req_id_to_index={"a": 0, "b": 1})
                self.use_async_scheduling = use_async_scheduling
                self.use_aux_hidden_state_outputs = False

            def get_model(self) -> object:
                return object()

            def sample_tokens(self, grammar_output: object) -> Any:  # noqa: ARG002
                output = SimpleNamespace()
                return SimpleNamespace(get_output=lambda: output) if use_async_scheduling else output

            def propose_draft_token_ids(
                self,
                scheduler_output: Any,
                hidden_states: object,  # noqa: ARG002
                aux_hidden_states: object,  # noqa: ARG002
                common_attn_metadata: object,  # noqa: ARG002
            ) -> object:
                worker.prepared += 1
                k = scheduler_output.num_spec_tokens_to_schedule
                return self.drafter.propose(
                    num_speculative_tokens=k,
                    target_hidden_states=STATES,
                    common_attn_metadata="attention",
                    next_token_ids="next",
                )

        self.calls, self.classes = calls, (Runner, Proposer)
        attach(*self.classes)
        self.runner = Runner()

    def step(self, order: DrafterOrder | None, *, k: int = 3) -> object:
        output = SimpleNamespace(num_spec_tokens_to_schedule=k)
        if order is not None:
            setattr(output, ORDER, order)
        return self.runner.propose_draft_token_ids(output, STATES, LAYERS, "attention")

    def fault_in_output(self) -> object:
        output = self.runner.sample_tokens(None)
        return getattr(output.get_output() if hasattr(output, "get_output") else output, FAULT, None)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The layers of hidden states of each step that the drafter was left out of."""
    found: list[object] = []
    monkeypatch.setattr(Drafter, "keep", lambda _, layers, *__: found.append(layers))
    return found


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, kept: list[object]) -> Worker:  # noqa: ARG001  nothing is kept
    return a_worker(monkeypatch)


def a_worker(monkeypatch: pytest.MonkeyPatch, *, use_async_scheduling: bool = False) -> Worker:
    monkeypatch.setattr(drafter, "_no_drafts", lambda *_, **__: "no drafts")
    monkeypatch.setattr(drafter, "backfill_inputs", lambda *_, **__: {})
    return Worker(use_async_scheduling=use_async_scheduling)


def test_a_step_without_an_order_is_vllms_own(worker: Worker) -> None:
    assert (worker.step(None), worker.calls) == ("drafts", [3])


def test_a_skipped_step_has_no_pass_and_no_drafts_and_prepares_neither(worker: Worker) -> None:
    assert (worker.step(SKIP, k=0), worker.calls, worker.prepared) == ([], [], 0)


def test_a_skipped_step_keeps_the_states_of_its_tokens(worker: Worker, kept: list[object]) -> None:
    worker.step(SKIP, k=0)
    assert kept == [[STATES]]


def test_of_a_head_that_reads_several_layers_these_are_kept(worker: Worker, kept: list[object]) -> None:
    worker.runner.use_aux_hidden_state_outputs = True
    worker.step(SKIP, k=0)
    assert kept == [LAYERS]


def test_a_drafter_that_reads_text_alone_has_no_states_kept(worker: Worker, kept: list[object]) -> None:
    worker.runner.drafter.pass_hidden_states_to_model = False
    assert (worker.step(SKIP, k=0), kept) == ([], [])


@pytest.mark.usefixtures("kept")
def test_with_asynchronous_scheduling_vllm_goes_on_with_what_it_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = a_worker(monkeypatch, use_async_scheduling=True)
    assert (worker.step(SKIP, k=0), worker.calls, worker.prepared) == ("no drafts", [], 1)


def test_a_runner_of_another_shape_has_its_drafter_follow_every_step(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(worker.runner, "use_aux_hidden_state_outputs")
    assert (worker.step(SKIP, k=0), worker.step(SKIP, k=0)) == ("drafts", "drafts")


def test_what_was_missed_is_read_in_a_pass_that_drafts_nothing_and_then_it_drafts(worker: Worker) -> None:
    assert (worker.step(READ), worker.calls) == ("drafts", [0, 3])


@pytest.mark.usefixtures("kept")
def test_where_nothing_is_known_of_what_was_missed_it_drafts_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = a_worker(monkeypatch)
    monkeypatch.setattr(drafter, "backfill_inputs", lambda *_, **__: None)
    assert (worker.step(READ), worker.calls) == ("drafts", [3])


def test_while_k_is_0_it_reads_what_was_missed_and_misses_the_step_itself(
    worker: Worker, kept: list[object]
) -> None:
    assert worker.step(DrafterOrder(skip=True, missed=MISSED), k=0) == "no drafts"
    assert (worker.calls, kept) == ([0], [[STATES]])


def test_an_order_is_for_one_step(worker: Worker) -> None:
    worker.step(SKIP, k=0)
    assert (worker.step(None), worker.calls) == ("drafts", [3])


def test_an_order_to_read_nothing_is_a_step_of_vllms_own(worker: Worker) -> None:
    assert (worker.step(DrafterOrder()), worker.calls) == ("drafts", [3])


def test_a_run_is_read_but_for_the_tokens_whose_states_vllm_never_gave() -> None:
    run = Run(row=1, begin=7, text=[70, 80, 90, 100, 110])
    assert list(parts(run, [True, True, False, True, True])) == [
        Run(1, 7, [70, 80], following=90),
        Run(1, 10, [100, 110], following=None),
    ]


def fails(*_: Any, **__: Any) -> dict[str, Any]:
    raise ValueError("another shape")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_output_of_a_step_carries_the_fault_that_ended_the_skip(
    monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    worker = a_worker(monkeypatch, use_async_scheduling=asynchronous)
    assert worker.fault_in_output() is None
    monkeypatch.setattr(drafter, "backfill_inputs", fails)
    worker.step(READ)
    assert worker.fault_in_output() == "ValueError: another shape"


def test_a_drafter_that_cannot_catch_up_follows_every_step(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafter, "backfill_inputs", fails)
    assert worker.step(READ) == "drafts"
    assert worker.step(SKIP, k=0) == "drafts"
    assert worker.calls == [3, 0]


def test_attaching_twice_wraps_once(worker: Worker) -> None:
    before = [dict(vars(each)) for each in worker.classes]
    attach(*worker.classes)
    assert [dict(vars(each)) for each in worker.classes] == before
