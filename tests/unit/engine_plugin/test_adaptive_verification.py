"""How a worker sends the verified drafts along, on a stand-in of the shape of vLLM's output."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.vllm_adapter.adaptive_verification import (
    VERIFIED,
    attach,
    verified_by_request,
    verifies_adaptively,
)


class Numbers(list[int]):
    """An array on the host."""

    def tolist(self) -> list[int]:
        return list(self)


class Output:
    """What crosses to the scheduler's process."""


def an_output_class(copied: Any) -> type:
    class AsyncOutput:
        def __init__(self, model_runner_output: object, sampler_output: Any, num_sampled_tokens: Any) -> None:
            self.model_runner_output, self.sampler_output = model_runner_output, sampler_output
            self.num_sampled_tokens_np = Numbers(num_sampled_tokens)
            self.copied_at_the_event = hasattr(self, "_outrider_rejected")

        def get_output(self) -> object:
            return self.model_runner_output

    attach(AsyncOutput, copied)
    return AsyncOutput


def from_the_sampler(given: Any) -> Numbers:
    return Numbers(given["sampler_output"].num_rejected)


def a_step(sampled: Sequence[int], rejected: Sequence[int], copied: Any = from_the_sampler) -> Any:
    return an_output_class(copied)(
        model_runner_output=Output(),
        sampler_output=SimpleNamespace(num_rejected=rejected),
        num_sampled_tokens=sampled,
    )


def test_what_was_verified_is_accepted_and_rejected() -> None:
    """The first request accepted one draft of two; the second one verified none."""
    assert verified_by_request([2, 1], [1, 0]) == [2, 0]


def test_a_request_whose_prompt_goes_on_verified_nothing() -> None:
    assert verified_by_request([0], [0]) == [0]


def test_the_verified_drafts_cross_with_the_output() -> None:
    output = a_step([2, 1], [1, 0]).get_output()
    assert getattr(pickle.loads(pickle.dumps(output)), VERIFIED) == [2, 0]


def test_rejections_are_copied_before_the_event_that_vllm_waits_for() -> None:
    assert a_step([1], [0]).copied_at_the_event


def test_an_output_of_another_shape_is_vllms_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="vllm.outrider"):
        output = a_step([1], [0], copied=lambda given: given["renamed"]).get_output()
    assert not hasattr(output, VERIFIED)
    assert "trimmed drafts cannot be counted" in caplog.text


def test_attaching_twice_wraps_once() -> None:
    output = an_output_class(from_the_sampler)
    before = dict(vars(output))
    attach(output, from_the_sampler)
    assert dict(vars(output)) == before


@pytest.mark.parametrize(
    ("speculation", "adaptive"),
    [
        (SimpleNamespace(enable_adaptive_verification=True), True),
        (SimpleNamespace(enable_adaptive_verification=False), False),
        (SimpleNamespace(), False),
        (None, False),
    ],
    ids=["adaptive", "fixed", "older", "none"],
)
def test_the_configuration_says_whether_vllm_verifies_adaptively(
    speculation: object, *, adaptive: bool
) -> None:
    assert verifies_adaptively(SimpleNamespace(speculative_config=speculation)) is adaptive
