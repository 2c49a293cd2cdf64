"""Two installations watch the same models: one manages them, and the other one logs that it refuses them."""

from __future__ import annotations

import pytest

from tests.cluster.kubectl import Object, kubectl, wait_for
from tests.cluster.pair import TICKS
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]


async def test_the_operator_of_the_whole_cluster_refuses_the_models(pair: Sender) -> None:  # noqa: ARG001
    wait_for("the other one refuses", refusal, lambda seen: seen is not None, seconds=TICKS)


def refusal() -> Object | None:
    """The line in its log."""
    where = ("-n", "outrider-system", "-l", "app.kubernetes.io/name=outrider", "--tail=-1")
    lines = [line for line in kubectl("logs", *where).splitlines() if "refused: models in" in line]
    return {"status": lines[-1]} if lines else None
