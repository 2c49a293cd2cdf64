"""Two installations watch the same models: one manages them, and the other one reports that it yields."""

from __future__ import annotations

import pytest

from tests.cluster.kubectl import Object, kubectl, namespace, wait_for
from tests.cluster.pair import TICKS, look
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]


async def test_the_operator_of_the_whole_cluster_stands_by(pair: Sender) -> None:  # noqa: ARG001
    said = wait_for("the other one stands by", standing_by, lambda seen: seen is not None, seconds=TICKS)
    assert "the one in outrider-system is on standby" in str(said)


def standing_by() -> Object | None:
    """The Event about it."""
    uid = (look() or {})["metadata"]["uid"]
    which = f"reason=OnStandby,involvedObject.uid={uid}"
    where = ("-n", namespace(), "--field-selector", which)
    printed = kubectl("get", "events", *where, "-o", "jsonpath={..message}")
    return {"status": printed} if printed.strip() else None
