"""Follow the model's status while a unit runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from examples.demo.arms import in_force
from examples.demo.cluster import Cluster
from outrider.api.status import Speedup, Status
from outrider.cluster.errors import ClusterError
from tests.bench.engine.records import DecisionSample, SpeedupSample, StatusSample

PERIOD_SECONDS = 1.0


@dataclass
class StatusLog:
    """Everything that one model's status said since `began`, in order. Times are unix seconds."""

    began: float = field(default_factory=time.time)
    statuses: list[StatusSample] = field(default_factory=list)
    _decisions: dict[tuple[float, str], DecisionSample] = field(default_factory=dict)

    @property
    def decisions(self) -> tuple[DecisionSample, ...]:
        """Each decision once, oldest first."""
        return tuple(self._decisions[key] for key in sorted(self._decisions))

    def note(self, status: Status, now: float) -> None:
        """Keep one status."""
        speculation = status.speculation
        self.statuses.append(
            StatusSample(
                time=now,
                table=in_force(status),
                epoch=speculation.epoch if speculation else None,
                acceptance_rate=speculation.acceptance_rate if speculation else None,
                speedup=_speedup(speculation.speedup) if speculation and speculation.speedup else None,
            )
        )
        for one in status.decisions:
            at = one.time.timestamp()
            if at >= self.began - 1:
                self._decisions[at, one.to] = DecisionSample(
                    time=at, from_table=one.from_, to_table=one.to, reason=one.reason, message=one.message
                )


@asynccontextmanager
async def watching(cluster: Cluster, name: str) -> AsyncIterator[StatusLog]:
    """Look every second; a look that fails leaves a gap."""
    log = StatusLog()

    async def follow() -> None:
        while True:
            with suppress(ClusterError):
                log.note(await cluster.status(name), time.time())
            await asyncio.sleep(PERIOD_SECONDS)

    task = asyncio.create_task(follow())
    try:
        yield log
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _speedup(found: Speedup) -> SpeedupSample:
    return SpeedupSample(
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        reference=found.reference,
        measured_at=found.measured_at.timestamp(),
    )
