"""How an order reaches the drafter of vLLM's V2 runner, on stand-ins of its shape.

What the drafter does with real tensors is for the contract tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.idle_drafter.drafter_skip import SKIP, DrafterOrder
from outrider_engine.idle_drafter.hidden_state_cache import HiddenStateCache
from outrider_engine.vllm_adapter.drafter_fault import FAULT
from outrider_engine.vllm_adapter.scheduler import ORDER
from outrider_engine.vllm_adapter.v2_backfill import Backfill
from outrider_engine.vllm_adapter.v2_drafter import attach

CONFIGURED = 5
READ = DrafterOrder(missed={"a": (7, range(7, 9))})


class Drafts:
    """Stands for the tensor of draft tokens."""

    def __init__(self) -> None:
        self.filled: list[int] = []

    def __getitem__(self, _: slice) -> Drafts:
        return self

    def fill_(self, token: int) -> Drafts:
        self.filled.append(token)
        return self


def a_speculator_class(passes: list[object]) -> type[Any]:
    """A class of its own for each kind, since attaching changes it. passes: see `Worker`."""

    class Speculator:
        draft_attn_layer_names = frozenset({"layer"})

        def __init__(self) -> None:
            self.num_speculative_steps, self.draft_tokens = CONFIGURED, Drafts()

        def propose(
            self,
            input_batch: object,  # noqa: ARG002
            slot_mappings: object,  # noqa: ARG002
            last_hidden_states: object,  # noqa: ARG002
            aux_hidden_states: object,  # noqa: ARG002
            num_speculative_tokens: int | None = None,  # noqa: ARG002
        ) -> str:
            passes.append(self.num_speculative_steps)
            return "drafts"

    return Speculator


class Worker:
    """A V2 runner with a head or a draft model.

    passes: what ran, in order: ``"missed"``, or how many passes ``propose`` was set to.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, head: bool, fault: bool = False) -> None:
        passes: list[object] = []
        self.passes = passes
        kinds = [a_speculator_class(passes) for _ in range(2)]

        class Runner:
            def __init__(self) -> None:
                self.speculator: Any = kinds[0 if head else 1]()
                self.req_states = object()

            def execute_model(self, scheduler_output: Any) -> None:
                self.output = scheduler_output

            def sample_tokens(self, grammar_output: object) -> Any:  # noqa: ARG002
                return SimpleNamespace()

        def catch_up(*_: Any) -> None:
            if fault:
                raise ValueError("another shape")
            passes.append("missed")

        attach(Runner, *kinds)
        monkeypatch.setattr(Backfill, "catch_up", catch_up)
        self.runner = Runner()

    def step(self, order: DrafterOrder | None, *, k: int) -> object:
        output = SimpleNamespace()
        if order is not None:
            setattr(output, ORDER, order)
        self.runner.execute_model(output)
        batch = SimpleNamespace(num_reqs=1, num_tokens=1)
        return self.runner.speculator.propose(
            batch, {"layer": ["slot"]}, ["state"], None, num_speculative_tokens=k
        )


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with the hidden states that are kept."""
    done: list[str] = []
    monkeypatch.setattr(HiddenStateCache, "keep", lambda *_: done.append("kept"))
    monkeypatch.setattr(HiddenStateCache, "clear", lambda _: done.append("cleared"))
    return done


@pytest.mark.parametrize("head", [True, False])
def test_a_skipped_step_has_no_pass_and_no_drafts(monkeypatch: pytest.MonkeyPatch, head: bool) -> None:
    worker = Worker(monkeypatch, head=head)
    drafts = worker.step(SKIP, k=0)
    assert isinstance(drafts, Drafts)
    assert (drafts.filled, worker.passes) == ([-1], [])


@pytest.mark.parametrize(("head", "done"), [(True, ["kept"]), (False, [])])
def test_only_for_a_head_states_are_kept(
    monkeypatch: pytest.MonkeyPatch, cache: list[str], head: bool, done: list[str]
) -> None:
    Worker(monkeypatch, head=head).step(SKIP, k=0)
    assert cache == done


def test_what_was_missed_is_read_before_it_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, head=True)
    assert (worker.step(READ, k=3), worker.passes) == ("drafts", ["missed", CONFIGURED])


@pytest.mark.parametrize(
    ("order", "done"), [(None, ["cleared"]), (READ, ["cleared"]), (DrafterOrder(behind=True), [])]
)
def test_states_are_dropped_once_no_request_has_missed_tokens(
    monkeypatch: pytest.MonkeyPatch, cache: list[str], order: DrafterOrder | None, done: list[str]
) -> None:
    Worker(monkeypatch, head=True).step(order, k=3)
    assert cache == done


@pytest.mark.parametrize(("k", "passes"), [(0, 1), (1, 1), (3, 3), (CONFIGURED, CONFIGURED)])
def test_a_draft_model_makes_a_pass_for_each_token_of_k(
    monkeypatch: pytest.MonkeyPatch, k: int, passes: int
) -> None:
    worker = Worker(monkeypatch, head=False)
    worker.step(None, k=k)
    assert worker.passes == [passes]
    assert worker.runner.speculator.num_speculative_steps == CONFIGURED


def test_an_order_is_for_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, head=True)
    worker.step(SKIP, k=0)
    assert worker.step(None, k=0) == "drafts"


def test_a_drafter_that_cannot_catch_up_follows_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, head=True, fault=True)
    assert (worker.step(READ, k=3), worker.step(SKIP, k=0)) == ("drafts", "drafts")


def test_the_output_of_a_step_carries_the_fault_that_ended_the_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, head=True, fault=True)
    assert not hasattr(worker.runner.sample_tokens(None), FAULT)
    worker.step(READ, k=3)
    assert getattr(worker.runner.sample_tokens(None), FAULT) == "ValueError: another shape"


def test_a_runner_without_a_drafter_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(monkeypatch, head=True)
    worker.runner.speculator = None
    output = SimpleNamespace()
    worker.runner.execute_model(output)
    assert worker.runner.output is output
