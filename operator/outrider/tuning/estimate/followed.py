"""What engines gain that choose K at each step: counted tokens over estimated step times.

    G = tokens / sum over K of steps_K x T(K)        goodput of the steps that ran
    G_k = (tokens - accepted) x E[tokens | k] / (steps x T(k))        of the same steps with one K

The drafts of such engines come from the texts that suit drafts. So the acceptance that was counted while a K
ran is not credited to that K. What ran is judged by its tokens, a fixed K by the mean over all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.tuning.bounded_types import Count, Whole
from outrider.tuning.observe.readings import Reading

_HALF_LIFE_SECONDS = 60.0
"""Texts that alternate within a minute or two are averaged, and the load of an hour ago is not."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Sums over the steps of one batch bin; older ones count less."""

    bin: Whole
    ks: tuple[Whole, ...]  # candidates
    steps: tuple[Count, ...]  # by candidate
    tokens: Count = 0.0  # emitted
    accepted: Count = 0.0  # of them, drafted

    @classmethod
    def of(cls, bin: int, ks: Sequence[int], rows: Sequence[Reading]) -> Followed:  # noqa: A002 - the state's name
        """One tick. rows: of one batch bin."""
        return cls(
            bin,
            tuple(ks),
            tuple(sum(row.steps for row in rows if row.k == k) for k in ks),
            sum(row.tokens for row in rows),
            sum(min(sum(row.accepted) + row.limited_accepted, row.tokens) for row in rows),
        )

    def after(self, newer: Followed, seconds: float) -> Followed:
        """Both together; `newer` alone where the batch bin or the candidates are others."""
        if (self.bin, self.ks) != (newer.bin, newer.ks):
            return newer
        keep = 0.5 ** (max(0.0, seconds) / _HALF_LIFE_SECONDS)
        return Followed(
            self.bin,
            self.ks,
            tuple(old * keep + new for old, new in zip(self.steps, newer.steps, strict=True)),
            self.tokens * keep + newer.tokens,
            self.accepted * keep + newer.accepted,
        )
