"""Observe: the tuner says what it would do, and does nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.engines import read_page, ready_pods
from tests.cluster.kubectl import Object, has_condition, kubectl, wait_for
from tests.cluster.models import speculation
from tests.cluster.pair import NAME, TICKS, look, tune
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

OBSERVING = ("TuningActive", "False", "Observing")
STREAMS = 4
"""Two for each engine: a load of which the static table has no drafts, and an H100 gains much from them."""
LONGEST_SECONDS = 150.0
"""What an earlier test taught is forgotten at first."""


async def test_decisions_appear_and_nothing_changes(pair: Sender) -> None:
    pods = ready_pods(NAME)
    before = {pod: read_page(pod) for pod in pods}
    tune("Observe")
    wait_for("observing", look, lambda seen: has_condition(seen, *OBSERVING), seconds=TICKS)
    load = asyncio.create_task(pair.send_until(has_decided, STREAMS, LONGEST_SECONDS))
    probed, tables = 0, set()
    while not load.done():
        await asyncio.sleep(0.3)
        for pod in pods:
            now = read_page(pod)
            probed += now.probing
            assert now.table == before[pod].table
        tables.add(speculation(look()).get("scheduleSummary"))
    sent = await load
    assert (sent.failed, probed) == (0, 0)
    assert tables == {"3:0,*:5"}
    for wanted in (("MetricsAvailable", "True", "MetricsFresh"), ("ActuationConverged", "True", "Converged")):
        wait_for(
            wanted[-1],
            look,
            lambda seen, wanted=wanted: has_condition(seen, *wanted),  # type: ignore[misc]
            seconds=TICKS,
        )
    assert has_decided()
    assert would_retune() is not None


def has_decided() -> bool:
    """Status has a decision that was not carried out."""
    decisions = ((look() or {}).get("status") or {}).get("decisions") or []
    return any(record.get("would") for record in decisions)


def would_retune() -> Object | None:
    """The Event about what would have been done."""
    uid = (look() or {})["metadata"]["uid"]
    selector = f"reason=WouldRetune,involvedObject.uid={uid}"
    printed = kubectl(
        "get", "events", "-n", "default", "--field-selector", selector, "-o", "jsonpath={..message}"
    )
    return {"status": printed} if printed.strip() else None
