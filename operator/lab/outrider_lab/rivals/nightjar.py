"""`nightjar`: a bandit for each batch size that explores whole bins of steps.

Steps of one batch size form blocks of 1, 2, 4, ... steps. A block of H steps has bins of about sqrt(H) steps.
Bin b of a block explores with probability 1 / sqrt(b): it holds one K, drawn at random. Other bins hold the K
with the least mean milliseconds per token. K=0 is one of the arms.
Source: Nightjar, arXiv 2512.22420; its planner is ADA-BINGREEDY (Luo et al. 2018, arXiv 1708.01799).

Assumptions, because no code of it is public: a step is a round, and a switch costs nothing here. Nightjar
also moves the drafter out of GPU memory when requests wait; no engine of the simulator can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf, sqrt
from random import Random

from outrider.tuning.policy import Policy
from outrider_lab.engines.step_rules import Verified
from outrider_protocol.schedule import Row, Schedule

SEED = 0


@dataclass(slots=True)
class _Arm:
    milliseconds: float = 0.0
    tokens: float = 0.0

    @property
    def mean(self) -> float:
        """Milliseconds per token; below any other while nothing is known."""
        return self.milliseconds / self.tokens if self.tokens > 0 else -inf


@dataclass(slots=True)
class _Planner:
    """Blocks, bins and arms of one batch size."""

    arms: dict[int, _Arm]
    k: int
    block_steps: int = 1
    left_in_block: float = 1.0
    left_in_bin: float = 0.0
    bin: int = field(default=0)

    def begin_bin(self, rng: Random) -> None:
        """Draw whether the next bin explores, and choose its K."""
        if self.left_in_block <= 0:
            self.block_steps *= 2
            self.left_in_block, self.bin = self.left_in_block + self.block_steps, 0
        self.bin += 1
        self.left_in_bin = ceil(sqrt(self.block_steps))
        explores = rng.random() < 1 / sqrt(self.bin)
        self.k = rng.choice(list(self.arms)) if explores else min(self.arms, key=lambda k: self.arms[k].mean)


class Nightjar:
    """See the module."""

    def __init__(self, law: Policy) -> None:
        self._law = law
        self._planners: dict[int, _Planner] = {}
        self._rng = Random(SEED)

    def choose(self, batch: int) -> int:
        """K of the bin that runs; a bin that is over makes room for the next."""
        planner = self._planner(batch)
        if planner.left_in_bin <= 0:
            planner.begin_bin(self._rng)
        return planner.k

    def verified(self, done: Verified) -> None:
        """Add to the sums of K; steps use up bin and block."""
        planner = self._planner(round(done.batch))
        planner.left_in_bin -= done.steps
        planner.left_in_block -= done.steps
        arm = planner.arms.get(done.k)
        if arm is not None:
            arm.milliseconds += 1000.0 * done.seconds
            arm.tokens += done.steps * done.batch * (1.0 + sum(done.rates))

    def schedule(self) -> Schedule:
        """See `StepRule`. Each batch size that was met, up to the next."""
        if not self._planners:
            return Schedule.constant(min(self._law.candidates))
        sizes = sorted(self._planners)
        uppers = [size - 1 for size in sizes[1:]]
        return Schedule(tuple(map(Row, (*uppers, None), (self._planners[b].k for b in sizes)))).merged()

    def _planner(self, batch: int) -> _Planner:
        size = max(1, batch)
        if size not in self._planners:
            arms = {k: _Arm() for k in self._law.candidates}
            self._planners[size] = _Planner(arms, self._law.candidates[0])
        return self._planners[size]
