"""Drive a published rule beside the operator: the same measurements, the same windows, the same pushes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.source import MetricsError, MetricsSource
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, Observation, Window
from outrider_lab.rivals.tuners import Tuner
from outrider_protocol.schedule import Schedule
from tests.bench.engine.records import Push


class Tables(Protocol):
    """Puts tables in force."""

    async def put(self, table: Schedule) -> Push:
        """Returns when every engine confirmed it."""
        ...


@dataclass
class RuleLoop:
    """One rule over one trace. clock: unix seconds, on the clock of the source."""

    rule: Tuner
    source: MetricsSource
    tables: Tables
    pods: Sequence[PodKey]
    tick_seconds: float
    clock: Callable[[], float] = time.time
    pushes: list[Push] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    _wanted: Schedule | None = None
    _began: float = 0.0
    _measured_until: dict[PodKey, float] = field(default_factory=dict)
    _has_cells: dict[PodKey, bool] = field(default_factory=dict)

    async def begin(self) -> None:
        """Put the rule's first table in force; what was measured before is not shown to it."""
        await self._want(self.rule.begin().schedule)
        self._began = self.clock()
        self._measured_until = dict.fromkeys(self.pods, self._began)

    async def run(self, *, first_after: float) -> None:
        """Tick until cancelled; a slow tick delays the next one and never overlaps it."""
        await asyncio.sleep(first_after)
        while True:
            started = time.monotonic()
            await self.tick()
            await asyncio.sleep(max(0.0, self.tick_seconds - (time.monotonic() - started)))

    async def tick(self) -> None:
        """Observe, ask the rule, and put its table in force; without measurements hold."""
        now = self.clock()
        try:
            measured = await self.source.fetch(self._lookback(now))
        except MetricsError as error:
            self.gaps.append(str(error))
            return
        seen = [self._window(pod, measured.get(pod), now) for pod in self.pods]
        self.gaps += [f"{gap.reason}: {gap.detail}" for gap in seen if isinstance(gap, Gap)]
        await self._want(self.rule.tick(seen, now - self._began).schedule)

    def _lookback(self, now: float) -> float:
        return max(self.tick_seconds, now - min(self._measured_until.values())) + 2.0

    def _window(self, pod: PodKey, series: PodMetrics | None, now: float) -> Observation:
        window = build_window(
            pod,
            series,
            dialect=DIALECT,
            since=self._measured_until[pod],
            until=now,
            max_age_seconds=max(30.0, 3 * self.tick_seconds),
        )
        if isinstance(window, Window):
            self._measured_until[pod] = window.ended_at
            self._has_cells[pod] = bool(window.cells)
        return window

    async def _want(self, table: Schedule) -> None:
        if table == self._wanted:
            return
        push = await self.tables.put(table)
        self._wanted = table
        self.pushes.append(push)
        for pod, has_cells in self._has_cells.items():
            # Cells separate values of K; without them a window must not span two tables.
            if not has_cells:
                self._measured_until[pod] = push.in_force
