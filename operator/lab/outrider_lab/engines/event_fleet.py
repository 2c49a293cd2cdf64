"""Pods of the discrete-event engine behind round robin, seen through scrapes that come late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from outrider.performance.step_time import Timing
from outrider.runtimes.metrics import Counter, MetricsDialect
from outrider.telemetry.series import PodKey, PodSeries, Sample
from outrider.telemetry.windows import build_window
from outrider.tuning.decision import Probe
from outrider.tuning.observe.window import Cell, Observation, Window
from outrider_lab.engines.counters import CellSums, Counters
from outrider_lab.engines.event_engine import EnginePod, Limits
from outrider_lab.engines.fleet import (
    PROBE_DEADLINE_SECONDS,
    Launch,
    Span,
    Tick,
    follow,
    noise_factor,
    pod_names,
)
from outrider_lab.latency import EDGES, histogram
from outrider_lab.traffic.acceptance import Acceptances
from outrider_lab.traffic.requests import Source, Trace
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule

_WAITING, _KV_USAGE = "waiting requests", "KV cache usage"
_METRICS = MetricsDialect(
    counters={counter: counter.value for counter in Counter},
    per_position="accepted at a position",
    waiting=_WAITING,
    kv_usage=_KV_USAGE,
)
KEPT_SECONDS = 120.0
"""Age at which scrapes are dropped."""
MAX_AGE_SECONDS = 30.0
"""A window needs a sample that is not older."""


@dataclass(frozen=True)
class Plant:
    """Engines and how they are watched."""

    step: Timing
    limits: Limits = field(default_factory=Limits)
    slowness: tuple[float, ...] = (1.0,)  # factor on the step time, one per pod
    noise: float = 0.05  # relative, 1 sigma, of a measurement of 10 s
    scrape_interval: float = 5.0  # seconds
    scrape_lag: float = 0.0  # seconds until a scrape can be seen
    resets: tuple[float, ...] = ()  # seconds at which the first pod's counters go back to 0
    edges: tuple[float, ...] = EDGES  # of the histogram of gaps between outputs, in seconds


@dataclass(frozen=True, slots=True)
class _Scrape:
    at: float
    counters: Counters
    waiting: float
    kv_usage: float


class _Pod:
    """One engine and its scrapes."""

    def __init__(self, name: str, engine: EnginePod, first_scrape: float, resets: Sequence[float]) -> None:
        self.key = PodKey(*name.split("/"))
        self.engine = engine
        self.next_scrape = first_scrape
        self.resets = list(resets)
        self.scrapes: list[_Scrape] = []
        self.since = 0.0

    def scrape(self) -> None:
        while self.resets and self.resets[0] <= self.next_scrape:
            self.resets.pop(0)
            self.engine.counters = Counters()
        counters = self.engine.counters.copy()
        waiting = float(len(self.engine.waiting))
        self.scrapes.append(_Scrape(self.next_scrape, counters, waiting, self.engine.kv_usage))
        self.scrapes = [s for s in self.scrapes if s.at >= self.next_scrape - KEPT_SECONDS]


class EventFleet:
    """See `Fleet`. Scrapes of the pods are out of step with each other and with the ticks."""

    def __init__(
        self,
        plant: Plant,
        trace: Trace,
        *,
        edges: Sequence[int],
        candidates: Sequence[int],
        rng: np.random.Generator,
    ) -> None:
        if len(plant.slowness) != trace.pods:
            raise ValueError(f"{len(plant.slowness)} pods in the plant, {trace.pods} in the trace")
        self._plant, self._trace, self._rng = plant, trace, rng
        acceptances = Acceptances(trace)
        self._pods = []
        for index, name in enumerate(pod_names(trace.pods)):
            engine = EnginePod(
                plant.step,
                plant.limits,
                acceptances,
                Source(trace, index),
                edges=edges,
                candidates=candidates,
                rng=np.random.default_rng(rng.integers(2**63)),
                slowness=plant.slowness[index],
            )
            first = float(rng.uniform(0.0, 1.0)) * plant.scrape_interval
            self._pods.append(_Pod(name, engine, first, plant.resets if index == 0 else ()))
        self._schedule: Schedule | None = None
        self._now = 0.0

    @property
    def engines(self) -> Sequence[EnginePod]:
        """The pods' engines."""
        return [pod.engine for pod in self._pods]

    def launch(self, launch: Launch) -> None:
        """See `Fleet`."""
        for engine in self.engines:
            engine.fast.launch(launch.step_rule)
            if launch.verification is not None:
                engine.verify_adaptively(launch.verification)

    def advance(
        self,
        until: float,
        schedule: Schedule,
        probe: Probe | None,
        cost_model: CostModel | None = None,
    ) -> Tick:
        """See `Fleet`."""
        replaced = schedule != self._schedule
        lookup = [schedule.k_at(size) for size in range(self._plant.limits.max_num_seqs + 1)]
        spans: list[Span] = []
        for pod in self._pods:
            pod.engine.fast.taught(cost_model, schedule)
            pod.engine.probe = follow(
                pod.engine.probe,
                probe,
                pod=str(pod.key),
                now=self._now,
                replaced=replaced,
                deadline=PROBE_DEADLINE_SECONDS,
            )
            spans += self._work(pod, until, lookup)
        self._now, self._schedule = until, schedule
        observations = tuple(self._observe(pod, until) for pod in self._pods)
        busy = [s for s in spans if s.engine_seconds > 0]
        seconds = sum(s.engine_seconds for s in busy)
        batch = sum(s.batch_size * s.engine_seconds for s in busy) / seconds if seconds else None
        return Tick(observations, tuple(spans), batch)

    def _work(self, pod: _Pod, until: float, lookup: Sequence[int]) -> list[Span]:
        """Up to `until`, cut where phases begin, with a scrape now and then."""
        spans: list[Span] = []
        begin = self._now
        while begin < until - 1e-9:
            end = min([until, *(s for s in self._trace.starts if begin + 1e-9 < s < until)])
            while pod.next_scrape <= end:
                pod.engine.run(pod.next_scrape, lookup.__getitem__)
                pod.scrape()
                pod.next_scrape += self._plant.scrape_interval
            pod.engine.run(end, lookup.__getitem__)
            spans += _spans(pod, begin, end)
            begin = end
        return spans

    def _observe(self, pod: _Pod, now: float) -> Observation:
        seen = [s for s in pod.scrapes if s.at <= now - self._plant.scrape_lag]
        observation = build_window(
            pod.key,
            _series(seen),
            dialect=_METRICS,
            since=pod.since,
            until=now,
            max_age_seconds=MAX_AGE_SECONDS,
        )
        if not isinstance(observation, Window):
            if seen and observation.reason in ("CounterReset", "Contradictory"):
                pod.since = seen[-1].at
            return observation
        pod.since = observation.ended_at
        by_time = {s.at: s.counters for s in seen}
        before, after = by_time[observation.started_at], by_time[observation.ended_at]
        cells = _cells(before, after)
        noisy = [replace(c, step_seconds=c.step_seconds / self._factor(c.step_seconds)) for c in cells]
        true_seconds = sum(c.step_seconds for c in cells)
        factor = sum(c.step_seconds for c in noisy) / true_seconds if true_seconds > 0 else 1.0
        return replace(
            observation,
            decode_seconds=observation.decode_seconds * factor,
            cells=tuple(noisy),
            survival=pod.engine.fast.survival,
            latencies=histogram(before.gaps, after.gaps, self._plant.edges),
        )

    def _factor(self, seconds: float) -> float:
        return noise_factor(self._plant.noise, max(seconds, 1e-3), self._rng)


def _spans(pod: _Pod, begin: float, end: float) -> list[Span]:
    """Return one span for the schedule and one for probes; their order in time is not kept."""
    work, name = pod.engine.take_work(), str(pod.key)
    if work.seconds <= 0:
        return [Span(name, begin, end - begin, 0.0, 0.0, 0.0, off_table=False, needed=tuple(work.needed))]
    off = work.off_seconds / work.seconds
    batch = work.request_seconds / work.seconds
    spans: list[Span] = []
    for share, seconds, tokens, off_table in (
        (1.0 - off, work.seconds - work.off_seconds, work.tokens - work.off_tokens, False),
        (off, work.off_seconds, work.off_tokens, True),
    ):
        if share > 0:
            wall, needed = (end - begin) * share, tuple(x * share for x in work.needed)
            at = end - wall if off_table else begin
            gaps = {} if off_table and spans else work.gaps
            spans.append(Span(name, at, wall, seconds, tokens, batch, off_table, needed, gaps))
    return spans


def _series(scrapes: Sequence[_Scrape]) -> PodSeries:
    rows: dict[str, list[float]] = {
        Counter.ENGINE_STEPS.value: [s.counters.engine_steps for s in scrapes],
        Counter.REQUEST_STEPS.value: [s.counters.request_steps for s in scrapes],
        Counter.DECODE_SECONDS.value: [s.counters.decode_seconds for s in scrapes],
        Counter.FIRST_TOKENS.value: [s.counters.first_tokens for s in scrapes],
        Counter.GENERATED_TOKENS.value: [s.counters.generated for s in scrapes],
        Counter.PROMPT_TOKENS.value: [s.counters.prefill for s in scrapes],
        Counter.DRAFTS.value: [s.counters.drafts for s in scrapes],
        Counter.DRAFT_TOKENS.value: [s.counters.draft_tokens for s in scrapes],
        Counter.ACCEPTED_TOKENS.value: [s.counters.accepted_tokens for s in scrapes],
        _WAITING: [s.waiting for s in scrapes],
        _KV_USAGE: [s.kv_usage for s in scrapes],
    }
    positions = max((_positions(s.counters) for s in scrapes), default=0)
    for position in range(positions):
        rows[_METRICS.at_position(position)] = [s.counters.accepted[position] for s in scrapes]
    times = [s.at for s in scrapes]
    return {name: tuple(map(Sample, times, values)) for name, values in rows.items()}


def _positions(counters: Counters) -> int:
    return next((i for i, value in enumerate(counters.accepted) if value <= 0), len(counters.accepted))


def _cells(before: Counters, after: Counters) -> list[Cell]:
    found = []
    for (low, k), sums in sorted(after.cells.items()):
        delta = sums.minus(before.cells.get((low, k), CellSums()))
        if delta.steps <= 0:
            continue
        found.append(
            Cell(
                low=low,
                num_speculative_tokens=k,
                steps=delta.steps,
                step_seconds=delta.seconds,
                requests=delta.requests,
                emitted_tokens=delta.emitted,
                drafted_per_position=(delta.drafts,) * k,
                accepted_per_position=tuple(delta.accepted[:k]),
                prefill_tokens=delta.prefill,
                context_tokens=delta.context,
            )
        )
    return found
