"""An operator with its own namespaces: a test that restarts it affects no other test.

The operator of the cluster watches all namespaces. Of two that watch the same models the one that sees no
others comes first, so the cluster's own yields. A Lease that is never given back claims the namespace as
well: without it, the cluster's operator would step in while the other one is away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from outrider.cluster.installation import Claim
from outrider.cluster.lease import LEASE_NAME
from tests.cluster.helm import CHART, RELEASE, WAIT, helm
from tests.cluster.kubectl import Object, apply, kubectl, within

OWN = "own-"
"""Names of these namespaces begin with it; the first of all operators stays the cluster's."""
ENVIRONMENT = Path(__file__).resolve().parents[1] / "environment"
VOLUMES_OF = "volumes-of"
KEEPER = "keeper"
KEPT = timedelta(hours=1)
SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}
"""By the cluster's Prometheus, so that alerts can be asked about this operator, too."""


@contextmanager
def own_operator(name: str, *, prometheus: str | None = None) -> Iterator[None]:
    """In the block, models are looked for in a namespace that has an operator of its own.

    prometheus: its URL, if it is another than the cluster's; {} stands for the operator's namespace.
    """
    models, release = f"{OWN}{name}", f"{OWN}{name}-operator"
    # What an earlier run left behind, or is still on its way out.
    remove(models, release)
    settings = {
        "watchNamespaces": f"{{{models}}}",
        "detectOtherInstallations": "false",
        "crds.install": "false",
        "admissionPolicy.enabled": "false",
    }
    if prometheus is not None:
        settings["prometheus.url"] = prometheus.format(release)
    flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    flags += ["--set-json", f"podAnnotations={json.dumps(SCRAPED)}"]
    files = ("--values", str(ENVIRONMENT / "values.yaml"))
    try:
        for manifest in (*map(a_namespace, (models, release)), *a_keeper(models), *volumes(models)):
            apply(manifest)
        helm("upgrade", "--install", RELEASE, str(CHART), *files, *flags, *WAIT, where=release)
        with within(models, operator=release):
            yield
    finally:
        helm("uninstall", RELEASE, "--ignore-not-found", where=release)
        remove(models, release, "--wait=false")


def remove(models: str, release: str, *flags: str) -> None:
    """Both namespaces, with all that is in them, and the volumes of the models."""
    kubectl("delete", "namespace", models, release, "--ignore-not-found", *flags)
    kubectl("delete", "pv", "-l", f"{VOLUMES_OF}={models}", *flags)


def a_namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def a_keeper(namespace: str) -> Iterator[Object]:
    """A Lease as of an operator that sees no others, and the right without which it would not be believed."""
    rbac = "rbac.authorization.k8s.io"
    named = {"name": KEEPER, "namespace": namespace}
    rule = {"apiGroups": ["outrider.dev"], "resources": ["speculativemodels/status"], "verbs": ["patch"]}
    yield {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": [rule]}
    yield {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": named,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": KEEPER},
        "subjects": [{"kind": "ServiceAccount", "name": KEEPER, "namespace": namespace}],
    }
    claim = Claim(frozenset({namespace}), account=KEEPER, sees_others=False)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    yield {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE_NAME, "namespace": namespace, "annotations": claim.annotations()},
        "spec": {
            "holderIdentity": KEEPER,
            "leaseDurationSeconds": int(KEPT.total_seconds()),
            "acquireTime": now,
            "renewTime": now,
        },
    }


def volumes(namespace: str) -> Iterator[Any]:
    """The cluster's, once more: a claim belongs to one namespace."""
    for manifest in yaml.safe_load_all((ENVIRONMENT / "cluster" / "volumes.yaml").read_text()):
        name = manifest["metadata"]["name"]
        if manifest["kind"] == "PersistentVolume":
            labels = {VOLUMES_OF: namespace}
            manifest["metadata"] = {"name": f"{name}-{namespace}", "labels": labels}
            manifest["spec"]["claimRef"]["namespace"] = namespace
        else:
            manifest["metadata"]["namespace"] = namespace
            manifest["spec"]["volumeName"] = f"{name}-{namespace}"
        yield manifest
