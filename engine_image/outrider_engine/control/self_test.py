"""The self-test of an engine before it serves: one short request for each candidate K.

The request goes from the minimum K to that K and back, twice. This finds a drafter that fails during a change
of K, and an engine whose answers differ where steps without drafts follow accepted drafts.

This is the side of the engine core: the K of the request, and the verdict. Pure: the clock is a parameter.
The requests come from the front end, see `outrider_engine.startup.readiness`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypedDict

from outrider_engine.control.probe import Probe, start
from outrider_engine.counting.measure import Step
from outrider_protocol.control_api import Fence, ProbeOrder, Slice
from outrider_protocol.engine_state import SelfTestState, SelfTestWire

STEPS_PER_SLICE = 3
_MAX_K_OF_TWO_ROUNDS = 8
"""Longer drafts go there and back once, so that the request fits a small context."""
SELF_TEST_SECONDS = 300.0
"""Limit for the whole self-test. One that has begun and is not closed by then counts as failed."""


class Trial(TypedDict):
    """One request of the self-test: ``tokens`` greedy tokens."""

    numSpeculativeTokens: int
    tokens: int


class TrialResult(TypedDict):
    """The answer to one request of the self-test.

    fault: why it has none; None where it has. tied: the tokens differ from the reference first at two that
    are equally likely up to rounding, so the difference proves nothing.
    """

    numSpeculativeTokens: int
    tokens: list[int]
    fault: str | None
    tied: bool


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The self-test so far.

    ``faults``: by K, why it failed, or why the release refuses it. ``reference``: tokens of the minimum K.
    """

    state: SelfTestState = SelfTestState.SKIPPED
    note: str = "not requested"
    smallest: int = 0
    trial: Probe | None = None
    began: float = 0.0
    faults: Mapping[int, str] = field(default_factory=dict)
    differing: Mapping[int, int] = field(default_factory=dict)
    reference: tuple[int, ...] = ()

    @property
    def failed(self) -> frozenset[int]:
        """Every K that failed."""
        return frozenset(self.faults)

    def begun(
        self, captured: frozenset[int], *, obstacle: str | None, now: float
    ) -> tuple[SelfTest, list[Trial]]:
        """The self-test as it begins, and its requests. A second front end gets none."""
        if self.state is not SelfTestState.SKIPPED or self.began:
            return self, []
        if obstacle is not None:
            return replace(self, note=obstacle), []
        captured -= self.failed
        if not captured:
            return replace(self, note="this release answers incorrectly with every K of the launch"), []
        smallest, largest = min(captured), max(captured)
        trials = [
            Trial(numSpeculativeTokens=k, tokens=_tokens_for(largest if k == smallest else k))
            for k in sorted(captured)
        ]
        return replace(self, state=SelfTestState.RUNNING, note="", smallest=smallest, began=now), trials

    def with_trial(self, k: int, now: float) -> SelfTest:
        """The self-test with its next request: the minimum K, then ``k``, `rounds_of` it times, then the
        minimum K."""
        long = Slice(self.smallest, steps=10**6)
        there = (Slice(self.smallest, steps=STEPS_PER_SLICE), Slice(k, steps=STEPS_PER_SLICE))
        slices = (long,) if k == self.smallest else (*there * rounds_of(k), long)
        request = ProbeOrder(Fence(0, 0), f"K={k}", 1, None, slices, SELF_TEST_SECONDS)
        return replace(self, trial=start(request, now))

    @property
    def obstacle(self) -> str | None:
        """Why no K can be used: the minimum K failed, which replaces the others, or the self-test is
        incomplete."""
        unfinished = self.state is SelfTestState.FAILED and not self.faults
        lost = self.state is not SelfTestState.SKIPPED and self.smallest in self.faults
        return f"the self-test failed: {self.note}" if unfinished or lost else None

    def at(self, now: float) -> SelfTest:
        """The self-test at this moment: failed after its time limit."""
        late = self.state is SelfTestState.RUNNING and now >= self.began + SELF_TEST_SECONDS
        return self.closed("it did not finish in time", now=now) if late else self

    def after(self, step: Step) -> SelfTest:
        """The self-test after a finished step."""
        return self if self.trial is None else replace(self, trial=self.trial.after(step))

    def judged(self, result: TrialResult) -> SelfTest:
        """The self-test after a request, which fails where a token differs from the reference."""
        k, tokens = result["numSpeculativeTokens"], result["tokens"]
        fault = result["fault"] or self._missing_slice()
        if fault is not None:
            return replace(self, trial=None, faults={**self.faults, k: fault})
        if k == self.smallest:
            return replace(self, trial=None, reference=tuple(tokens))
        pairs = list(zip(tokens, self.reference, strict=False))
        equal = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        if equal == len(pairs):
            return replace(self, trial=None)
        if not result["tied"]:
            fault = f"its greedy tokens differ from {equal} on from those with K={self.smallest}"
            return replace(self, trial=None, faults={**self.faults, k: fault})
        return replace(self, trial=None, differing={**self.differing, k: equal})

    def closed(self, fault: str | None, *, now: float) -> SelfTest:
        """The self-test at its end. ``fault``: why the front end could not finish it."""
        if self.state is not SelfTestState.RUNNING:
            return self
        parts = [f"K={k}: {why}" for k, why in self.faults.items()]
        parts += [] if fault is None else [fault]
        state = SelfTestState.FAILED if parts else SelfTestState.PASSED
        parts += [f"K={k}: two tokens tie at {n}" for k, n in self.differing.items()]
        took = f"took {now - self.began:.1f} s"
        return replace(self, state=state, trial=None, note="; ".join([took, *parts]))

    def to_wire(self) -> SelfTestWire:
        """The form that the state has."""
        return SelfTestWire(state=self.state.value, detail=self.note, failedK=sorted(self.faults))

    def _missing_slice(self) -> str | None:
        """Why the counted steps are not those of the request; None when they are."""
        if self.trial is None:
            return "its request is unknown"
        results = self.trial.to_wire()["results"]
        if len(results) < len(self.trial.request.slices) or not all(part["steps"] for part in results):
            seen = [f"{part['steps']} at K={part['numSpeculativeTokens']}" for part in results]
            return f"the engine did not follow; steps: {', '.join(seen)}"
        return None


def rounds_of(k: int) -> int:
    """How often a request goes to ``k`` and back."""
    return 2 if k <= _MAX_K_OF_TWO_ROUNDS else 1


def _tokens_for(k: int) -> int:
    """Enough tokens to reach the last part even when every draft is accepted, and some more."""
    there_and_back = (STEPS_PER_SLICE + 1) * (k + 1) + 2 * STEPS_PER_SLICE
    return rounds_of(k) * there_and_back + STEPS_PER_SLICE
