"""Which ratio of draft tokens is accepted now, by position, from a short and a long memory of drafts.

The short memory follows a change of text within a step or two; the long one knows an unchanged text well.
Each foretells the next drafts, and its weight follows from how well it does. The weights are those of the
fixed-share forecaster (Herbster and Warmuth 1998, "Tracking the best expert"). So nothing detects changes.

The engine's scheduler waits for `Acceptance.add` in every step: it is written for speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

SHORT_MEMORY = (8.0, 6.0)
LONG_MEMORY = (2000.0, 200.0)
"""Drafts after which counts weigh half, and the steps that this takes at least."""
CHANGE = 0.004
"""Probability that the text changes in one step."""
MAX_CHANGE = 0.5
MAX_FIT = 50.0
"""Bound of a log-likelihood ratio."""
PRIOR = 0.6
"""Acceptance rate before anything was drafted."""
MIN_RATE = 0.01
"""Acceptance rates lie between this and 1 minus this where drafts are foretold."""


class _Memory:
    """Counts by position that weigh half after ``drafts``.

    chances: the acceptance rates that they give, each given that the token before was accepted.
    tokens: expected tokens of one request in one step, by K.
    """

    __slots__ = ("chances", "drafts", "kept", "steps", "tokens", "tried")

    def __init__(self, drafts: float, steps: float) -> None:
        self.drafts, self.steps = drafts, steps
        self.tried: list[float] = []
        self.kept: list[float] = []
        self.chances: list[float] = []
        self.tokens = [1.0]

    def extend(self, more: int) -> None:
        """Know so many positions more."""
        for counts in (self.tried, self.kept, self.chances, self.tokens):
            counts.extend([0.0] * more)

    def fade(self, left: float) -> None:
        """Let all counts weigh this ratio of what they did."""
        for counts in (self.tried, self.kept):
            counts[:] = [each * left for each in counts]

    def add(self, k: int, requests: int, accepted: Sequence[float], first: float) -> float:
        """Log-likelihood of the drafts by the chances of before; then count them. See `Acceptance.add`.

        One draft's worth of each chance comes from elsewhere: of the first position from ``first``, of the
        others from the position before. So a position that is not drafted comes to resemble that one.
        """
        tried, kept, chances, tokens = self.tried, self.kept, self.chances, self.tokens
        span = self.drafts / requests if requests else 1.0
        left = 0.5 ** (1.0 / (span if span > self.steps else self.steps)) if requests else 1.0
        fit, reached, chance, survival, expected = 0.0, float(requests), first, 1.0, 1.0
        for place, before in enumerate(chances):
            attempts, hits = tried[place] * left, kept[place] * left
            if place < k:
                got = accepted[place]
                if got > reached:
                    got = reached
                if got:
                    fit += got * log(before if before > MIN_RATE else MIN_RATE)
                if reached > got:
                    fit += (reached - got) * log(1.0 - before if before < 1.0 - MIN_RATE else MIN_RATE)
                attempts += reached
                hits += got
                reached = got
            tried[place], kept[place] = attempts, hits
            chance = (hits + chance) / (attempts + 1.0)
            chances[place] = chance
            survival *= chance
            expected += survival
            tokens[place + 1] = expected
        return fit


class Acceptance:
    """The estimate of one engine. positions: the longest draft."""

    def __init__(self, positions: int) -> None:
        self.positions = 0
        self.drafts = 0
        """That were counted."""
        self.tokens = [1.0]
        """Expected tokens of one request in one step, by K from 0 to ``positions``."""
        self._short, self._long = _Memory(*SHORT_MEMORY), _Memory(*LONG_MEMORY)
        self._weight = 0.5  # of the short memory
        self.extend(positions)

    def extend(self, positions: int) -> None:
        """Know that many positions; what was counted stays."""
        more = max(0, positions - self.positions)
        self.positions += more
        self._long.extend(more)
        self._short.extend(more)
        self._count(0, 0, ())
        self._mix()

    @property
    def survival(self) -> list[float]:
        """Probability that a draft token and all before it are accepted, by position."""
        tokens = self.tokens
        return [tokens[k + 1] - tokens[k] for k in range(self.positions)]

    def add(self, k: int, requests: int, accepted: Sequence[float], steps: int = 1) -> None:
        """Count one verified step and weigh the memories anew.

        k: draft length, 1 or more.
        requests: those that were to get a draft, 1 or more.
        accepted: by position, the requests whose draft was accepted up to there.
        steps: the number since the last count, in each of which the text may have changed.
        """
        self.drafts += requests
        change = min(MAX_CHANGE, CHANGE * steps)
        weight = self._weight * (1.0 - change) + 0.5 * change
        if steps > 1:
            # Else a look of one request would need many others to show that the text changed since.
            self._short.fade(1.0 - change)
        better = self._count(min(k, self.positions, len(accepted)), requests, accepted)
        odds = weight / (1.0 - weight) * exp(min(max(better, -MAX_FIT), MAX_FIT))
        self._weight = odds / (1.0 + odds)
        self._mix()

    def _count(self, k: int, requests: int, accepted: Sequence[float]) -> float:
        """By how much the short memory foretold the drafts better, as a log-likelihood ratio."""
        of_long = self._long.add(k, requests, accepted, PRIOR)
        first = self._long.chances[0] if self.positions else PRIOR
        return self._short.add(k, requests, accepted, first) - of_long

    def _mix(self) -> None:
        weight = self._weight
        pairs = zip(self._long.tokens, self._short.tokens, strict=True)
        self.tokens = [long + (short - long) * weight for long, short in pairs]
