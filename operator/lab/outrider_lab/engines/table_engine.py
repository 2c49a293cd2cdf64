"""Pods that live on a throughput table, under closed load: the batch size is the number of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outrider.performance.throughput_table import ThroughputTable
from outrider_lab.engines.closed_load import ClosedLoadFleet, Piece
from outrider_lab.engines.fast_loops import Done, InEngine
from outrider_lab.engines.fleet import Launch, Span, noise_factor
from outrider_lab.engines.windows import Stretch, low_of

LOOP_BLOCK_STEPS = 8
"""Steps whose drafts the fast loop counts together, so that a run takes seconds."""
NO_PARTS = (
    "adaptive verification needs --engine formula or events, because a throughput table does not say "
    "which part of a step verifies drafts"
)


@dataclass(frozen=True)
class Phase:
    """Constant load on each pod."""

    load: int  # streams per pod
    seconds: float
    table: ThroughputTable


class TableFleet(ClosedLoadFleet):
    """Pods of one model; see `ThroughputTable` for the truth.

    A measurement of t seconds of one (batch bin, K) in one tick is off by
    `noise` x sqrt(10 / t), 1 sigma, independently. The error is one of the step time: in t
    seconds that many more or fewer steps seem to fit. Acceptance is exact.
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
        lengths, loads = [p.seconds for p in phases], [p.load for p in phases]
        super().__init__(lengths, loads, edges=edges, rng=rng, noise=noise, speeds=speeds)

    def launch(self, launch: Launch) -> None:
        """See `Fleet`."""
        if launch.verification is not None:
            raise ValueError(NO_PARTS)
        super().launch(launch)

    def _work(
        self, pod: str, pieces: Sequence[Piece], loop: InEngine | None
    ) -> tuple[list[Span], list[Stretch]]:
        speed = self._speeds[pod]
        if loop is not None:
            pieces = [one for piece in pieces for one in self._chosen(piece, speed, loop)]
        return [self._span(pod, speed, piece) for piece in pieces], self._measured(pieces, speed)

    def _chosen(self, piece: Piece, speed: float, loop: InEngine) -> list[Piece]:
        """The piece by the K that the fast loop chooses, which counts drafts by chance."""
        if piece.probed:
            return [piece]
        phase = self._phases[piece.phase]
        load, table = phase.load, phase.table

        def seconds_of(k: int) -> float:
            return load * (1.0 + sum(table.survival(load, k))) / (speed * table.goodput(load, k))

        def run(k: int, steps: int) -> Done:
            counts, reached, above = [], steps * load, 1.0
            for alive in table.survival(load, k):
                reached = int(self._rng.binomial(reached, min(1.0, alive / above))) if above > 0 else 0
                counts.append(float(reached))
                above = alive
            return Done(steps * seconds_of(k), counts)

        context = int(load * table.context_length)
        ran = loop.fill(piece.seconds, load, context, seconds_of, run, block=LOOP_BLOCK_STEPS)
        total = sum(one.seconds for one in ran.values())
        pieces, at = [], piece.started_at
        for k, one in sorted(ran.items()):
            seconds = piece.seconds * one.seconds / total
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
