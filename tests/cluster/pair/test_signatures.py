"""What one replica knows or hears is of no use at the other, and a lost key is replaced."""

from __future__ import annotations

import pytest

from tests.cluster.engines import SCHEDULE, STATE, ask, ready_pods, signing_key, state
from tests.cluster.kubectl import Object, get, kubectl, wait_for
from tests.cluster.models import in_force
from tests.cluster.pair import NAME, TICKS, look, override
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

LOCK_OUT = {"term": 2**53 - 1, "epoch": 0, "leaseSeconds": 3600, "schedule": [{"numSpeculativeTokens": 0}]}
KEY_REACHES_PODS = 150.0
"""Also where the kubelet looks at the mounted ConfigMap only with its next round, a minute later."""


async def test_a_push_for_one_replica_is_refused_by_the_other(pair: Sender) -> None:  # noqa: ARG001
    override("*:2")
    wait_for("both have K=2", look, in_force("*:2", replicas=2), seconds=TICKS)
    one, other = ready_pods(NAME)
    refusal = ask(other, signed_for=one, method="PUT", path=SCHEDULE, body=LOCK_OUT)
    assert refusal["error"]["reason"] == "Unauthorized"
    assert ask(other, signed_for=one, method="GET", path=STATE) == refusal
    override("*:3")
    wait_for("both have K=3", look, in_force("*:3", replicas=2), seconds=TICKS)


async def test_no_replica_can_read_the_private_key(pair: Sender) -> None:  # noqa: ARG001
    one, _ = ready_pods(NAME)
    search = "env; cat /etc/outrider/*/*"
    found = kubectl("exec", one, "-n", "default", "-c", "engine", "--", "sh", "-c", search)
    assert "BEGIN PUBLIC KEY" in found
    assert "PRIVATE" not in found
    assert signing_key(NAME).private_pem.splitlines()[1] not in found


async def test_a_lost_key_is_replaced_without_a_restart(pair: Sender) -> None:  # noqa: ARG001
    override("*:2")
    wait_for("both have K=2", look, in_force("*:2", replicas=2), seconds=TICKS)
    lost, boots = signing_key(NAME), boot_ids()
    kubectl("delete", "secret", f"{NAME}-control", "-n", "default")
    override("*:1")
    wait_for(
        "a new key", lambda: get("secret", f"{NAME}-control"), lambda seen: seen is not None, seconds=TICKS
    )
    assert signing_key(NAME) != lost
    # The kubelet looks at a pod each minute, and at once where the pod changed.
    for pod in ready_pods(NAME):
        kubectl("annotate", "pod", pod, "-n", "default", "example.com/looked-at=now")
    wait_for("both take the new key", boot_ids, lambda seen: seen == boots, seconds=KEY_REACHES_PODS)
    override("*:3")
    wait_for("both have K=3", look, in_force("*:3", replicas=2), seconds=TICKS)


def boot_ids() -> Object:
    """None for a pod that refuses to say."""
    return {pod: state(pod).get("bootId") for pod in ready_pods(NAME)}
