"""What GitOps tools apply stays so: the API server and the operator change no field of a spec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.kubectl import KubectlError, Object, get, kubectl, wait_for

pytestmark = [pytest.mark.engine("none", "drift")]

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMESPACE = "gitops-drift"


def models() -> list[dict[str, Any]]:
    """The models of all examples, with names of their own."""
    found = [
        document
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document and document.get("kind") == "SpeculativeModel"
    ]
    assert len(found) > 10
    for number, model in enumerate(found):
        model["metadata"] |= {"name": f"drift-{number}", "namespace": NAMESPACE}
    return found


@pytest.fixture
def without_pods() -> Iterator[None]:
    """A namespace whose quota allows no pod, so that no engine starts."""
    kubectl("create", "namespace", NAMESPACE)
    try:
        kubectl("create", "quota", "no-pods", "--hard=pods=0", "-n", NAMESPACE)
        yield
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--wait=true", "--timeout=120s")


def drift(flags: tuple[str, ...], manifest: str) -> Object | None:
    """What `kubectl diff` prints; None without a difference."""
    try:
        kubectl("diff", *flags, "-f", "-", stdin=manifest)
    except KubectlError as differs:
        return {"differs": str(differs)}
    return None


@pytest.mark.usefixtures("without_pods")
@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_no_example_drifts_after_it_was_applied(flags: tuple[str, ...]) -> None:
    wanted = models()
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted})
    kubectl("apply", *flags, "-f", "-", stdin=manifest)
    for model in wanted:
        name = model["metadata"]["name"]
        seen = wait_for(
            f"the operator has read {name}",
            lambda name=name: get("specmodel", name, NAMESPACE),  # type: ignore[misc]
            lambda seen: ((seen or {}).get("status") or {}).get("observedGeneration") == 1,
            seconds=120,
        )
        assert seen is not None
        assert seen["metadata"]["generation"] == 1, f"{name}: its spec was changed after it was applied"
    # kubectl reads each object twice, and a status that is written between shows as a difference.
    wait_for("no drift", lambda: drift(flags, manifest), lambda found: found is None, seconds=60)
