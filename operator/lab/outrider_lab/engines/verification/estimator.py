"""vLLM's acceptance estimator: a logistic model of the draft's log-odds, corrected while it serves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_SLOPE, FIRST_INTERCEPT = 0.5, -0.2
"""Coefficients before the first fit."""
REFIT_STEPS = 100
DAMPING = 50.0
"""Observations at which a fit goes half of its way."""
RIDGE = 1e-3
MAX_LOG_ODDS = 40.0


def sigmoid(odds: Floats | float) -> Floats:
    """Probability of log-odds."""
    found: Floats = 1.0 / (1.0 + np.exp(-np.clip(odds, -500.0, 500.0)))
    return found


@dataclass(frozen=True, slots=True)
class _Sums:
    """Normal equations by position, with x = log-odds: sums over drafts that were verified."""

    square: Floats  # w x^2, where w = p (1 - p)
    cross: Floats  # w x
    weight: Floats  # w
    slope_gradient: Floats  # (accepted - p) x
    gradient: Floats  # accepted - p
    count: Floats

    def add(self, log_odds: Floats, predicted: Floats, widths: Ints, accepted: Ints) -> None:
        """Add drafts of one length, by request-step and position; the others have one column."""
        k = log_odds.shape[1]
        position = np.arange(k)
        observed = (position <= accepted) & (position < widths)
        weight = np.where(observed, predicted * (1.0 - predicted), 0.0)
        residual = np.where(observed, (position < accepted) - predicted, 0.0)
        self.square[:k] += (weight * log_odds * log_odds).sum(axis=0)
        self.cross[:k] += (weight * log_odds).sum(axis=0)
        self.weight[:k] += weight.sum(axis=0)
        self.slope_gradient[:k] += (residual * log_odds).sum(axis=0)
        self.gradient[:k] += residual.sum(axis=0)
        self.count[:k] += observed.sum(axis=0)


class AcceptanceEstimator:
    """Probability that a draft is accepted: sigmoid(slope x log-odds + intercept of its position).

    Every `REFIT_STEPS` steps one damped Newton step fits the coefficients to the drafts that were verified
    since. These are the accepted ones and the first rejected one of each request.
    """

    def __init__(self, positions: int) -> None:
        self.slope = FIRST_SLOPE
        self.intercepts = np.full(positions, FIRST_INTERCEPT)
        self._steps = 0
        self._seen: dict[int, list[tuple[Floats, Ints, Ints]]] = {}

    @property
    def steps_to_fit(self) -> int:
        """Steps during which the coefficients stay as they are."""
        return REFIT_STEPS - self._steps

    def predict(self, log_odds: Floats) -> Floats:
        """Probability of each draft. The last axis is the position."""
        clipped = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        return sigmoid(self.slope * clipped + self.intercepts[: log_odds.shape[-1]])

    def learn(self, log_odds: Floats, widths: Ints, accepted: Ints) -> None:
        """Learn from steps; at most `steps_to_fit` at once.

        log_odds: by step, request and position. widths: drafts that were verified, by step and request.
        accepted: how many of these were accepted in a row.
        """
        k = log_odds.shape[-1]
        rows = (log_odds.reshape(-1, k), widths.reshape(-1, 1), accepted.reshape(-1, 1))
        self._seen.setdefault(k, []).append(rows)
        self._steps += log_odds.shape[0]
        if self._steps >= REFIT_STEPS:
            self._fit(self._sums())
            self._steps = 0
            self._seen.clear()

    def _sums(self) -> _Sums:
        """What was observed since the last fit."""
        sums = _Sums(*np.zeros((6, len(self.intercepts))))
        for rows in self._seen.values():
            log_odds, widths, accepted = (np.concatenate(part) for part in zip(*rows, strict=True))
            sums.add(np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS), self.predict(log_odds), widths, accepted)
        return sums

    def _fit(self, sums: _Sums) -> None:
        """Solve the Newton step, in which all positions share the slope."""
        weight = sums.weight + RIDGE
        left = sums.square.sum() + RIDGE - (sums.cross**2 / weight).sum()
        step = (sums.slope_gradient.sum() - (sums.cross * sums.gradient / weight).sum()) / left
        total = sums.count.sum()
        step *= total / (total + DAMPING)
        if not np.isfinite(step) or self.slope + step < 0.0:
            step = 0.0
        self.slope += float(step)
        move = (sums.gradient - sums.cross * step) / weight
        self.intercepts = self.intercepts + move * sums.count / (sums.count + DAMPING)
