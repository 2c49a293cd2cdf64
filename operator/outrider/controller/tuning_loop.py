"""The tuning loop: one task for all models. Each tick is observe, decide, actuate, report."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from outrider.api.schedule import Schedule
from outrider.cluster.errors import ClusterError
from outrider.controller.actuation import EnginePod
from outrider.controller.demand import Capacity, demand
from outrider.controller.doorman import greet_forever
from outrider.controller.fleet import Fleet, LaunchDesk, Reporter, StateShelf, TunedModel
from outrider.controller.model_tuner import Measured, ModelTuner, TickOutcome, Timing
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.state_keeper import StateKeeper
from outrider.controller.tuning_events import events
from outrider.controller.tuning_report import Report, ReportState, report
from outrider.engine.client import EngineClient, Push
from outrider.telemetry.source import MetricsError, MetricsSource

log = logging.getLogger(__name__)

_NUMBERS_INTERVAL_SECONDS = 10.0
"""Status is written at once when something happened, and this often when only numbers moved."""
_CLOCK_SLACK_SECONDS = 2.0
"""How far the clocks of the operator and of the source may differ."""
_STOP_SECONDS = 3.0
_BREATH_SECONDS = 1.0
"""Between two ticks, whoever asks."""


@dataclass(slots=True)
class _Tuned:
    """What the loop remembers of one model between ticks."""

    model: TunedModel
    tuner: ModelTuner
    keeper: StateKeeper
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
        shelf: StateShelf,
        desk: LaunchDesk,
        term: Callable[[], int],
        interval_seconds: float,
        lease_seconds: float,
        settle_seconds: float,
        metrics: OwnMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fleet = fleet
        self._source = source
        self._engines = engines
        self._reporter = reporter
        self._shelf = shelf
        self._desk = desk
        self._term = term
        self._interval = interval_seconds
        self._timing = Timing(
            tick=interval_seconds,
            push_lease=lease_seconds,
            max_sample_age=max(30.0, 3 * interval_seconds),
            settle=settle_seconds,
        )
        self._metrics = metrics
        self._clock = clock
        self._tuned: dict[str, _Tuned] = {}
        self._asked = asyncio.Event()

    def look_now(self) -> None:
        """Do not wait for the next tick: somebody changed a model, or a pod came up."""
        self._asked.set()

    async def run(self) -> None:
        """Tick until cancelled, at a steady pace, and when asked to; then keep what was learnt.

        A slow tick delays the next one and never overlaps it.
        """
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._tick_forever())
                parts.create_task(greet_forever(self._engines, self._coming))
        finally:
            await self._keep_all()

    async def _tick_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            with self._metrics.tuning_tick_seconds.time():
                await self.tick()
            await self._rest(started)

    def _coming(self) -> list[tuple[EnginePod, Push]]:
        """As of the last tick: an engine is seen long before it listens."""
        return [each for tuned in self._tuned.values() for each in tuned.tuner.coming(tuned.model)]

    async def _rest(self, started: float) -> None:
        """Until the next tick is due, or somebody asks; a storm of changes makes no storm of ticks."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, min(_BREATH_SECONDS, self._interval) - (loop.time() - started)))
        try:
            async with asyncio.timeout_at(started + self._interval):
                await self._asked.wait()
        except TimeoutError:
            return
        finally:
            self._asked.clear()

    async def tick(self) -> None:
        """One round over all models."""
        models = self._fleet.tuned_models()
        self._forget_gone(models)
        measured = await self._measure(models)
        await asyncio.gather(*(self._tick_supervised(model, measured) for model in models))
        self._metrics.demand.forget_stale(now=self._clock())

    async def _measure(self, models: Sequence[TunedModel]) -> Measured:
        if not models:
            return {}
        try:
            with self._metrics.prometheus_query_seconds.time():
                return await self._source.fetch(self._lookback())
        except MetricsError as error:
            self._metrics.prometheus_errors.inc()
            return error

    def _lookback(self) -> float:
        """Back to the oldest sample that a window still needs, within bounds: answers are large."""
        longest = self._timing.max_sample_age + 2 * self._interval
        needed = [t.tuner.measured_until for t in self._tuned.values()]
        oldest = min((at for at in needed if at is not None), default=None)
        if oldest is None:
            return longest
        return min(longest, max(self._interval, self._clock() - oldest) + _CLOCK_SLACK_SECONDS)

    async def _tick_supervised(self, model: TunedModel, measured: Measured) -> None:
        try:
            await self._tick_model(model, measured)
        except ClusterError as error:
            log.warning("status of %s/%s not written: %s", model.namespace, model.name, error)
        except Exception:  # one model's defect must not stop the others
            log.exception("tick of %s/%s failed", model.namespace, model.name)

    async def _tick_model(self, model: TunedModel, measured: Measured) -> None:
        tuned = self._tuned.get(model.uid) or await self._begin(model)
        tuned.model = model
        outcome = await tuned.tuner.tick(model, measured, term=self._term(), now=self._clock())
        self._count(outcome)
        before = tuned.reporting
        written = report(outcome, before)
        tuned.reporting = written.state
        _log(outcome)
        await self._write(model, tuned, written)
        for event in events(outcome, before=before, after=written.state):
            await self._reporter.event(model, event.reason, event.note, warning=event.warning)
        await self._keep(tuned, stops=False)

    async def _begin(self, model: TunedModel) -> _Tuned:
        """Go on where an earlier process stopped, as far as it left anything behind."""
        keeper = StateKeeper(self._shelf, self._reporter)
        restored = await keeper.restore(model)
        tuner = ModelTuner(self._engines, self._desk, self._timing, restored=restored, clock=self._clock)
        tuned = self._tuned[model.uid] = _Tuned(model, tuner, keeper, ReportState.continued(model.status))
        return tuned

    async def _keep(self, tuned: _Tuned, *, stops: bool) -> None:
        knowledge = tuned.tuner.knowledge
        if knowledge is not None:
            await tuned.keeper.keep(tuned.model, knowledge, now=self._clock(), stops=stops)

    async def _keep_all(self) -> None:
        keeping = (self._keep(tuned, stops=True) for tuned in self._tuned.values())
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                failures = await asyncio.gather(*keeping, return_exceptions=True)
        except TimeoutError:
            log.warning("not every tuner state was written within %.0f s", _STOP_SECONDS)
            return
        for failure in filter(None, failures):
            log.warning("a tuner state was not written: %s", failure)

    async def _write(self, model: TunedModel, tuned: _Tuned, written: Report) -> None:
        part = written.to_wire()
        if part == tuned.written:
            return
        happened = _without_numbers(part) != _without_numbers(tuned.written)
        if not happened and self._clock() - tuned.written_at < _NUMBERS_INTERVAL_SECONDS:
            return
        await self._reporter.apply_status(model, part)
        tuned.written, tuned.written_at = part, self._clock()

    def _count(self, outcome: TickOutcome) -> None:
        model = outcome.model
        needs = demand(
            outcome.observations,
            replicas=len(model.pods),
            table=Schedule.constant(0) if outcome.without_drafter else outcome.in_force or model.static,
            capacity=Capacity(model.policy.max_num_seqs, model.max_num_batched_tokens),
        )
        if needs is not None:
            self._metrics.demand.show(model.namespace, model.name, needs, now=outcome.now)
        if outcome.probe is not None:
            ran = "started" if outcome.probe.error is None else "failed" if outcome.probe.failed else "busy"
            self._metrics.probes.labels(ran).inc()
        if outcome.push is not None:
            self._metrics.pushes.labels("confirmed").inc(len(outcome.push.confirmed))
            self._metrics.pushes.labels("failed").inc(len(outcome.push.failed))

    def _forget_gone(self, models: Sequence[TunedModel]) -> None:
        present = {model.uid for model in models}
        self._tuned = {uid: tuned for uid, tuned in self._tuned.items() if uid in present}


def _log(outcome: TickOutcome) -> None:
    name = f"{outcome.model.namespace}/{outcome.model.name}"
    decision, probe, launch = outcome.decision, outcome.probe, outcome.launch
    if decision is not None:
        level = logging.INFO if decision.changed else logging.DEBUG
        log.log(level, "%s: %s (%s): %s", name, decision.kind, decision.reason, decision.sentence)
    if launch is not None and launch.error is not None:
        log.warning("%s: launch not ordered: %s", name, launch.error)
    elif launch is not None and launch.ordered:
        log.info("%s: %s: %s", name, launch.verdict.reason, launch.verdict.sentence)
    if probe is not None:
        log.log(logging.WARNING if probe.failed else logging.INFO, "%s: %s", name, probe)


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
