"""What becomes of engines that serve while Helm changes their operator and rolls back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.helm import CHART, RELEASE, WAIT, helm
from tests.cluster.operator_pod import operator_pods
from tests.cluster.pair import rules

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]


async def test_an_upgrade_and_its_rollback_restart_no_engine(engines: Callable[[], dict[str, str]]) -> None:
    before, operator = engines(), operator_pods()
    helm("upgrade", RELEASE, str(CHART), "--reuse-values", "--set", "podAnnotations.changed=yes", *WAIT)
    assert operator_pods() != operator
    rules(2)
    helm("rollback", RELEASE, *WAIT)
    rules(3)
    assert engines() == before
