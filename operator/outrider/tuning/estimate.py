"""What was measured of one K at one batch bin, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import copysign, isfinite, sqrt

from outrider.tuning.policy import Policy
from outrider.tuning.window import Window


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over windows of one (bin, K); older ones count less."""

    tokens: float
    seconds: float  # engine time
    batch_seconds: float  # batch size x engine time
    steps: float
    accepted: float
    drafted: float
    at: float  # unix seconds of the newest window

    def __post_init__(self) -> None:
        sums = (self.tokens, self.seconds, self.batch_seconds, self.steps, self.accepted, self.drafted)
        if not all(isfinite(value) and value >= 0 for value in (*sums, self.at)):
            raise ValueError("measurements must be finite and not negative")

    @classmethod
    def of(cls, windows: Iterable[Window]) -> Measured:
        """Pooled over pods by sums; at least one window with traffic."""
        rows = list(windows)
        return cls(
            tokens=sum(w.tokens for w in rows),
            seconds=sum(w.engine_seconds for w in rows),
            batch_seconds=sum((w.batch_size or 0.0) * w.engine_seconds for w in rows),
            steps=sum(w.engine_steps for w in rows),
            accepted=sum(w.accepted_tokens for w in rows),
            drafted=sum(w.draft_tokens for w in rows),
            at=max(w.ended_at for w in rows),
        )

    @property
    def batch_size(self) -> float:
        """Mean batch size over engine time."""
        return self.batch_seconds / self.seconds

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted tokens; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted > 0 else None

    def aged(self, now: float, policy: Policy) -> Measured:
        """The same with the weight that is left at `now`."""
        left = 0.5 ** (max(0.0, now - self.at) / policy.half_life_seconds)
        return replace(
            self,
            tokens=self.tokens * left,
            seconds=self.seconds * left,
            batch_seconds=self.batch_seconds * left,
            steps=self.steps * left,
            accepted=self.accepted * left,
            drafted=self.drafted * left,
        )

    def plus(self, newer: Measured, policy: Policy) -> Measured:
        """Both together, this one aged to the time of the newer."""
        old = self.aged(newer.at, policy)
        return Measured(
            tokens=old.tokens + newer.tokens,
            seconds=old.seconds + newer.seconds,
            batch_seconds=old.batch_seconds + newer.batch_seconds,
            steps=old.steps + newer.steps,
            accepted=old.accepted + newer.accepted,
            drafted=old.drafted + newer.drafted,
            at=max(self.at, newer.at),
        )

    def goodput_at(self, batch_size: float) -> float:
        """Tokens per second of engine time, carried over to a near batch size.

        Goodput grows with batch size, by a power between 0 (compute bound) and 1 (memory
        bound); the root is right to a few percent within a bin.
        """
        return self.tokens / self.seconds * sqrt(batch_size / self.batch_size)

    def relative_error(self, policy: Policy) -> float:
        """Standard error of the goodput, relative to it."""
        return policy.noise * sqrt(10.0 / self.seconds)


@dataclass(frozen=True, slots=True)
class Score:
    """Goodput of one K at one batch size, tokens per second of engine time."""

    k: int
    mean: float
    error: float  # standard error
    seconds: float  # engine time behind it, after forgetting

    def gain_over(self, other: Score) -> float:
        """Relative."""
        return self.mean / other.mean - 1.0 if other.mean > 0 else 0.0

    def error_with(self, other: Score) -> float:
        """Standard error of the difference."""
        return sqrt(self.error**2 + other.error**2)


@dataclass(frozen=True, slots=True)
class Drift:
    """Two-sided CUSUM of standardised residuals. Source: Page 1954."""

    up: float = 0.0
    down: float = 0.0

    def after(self, residual: float, policy: Policy) -> Drift:
        """One more residual, in standard deviations."""
        return Drift(
            up=max(0.0, self.up + residual - policy.drift_slack),
            down=max(0.0, self.down - residual - policy.drift_slack),
        )

    def found(self, policy: Policy) -> bool:
        """Whether the mean has moved."""
        return max(self.up, self.down) > policy.drift_threshold


def goodput_residual(new: Measured, known: Measured, policy: Policy) -> float:
    """How far a tick's goodput is from what is known at equal batch size, in standard deviations."""
    expected = known.goodput_at(new.batch_size)
    if expected <= 0:
        return 0.0
    difference = new.goodput_at(new.batch_size) / expected - 1.0
    return _residual(difference, new.relative_error(policy), known.relative_error(policy))


def acceptance_residual(new: Measured, known: Measured, policy: Policy) -> float:
    """The same for the acceptance rate; 0 when nothing was drafted."""
    if new.acceptance is None or known.acceptance is None:
        return 0.0
    counting = known.acceptance * (1 - known.acceptance)
    error = sqrt(policy.acceptance_noise**2 + counting / new.drafted)
    known_error = policy.acceptance_noise * sqrt(min(1.0, new.seconds / known.seconds))
    return _residual(new.acceptance - known.acceptance, error, known_error)


def _residual(difference: float, error: float, known_error: float) -> float:
    """What is known is off by the same amount at every tick, so that much must not add up."""
    return copysign(max(0.0, abs(difference) - known_error), difference) / error
