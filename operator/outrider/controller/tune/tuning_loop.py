"""The tuning loop: one task for all models. Each tick is observe, decide, actuate, report."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from outrider.api.reasons import EventReason
from outrider.controller.cpu_budget import CpuBudget, Overspent, tuning_rests
from outrider.controller.fleet import EnginePod, Fleet, TunedModel
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.stored import Key
from outrider.controller.traces import Traces
from outrider.controller.tune.actuation import push_ahead_forever
from outrider.controller.tune.api_server import ApiServer
from outrider.controller.tune.background_writes import Turns, WriteQueue
from outrider.controller.tune.events import Event, events
from outrider.controller.tune.model_tuner import Engines, Measured, ModelTuner
from outrider.controller.tune.pace import Pace, differs, ticks_between
from outrider.controller.tune.records import record
from outrider.controller.tune.report import TunerReport, failing, report
from outrider.controller.tune.timing import MODELS_RENEWED_AT_ONCE, Timing, numbers_interval
from outrider.controller.tune.tuner_store import TunerStore
from outrider.rounds import Rounds
from outrider.telemetry.series import PodKey
from outrider.telemetry.source import MetricsError, MetricsSource, SourceUnreachable
from outrider_protocol.control_api import Push

log = logging.getLogger(__name__)

_CLOCK_SLACK_SECONDS = 2.0
"""Maximum difference between the clocks of the operator and of the metrics source."""
_CPU_SHARE = 0.05
"""Ratio of one CPU for a model whose ticks take more than that."""
_PASSING_FAILURES = 2
"""Failures in a row that are not reported; from the next one on, the status reports them."""


@dataclass(frozen=True, slots=True)
class Observability:
    """Own metrics and traces. By default, traces are dropped."""

    metrics: OwnMetrics
    traces: Traces = field(default_factory=Traces)


@dataclass(slots=True)
class _Tuned:
    """The state of one model between ticks."""

    model: TunedModel
    reported: TunerReport
    store: TunerStore
    writes: WriteQueue
    tuner: ModelTuner | None = None  # None until the stored state is read
    pace: Pace = field(default_factory=Pace)
    failures: int = 0  # ticks in a row that ended in an error
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # held by a tick or an early tick


class TuningLoop:
    """Ticks until cancelled. A failing model delays no other; an expensive one is ticked less often.

    A tick waits for the metrics source and for engines, each with a timeout. It does not wait for a model
    whose engines are silent while those of others answer, see `Rounds`. Such a model has no other tick until
    its own ended. Reads and writes at the API server run in the background, model by model.

    clock: unix seconds.
    """

    def __init__(
        self,
        fleet: Fleet,
        source: MetricsSource,
        engines: Engines,
        api_server: ApiServer,
        timing: Timing,
        *,
        observability: Observability,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fleet = fleet
        self._source = source
        self._engines = engines
        self._api_server = api_server
        self._timing = timing
        self._metrics = observability.metrics
        self._traces = observability.traces
        self._clock = clock
        self._tuned: dict[str, _Tuned] = {}
        self._turns = Turns()
        self._rounds, self._renewals = Rounds[str](), Rounds[str]()
        self._ticks = 0
        self._between = 1
        """Ticks from one measurement of a settled model to the next."""
        self._cpu = CpuBudget[str](
            timing.cpu, share=_CPU_SHARE, doubling=False, overspent=self._report_overspent
        )
        self._asked_for: set[Key] = set()
        self._asked = asyncio.Event()
        self._looked_at: dict[Key, float] = {}
        """Time of the last early tick by model, in the loop's seconds."""

    def look_now(self, key: Key) -> None:
        """Request an early tick: this model changed, or one of its pods became ready."""
        self._asked_for.add(key)
        self._asked.set()

    def has_pushed(self, uid: str) -> bool:
        """Whether a tick has pushed to the engines of this model."""
        tuner = self._tuned[uid].tuner if uid in self._tuned else None
        return tuner is not None and tuner.has_pushed

    async def run(self) -> None:
        """Resume, then tick until cancelled at a steady pace; then renew all pushes, and save the state.

        A slow tick delays the next one and never overlaps it.
        """
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._tick_forever())
                parts.create_task(self._look_early_forever())
                parts.create_task(self._renew_late_forever())
                parts.create_task(
                    push_ahead_forever(
                        self._engines.client,
                        self._starting_pods,
                        interval_seconds=self._timing.starting_push,
                    )
                )
        finally:
            await self._rounds.aclose()
            await self._close_all()
            await self._renewals.aclose()
            self._metrics.late_models.set(0)

    async def _tick_forever(self) -> None:
        loop = asyncio.get_running_loop()
        first = (self.resume, min(self._timing.rest, self._timing.tick))
        for act, interval in itertools.chain((first,), itertools.repeat((self.tick, self._timing.tick))):
            started = loop.time()
            try:
                with self._metrics.tuning_tick_seconds.time():
                    await act()
            except Exception:  # supervision: a shared part may work again at the next tick
                log.exception("the tick of all models failed")
            await asyncio.sleep(max(0.0, started + interval - loop.time()))

    async def _look_early_forever(self) -> None:
        """Tick changed models early, and no others. Many changes do not cause as many ticks."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as looks:
            while True:
                await self._asked.wait()
                self._asked.clear()
                now = loop.time()
                recent = {k: at for k, at in self._looked_at.items() if now - at < self._timing.early_tick}
                due = self._asked_for - recent.keys()
                self._looked_at = recent | dict.fromkeys(due, now)
                self._asked_for -= due
                for key in due:
                    looks.create_task(self._look_early(key))
                await asyncio.sleep(self._timing.rest)
                if self._asked_for:
                    self._asked.set()

    async def _renew_late_forever(self) -> None:
        """Renew leases that no tick renews in time, because ticks of many models take long."""
        while True:
            await asyncio.sleep(self._timing.tick / 2)
            await self.renew(older=self._timing.late_renewal)

    async def _look_early(self, key: Key) -> None:
        """Tick one model without measurements, because the query covers all models."""
        try:
            model = self._fleet.tuned_model(key)
            if model is not None:
                await self._tick_supervised(self._remembered(model), None)
        except Exception:  # supervision: the next tick repeats it
            log.exception("the early tick of %s failed", key)

    def _starting_pods(self) -> list[tuple[EnginePod, Push]]:
        """Starting pods by the last tick: a pod is known long before its engine listens."""
        known = ((tuned.model, tuned.tuner) for tuned in self._tuned.values())
        return [each for model, tuner in known if tuner is not None for each in tuner.starting_pods(model)]

    async def resume(self) -> None:
        """Tick all models once without measurements, so that engines get the known schedule at once.

        The leader before may be lost together with the metrics source.
        """
        with self._traces.span("round"):
            await self._tick_all(await self._look_at_models(), None)

    async def tick(self) -> None:
        """Tick all models once. Of those that rest, renew the leases only."""
        models = await self._look_at_models()
        self._ticks += 1
        self._between = ticks_between(sum(len(model.pods) for model in models), self._timing.pods_at_once)
        due, resting = list[TunedModel](), list[_Tuned]()
        for model in models:
            tuned = self._tuned[model.uid]
            if not tuned.pace.turns(model.uid, tick=self._ticks, between=self._between):
                resting.append(tuned)
            elif model.uid not in self._rounds.running:
                due.append(model)
        with self._traces.span("round"):
            await self._tick_all(due, await self._measure(due, models))
        self._metrics.late_models.set(len(self._rounds.running))
        await self._renew(resting, older=self._timing.renewal)
        self._metrics.demand.forget_stale(now=self._clock())

    async def _look_at_models(self) -> Sequence[TunedModel]:
        models = []
        for key in self._fleet.present():
            model = self._fleet.tuned_model(key)
            if model is not None:
                models.append(model)
            await asyncio.sleep(0)  # let other tasks run between two models
        self._forget_gone(models)
        for model in models:
            self._remembered(model)
        return models

    def _remembered(self, model: TunedModel) -> _Tuned:
        if model.uid not in self._tuned:
            self._tuned[model.uid] = self._met(model)
        tuned = self._tuned[model.uid]
        if differs(tuned.model, model):
            tuned.pace = Pace()
        tuned.model = model
        return tuned

    async def _tick_all(self, models: Sequence[TunedModel], measured: Measured) -> None:
        tuned = (self._tuned[model.uid] for model in models)
        await self._rounds.run(
            {each.model.uid: partial(self._tick_supervised, each, measured) for each in tuned}
        )

    async def written(self) -> None:
        """Wait until every tick of a model ended, and its writes."""
        await self._rounds.ended()
        await self._renewals.ended()
        await asyncio.gather(*(tuned.writes.emptied() for tuned in self._tuned.values()))

    async def _measure(self, due: Sequence[TunedModel], models: Sequence[TunedModel]) -> Measured:
        """Measure those of all models that are due."""
        if not due:
            return {}
        rest = _pods(models) - _pods(due)
        try:
            with self._metrics.prometheus_query_seconds.time(), self._traces.span("measure"):
                async with asyncio.timeout(self._timing.max_fetch):
                    return await self._source.fetch(self._lookback(), resting=rest)
        except MetricsError as error:
            found = error
        except TimeoutError:
            action = "Check its load, or raise tuning.lease."
            found = SourceUnreachable(f"no answer within {self._timing.max_fetch:g} s", action=action)
        except Exception as error:  # supervision: engines lose their schedule without renewal
            log.exception("the measurements were not read")
            found = MetricsError(
                f"internal error: {type(error).__name__}", action="The operator's log has the traceback."
            )
        self._metrics.prometheus_errors.inc()
        return found

    def _lookback(self) -> float:
        """Seconds back to the oldest sample that a window still needs, bounded because answers are large."""
        longest = self._timing.max_sample_age + (1 + self._between) * self._timing.tick
        needed = [t.tuner.measured_until for t in self._tuned.values() if t.tuner is not None]
        oldest = min((at for at in needed if at is not None), default=None)
        if oldest is None:
            return longest
        return min(longest, max(self._timing.tick, self._clock() - oldest) + _CLOCK_SLACK_SECONDS)

    async def _tick_supervised(self, tuned: _Tuned, measured: Measured) -> None:
        async with tuned.turn:
            if self._cpu.rest(tuned.model.uid):
                return
            try:
                with self._traces.span("tick", tuned.model.key):
                    await self._cpu.spend(tuned.model.uid, self._tick_model(tuned, measured))
                tuned.failures = 0
            except Exception as error:  # supervision: one model's defect must not stop the others
                log.exception("tick of %s failed", tuned.model.key)
                self._metrics.tuning_failures.inc()
                tuned.pace = Pace()
                tuned.failures += 1
                if tuned.failures > _PASSING_FAILURES:
                    now = self._clock()
                    tuned.reported = failing(tuned.model, error, tuned.reported, now=now)
                    tuned.writes.report(tuned.model, tuned.reported, now=now)

    async def _tick_model(self, tuned: _Tuned, measured: Measured) -> None:
        tuner = tuned.tuner = tuned.tuner or await self._begin(tuned)
        if tuner is None:
            return
        outcome = await tuner.tick(tuned.model, measured, now=self._clock())
        if self._tuned.get(tuned.model.uid) is not tuned:
            return  # the model is gone
        tuned.pace = tuned.pace.after(outcome)
        before = tuned.reported
        tuned.reported = report(outcome, before)
        tuned.writes.emit(tuned.model, events(outcome, before=before, after=tuned.reported))
        tuned.store.save(tuned.model, tuner.snapshot, now=outcome.now)
        tuned.writes.report(tuned.model, tuned.reported, now=outcome.now)
        record(outcome, self._metrics, tuned.reported.slo)

    async def _begin(self, tuned: _Tuned) -> ModelTuner | None:
        """A tuner with the stored state of an earlier process; None while that is being read."""
        if not await tuned.store.load(tuned.model, now=self._clock()):
            return None
        model, engines, api_server = tuned.model, self._engines, self._api_server
        return ModelTuner(engines, api_server, tuned.store, self._timing, uid=model.uid, clock=self._clock)

    def _report_overspent(self, uid: str, overspent: Overspent) -> None:
        tuned = self._tuned.get(uid)
        if tuned is not None:
            event = Event(EventReason.CPU_BUDGET_EXCEEDED, tuning_rests(overspent))
            tuned.writes.emit(tuned.model, [event])

    def _met(self, model: TunedModel) -> _Tuned:
        def warn(event: Event) -> None:
            writes.emit(model, [event])

        store = TunerStore(self._api_server, self._timing, self._clock(), warn)
        writes = WriteQueue(
            self._api_server,
            store,
            turns=self._turns,
            timeout_seconds=self._timing.write,
            numbers_interval=lambda: numbers_interval(len(self._tuned)),
        )
        return _Tuned(model, TunerReport.continued(model.status), store, writes)

    async def _close_all(self) -> None:
        closing = (self._renew_last(), *(self._close(tuned) for tuned in self._tuned.values()))
        try:
            async with asyncio.timeout(self._timing.stop):
                failures = await asyncio.gather(*closing, return_exceptions=True)
        except TimeoutError:
            log.warning("some tuner states were not written within %.0f s", self._timing.stop)
            return
        for failure in filter(None, failures):
            log.warning("a tuner state was not written: %s", failure)

    async def _renew_last(self) -> None:
        """Renew all pushes, because the next leader takes a while until it pushes.

        It ends in time whatever engines do, so that the writes and the end of the process are not late.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.last_renewals):
                await self.renew(older=float("-inf"))
                await self._renewals.ended()

    async def renew(self, *, older: float) -> None:
        """Renew each schedule that was confirmed at least so many seconds ago."""
        await self._renew(list(self._tuned.values()), older=older)

    async def _renew(self, models: Sequence[_Tuned], *, older: float) -> None:
        slots = asyncio.Semaphore(MODELS_RENEWED_AT_ONCE)

        async def renew_one(tuned: _Tuned, tuner: ModelTuner) -> None:
            renewed = False
            try:
                async with slots:
                    renewed = await tuner.renew(tuned.model, older=older)
            except Exception:  # supervision: the next tick renews it
                log.exception("the renewal of %s failed", tuned.model.key)
            if not renewed:
                tuned.pace = Pace()

        known = [(tuned, tuned.tuner) for tuned in models if tuned.tuner is not None]
        due = [(tuned, tuner) for tuned, tuner in known if tuner.renewal_due(tuned.model, older=older)]
        await self._renewals.run({tuned.model.uid: partial(renew_one, tuned, tuner) for tuned, tuner in due})

    async def _close(self, tuned: _Tuned) -> None:
        tuned.store.stop()
        if tuned.tuner is not None:
            tuned.store.save(tuned.model, tuned.tuner.snapshot, now=self._clock())
        await tuned.writes.close()

    def _forget_gone(self, models: Sequence[TunedModel]) -> None:
        present = {model.uid for model in models}
        self._rounds.keep(present)
        self._renewals.keep(present)
        for uid in self._tuned.keys() - present:
            gone = self._tuned.pop(uid)
            self._cpu.forget(uid)
            gone.store.stop()
            gone.writes.stop()
            self._metrics.tuning.forget(gone.model.key)


def _pods(models: Sequence[TunedModel]) -> set[PodKey]:
    return {PodKey(model.namespace, pod.name) for model in models for pod in model.pods}
