"""What tests do to objects is what a user types; what they look at is read from the API server."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.cluster.api_server import kind, path, read, read_if_there

Object = dict[str, Any]

_places = [("default", "outrider-system")]


def namespace() -> str:
    """Where the models of the tests are at this moment."""
    return _places[-1][0]


def operator_namespace() -> str:
    """Where their operator is."""
    return _places[-1][1]


@contextmanager
def within(models: str, *, operator: str) -> Iterator[None]:
    """In the block, models and their operator are looked for in these namespaces."""
    _places.append((models, operator))
    try:
        yield
    finally:
        _places.pop()


class KubectlError(AssertionError):
    """kubectl ended with an error; the message is what a user would read."""


def kubectl(*args: str, stdin: str | None = None) -> str:
    """Run kubectl and return what it prints. KUBECONFIG comes from the environment."""
    done = subprocess.run(["kubectl", *args], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = done.stderr.strip() or done.stdout.strip()
        raise KubectlError(f"kubectl {' '.join(args)}: {told}")
    return done.stdout


def apply(manifest: Mapping[str, Any], *flags: str) -> str:
    """``kubectl apply -f -``."""
    return kubectl("apply", *flags, "-f", "-", stdin=json.dumps(manifest))


def get(resource: str, name: str, where: str | None = None) -> Object | None:
    """One object, or None where there is none. where: its namespace, if it is another than the models'."""
    printed = read_if_there(path(resource, where or namespace(), name))
    return None if printed is None else json.loads(printed)


def list_objects(resources: str, *, selector: str, where: str | None = None) -> list[Object]:
    """All objects of these kinds that carry the labels."""
    return [
        item | {"kind": kind(resource)}
        for resource in resources.split(",")
        for item in json.loads(read(path(resource, where or namespace()), labelSelector=selector))["items"]
    ]


def patch(kind: str, name: str, change: Mapping[str, Any], where: str | None = None) -> None:
    """A JSON merge patch."""
    kubectl("patch", kind, name, "-n", where or namespace(), "--type", "merge", "-p", json.dumps(change))


def condition(model: Object | None, kind: str) -> Object | None:
    """The condition of this type, or None where it is absent."""
    conditions = ((model or {}).get("status") or {}).get("conditions") or []
    return next((found for found in conditions if found["type"] == kind), None)


def has_condition(model: Object | None, kind: str, status: str, reason: str | None = None) -> bool:
    """True when the condition is there with this status (and reason)."""
    found = condition(model, kind)
    return found is not None and found["status"] == status and reason in (None, found.get("reason"))


def wait_for(
    what: str,
    look: Callable[[], Object | None],
    wanted: Callable[[Object | None], bool],
    *,
    seconds: float,
) -> Object | None:
    """Look again until it is as wanted; fail with the last look and what the cluster says."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if wanted(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}\n{_last_look(seen)}\n{_cluster_says()}")
        time.sleep(0.5)


def _last_look(seen: Object | None) -> str:
    if seen is None:
        return "last look: nothing there"
    return "last look: " + json.dumps(seen.get("status", seen), indent=1)


def _cluster_says() -> str:
    commands = (
        ("get", "pods", "-A", "-o", "wide"),
        ("get", "events", "-n", namespace(), "--sort-by=.lastTimestamp"),
        ("logs", "-n", operator_namespace(), "-l", "app.kubernetes.io/name=outrider", "--tail=60"),
        ("logs", "-n", namespace(), "-l", "app.kubernetes.io/managed-by=outrider", "--tail=40"),
    )
    parts = []
    for command in commands:
        done = subprocess.run(["kubectl", *command], capture_output=True, text=True, check=False)
        parts.append(f"$ kubectl {' '.join(command)}\n{(done.stdout + done.stderr)[-4000:]}")
    return "\n".join(parts)
