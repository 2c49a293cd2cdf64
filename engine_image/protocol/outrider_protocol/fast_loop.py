"""The fast loop: the K of the next step from the cost model and from what the last drafts gave. Pure.

The engine asks `FastLoop.choose` before each step and gives every verified step to `FastLoop.count`. K is the
candidate of maximum expected tokens per second, or of that over a power of the step time. Steps that draft
more than K are *looks*: only they show the acceptance at K=0, and at positions beyond K. The cost model and
the acceptance give the cost of a look. A budget, which falls while nothing changes, limits their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import exp, sqrt
from typing import NamedTuple

from outrider_protocol.acceptance import Acceptance
from outrider_protocol.cost_model import CostModel

HYSTERESIS = 0.01
"""Relative gain in expected tokens per second from which another K is worth a change."""

MAX_LOOK_COST = 0.1
"""Ratio of tokens that looks at K=0 may cost just after a change."""
QUIET_SECONDS = 60.0
"""Time without another K after which looks cost no more than `QUIET_LOOK_COST`."""
QUIET_LOOK_COST = 0.004
DEEPER_LOOK_COST = 0.001
"""The same of looks beyond a K above 0."""
GAIN = 0.5
"""Relative gain that is taken to be missed at K=0 once the text has changed."""
MIN_LOOK_COST = 0.002
"""A look counts as at least so much of a step, even where it seems to pay."""
STEPS_BETWEEN_LOOKS = 3
"""The drafts of a look are counted a step or two after it."""
SPELL_WEIGHT = 0.3
"""Weight of the last spell of K=0 in the mean of their lengths."""
SURVIVAL_SECONDS = 30.0
"""Time constant of `FastLoop.survival`."""


class ChangeReason(StrEnum):
    """Why K is what it is."""

    START = "Start"
    """No K has changed yet."""
    ACCEPTANCE = "Acceptance"
    """The drafts of late give another K more tokens per second."""
    BATCH = "Batch"
    """Batch size or context moved."""
    COST_MODEL = "CostModel"
    """The operator pushed another cost model."""
    LIMIT = "Limit"
    """The operator's limits leave out the K of before at this batch size."""


class _Option(NamedTuple):
    """A candidate at one batch size."""

    k: int
    seconds: float  # at the context of the cost model
    slope: float  # seconds per token in the KV cache beyond it
    least: float  # seconds


class FastLoop:
    """The choice of K for one engine. Not thread-safe; it reads no clock.

    model: a checked cost model.
    k: the K to begin with, such as that of the schedule. It stays until drafts were counted.
    """

    def __init__(self, model: CostModel, *, k: int) -> None:
        self.k = k
        """K between looks."""
        self.looks = 0
        """Steps that drafted more than `k` in order to see acceptance."""
        self.changes = 0
        """Of `k`."""
        self.reason = ChangeReason.START
        """The cause of the last change."""
        self._acceptance = Acceptance(max(model.candidates))
        self._tokens: Sequence[float] = self._acceptance.tokens
        self._uncounted = 0  # steps since drafts were counted
        self._since_look = 0  # steps
        self._credit = 0.0  # steps' worth of tokens that looks may cost now
        self._new = 0.0  # requests that came or went since the last look, in batches
        self._off = 0.0  # seconds of the same text: of this spell of K=0 and before it, or of the last spell
        self._on = 0.0  # seconds since K rose from 0, or since the start
        self._risen_by_text = False
        self._away = 0.0  # tokens that drafts brought since K was 0, less those of as much time at K=0
        self._wait = 1.0  # how long the next look waits, over its mean
        self._random = 1
        self._spell = 0.0  # mean seconds of a spell of K=0
        self._batch = 1
        self._right_at: tuple[int, int] | None = None  # batch and context at which `k` was last the best
        self._survival: list[float] = []
        self._unseen = 0.0  # seconds that `survival` does not hold yet
        self._taught = False
        self._options: dict[int, tuple[_Option, ...]] = {}
        self._model = model

    @property
    def model(self) -> CostModel:
        """In use."""
        return self._model

    @property
    def survival(self) -> tuple[float, ...]:
        """Probability by position that a draft token and all before it are accepted.

        A mean over all steps, drafted or not, by their expected time and with the estimate of that step.
        """
        self._remember()
        return tuple(self._survival)

    def use(self, model: CostModel) -> None:
        """Take another cost model; what was counted stays."""
        self._model, self._taught, self._options = model, True, {}
        self._acceptance.extend(max(model.candidates))

    def choose(
        self, batch: int, context_tokens: int, new_requests: int = 0, limited: Sequence[int] = ()
    ) -> int:
        """K of the next step, one of the candidates that the limits allow at this batch size.

        batch: requests in the step, at least 1; as the engine's schedule counts them.
        context_tokens: in the KV cache, of all requests in the step.
        new_requests: of the step, those that were in no step before.
        limited: by position, requests whose own limit leaves it out; empty for none.
        """
        more = context_tokens - batch * self._model.context_tokens
        tokens = self._tokens = self._expected(batch, limited)
        best = deeper = current = None
        best_worth = current_worth = undrafted = 0.0
        weight = self._model.pause_weight
        for option in self._options.get(batch) or self._at(batch):
            k = option.k
            seconds = max(option.seconds + option.slope * more, option.least)
            rate = tokens[k] / seconds
            worth = rate / seconds**weight if weight else rate
            if k == 0:
                undrafted = rate
            if k == self.k:
                current, current_worth = seconds, worth
            elif deeper is None and k > self.k:
                deeper = (k, seconds)
            if worth > best_worth:
                best, best_worth, best_seconds = k, worth, seconds
        assert best is not None
        counted = self._acceptance.drafts > 0
        if current is None or (counted and best_worth > current_worth * (1.0 + HYSTERESIS)):
            self._change(best, batch, context_tokens, limited=current is None)
            current, deeper = best_seconds, None
        if best == self.k:
            self._right_at = batch, context_tokens
        self._new += (new_requests + abs(batch - self._batch)) / batch
        self._batch, self._taught = batch, False
        if self.k == 0:
            self._off += current
        else:
            self._on += current
            self._away -= current * undrafted
        self._unseen += current
        self._uncounted += 1
        self._since_look += 1
        if deeper is not None and self._looks(current, *deeper):
            self.looks += 1
            self._since_look, self._new = 0, 0.0
            return deeper[0]
        return self.k

    def count(self, k: int, requests: int, accepted: Sequence[float], *, steps: int = 1) -> None:
        """What one step drafted and verified, or several steps of a simulation together.

        k: that `choose` gave for these drafts.
        requests: that were to get a draft of K tokens, those for which the drafter found none included.
        accepted: by position, requests of which that draft token and all before it were accepted.
        steps: of which `requests` and `accepted` are sums.
        """
        if k <= 0 or requests <= 0:
            return
        self._remember()
        self._acceptance.add(k, requests, accepted, max(1, self._uncounted))
        if self.k > 0:
            self._away += steps * (1.0 + sum(accepted[:k]) / requests)
        self._uncounted = 0

    def _looks(self, seconds: float, deeper: int, deeper_seconds: float) -> bool:
        """Whether this step is a look, which is then paid for."""
        tokens = self._tokens
        if self.k == 0:
            deeper_seconds += self._model.look_seconds
        cost = max(deeper_seconds / seconds - tokens[deeper] / tokens[self.k], MIN_LOOK_COST)
        wait = self._wait * cost
        self._credit = min(self._credit + self._budget(cost, seconds), wait)
        if self._since_look < STEPS_BETWEEN_LOOKS:
            return False
        due = self._credit >= wait or (self._new >= 1.0 and self.k == 0 and self._credit >= 0.0)
        if due:
            self._credit -= wait
            # At random, so that no text can change in step with the looks (a linear congruential generator).
            self._random = (1103515245 * self._random + 12345) % 2**31
            self._wait = 0.5 + self._random / 2**31
        return due

    def _budget(self, cost: float, seconds: float) -> float:
        """Tokens that looks may cost per step, in those of a step.

        One look in N steps costs ``cost / N``. A change that comes once in L steps is seen N / 2 steps late,
        which costs ``GAIN N / 2 L``. The N of the smallest sum costs the root of ``cost GAIN / 2 L``.
        """
        if self.k > 0:
            return DEEPER_LOOK_COST
        if self._off > QUIET_SECONDS:
            return QUIET_LOOK_COST
        steps = max(self._off, self._spell) / seconds
        return min(max(sqrt(cost * GAIN / (2.0 * max(steps, 1.0))), QUIET_LOOK_COST), MAX_LOOK_COST)

    def _expected(self, batch: int, limited: Sequence[int]) -> Sequence[float]:
        """Tokens of a step per request, by K: a draft token counts for the requests that may verify it."""
        if not limited:
            return self._acceptance.tokens
        expected = [1.0]
        for position, survival in enumerate(self._acceptance.survival):
            left_out = min(limited[position], batch) if position < len(limited) else 0
            expected.append(expected[-1] + survival * (1.0 - left_out / batch))
        return expected

    def _at(self, batch: int) -> tuple[_Option, ...]:
        """The candidates at a batch size; kept until the cost model changes."""
        model = self._model
        seconds = model.interpolated(model.step_seconds, batch)
        index = {k: place for place, k in enumerate(model.candidates)}
        options = tuple(
            _Option(k, seconds[index[k]], model.context_slopes[index[k]], 0.25 * seconds[index[k]])
            for k in model.allowed(batch)
        )
        self._options[batch] = options
        return options

    def _change(self, k: int, batch: int, context_tokens: int, *, limited: bool) -> None:
        if limited:
            self.reason = ChangeReason.COST_MODEL if self._taught else ChangeReason.LIMIT
        elif self._taught:
            self.reason = ChangeReason.COST_MODEL
        elif self._right_at not in (None, (batch, context_tokens)) and self._best_before() != k:
            self.reason = ChangeReason.BATCH
        else:
            self.reason = ChangeReason.ACCEPTANCE
        by_text = self.reason is ChangeReason.ACCEPTANCE
        if self.k == 0:
            self._risen_by_text, self._on, self._away = by_text, 0.0, 0.0
        elif k == 0 and self._away > 0.0:
            # Else drafts misled: the text never left this spell.
            if self._risen_by_text:
                self._spell += SPELL_WEIGHT * (self._off - self._spell)
                self._off = 0.0
            self._off = 0.0 if by_text else self._off + self._on
        self.k = k
        self.changes += 1
        self._credit = 0.0

    def _best_before(self) -> int:
        """The best K where `k` was last the best, with the present acceptance."""
        assert self._right_at is not None
        batch, context_tokens = self._right_at
        tokens, more = self._tokens, context_tokens - batch * self._model.context_tokens
        power = 1.0 + self._model.pause_weight
        options = self._options.get(batch) or self._at(batch)
        return max(options, key=lambda o: tokens[o.k] / max(o.seconds + o.slope * more, o.least) ** power).k

    def _remember(self) -> None:
        """Let `survival` hold the time since it last did, with the estimate of that time."""
        now = self._acceptance.survival
        weight = 1.0 - exp(-self._unseen / SURVIVAL_SECONDS)
        old = self._survival + now[len(self._survival) :]
        self._survival = [was + (is_now - was) * weight for was, is_now in zip(old, now, strict=True)]
        self._unseen = 0.0
