"""Pods that live on a throughput table, under closed load: the batch size is the number of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.api.schedule import Schedule
from outrider.performance.throughput_table import ThroughputTable
from outrider.tuning.decision import Probe
from outrider_lab.engines.fast_loops import InEngine
from outrider_lab.engines.fleet import ProbeRun, Span, Tick, follow, pod_names
from outrider_lab.engines.noise import noise_factor
from outrider_lab.engines.pieces import Piece, cut
from outrider_lab.engines.windows import Stretch, low_of, window_of
from outrider_protocol.cost_model import CostModel

LOOP_BLOCK_STEPS = 8
"""Steps whose drafts the fast loop counts together, so that a run takes seconds."""
PROBE_DEADLINE_SECONDS = 20.0
"""Wall time after which an engine ends a probe."""


@dataclass(frozen=True)
class Phase:
    """Constant load on each pod."""

    load: int  # streams per pod
    seconds: float
    table: ThroughputTable


class TableFleet:
    """Pods of one model; see `ThroughputTable` for the truth.

    A measurement of t seconds of one (batch bin, K) in one tick is off by
    `noise` x sqrt(10 / t), 1 sigma, independently. The error is one of the step time: in t
    seconds that many more or fewer steps seem to fit. Acceptance is exact.

    speeds: of each pod, relative to the table.
    edges: inclusive upper edges of the batch bins.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        *,
        edges: Sequence[int],
        rng: np.random.Generator,
        noise: float = 0.05,
        speeds: Sequence[float] = (1.0,),
    ) -> None:
        self._phases = phases
        self._starts = [sum(p.seconds for p in phases[:i]) for i in range(len(phases) + 1)]
        self._edges, self._rng, self._noise = edges, rng, noise
        self._speeds = dict(zip(pod_names(len(speeds)), speeds, strict=True))
        self._probes: dict[str, ProbeRun | None] = dict.fromkeys(self._speeds)
        self._loops = {pod: InEngine() for pod in self._speeds}
        self._schedule: Schedule | None = None
        self._now = 0.0

    def advance(
        self, until: float, schedule: Schedule, probe: Probe | None, cost_model: CostModel | None = None
    ) -> Tick:
        """See `Fleet`."""
        replaced = schedule != self._schedule
        loads = [phase.load for phase in self._phases]
        spans: list[Span] = []
        observations = []
        for pod, speed in self._speeds.items():
            running = follow(
                self._probes[pod],
                probe,
                pod=pod,
                now=self._now,
                replaced=replaced,
                deadline=PROBE_DEADLINE_SECONDS,
            )
            self._probes[pod] = running
            pieces = list(cut(self._starts, loads, self._now, until, schedule, running))
            if (loop := self._loops[pod].taught(cost_model, schedule)) is not None:
                pieces = [one for piece in pieces for one in self._chosen(piece, speed, loop)]
            spans += [self._span(pod, speed, piece) for piece in pieces]
            stretches = self._measured(pieces, speed)
            window = window_of(pod, self._now, until, stretches, self._edges)
            observations.append(replace(window, survival=self._loops[pod].survival))
        self._now, self._schedule = until, schedule
        return Tick(tuple(observations), tuple(spans), float(spans[-1].batch_size))

    def _chosen(self, piece: Piece, speed: float, loop: InEngine) -> list[Piece]:
        """The piece by the K that the fast loop chooses, which counts drafts by chance."""
        if piece.probed:
            return [piece]
        phase = self._phases[piece.phase]
        load, table = phase.load, phase.table

        def seconds_of(k: int) -> float:
            return load * (1.0 + sum(table.survival(load, k))) / (speed * table.goodput(load, k))

        def verified(k: int, steps: int) -> Sequence[float]:
            counts, reached, above = [], steps * load, 1.0
            for alive in table.survival(load, k):
                reached = int(self._rng.binomial(reached, min(1.0, alive / above))) if above > 0 else 0
                counts.append(float(reached))
                above = alive
            return counts

        context = int(load * table.context_length)
        ran = loop.fill(piece.seconds, load, context, seconds_of, verified, block=LOOP_BLOCK_STEPS)
        total = sum(steps * seconds_of(k) for k, (steps, _) in ran.items())
        pieces, at = [], piece.started_at
        for k, (steps, _) in sorted(ran.items()):
            seconds = piece.seconds * steps * seconds_of(k) / total
            pieces.append(Piece(piece.phase, at, seconds, k, off_table=False))
            at += seconds
        return pieces

    def _span(self, pod: str, speed: float, piece: Piece) -> Span:
        phase = self._phases[piece.phase]
        tokens = speed * phase.table.goodput(phase.load, piece.k) * piece.seconds
        return Span(pod, piece.started_at, piece.seconds, piece.seconds, tokens, phase.load, piece.off_table)

    def _measured(self, pieces: Sequence[Piece], speed: float) -> list[Stretch]:
        groups: dict[tuple[int, int], float] = {}
        keys = [(low_of(self._phases[p.phase].load, self._edges), p.k) for p in pieces]
        for key, piece in zip(keys, pieces, strict=True):
            groups[key] = groups.get(key, 0.0) + piece.seconds
        factors = {
            key: speed * noise_factor(self._noise, seconds, self._rng)
            for key, seconds in sorted(groups.items())
        }
        return [self._stretch(piece, factors[key]) for key, piece in zip(keys, pieces, strict=True)]

    def _stretch(self, piece: Piece, factor: float) -> Stretch:
        phase = self._phases[piece.phase]
        survival = phase.table.survival(phase.load, piece.k)
        tokens_per_step = phase.load * (1.0 + sum(survival))
        emitted = factor * phase.table.goodput(phase.load, piece.k) * piece.seconds
        steps = emitted / tokens_per_step
        accepted = tuple(share * steps * phase.load for share in survival)
        context = steps * phase.load * phase.table.context_length
        return Stretch(float(phase.load), piece.k, piece.seconds, steps, emitted, accepted, context=context)
