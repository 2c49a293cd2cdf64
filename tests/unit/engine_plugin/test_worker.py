"""What a worker gets as it is made."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from outrider_engine.vllm_adapter import adaptive_verification, drafter, sampler, v2_drafter, worker
from outrider_protocol.environment import K0_VARIABLE
from outrider_protocol.releases import Runner


def fails() -> None:
    raise AttributeError("another shape")


def a_config(runner: Runner = Runner.V1, *, adaptive: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        use_v2_model_runner=runner is Runner.V2,
        speculative_config=SimpleNamespace(enable_adaptive_verification=adaptive),
    )


def a_worker_class() -> type:
    class Worker:
        def __init__(self, vllm_config: object) -> None:
            self.made = vllm_config is not None

    worker.attach(Worker)
    return Worker


def test_a_part_that_does_not_fit_is_told_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attached = []
    monkeypatch.setattr(drafter, "attach_to_drafter", fails)
    monkeypatch.setattr(sampler, "attach_to_sampler", lambda: attached.append("sampler"))
    with caplog.at_level(logging.ERROR, logger="vllm.outrider"):
        made = a_worker_class()(a_config())
    assert (made.made, attached) == (True, ["sampler"])
    assert [record.message for record in caplog.records] == [
        "outrider: the drafter follows every step; the engine continues to serve"
    ]


def test_where_k_0_is_vllms_own_nothing_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(K0_VARIABLE, "Sync")
    assert worker.parts(a_config()) == {}


@pytest.mark.parametrize("k0", ["Sync", "Auto"])
def test_where_vllm_verifies_adaptively_the_verified_drafts_are_counted(
    monkeypatch: pytest.MonkeyPatch, k0: str
) -> None:
    monkeypatch.setenv(K0_VARIABLE, k0)
    assert adaptive_verification.attach_to_outputs in worker.parts(a_config(adaptive=True))
    assert adaptive_verification.attach_to_outputs not in worker.parts(a_config())


def test_on_v2_a_draft_model_follows_k_even_where_no_step_skips_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(K0_VARIABLE, "Sync")
    assert list(worker.parts(a_config(Runner.V2))) == [v2_drafter.attach_to_v2_drafter]


def test_a_v2_runner_of_another_shape_serves_without_the_part(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(v2_drafter, "attach_to_v2_drafter", fails)
    with caplog.at_level(logging.ERROR, logger="vllm.outrider"):
        a_worker_class()(a_config(Runner.V2))
    assert [record.message for record in caplog.records] == [
        "outrider: the drafter follows every step, a draft model in full length; "
        "the engine continues to serve"
    ]


def test_attaching_twice_wraps_once() -> None:
    worker_class = a_worker_class()
    before = worker_class.__init__  # type: ignore[misc]
    worker.attach(worker_class)
    assert worker_class.__init__ is before  # type: ignore[misc]
