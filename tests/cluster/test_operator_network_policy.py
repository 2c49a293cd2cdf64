"""The API server takes the policy that guards the operator's port, and refuses a peer that is none."""

from __future__ import annotations

import subprocess

import pytest

from tests.cluster.helm import CHART
from tests.cluster.kubectl import KubectlError, kubectl, operator_namespace

pytestmark = pytest.mark.engine("none", "rendered")


def policy(*values: str) -> str:
    """As the chart renders it."""
    settings = [
        word for value in ("enabled=true", *values) for word in ("--set", f"operatorNetworkPolicy.{value}")
    ]
    shown = ["--show-only", "templates/networkpolicy.yaml", "-n", operator_namespace()]
    settings += ["--set", "image.repository=example/operator"]
    command = ["helm", "template", "outrider", str(CHART), *settings, *shown]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("metricsFrom=null",),
        ("metricsFrom[0].podSelector.matchLabels.app=prometheus",),
        ("metricsFrom[0].ipBlock.cidr=10.0.0.0/8",),
    ],
    ids=["default", "nobody", "pods", "addresses"],
)
def test_the_api_server_takes_the_policy(values: tuple[str, ...]) -> None:
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=policy(*values))

    assert "networkpolicy.networking.k8s.io/outrider" in said


@pytest.mark.parametrize("addresses", ["::::/8", "10.0.0.1/8"])
def test_the_api_server_refuses_addresses_that_only_look_like_some(addresses: str) -> None:
    """The schema of the chart refuses others."""
    rendered = policy(f"metricsFrom[0].ipBlock.cidr={addresses}")
    with pytest.raises(KubectlError, match="cidr"):
        kubectl("apply", "--dry-run=server", "-f", "-", stdin=rendered)
