"""No operator leads, which an alert sees. Of two, the leader is killed, or falls silent as on a lost node."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.cluster.alerts import alerts, ask
from tests.cluster.api_server import read
from tests.cluster.engines import page, read_page, ready_pods
from tests.cluster.kubectl import Object, get, kubectl, operator_namespace, wait_for
from tests.cluster.operator_pod import operator_pods, without_operator
from tests.cluster.pair import NAME, TICK, rules
from tests.cluster.sending import Sender

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.engine("twin", "starts"),
]

TAKEOVER = 180.0
"""On a quiet machine it takes a tenth of that; what it took is printed."""
_SIGNAL = r"""
for folder in /proc/[0-9]*; do
  tr '\0' ' ' < $folder/cmdline 2> /dev/null | grep -q 'outrider run' || continue
  [ "$(cat $folder/root/etc/hostname)" = "$1" ] && kill -s "$2" "${folder#/proc/}" && found=yes
done
[ -n "$found" ]
"""
"""From outside of the container: within it the first process of all is safe from signals."""


@pytest.fixture(scope="module")
def two_operators(pair: Sender) -> Iterator[None]:  # noqa: ARG001  its engines tell who pushes
    operator = ("deployment/outrider", "-n", operator_namespace())
    kubectl("scale", *operator, "--replicas=2")
    try:
        kubectl("rollout", "status", *operator, "--timeout=90s")
        yield
    finally:
        kubectl("scale", *operator, "--replicas=1")
        wait_for("one operator", operator_pods, lambda left: len((left or {})["status"]) == 1, seconds=60)
        kubectl("rollout", "status", *operator, "--timeout=90s")


async def test_a_missing_leader_is_seen(pair: Sender) -> None:  # noqa: ARG001
    expression = alerts()["OutriderLeaderAbsent"]

    def absent() -> Object | None:
        found = ask(expression)
        return {"status": found} if found else None

    wait_for("one leads", absent, lambda seen: seen is None, seconds=60)
    with without_operator():
        wait_for("the alert sees it", absent, lambda seen: seen is not None, seconds=60)
    wait_for("it is over", absent, lambda seen: seen is None, seconds=60)


async def test_a_leader_that_falls_silent_is_followed_and_pushes_nothing_when_it_is_back(
    pair: Sender,  # noqa: ARG001
    two_operators: None,  # noqa: ARG001
) -> None:
    rules(2)
    old, before = leader(), terms()
    signal_operator(old, "STOP")
    try:
        seconds = seconds_until_terms_above(before)
        new, after = leader(), terms()
        rules(3)
    finally:
        signal_operator(old, "CONT")
    print(f"{new} pushed {seconds:.1f} s after {old} fell silent")
    seen = looks(seconds=2 * TICK)
    assert seen == {(pod, term, "3") for pod, term in after.items()}
    assert leader() == new
    wait_for(
        "only the new one leads",
        lambda: {"status": [leads(old), leads(new)]},
        lambda seen: seen == {"status": [0, 1]},
        seconds=60,
    )


async def test_a_leader_that_is_killed_is_followed(
    pair: Sender,  # noqa: ARG001
    two_operators: None,  # noqa: ARG001
) -> None:
    rules(2)
    before = terms()
    signal_operator(leader(), "KILL")
    seconds = seconds_until_terms_above(before)
    print(f"{leader()} pushed after {seconds:.1f} s")
    assert {k for _, _, k in looks(seconds=0)} == {"2"}


def leader() -> str:
    """The pod that holds the Lease."""
    lease = get("lease", "outrider", operator_namespace())
    assert lease is not None
    return str(lease["spec"]["holderIdentity"]).rpartition("_")[0]


def signal_operator(pod: str, signal: str) -> None:
    """A signal to the operator in this pod, from the node, which is a container of Docker."""
    found = get("pod", pod, operator_namespace())
    assert found is not None, f"no pod {pod}"
    command = ["docker", "exec", found["spec"]["nodeName"], "sh", "-c", _SIGNAL, "sh", pod, signal]
    subprocess.run(command, check=True, timeout=30)


def terms() -> dict[str, int]:
    """Of the last push, by engine pod."""
    return {pod: read_page(pod).term for pod in ready_pods(NAME)}


def seconds_until_terms_above(before: dict[str, int]) -> float:
    """Until every engine has a push of a newer leader."""
    began = time.monotonic()

    def look_at_them() -> Object:
        return {"status": terms()}

    def newer(seen: Object | None) -> bool:
        now = (seen or {})["status"]
        return len(now) == len(before) == 2 and all(term > before[pod] for pod, term in now.items())

    wait_for("pushes of a newer leader", look_at_them, newer, seconds=TAKEOVER)
    return time.monotonic() - began


def looks(*, seconds: float) -> set[tuple[str, int, str]]:
    """What engines use for so long, looked at at least once: pod, term, and K for all batches."""
    seen: set[tuple[str, int, str]] = set()
    deadline = time.monotonic() + seconds
    while not seen or time.monotonic() < deadline:
        for pod in ready_pods(NAME):
            if (found := page(pod)) is not None:
                used = ",".join(sorted({str(k) for k in found.table.values()}))
                seen.add((pod, found.term, used))
        time.sleep(0.2)
    return seen


def leads(pod: str) -> int:
    """What the operator says of itself: 1 or 0."""
    path = f"/api/v1/namespaces/{operator_namespace()}/pods/{pod}:8080/proxy/metrics"
    lines = read(path).splitlines()
    (value,) = (line.split()[-1] for line in lines if line.startswith("outrider_operator_leader{"))
    return int(float(value))
