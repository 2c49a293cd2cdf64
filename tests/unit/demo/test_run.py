"""What is kept of a load as it was driven."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from unittest.mock import MagicMock

from rich.console import Console

from examples.demo.phases import TRACE, Arm, Visit
from examples.demo.result import ArmStretch
from examples.demo.run import drive
from examples.demo.table import Screen
from examples.kit.loads import Load
from examples.kit.records import Count
from examples.kit.traffic import Traffic
from examples.kit.watch import Watch
from tests.unit.kit.factories import a_count


class LateTraffic(Traffic):
    """Its last count comes late."""

    async def hold(self, load: Load, seconds: float) -> AsyncGenerator[Count]:  # noqa: ARG002
        for second in range(1, int(seconds)):
            yield a_count(second)
        yield a_count(seconds + 2.0, seconds=3.0)


async def driven(visit: Visit) -> ArmStretch:
    traffic = LateTraffic(MagicMock(), "client", "http://tiny", "tiny", 8, 0.0)
    return await drive(traffic, Screen(Console(quiet=True)), Watch(), visit)


async def test_a_slice_counts_after_its_ramp() -> None:
    found = await driven(Visit(Arm.NO_DRAFTS, TRACE[0], 8.0, uncounted=2.0))
    assert [count.time for count in found.counted] == [3.0, 4.0, 5.0, 6.0, 7.0, 10.0]


async def test_nothing_of_learning_counts_even_where_its_last_count_came_late() -> None:
    found = await driven(Visit(Arm.OUTRIDER, TRACE[0], 4.0, uncounted=4.0))
    assert len(found.counts) == 4
    assert found.counted == ()
