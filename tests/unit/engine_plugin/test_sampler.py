"""Which steps are sampled without the rejection sampler, on a stand-in of the shape of vLLM's runner.

That it draws the same tokens is for the contract tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.vllm_adapter.sampler import attach


def drafts(*num_draft_tokens: int) -> SimpleNamespace:
    """What vLLM's runner knows of the drafts of a step, by request."""
    return SimpleNamespace(num_draft_tokens=list(num_draft_tokens))


class Runner:
    """``_sample`` gives what vLLM's own is called with, and each metadata is another object."""

    def __init__(self, *, use_async_scheduling: bool = False, thinking_budgets: object = None) -> None:
        self.use_async_scheduling = use_async_scheduling
        sampling_metadata = SimpleNamespace(thinking_budget_state_holder=thinking_budgets)
        self.input_batch = SimpleNamespace(sampling_metadata=sampling_metadata)

    def _sample(self, logits: object, spec_decode_metadata: object) -> tuple[object, object]:
        return logits, spec_decode_metadata

    def _calc_spec_decode_metadata(
        self, num_draft_tokens: Sequence[int], cu_num_scheduled_tokens: Sequence[int]
    ) -> list[Sequence[int]]:
        return [num_draft_tokens, cu_num_scheduled_tokens]


attach(Runner)


def sampled(spec_decode_metadata: object, **runner: Any) -> object:
    return Runner(**runner)._sample("logits", spec_decode_metadata)


def test_a_step_without_drafts_is_sampled_as_without_a_drafter() -> None:
    assert sampled(drafts(0, 0)) == ("logits", None)


def test_a_step_in_which_one_request_has_drafts_is_vllms_own() -> None:
    assert sampled(some := drafts(0, 2)) == ("logits", some)


def test_a_step_that_vllm_samples_plainly_stays_so() -> None:
    assert sampled(None) == ("logits", None)


def test_with_asynchronous_scheduling_every_step_is_vllms_own() -> None:
    assert sampled(none := drafts(0), use_async_scheduling=True) == ("logits", none)


def test_a_step_with_thinking_budgets_is_vllms_own() -> None:
    assert sampled(none := drafts(0), thinking_budgets=object()) == ("logits", none)


def metadata(runner: Runner, *requests: tuple[int, int]) -> object:
    """Of a step. requests: of each the tokens that it computes, and how many of these are drafts."""
    tokens, drafted = zip(*requests, strict=True)
    return runner._calc_spec_decode_metadata(drafted, list(accumulate(tokens)))


def test_of_steps_with_one_token_of_each_request_the_metadata_is_computed_once() -> None:
    runner = Runner()
    two, three = metadata(runner, (1, 0), (1, 0)), metadata(runner, (1, 0), (1, 0), (1, 0))
    assert two == [(0, 0), [1, 2]]
    assert metadata(runner, (1, 0), (1, 0)) is two
    assert metadata(runner, (1, 0), (1, 0), (1, 0)) is three


def test_each_runner_has_metadata_of_its_own() -> None:
    assert metadata(Runner(), (1, 0)) is not metadata(Runner(), (1, 0))


@pytest.mark.parametrize("request_", [(5, 0), (4, 3)], ids=["prompt", "drafts"])
def test_of_a_step_with_more_tokens_the_metadata_is_computed_anew(request_: tuple[int, int]) -> None:
    runner = Runner()
    assert metadata(runner, (1, 0), request_) is not metadata(runner, (1, 0), request_)


def test_attaching_twice_wraps_once() -> None:
    before = dict(vars(Runner))
    attach(Runner)
    assert dict(vars(Runner)) == before
