"""What a worker gets as it is made."""

from __future__ import annotations

import logging

import pytest

from outrider_engine.vllm_adapter import drafter, sampler, worker
from outrider_protocol.environment import K0_VARIABLE


def a_worker_class() -> type:
    class Worker:
        def __init__(self) -> None:
            self.made = True

    worker.attach(Worker)
    return Worker


def test_a_part_that_does_not_fit_is_told_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attached = []

    def fails() -> None:
        raise AttributeError("another shape")

    monkeypatch.setattr(drafter, "attach_to_drafter", fails)
    monkeypatch.setattr(sampler, "attach_to_sampler", lambda: attached.append("sampler"))
    with caplog.at_level(logging.ERROR, logger="vllm.outrider"):
        made = a_worker_class()()
    assert (made.made, attached) == (True, ["sampler"])
    assert [record.message for record in caplog.records] == [
        "outrider: the drafter follows every step; the engine continues to serve"
    ]


def test_where_k_0_is_vllms_own_nothing_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(K0_VARIABLE, "Sync")
    assert worker.parts() == {}


def test_attaching_twice_wraps_once() -> None:
    worker_class = a_worker_class()
    before = worker_class.__init__
    worker.attach(worker_class)
    assert worker_class.__init__ is before
