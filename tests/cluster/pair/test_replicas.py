"""Two replicas: one table for both, and neither holds up the other."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.cluster.engines import name_of, page, read_page, ready_pods, signal_engine_core
from tests.cluster.kubectl import Object, condition, has_condition, kubectl, wait_for
from tests.cluster.models import in_force, speculation
from tests.cluster.pair import NAME, TICK, TICKS, look, override
from tests.cluster.pair.watching import a_new_pod_of
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

LOOKS = 2.0
"""Between two looks, and for kubectl itself."""


async def test_both_confirm_one_epoch_and_share_the_load(pair: Sender) -> None:
    override("*:2")
    seen = wait_for("both have K=2", look, in_force("*:2", replicas=2), seconds=TICKS)
    found = condition(seen, "ActuationConverged")
    assert found is not None
    assert found["message"] == f"2/2 at epoch {speculation(seen)['epoch']}."
    before = {pod: read_page(pod) for pod in ready_pods(NAME)}
    assert len(before) == 2
    sent = await pair.send(streams=12, seconds=10)
    assert (sent.failed, sent.errors) == (0, ())
    for pod, then in before.items():
        now = read_page(pod)
        assert (now.epoch, set(now.table.values())) == (speculation(seen)["epoch"], {2})
        assert now.tokens > then.tokens, f"{pod} got nothing of {sent}"


async def test_a_frozen_engine_is_named_and_the_other_gets_new_tables(pair: Sender) -> None:  # noqa: ARG001
    override("*:1")
    wait_for("both have K=1", look, in_force("*:1", replicas=2), seconds=TICKS)
    frozen, other = ready_pods(NAME)
    signal_engine_core(frozen, "SIGSTOP")
    try:
        waits = list[float]()
        for k in (2, 3, 2, 3):
            override(f"*:{k}")
            started = time.monotonic()
            wait_for_k(other, k, seconds=TICKS)
            waits.append(time.monotonic() - started)
        print("the other engine had new tables after", [f"{wait:.1f} s" for wait in waits])
        assert min(waits) < TICK + LOOKS
        partial = wait_for("told", look, lambda seen: said(seen).startswith("1/2"), seconds=TICKS)
        assert frozen in said(partial)
        assert has_condition(partial, "ActuationConverged", "False", "PartiallyApplied")
        assert speculation(partial)["appliedReplicas"] == 1
        print(said(partial))
    finally:
        signal_engine_core(frozen, "SIGCONT")
    wait_for("both have K=3", look, in_force("*:3", replicas=2), seconds=TICKS)


async def test_a_new_pod_has_the_table_when_it_becomes_ready(pair: Sender) -> None:  # noqa: ARG001
    override("*:3")
    wait_for("both have K=3", look, in_force("*:3", replicas=2), seconds=TICKS)
    gone, stays = ready_pods(NAME)
    kubectl("delete", "pod", gone, "-n", "default", "--wait=false")
    wait_for("one is left", look, lambda seen: speculation(seen).get("appliedReplicas") == 1, seconds=TICKS)
    new = wait_for("another one", a_new_pod_of({gone, stays}), lambda seen: seen is not None, seconds=120)
    assert new is not None
    first_look = read_page(name_of(new))
    ready = condition(new, "Ready")
    assert ready is not None
    after = time.time() - datetime.fromisoformat(ready["lastTransitionTime"]).timestamp()
    assert set(first_look.table.values()) == {3}
    print(f"the new pod had the table at the first look, {after:.1f} s after it was ready")
    wait_for("both confirmed it", look, in_force("*:3", replicas=2), seconds=TICKS)


def said(seen: Object | None) -> str:
    """What ActuationConverged says."""
    return str((condition(seen, "ActuationConverged") or {}).get("message", ""))


def wait_for_k(pod: str, k: int, *, seconds: float) -> None:
    """The engine itself says that every batch drafts this K."""

    def look_at_it() -> Object | None:
        seen = page(pod)
        return None if seen is None else {"status": sorted(set(seen.table.values()))}

    wait_for(f"K={k} in {pod}", look_at_it, lambda seen: seen == {"status": [k]}, seconds=seconds)
