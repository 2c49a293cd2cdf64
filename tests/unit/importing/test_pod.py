"""``spec.podTemplate`` of an import: each container mounts only volumes that the new pod has."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.importing import Outcome
from tests.unit.importing.kit import a_deployment, an_engine, findings, spec_of

CLAIMS = [{"metadata": {"name": "data"}, "spec": {}}]


def with_mounts(kind: str, *volumes: str) -> dict[str, Any]:
    """A StatefulSet with a container beside the engine."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in volumes]
    beside = {"name": "beside", "image": "beside:1", "volumeMounts": mounts}
    engine = an_engine("a/b")
    containers = [engine, beside] if kind == "containers" else [engine]
    document = a_deployment(*containers, kind="StatefulSet", volumeClaimTemplates=CLAIMS)
    pod = document["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if kind == "initContainers":
        pod["initContainers"] = [beside]
    return document


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("volumes", [("data",), ("data", "scratch")])
def test_a_mount_of_a_volume_that_is_not_carried_is_named_and_left_out(
    kind: str, volumes: tuple[str, ...]
) -> None:
    source = with_mounts(kind, *volumes)
    (beside,) = spec_of(source)["podTemplate"]["spec"][kind]
    assert [each["name"] for each in beside.get("volumeMounts", [])] == list(volumes[1:])
    assert ("volumeMounts" in beside) == (len(volumes) > 1)
    why = findings(source, [Outcome.DROPPED])["volume data at /data of container beside"]
    assert why.startswith("the source makes a claim for each pod; ")
