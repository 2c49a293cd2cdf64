from __future__ import annotations

from typing import Any

from outrider.controller.store import StoredModel, StoredPod
from outrider.controller.urgency import cannot_wait
from tests.unit.controller.factories import a_raw_model, a_raw_pod


def a_model(version: int = 1, **metadata: Any) -> StoredModel:
    raw = a_raw_model(version=version)
    return StoredModel.read({**raw, "metadata": {**raw["metadata"], **metadata}})


def a_pod(*, ready: bool) -> StoredPod:
    return StoredPod.read(a_raw_pod(ready=ready))


def test_an_annotation_cannot_wait() -> None:
    assert cannot_wait(a_model(), a_model(2, annotations={"outrider.dev/paused": "true"}))


def test_a_new_spec_cannot_wait() -> None:
    assert cannot_wait(a_model(generation=1), a_model(2, generation=2))


def test_a_written_status_can_wait() -> None:
    assert not cannot_wait(a_model(1), a_model(2))


def test_a_pod_that_comes_up_cannot_wait() -> None:
    assert cannot_wait(a_pod(ready=False), a_pod(ready=True))
    assert cannot_wait(None, a_pod(ready=True))


def test_a_pod_that_stays_up_or_goes_down_can_wait() -> None:
    assert not cannot_wait(a_pod(ready=True), a_pod(ready=True))
    assert not cannot_wait(a_pod(ready=True), a_pod(ready=False))


def test_a_model_that_is_new_can_wait() -> None:
    assert not cannot_wait(None, a_model())
