"""Which steps are worked as without a drafter, on a stand-in of the shape of vLLM's runner.

That the same tokens are drawn is for the contract tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from outrider_engine.undrafted import attach

PLAIN = "sampled plainly"


class Runner:
    """``metadata``: what vLLM calculated, by how often it was asked."""

    def __init__(self, *, use_async_scheduling: bool = False, thinking_budgets: object = None) -> None:
        self.use_async_scheduling = use_async_scheduling
        sampling_metadata = SimpleNamespace(thinking_budget_state_holder=thinking_budgets)
        self.input_batch = SimpleNamespace(sampling_metadata=sampling_metadata)
        self.query_start_loc = SimpleNamespace(gpu=np.array([0, 1, 5, 5, 5]))
        self.metadata: list[SimpleNamespace] = []

    def _calc_spec_decode_metadata(
        self,
        num_draft_tokens: Any,
        cu_num_scheduled_tokens: Any,  # noqa: ARG002
    ) -> SimpleNamespace:
        self.metadata.append(SimpleNamespace(num_draft_tokens=num_draft_tokens.tolist(), max_spec_len=0))
        return self.metadata[-1]

    def _sample(self, logits: object, spec_decode_metadata: object) -> object:
        return PLAIN if spec_decode_metadata is None else (logits, spec_decode_metadata)


attach(Runner)


def sampled(runner: Runner, *num_draft_tokens: int) -> object:
    """What becomes of a step of two requests, the second of which computes four tokens."""
    metadata = runner._calc_spec_decode_metadata(np.array(num_draft_tokens), np.array([1, 5]))
    return runner._sample("logits", metadata)


def test_a_step_without_drafts_is_prepared_and_sampled_as_without_a_drafter() -> None:
    assert (sampled(runner := Runner(), 0, 0), runner.metadata) == (PLAIN, [])


def test_it_has_the_logits_of_the_last_token_of_each_request() -> None:
    metadata = Runner()._calc_spec_decode_metadata(np.array([0, 0]), np.array([1, 5]))
    assert (metadata.logits_indices.tolist(), metadata.num_draft_tokens) == ([0, 4], [0, 0])


def test_what_a_drafter_asks_for_besides_vllm_calculates_once() -> None:
    metadata = (runner := Runner())._calc_spec_decode_metadata(np.array([0, 0]), np.array([1, 5]))
    assert (metadata.max_spec_len, metadata.max_spec_len, len(runner.metadata)) == (0, 0, 1)


def test_a_step_in_which_one_request_has_drafts_is_vllms_own() -> None:
    assert sampled(runner := Runner(), 0, 2) == ("logits", runner.metadata[0])


@pytest.mark.parametrize("other", [{"use_async_scheduling": True}, {"thinking_budgets": object()}])
def test_with_asynchronous_scheduling_or_thinking_budgets_every_step_is_vllms_own(
    other: dict[str, Any],
) -> None:
    assert sampled(runner := Runner(**other), 0, 0) == ("logits", runner.metadata[0])


def test_a_step_that_vllm_samples_plainly_stays_so() -> None:
    assert Runner()._sample("logits", None) == PLAIN


def test_a_runner_of_another_shape_prepares_every_step_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    runner = Runner()
    del runner.query_start_loc
    assert [sampled(runner, 0, 0), sampled(runner, 0, 0)] == [("logits", one) for one in runner.metadata]
    assert len(caplog.records) == 1


def test_attaching_twice_wraps_once() -> None:
    before = dict(vars(Runner))
    attach(Runner)
    assert dict(vars(Runner)) == before
