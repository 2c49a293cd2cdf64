"""Follow a model's status while something runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from examples.kit.cluster import Cluster
from examples.kit.polling import looking
from examples.kit.records import DecisionSample, SpeedupSample, StatusSample
from examples.kit.status import in_force
from outrider.api.status import DecisionRecord, Speedup, Status
from outrider.cluster.errors import ClusterError


@dataclass
class Watch:
    """Everything that one model's status said, in order. since: earlier decisions are left out."""

    since: float = 0.0
    statuses: list[StatusSample] = field(default_factory=list)
    _decisions: dict[tuple[float, str], DecisionSample] = field(default_factory=dict)

    @property
    def decisions(self) -> tuple[DecisionSample, ...]:
        """Each decision once, oldest first."""
        return tuple(self._decisions[key] for key in sorted(self._decisions))

    @property
    def last(self) -> StatusSample | None:
        """The newest status."""
        return self.statuses[-1] if self.statuses else None

    def note(self, status: Status, now: float) -> None:
        """Keep one status. A decision's gain is measured later, so the newest record of it counts."""
        self.statuses.append(_sample(status, now))
        for decision in map(_decision, status.decisions):
            if decision.time >= self.since:
                self._decisions[decision.time, decision.to_table] = decision


@asynccontextmanager
async def watching(
    cluster: Cluster, name: str, *, period_seconds: float, since: float = 0.0
) -> AsyncIterator[Watch]:
    """Look once a period while the block runs; a look that fails leaves a gap."""
    watch = Watch(since)

    async def look() -> None:
        watch.note(await cluster.status(name), time.time())

    async with looking(look, period_seconds=period_seconds, gaps=ClusterError):
        yield watch


def _sample(status: Status, now: float) -> StatusSample:
    speculation = status.speculation
    if speculation is None:
        return StatusSample(time=now, table=None)
    return StatusSample(
        time=now,
        table=in_force(status),
        epoch=speculation.epoch,
        acceptance_rate=speculation.acceptance_rate,
        speedup=_speedup(speculation.speedup) if speculation.speedup else None,
    )


def _speedup(found: Speedup) -> SpeedupSample:
    return SpeedupSample(
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        reference=found.reference,
        measured_at=found.measured_at.timestamp(),
    )


def _decision(found: DecisionRecord) -> DecisionSample:
    return DecisionSample(
        time=found.time.timestamp(),
        from_table=found.from_,
        to_table=found.to,
        reason=found.reason,
        message=found.message,
        expected_gain=found.expected_gain,
        measured_gain=found.measured_gain,
    )
