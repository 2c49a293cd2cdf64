"""Policies that use acceptance, as rules of thumb and SGLang publish them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider_lab.rivals.tuners import ScheduleRule, at_most, hand_table
from outrider_protocol.schedule import Row, Schedule

RETRY_SECONDS = 300.0
"""A drafter that was switched off shows no acceptance; so it gets one tick after this time."""


def drafted(seen: Sequence[Window]) -> tuple[float, float, float]:
    """Drafts, drafted tokens, accepted tokens, over all pods."""
    return (
        sum(w.drafts for w in seen),
        sum(w.draft_tokens for w in seen),
        sum(w.accepted_tokens for w in seen),
    )


class AcceptanceThresholds(ScheduleRule):
    """`acceptance`: K from the acceptance rate, off above 32 requests.

    Source: rules of thumb for vLLM and SGLang. They begin with 3 to 5, use 7 to 8 above a rate of 0.8, 3
    below 0.5, and none above 32 requests. Here these are 8, 5 and 3, each rounded down to a candidate.
    """

    def __init__(self, law: Policy) -> None:
        self._candidates = law.candidates
        self.schedule = hand_table(law.candidates)
        self._off_since: float | None = None

    def follow(self, seen: Sequence[Window], now: float) -> None:
        """Follow the drafts; without drafts wait for `RETRY_SECONDS`."""
        drafts, tokens, accepted = drafted(seen)
        if tokens > 0:
            k = at_most(self._k_for(accepted / tokens, accepted / drafts), self._candidates)
            self.schedule = self._up_to_32(k)
            self._off_since = now if k == 0 else None
        elif self._off_since is not None and now - self._off_since >= RETRY_SECONDS:
            self.schedule = self._up_to_32(at_most(3, self._candidates))

    def _up_to_32(self, k: int) -> Schedule:
        return Schedule((Row(32, k), Row(None, at_most(0, self._candidates)))).merged()

    def _k_for(self, rate: float, length: float) -> int:  # noqa: ARG002
        """rate: accepted over drafted tokens. length: mean accepted tokens of a draft."""
        return 8 if rate > 0.8 else 3 if rate < 0.5 else 5


class OffBelowRate(AcceptanceThresholds):
    """`acceptance-off`: the same, but off below a rate of 0.6. Source: guides that call it marginal."""

    def _k_for(self, rate: float, length: float) -> int:
        return 0 if rate < 0.6 else super()._k_for(rate, length)


class OffBelowLength(AcceptanceThresholds):
    """`length-off`: the same, but off where fewer than 2 drafted tokens are accepted in the mean.

    Source: guides that call 4 to 5 good and less than 2 not worth it.
    """

    def _k_for(self, rate: float, length: float) -> int:
        return 0 if length < 2.0 else super()._k_for(rate, length)


class AcceptedLengthAverage(ScheduleRule):
    """`ema`: SGLang's first rule on the moving average of accepted tokens, blind to load.

    K rises by one candidate if the average is above K - 0.5. It falls by one candidate if the average is more
    than 0.75 below the previous one. Here a tick holds many of SGLang's updates, which move the average by
    0.2 every 5 batches.

    Source: sgl-project/sglang, adaptive_spec_params.py, as first published; `sglang` is its present form.
    """

    ALPHA = 0.2
    BATCHES = 5.0

    def __init__(self, law: Policy) -> None:
        self._ks = [k for k in law.candidates if k > 0] or list(law.candidates)
        self._index = bisect_left(self._ks, at_most(3, self._ks))
        self._average: float | None = None
        self.schedule = Schedule.constant(self._ks[self._index])

    def follow(self, seen: Sequence[Window], now: float) -> None:  # noqa: ARG002
        """Average, then at most one step."""
        drafts, _, accepted = drafted(seen)
        if drafts > 0:
            steps = sum(w.engine_steps for w in seen)
            old = accepted / drafts if self._average is None else self._average
            left = (1 - self.ALPHA) ** (steps / self.BATCHES)
            self._average = left * old + (1 - left) * accepted / drafts
            self._index = self._stepped(self._average)
            self.schedule = Schedule.constant(self._ks[self._index])

    def _stepped(self, average: float) -> int:
        k, last = self._ks[self._index], len(self._ks) - 1
        if average > k - 0.5 and self._index < last:
            return self._index + 1
        if self._index > 0 and average < self._ks[self._index - 1] - 0.75:
            return self._index - 1
        return self._index
