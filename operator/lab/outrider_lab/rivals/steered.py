"""Policies that run inside an engine, and the same from outside where an engine takes schedules alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.tuning.observe.window import Observation, Window
from outrider_lab.engines.fleet import Launch
from outrider_lab.engines.step_rules import MakeRule, Verified
from outrider_lab.rivals.tuners import Action, Tuner, windows


class Steered:
    """A policy of the engine. Simulated engines run it at each step; the schedule follows it at each tick."""

    def __init__(self, make: MakeRule) -> None:
        self.launch, self._outside = Launch(step_rule=make), make()

    def begin(self) -> Action:
        """The first schedule."""
        return Action(self._outside.schedule())

    def tick(self, observations: Sequence[Observation], now: float) -> Action:  # noqa: ARG002
        """The schedule of a policy that sees one mean of each tick."""
        for window in windows(observations):
            self._learn(window)
        return Action(self._outside.schedule())

    def _learn(self, window: Window) -> None:
        for cell in window.cells:
            if cell.steps > 0 and cell.requests > 0:
                batch, k = cell.requests / cell.steps, cell.num_speculative_tokens
                done = Verified(batch, k, cell.steps, cell.step_seconds, cell.accepted_per_position)
                self._outside.verified(done)
                self._outside.choose(max(1, round(batch)))


class FromOutside:
    """A policy whose engines take schedules alone, as in the closed loop."""

    def __init__(self, tuner: Tuner) -> None:
        self._tuner = tuner
        self.launch = replace(tuner.launch, step_rule=None)

    def begin(self) -> Action:
        """The first schedule."""
        return self._tuner.begin()

    def tick(self, observations: Sequence[Observation], now: float) -> Action:
        """The schedule after these observations."""
        return self._tuner.tick(observations, now)
