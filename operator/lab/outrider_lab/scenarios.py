"""Engines under traffic, by name: what one run needs besides the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

import numpy as np

from outrider.performance.step_time import StepTime
from outrider_lab.engines.event_fleet import EventFleet, Plant
from outrider_lab.engines.fleet import Fleet
from outrider_lab.engines.formula_engine import FormulaFleet, FormulaPhase
from outrider_lab.traffic.requests import Trace

CANDIDATES = (0, 1, 2, 3, 5)


class Scenario(Protocol):
    """A trace on some engines. Hashable; the same one always meets the same requests."""

    def __hash__(self) -> int:
        """What it allows is worked out once."""
        ...

    @property
    def name(self) -> str:
        """For reports."""
        ...

    @property
    def candidates(self) -> tuple[int, ...]:
        """The K that were launched."""
        ...

    @property
    def interval(self) -> float:
        """Seconds between decisions."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the requests and of the noise."""
        ...

    @property
    def largest_batch(self) -> int:
        """Requests."""
        ...

    @property
    def starts(self) -> tuple[float, ...]:
        """Seconds at which phases begin, and the end."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Names of the phases."""
        ...

    def constant(self, phase: int) -> bool:
        """Whether batch size and acceptance stay as they are for a whole phase."""
        ...

    def fleet(self, edges: Sequence[int], rng: np.random.Generator) -> Fleet:
        """A fresh one."""
        ...

    def without_drafter(self) -> Scenario:
        """The same traffic on engines launched without speculation."""
        ...

    @property
    def first_acceptance(self) -> tuple[float, ...]:
        """Acceptance of each position in the first phase, given that all before it were accepted."""
        ...

    def step_seconds(self, batch: float, k: int, context: float) -> float:
        """The truth of a step without prompts on an engine of usual pace. context: tokens per request."""
        ...


@dataclass(frozen=True)
class EventScenario:
    """The discrete-event engine."""

    name: str
    plant: Plant
    trace: Trace
    candidates: tuple[int, ...] = CANDIDATES
    interval: float = 5.0  # seconds between decisions

    @property
    def seed(self) -> int:
        """See `Scenario`."""
        return self.trace.seed

    @property
    def largest_batch(self) -> int:
        """See `Scenario`."""
        return self.plant.limits.max_num_seqs

    @property
    def starts(self) -> tuple[float, ...]:
        """See `Scenario`."""
        return self.trace.starts

    @property
    def labels(self) -> Sequence[str]:
        """See `Scenario`."""
        return [phase.label or f"phase {index}" for index, phase in enumerate(self.trace.phases)]

    def constant(self, phase: int) -> bool:
        """See `Scenario`."""
        traffic = self.trace.phases[phase]
        return traffic.streams is not None and traffic.drift_to == 1.0

    def fleet(self, edges: Sequence[int], rng: np.random.Generator) -> Fleet:
        """See `Scenario`."""
        return EventFleet(self.plant, self.trace, edges=edges, candidates=self.candidates, rng=rng)

    def without_drafter(self) -> EventScenario:
        """See `Scenario`."""
        plant = replace(self.plant, step=self.plant.step.without_drafter())
        return replace(self, plant=plant, candidates=(0,))

    @property
    def first_acceptance(self) -> tuple[float, ...]:
        """See `Scenario`."""
        return self.trace.phases[0].acceptance

    def step_seconds(self, batch: float, k: int, context: float) -> float:
        """See `Scenario`."""
        return self.plant.step.seconds(batch, k, batch * context)


@dataclass(frozen=True)
class FormulaScenario:
    """The formula engine with acceptance traces."""

    name: str
    step: StepTime
    phases: tuple[FormulaPhase, ...]
    candidates: tuple[int, ...] = CANDIDATES
    interval: float = 5.0  # seconds between decisions
    seed: int = 0
    noise: float = 0.05  # relative, 1 sigma, of a measurement of 10 s
    speeds: tuple[float, ...] = (1.0,)  # one per pod

    @property
    def largest_batch(self) -> int:
        """See `Scenario`."""
        return max(phase.load for phase in self.phases)

    @property
    def starts(self) -> tuple[float, ...]:
        """See `Scenario`."""
        return (0.0, *accumulate(phase.seconds for phase in self.phases))

    @property
    def labels(self) -> Sequence[str]:
        """See `Scenario`."""
        return [f"load {phase.load}" for phase in self.phases]

    def constant(self, phase: int) -> bool:  # noqa: ARG002
        """See `Scenario`."""
        return True

    def fleet(self, edges: Sequence[int], rng: np.random.Generator) -> Fleet:
        """See `Scenario`."""
        return FormulaFleet(
            self.step,
            self.phases,
            edges=edges,
            rng=rng,
            traces_seed=self.seed,
            noise=self.noise,
            speeds=self.speeds,
        )

    def without_drafter(self) -> FormulaScenario:
        """See `Scenario`."""
        return replace(self, step=self.step.without_drafter(), candidates=(0,))

    @property
    def first_acceptance(self) -> tuple[float, ...]:
        """See `Scenario`."""
        return self.phases[0].acceptance

    def step_seconds(self, batch: float, k: int, context: float) -> float:
        """See `Scenario`."""
        return self.step.seconds(batch, k, batch * context)
