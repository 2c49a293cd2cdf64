"""The tuning loop: one task for all models. Each tick is observe, decide, actuate, report."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.api.conditions import ConditionStatus
from outrider.api.reasons import ConditionType, EventReason
from outrider.cluster.errors import ClusterError
from outrider.controller.fleet import Fleet, Reporter, TunedModel
from outrider.controller.model_tuner import Measured, ModelTuner, TickOutcome, Timing
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.tuning_report import Report, ReportState, report
from outrider.engine.client import EngineClient
from outrider.telemetry.source import MetricsError, MetricsSource
from outrider.tuning.decision import Kind

log = logging.getLogger(__name__)

_NUMBERS_INTERVAL_SECONDS = 10.0
"""Status is written at once when something happened, and this often when only numbers moved."""


@dataclass(slots=True)
class _Tuned:
    """What the loop remembers of one model between ticks."""

    tuner: ModelTuner
    reporting: ReportState
    written: dict[str, object] = field(default_factory=dict)
    written_at: float = float("-inf")


class TuningLoop:
    """Runs until cancelled. A model that fails does not delay the others.

    term: the leader's term, read at each tick; it fences every push.
    clock: unix seconds.
    """

    def __init__(
        self,
        *,
        fleet: Fleet,
        source: MetricsSource,
        engines: EngineClient,
        reporter: Reporter,
        term: Callable[[], int],
        interval_seconds: float,
        lease_seconds: float,
        metrics: OwnMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fleet = fleet
        self._source = source
        self._engines = engines
        self._reporter = reporter
        self._term = term
        self._interval = interval_seconds
        self._timing = Timing(push_lease=lease_seconds, max_sample_age=max(30.0, 3 * interval_seconds))
        self._metrics = metrics
        self._clock = clock
        self._tuned: dict[str, _Tuned] = {}

    async def run(self) -> None:
        """Tick for ever, at a steady pace; a slow tick delays the next one and never overlaps it."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            with self._metrics.tuning_tick_seconds.time():
                await self.tick()
            await asyncio.sleep(max(0.0, self._interval - (loop.time() - started)))

    async def tick(self) -> None:
        """One round over all models."""
        models = self._fleet.tuned_models()
        self._forget_gone(models)
        measured = await self._measure(models)
        await asyncio.gather(*(self._tick_supervised(model, measured) for model in models))

    async def _measure(self, models: Sequence[TunedModel]) -> Measured:
        if not models:
            return {}
        try:
            with self._metrics.prometheus_query_seconds.time():
                return await self._source.fetch(self._timing.max_sample_age + 2 * self._interval)
        except MetricsError as error:
            self._metrics.prometheus_errors.inc()
            return error

    async def _tick_supervised(self, model: TunedModel, measured: Measured) -> None:
        try:
            await self._tick_model(model, measured)
        except ClusterError as error:
            log.warning("status of %s/%s not written: %s", model.namespace, model.name, error)
        except Exception:  # one model's defect must not stop the others
            log.exception("tick of %s/%s failed", model.namespace, model.name)

    async def _tick_model(self, model: TunedModel, measured: Measured) -> None:
        tuned = self._tuned.get(model.uid)
        if tuned is None:
            tuned = _Tuned(ModelTuner(self._engines, self._timing), ReportState.continued(model.status))
            self._tuned[model.uid] = tuned
        outcome = await tuned.tuner.tick(model, measured, term=self._term(), now=self._clock())
        self._count(outcome)
        before = tuned.reporting
        written = report(outcome, before)
        tuned.reporting = written.state
        _log_decision(outcome)
        await self._write(model, tuned, written)
        await self._tell(outcome, before, written)

    async def _write(self, model: TunedModel, tuned: _Tuned, written: Report) -> None:
        part = written.to_wire()
        if part == tuned.written:
            return
        happened = _without_numbers(part) != _without_numbers(tuned.written)
        if not happened and self._clock() - tuned.written_at < _NUMBERS_INTERVAL_SECONDS:
            return
        await self._reporter.apply_status(model, part)
        tuned.written, tuned.written_at = part, self._clock()

    async def _tell(self, outcome: TickOutcome, before: ReportState, written: Report) -> None:
        """Events, on transitions only."""
        model, decision = outcome.model, outcome.decision
        if decision is not None and decision.changed and decision.kind in (Kind.EXPLOIT, Kind.ROLL_BACK):
            acts = outcome.wanted != outcome.before
            reason = EventReason.RETUNED if acts else EventReason.WOULD_RETUNE
            await self._reporter.event(model, reason, decision.sentence, warning=False)
        for kind, lost, back in (
            (ConditionType.METRICS_AVAILABLE, EventReason.METRICS_LOST, EventReason.METRICS_BACK),
            (
                ConditionType.ACTUATION_CONVERGED,
                EventReason.ACTUATION_FAILED,
                EventReason.ACTUATION_RECOVERED,
            ),
        ):
            was, now = before.condition(kind), written.state.condition(kind)
            if now is None or (was is not None and was.status is now.status):
                continue
            if now.status is ConditionStatus.FALSE:
                await self._reporter.event(model, lost, now.message, warning=True)
            elif was is not None:
                await self._reporter.event(model, back, now.message, warning=False)

    def _count(self, outcome: TickOutcome) -> None:
        if outcome.push is not None:
            self._metrics.pushes.labels("confirmed").inc(len(outcome.push.confirmed))
            self._metrics.pushes.labels("failed").inc(len(outcome.push.failed))

    def _forget_gone(self, models: Sequence[TunedModel]) -> None:
        present = {model.uid for model in models}
        self._tuned = {uid: tuned for uid, tuned in self._tuned.items() if uid in present}


def _log_decision(outcome: TickOutcome) -> None:
    decision = outcome.decision
    if decision is None:
        return
    level = logging.INFO if decision.changed else logging.DEBUG
    name = f"{outcome.model.namespace}/{outcome.model.name}"
    log.log(level, "%s: %s (%s): %s", name, decision.kind, decision.reason, decision.sentence)


def _without_numbers(part: dict[str, object]) -> object:
    """What makes a status worth writing at once: conditions, tables, decisions; not drifting measurements."""
    if not part:
        return None
    conditions, speculation = part["conditions"], part["speculation"]
    assert isinstance(conditions, list)
    assert isinstance(speculation, dict)
    return (
        [(c["type"], c["status"], c["reason"]) for c in conditions],
        [speculation.get(name) for name in ("state", "epoch", "table", "appliedReplicas")],
        part["decisions"],
    )
