"""One model that serves in a namespace of its own, under a release of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.annotations import OVERRIDE, OVERRIDE_UNTIL
from tests.cluster.kubectl import Object, apply, get, kubectl, list_objects, wait_for
from tests.cluster.models import in_force, read_twin

NAME = "upgraded"
_VOLUMES = Path(__file__).resolve().parents[1] / "environment" / "cluster" / "volumes.yaml"
_START_SECONDS = 600.0
_PUSH_SECONDS = 90.0


@dataclass(frozen=True)
class Serving:
    """The model in this namespace."""

    namespace: str

    def look(self) -> Object | None:
        """The model as it stands."""
        return get("specmodel", NAME, self.namespace)

    def engines(self) -> set[str]:
        """The engine processes: each start of a container has an identity of its own."""
        pods = list_objects("pods", selector=f"outrider.dev/model={NAME}", where=self.namespace)
        left = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        states = [state for pod in left for state in pod["status"].get("containerStatuses", ())]
        return {state["containerID"] for state in states if state.get("containerID")}

    def is_ruled(self, k: int) -> None:
        """The operator pushes this table, and the engine confirms it."""
        until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        words = (f"{OVERRIDE}=*:{k}", f"{OVERRIDE_UNTIL}={until}")
        kubectl("annotate", "specmodel", NAME, "-n", self.namespace, "--overwrite", *words)
        wait_for(f"K={k}", self.look, in_force(f"*:{k}", replicas=1), seconds=_PUSH_SECONDS)

    def other_engine_than(self, before: set[str]) -> set[str]:
        """Wait until one that started later serves alone."""

        def look() -> Object:
            return {"status": {"engines": sorted(self.engines()), "model": (self.look() or {}).get("status")}}

        def replaced(seen: Object | None) -> bool:
            status = (seen or {})["status"]
            engines = set(status["engines"])
            return len(engines) == 1 and not engines & before and status["model"]["readyReplicas"] == 1

        wait_for("another engine", look, replaced, seconds=_START_SECONDS)
        return self.engines()


@contextmanager
def namespaces(models: str, operator: str) -> Iterator[Serving]:
    """Two that are gone afterwards; the first has the volumes that a stand-in needs."""
    for name in (models, operator):
        apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for manifest in _volumes(models):
        apply(manifest)
    try:
        yield Serving(models)
    finally:
        kubectl("delete", "specmodel", "--all", "-n", models, "--wait=false")
        kubectl("delete", "namespace", models, operator, "--wait=false")
        kubectl("delete", "pv", "-l", f"lifecycle={models}", "--wait=false")


def start(serving: Serving) -> None:
    """Apply the model and wait until it serves with its own table."""
    manifest = read_twin()
    manifest["metadata"] |= {"name": NAME, "namespace": serving.namespace}
    apply(manifest)
    wait_for(
        "it serves",
        serving.look,
        lambda seen: ((seen or {}).get("status") or {}).get("readyReplicas") == 1,
        seconds=_START_SECONDS,
    )


def _volumes(namespace: str) -> Iterator[dict[str, Any]]:
    """The cluster's, once more: a claim belongs to one namespace."""
    for manifest in yaml.safe_load_all(_VOLUMES.read_text()):
        name = manifest["metadata"]["name"]
        if manifest["kind"] == "PersistentVolume":
            manifest["metadata"] = {"name": f"{name}-{namespace}", "labels": {"lifecycle": namespace}}
            manifest["spec"]["claimRef"]["namespace"] = namespace
        else:
            manifest["metadata"]["namespace"] = namespace
            manifest["spec"]["volumeName"] = f"{name}-{namespace}"
        yield manifest
