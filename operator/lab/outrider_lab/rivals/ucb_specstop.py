"""`ucb-specstop`: a bandit over draft lengths, by the lower confidence bound of the time per token.

For each K it adds up milliseconds N and tokens A. It takes the K with the least
N / A - sqrt(rounds of K x log(round)) / A, after it tried every K once. The source begins at K=1.
Source: arXiv 2606.20591, Algorithm 1; szpsunkk/UCB-SpecStop, src/baselines.py, class UCBSpecStop, its default
beta of 1 and times in milliseconds.

Assumptions, because the source serves one stream from an edge device: a step is a round. Its tokens are those
of one request, on average over the batch. Each batch bin has a bandit of its own, as the source has one for
each state of a channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from outrider.tuning.policy import Policy
from outrider_lab.engines.step_rules import Verified
from outrider_protocol.schedule import Row, Schedule

BETA = 1.0
"""Weight of the confidence bound, in milliseconds."""


@dataclass(slots=True)
class _Arm:
    milliseconds: float = 0.0
    tokens: float = 0.0
    rounds: float = 0.0

    def index(self, at: float) -> float:
        """Lower bound of milliseconds per token in a round."""
        return (self.milliseconds - BETA * sqrt(self.rounds * log(at))) / self.tokens


class UcbSpecStop:
    """See the module."""

    def __init__(self, law: Policy) -> None:
        self._law = law
        self._ks = [k for k in law.candidates if k > 0]
        if not self._ks:
            raise ValueError("ucb-specstop needs a candidate above 0, because its source drafts always")
        self._bins = [{k: _Arm() for k in self._ks} for _ in law.bins]
        self._chosen = [self._ks[0] for _ in law.bins]

    def choose(self, batch: int) -> int:
        """The first K that was never tried, else the one with the least index."""
        place = self._law.bin_of(batch)
        arms = self._bins[place]
        at = 1.0 + sum(arm.rounds for arm in arms.values())
        untried = [k for k, arm in arms.items() if arm.rounds == 0]
        self._chosen[place] = untried[0] if untried else min(arms, key=lambda k: arms[k].index(at))
        return self._chosen[place]

    def verified(self, done: Verified) -> None:
        """Add to the sums of K."""
        arm = self._bins[self._law.bin_of(done.batch)].get(done.k)
        if arm is not None:
            arm.milliseconds += 1000.0 * done.seconds
            arm.tokens += done.steps * (1.0 + sum(done.rates))
            arm.rounds += done.steps

    def schedule(self) -> Schedule:
        """See `StepRule`."""
        uppers = [self._law.limits(place)[1] for place in range(len(self._law.bins))]
        return Schedule(tuple(map(Row, uppers, self._chosen))).merged()
