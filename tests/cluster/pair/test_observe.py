"""Observe: the tuner says what it would do, and does nothing."""

from __future__ import annotations

import asyncio

import pytest

from examples.demo.prompts import Kind
from tests.cluster.engines import read_page, ready_pods
from tests.cluster.kubectl import Object, has_condition, kubectl, wait_for
from tests.cluster.pair import NAME, TICKS, look, speculation, tune
from tests.cluster.sending import Sender

pytestmark = pytest.mark.asyncio(loop_scope="package")

OBSERVING = ("TuningActive", "False", "Observing")
LONGEST_SECONDS = 150.0
"""What an earlier test taught is forgotten at first, and a busy machine learns slowly."""
PROMPTS = 60.0
"""An engine that reads the prompts of many streams tells nothing meanwhile."""


async def test_decisions_appear_and_nothing_changes(pair: Sender) -> None:
    pods = ready_pods(NAME)
    before = {pod: read_page(pod) for pod in pods}
    tune("Observe")
    wait_for("observing", look, lambda seen: has_condition(seen, *OBSERVING), seconds=TICKS)
    load = asyncio.create_task(pair.send_until(has_decided, 24, LONGEST_SECONDS, Kind.PROSE))
    probed, tables = 0, set()
    while not load.done():
        await asyncio.sleep(0.3)
        for pod in pods:
            now = read_page(pod, seconds=PROMPTS)
            probed += now.probing
            assert now.table == before[pod].table
        tables.add(speculation(look()).get("table"))
    sent = await load
    assert (sent.failed, probed) == (0, 0)
    assert tables == {"3:0,*:5"}
    fresh = ("MetricsAvailable", "True", "MetricsFresh")
    seen = wait_for("measured", look, lambda seen: has_condition(seen, *fresh), seconds=TICKS)
    assert has_condition(seen, "ActuationConverged", "True", "Converged")
    assert has_decided()
    assert would_retune() is not None


def has_decided() -> bool:
    """Status has a decision that was not carried out."""
    decisions = ((look() or {}).get("status") or {}).get("decisions") or []
    return any(record.get("would") for record in decisions)


def would_retune() -> Object | None:
    """The Event about what would have been done."""
    selector = f"reason=WouldRetune,involvedObject.name={NAME}"
    printed = kubectl(
        "get", "events", "-n", "default", "--field-selector", selector, "-o", "jsonpath={..message}"
    )
    return {"status": printed} if printed.strip() else None
