"""How an order reaches the drafter, on stand-ins of the shape of vLLM's runner and proposer.

What the drafter does with real tensors is for the contract tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine import drafter
from outrider_engine.drafter import ORDER, attach
from outrider_engine.following import Order

SKIP = Order(skip=True)
READ = Order(missed={"b": (7, [1, 2])})


class Worker:
    """A runner with its drafter; ``calls``: the K of each of the drafter's passes."""

    def __init__(self) -> None:
        calls: list[int] = []

        class Proposer:
            def propose(self, num_speculative_tokens: int, **_: Any) -> str:
                calls.append(num_speculative_tokens)
                return "drafts"

        class Runner:
            def __init__(self) -> None:
                self.drafter = Proposer()
                self.input_batch = SimpleNamespace(req_id_to_index={"a": 0, "b": 1})

            def propose_draft_token_ids(self, scheduler_output: Any, k: int) -> object:
                return self.drafter.propose(num_speculative_tokens=k, scheduled=scheduler_output)

        self.calls, self.classes = calls, (Runner, Proposer)
        attach(*self.classes)
        self.runner = Runner()

    def step(self, order: Order | None, *, k: int = 3) -> object:
        output = SimpleNamespace() if order is None else SimpleNamespace(**{ORDER: order})
        return self.runner.propose_draft_token_ids(output, k)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(drafter, "_no_drafts", lambda *_, **__: "no drafts")
    monkeypatch.setattr(drafter, "_keep", lambda *_, **__: None)
    monkeypatch.setattr(drafter, "_missed_inputs", lambda *_, **__: {})
    return Worker()


def test_a_step_without_an_order_is_vllms_own(worker: Worker) -> None:
    assert (worker.step(None), worker.calls) == ("drafts", [3])


def test_a_skipped_step_has_no_pass_and_no_drafts(worker: Worker) -> None:
    assert (worker.step(SKIP, k=0), worker.calls) == ("no drafts", [])


def test_what_was_missed_is_read_in_a_pass_that_drafts_nothing_and_then_it_drafts(worker: Worker) -> None:
    assert (worker.step(READ), worker.calls) == ("drafts", [0, 3])


def test_an_order_is_for_one_step(worker: Worker) -> None:
    worker.step(SKIP, k=0)
    assert (worker.step(None), worker.calls) == ("drafts", [3])


def test_an_order_to_read_nothing_is_a_step_of_vllms_own(worker: Worker) -> None:
    assert (worker.step(Order()), worker.calls) == ("drafts", [3])


def test_a_run_is_read_but_for_the_tokens_whose_states_vllm_never_gave() -> None:
    run = drafter._Run(row=1, begin=7, text=[70, 80, 90, 100, 110])
    assert list(drafter._parts(run, [True, True, False, True, True])) == [
        drafter._Run(1, 7, [70, 80], following=90),
        drafter._Run(1, 10, [100, 110], following=None),
    ]


def test_a_drafter_that_cannot_catch_up_follows_every_step(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> dict[str, Any]:
        raise ValueError("another shape")

    monkeypatch.setattr(drafter, "_missed_inputs", fails)
    assert worker.step(READ) == "drafts"
    assert worker.step(SKIP, k=0) == "drafts"
    assert worker.calls == [3, 0]


def test_attaching_twice_wraps_once(worker: Worker) -> None:
    before = [dict(vars(each)) for each in worker.classes]
    attach(*worker.classes)
    assert [dict(vars(each)) for each in worker.classes] == before
