from __future__ import annotations

import json

import pytest

from outrider.cluster.objects import Metadata, Pod, Terminated, launch_failure


def test_reads_what_the_launcher_left() -> None:
    left = Terminated(message=json.dumps({"reason": "ModelNotFound", "message": "no /models/x"}))

    assert launch_failure(left) == ("ModelNotFound", "no /models/x")


@pytest.mark.parametrize(
    "message", ["", "Traceback: {}", "{", '{"level": "error"}', "[]", '{"reason": 3}', '{"a":' * 800]
)
def test_log_lines_are_no_launch_failure(message: str) -> None:
    assert launch_failure(Terminated(message=message)) is None


def test_a_container_that_never_ended_left_no_launch_failure() -> None:
    assert launch_failure(None) is None


def test_a_pod_without_status_is_not_ready() -> None:
    assert not Pod.model_validate({"metadata": {"name": "a"}}).ready


def test_a_ready_pod_that_is_being_deleted_is_not_ready() -> None:
    pod = Pod.model_validate(
        {
            "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )

    assert not pod.ready


@pytest.mark.parametrize(("text", "version"), [("7", 7), ("", 0), ("²", 0), ("9" * 5_000, 0)])
def test_a_version_that_is_no_number_is_older_than_any(text: str, version: int) -> None:
    assert Metadata.model_validate({"name": "m", "resourceVersion": text}).version == version
