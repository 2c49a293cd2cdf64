"""Pods under closed load: each has the same number of streams for a whole phase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from outrider.tuning.decision import Probe
from outrider_lab.engines.fast_loops import InEngine
from outrider_lab.engines.fleet import PROBE_DEADLINE_SECONDS, Launch, ProbeRun, Span, Tick, follow, pod_names
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.engines.windows import Stretch, window_of
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a tick in which one pod has one number of streams and one K."""

    phase: int
    started_at: float  # seconds
    seconds: float
    k: int
    off_table: bool
    probed: bool = False  # a probe holds K


def cut(
    starts: Sequence[float],
    loads: Sequence[int],
    now: float,
    until: float,
    schedule: Schedule,
    running: ProbeRun | None,
) -> Iterator[Piece]:
    """Yield pieces from `now` to `until`. Parts of a probe come first, if the load is in its bin.

    starts: seconds at which phases begin, and the end.
    loads: streams by phase.
    """
    for index, load in enumerate(loads):
        at, end = max(now, starts[index]), min(until, starts[index + 1])
        table_k = schedule.k_at(load)
        while end - at > 1e-9:
            slice_ = None if running is None else running.k_for(load, at)
            if running is None or slice_ is None:
                yield Piece(index, at, end - at, table_k, off_table=False)
                break
            k, left = slice_
            seconds = min(left, end - at, running.deadline - at)
            yield Piece(index, at, seconds, k, off_table=k != table_k, probed=True)
            running.spend(seconds)
            at += seconds


class ClosedLoadFleet(ABC):
    """Pods of one model. What they do in a piece of time is up to the engine model.

    lengths: seconds of each phase.
    loads: streams per pod, by phase.
    edges: inclusive upper edges of the batch bins.
    noise: relative, 1 sigma, of a measurement of 10 s.
    speeds: of each pod, relative to the engine model.
    """

    def __init__(
        self,
        lengths: Sequence[float],
        loads: Sequence[int],
        *,
        edges: Sequence[int],
        rng: np.random.Generator,
        noise: float,
        speeds: Sequence[float],
    ) -> None:
        self._starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        self._loads, self._edges, self._rng, self._noise = loads, edges, rng, noise
        self._speeds = dict(zip(pod_names(len(speeds)), speeds, strict=True))
        self._probes: dict[str, ProbeRun | None] = dict.fromkeys(self._speeds)
        self._loops = {pod: InEngine() for pod in self._speeds}
        self._schedule: Schedule | None = None
        self._verification: AdaptiveVerification | None = None
        self._now = 0.0

    def launch(self, launch: Launch) -> None:
        """See `Fleet`."""
        self._verification = launch.verification
        for loop in self._loops.values():
            loop.launch(launch.step_rule)

    def advance(
        self,
        until: float,
        schedule: Schedule,
        probe: Probe | None,
        cost_model: CostModel | None = None,
    ) -> Tick:
        """See `Fleet`."""
        spans: list[Span] = []
        observations = []
        for pod, loop in self._loops.items():
            running = follow(
                self._probes[pod],
                probe,
                pod=pod,
                now=self._now,
                replaced=schedule != self._schedule,
                deadline=PROBE_DEADLINE_SECONDS,
            )
            self._probes[pod] = running
            pieces = list(cut(self._starts, self._loads, self._now, until, schedule, running))
            done, measured = self._work(pod, pieces, loop.taught(cost_model, schedule))
            spans += done
            window = window_of(pod, self._now, until, measured, self._edges)
            observations.append(replace(window, survival=loop.survival))
        self._now, self._schedule = until, schedule
        return Tick(tuple(observations), tuple(spans), float(spans[-1].batch_size))

    @abstractmethod
    def _work(
        self, pod: str, pieces: Sequence[Piece], loop: InEngine | None
    ) -> tuple[list[Span], list[Stretch]]:
        """Fill the pieces: the truth, and what the engine measures. loop: None where the schedule runs."""
