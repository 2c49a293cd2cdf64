"""SGLang's strategy `throughput_aware` in the engine, which SGLang 0.5.23 does not have yet.

It is that of Outrider's simulator, written from SGLang's later source, and runs in SGLang's scheduler.
"""

from __future__ import annotations

from collections.abc import Callable

from outrider.tuning.policy import Policy
from outrider_lab.engines.step_rules import Verified
from outrider_lab.rivals.throughput_aware import ThroughputAware

LARGEST_BATCH = 32


class InSGLang:
    """`ThroughputAware`, fed by SGLang's verification. seconds: of a round by batch size and K."""

    def __init__(self, candidates: list[int], seconds: Callable[[int, int], float]) -> None:
        batches = [2**power for power in range(LARGEST_BATCH.bit_length())]
        costs = {(batch, k): 1000.0 * seconds(batch, k) for batch in batches for k in candidates}
        self._rule = ThroughputAware(Policy(tuple(candidates), LARGEST_BATCH), costs)
        self._k = 0

    def choose(self, batch: int) -> int:
        """K of the next round."""
        self._k = self._rule.choose(batch)
        return self._k

    def verified(self, batch: int, accepted: list[int]) -> None:
        """Learn from a round."""
        counts = [float(sum(count > place for count in accepted)) for place in range(self._k)]
        self._rule.verified(Verified(batch, self._k, 1, 0.0, counts))
