"""A fleet, a reporter and a source in memory; engines speak real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf

from outrider.api.annotations import Instructions, Override
from outrider.api.launch import LaunchOrder
from outrider.api.reasons import EventReason
from outrider.api.status import Status
from outrider.api.tuning import TuningMode
from outrider.cluster.errors import ClusterError
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.own_metrics import OwnMetrics
from outrider.controller.stored import Key
from outrider.controller.traces import Traces
from outrider.controller.tune.api_server import StateDeleted
from outrider.controller.tune.engine_tables import ScheduleVersions
from outrider.controller.tune.model_tuner import Engines
from outrider.controller.tune.timing import Timing
from outrider.controller.tune.tuner_store import TunerStore
from outrider.controller.tune.tuning_loop import Observability, TuningLoop
from outrider.engine.client import EngineClient
from outrider.runtimes.control import EngineControl
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.series import PodKey, PodSeries
from outrider.telemetry.source import MetricsError, SourceUnreachable
from outrider.tuning.policy import Policy
from outrider_protocol.control_api import Fence, Push
from outrider_protocol.schedule import Schedule
from tests.unit.telemetry.factories import Counters, PluginCounters, a_plugin_series, a_series

NOW = 1_800_000_000.0


VLLM_CONTROL = EngineControl(reads_state=True, live_schedule=True, probes=True, cost_model=True)


def a_model(
    *pods: EnginePod,
    name: str = "m",
    mode: TuningMode = TuningMode.AUTO,
    static: Schedule | None = None,
    candidates: tuple[int, ...] = (0, 1, 3, 5),
    status: Status | None = None,
    instructions: Instructions | None = None,
) -> TunedModel:
    return TunedModel(
        namespace="default",
        name=name,
        uid=f"uid-of-{name}",
        generation=1,
        mode=mode,
        static=static or Schedule.constant(3),
        policy=Policy(candidates, max_num_seqs=64),
        status=status or Status(),
        pods=pods,
        metrics=DIALECT,
        control=VLLM_CONTROL,
        instructions=instructions or Instructions(),
    )


def a_status(*, k: int, generation: int) -> Status:
    """As an earlier process left it: one K for all batch sizes, confirmed for this generation."""
    converged = {
        "type": "ActuationConverged",
        "status": "True",
        "reason": "Converged",
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    speculation = {"state": "Active", "schedule": [{"numSpeculativeTokens": k}]}
    return Status.model_validate({"conditions": [converged], "speculation": speculation})


async def step(loop: TuningLoop) -> None:
    """A tick, and then what it writes in the background."""
    await loop.tick()
    await loop.written()


@dataclass
class World:
    """Everything around the loop; tests change it between ticks."""

    models: list[TunedModel] = field(default_factory=list)
    series: Mapping[PodKey, PodSeries] = field(default_factory=dict)
    outage: MetricsError | None = None
    now: float = NOW
    term: int = 1
    lease: float = 60.0
    interval: float = 10.0
    timing: dict[str, float] = field(default_factory=dict)  # other durations of the loop
    statuses: list[dict[str, object]] = field(default_factory=list)
    events: list[tuple[EventReason, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # of these events
    hung: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)  # calls that wait for it
    defects: dict[tuple[str, str], Exception] = field(default_factory=dict)  # calls that raise
    calls: list[tuple[str, str]] = field(default_factory=list)  # that have begun
    kept: dict[str, str] = field(default_factory=dict)
    writes: int = 0
    state_error: ClusterError | None = None
    deleted: set[str] = field(default_factory=set)  # whose state was deleted, not noticed yet
    orders: list[LaunchOrder] = field(default_factory=list)
    order_error: ClusterError | None = None
    fleet_reads: int = 0
    fleet_error: Exception | None = None
    source_error: Exception | None = None
    source_hangs: bool = False
    lookbacks: list[float] = field(default_factory=list)
    resting: list[Set[PodKey]] = field(default_factory=list)  # at each fetch
    metrics: OwnMetrics = field(default_factory=OwnMetrics)
    traces: Traces = field(default_factory=Traces)

    def present(self) -> Sequence[Key]:
        self.fleet_reads += 1
        if self.fleet_error is not None:
            raise self.fleet_error
        return [model.key for model in self.models]

    def tuned_models(self) -> Sequence[TunedModel]:
        return self.models

    def tuned_model(self, key: Key) -> TunedModel | None:
        return next((model for model in self.models if model.name == key.name), None)

    async def fetch(
        self, lookback_seconds: float, *, resting: Set[PodKey] = frozenset()
    ) -> Mapping[PodKey, PodSeries]:
        assert lookback_seconds > 0
        self.lookbacks.append(lookback_seconds)
        self.resting.append(resting)
        if self.source_hangs:
            await asyncio.Event().wait()
        if self.source_error is not None:
            raise self.source_error
        if self.outage is not None:
            raise self.outage
        return self.series

    async def apply_status(self, model: TunedModel, part: dict[str, object]) -> None:
        await self._call("apply_status", model)
        self.statuses.append(part)

    async def event(self, model: TunedModel, reason: EventReason, note: str) -> None:
        assert model.uid in {known.uid for known in self.models}
        assert note
        await self._call("event", model)
        self.events.append((reason, reason.severity))
        self.notes.append(note)

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        await self._call("order", model)
        if self.order_error is not None:
            raise self.order_error
        self.orders.append(order)
        index = next(i for i, known in enumerate(self.models) if known.uid == model.uid)
        self.change(index, stored_order=order)

    async def read_state(self, model: TunedModel) -> str | None:
        await self._call("read", model)
        if self.state_error is not None:
            raise self.state_error
        return self.kept.get(model.uid)

    async def write_state(self, model: TunedModel, text: str) -> None:
        await self._call("write", model)
        if self.state_error is not None:
            raise self.state_error
        if model.uid in self.deleted:
            self.deleted.remove(model.uid)
            raise StateDeleted
        self.kept[model.uid] = text
        self.writes += 1

    async def _call(self, name: str, model: TunedModel) -> None:
        """One call to the API server."""
        self.calls.append((name, model.name))
        if (name, model.name) in self.hung:
            await self.hung[name, model.name].wait()
        if (name, model.name) in self.defects:
            raise self.defects[name, model.name]

    def delete_state(self, uid: str = "uid-of-m") -> None:
        """What a person does with the ConfigMap."""
        del self.kept[uid]
        self.deleted.add(uid)

    def hang(self, call: str, model: str) -> asyncio.Event:
        """From now on this call about this model does not end before the event."""
        return self.hung.setdefault((call, model), asyncio.Event())

    def change(self, index: int = 0, **fields: object) -> None:
        """The user, or the cluster, changed this model."""
        self.models[index] = replace(self.models[index], **fields)  # type: ignore[arg-type]

    @property
    def speculation(self) -> dict[str, object]:
        """`status.speculation` as last written."""
        found = self.statuses[-1]["speculation"]
        assert isinstance(found, dict)
        return found

    @property
    def decisions(self) -> list[dict[str, object]]:
        """`status.decisions` as last written."""
        found = self.statuses[-1]["decisions"]
        assert isinstance(found, list)
        return found

    def condition(self, kind: str) -> dict[str, str] | None:
        """A condition as last written; None where it is absent."""
        conditions = self.statuses[-1]["conditions"]
        assert isinstance(conditions, list)
        return next((c for c in conditions if c["type"] == kind), None)

    def own_metric(self, name: str, **labels: str) -> float | None:
        """A metric of the process that runs now."""
        return self.metrics.registry.get_sample_value(name, labels)

    @contextmanager
    def loop(self, engines: EngineClient, epochs: ScheduleVersions | None = None) -> Iterator[TuningLoop]:
        """A fresh process, or a fresh loop in the process that has these epochs."""
        self.metrics = OwnMetrics()
        yield TuningLoop(
            self,
            self,
            Engines(engines, epochs or ScheduleVersions(), lambda: self.term),
            self,
            # By default every tick pushes to every pod, so that a test need not move the clock.
            Timing(self.interval, self.lease, settle=30, **{"renewals": inf, **self.timing}),
            observability=Observability(self.metrics, self.traces),
            clock=lambda: self.now,
        )


TIMING = Timing(tick=10, push_lease=60, settle=30)


def a_store(world: World) -> TunerStore:
    """Of one model, before it was loaded. What it warns of is lost."""
    return TunerStore(world, TIMING, NOW, lambda _: None)


TICK = 10


def scraped_every_5_s(*, plugin: bool) -> PodSeries:
    """From the start for two minutes, under steady load."""
    times = [NOW + 5 * i + 1 for i in range(24)]
    runs = [(Counters().ran(steps=100 * i), PluginCounters().ran(steps=100 * i)) for i in range(24)]
    if plugin:
        return a_plugin_series(*((at, *run) for at, run in zip(times, runs, strict=True)))
    return a_series(*((at, run[0]) for at, run in zip(times, runs, strict=True)))


def an_override(k: int = 1, *, seconds: float = 60, paused: bool = False) -> Instructions:
    until = datetime.fromtimestamp(NOW + seconds, UTC)
    return Instructions(paused=paused, override=Override(Schedule.constant(k), until))


OUTAGE = SourceUnreachable("connection refused", action="Check prometheus.url.")


PUSH = Push(Fence(1, 1), Schedule.constant(1), 60)


def steady_series(*, step_seconds: float) -> PodSeries:
    """Twenty minutes under steady load, scraped every ten seconds."""
    moments = [(NOW + 10 * i + 1, 50 * i) for i in range(120)]
    return a_plugin_series(
        *(
            (at, Counters().ran(steps=steps), PluginCounters().ran(steps=steps, step_seconds=step_seconds))
            for at, steps in moments
        )
    )
