from __future__ import annotations

import json

import pytest

from outrider.cluster.objects import (
    ContainerState,
    ContainerStatus,
    Deployment,
    Metadata,
    Pod,
    Terminated,
    launch_failure,
)


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


def test_a_deployment_of_which_nothing_is_known_yet_wants_one_replica_and_has_none() -> None:
    deployment = Deployment.model_validate({"metadata": {"name": "a"}})

    assert (deployment.spec.replicas, deployment.metadata.generation) == (1, 0)
    assert set(deployment.status.model_dump(exclude={"conditions"}).values()) == {0}


def test_what_was_read_is_not_changed_afterwards() -> None:
    pod = Pod.model_validate({"metadata": {"name": "a"}})

    with pytest.raises(ValueError, match="frozen"):
        pod.metadata.name = "b"


def test_a_container_that_runs_again_still_tells_of_its_last_end() -> None:
    before, now = Terminated(exit_code=1), Terminated(exit_code=2)
    again = ContainerStatus(name="engine", last_state=ContainerState(terminated=before))
    ended = ContainerStatus(
        name="engine", state=ContainerState(terminated=now), last_state=ContainerState(terminated=before)
    )

    assert (again.last_end, ended.last_end) == (before, now)
    assert ContainerStatus(name="engine").last_end is None


def test_the_status_of_a_container_is_found_by_its_name() -> None:
    names = ("sidecar", "engine", "a-helper")
    pod = Pod.model_validate(
        {"metadata": {"name": "a"}, "status": {"containerStatuses": [{"name": name} for name in names]}}
    )

    assert [getattr(pod.container(name), "name", None) for name in names] == list(names)
    assert pod.container("other") is None


def test_a_port_is_found_by_the_names_of_its_container_and_its_own() -> None:
    ports = [{"name": "http", "containerPort": 8000}, {"name": "debug", "containerPort": 9000}]
    pod = Pod.model_validate(
        {
            "metadata": {"name": "a"},
            "spec": {
                "containers": [{"name": "proxy", "ports": [ports[1]]}, {"name": "engine", "ports": ports}]
            },
        }
    )

    assert (pod.port("engine", "http"), pod.port("engine", "debug")) == (8000, 9000)
    assert pod.port("proxy", "http") is None
    assert pod.port("sidecar", "http") is None


@pytest.mark.parametrize(("number", "version"), [(2**64 - 1, 2**64 - 1), (2**64, 0)])
def test_the_newest_version_is_the_largest_that_the_api_server_can_count_to(
    number: int, version: int
) -> None:
    assert Metadata.model_validate({"name": "m", "resourceVersion": str(number)}).version == version
