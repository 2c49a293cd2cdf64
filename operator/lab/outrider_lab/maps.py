"""Step-time profiles as an engine would measure them: the truth, with errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile

CONTEXTS = (512.0, 2048.0)
"""Tokens per request at which a map is measured, where step times depend on it."""


@dataclass(frozen=True, slots=True)
class MapErrors:
    """How far a map is from live traffic; relative, 1 sigma."""

    cell: float  # of each cell alone; the map knows it
    scale: float = 0.05  # of all cells together; the map does not know it


PROFILE_ERRORS = MapErrors(0.03)
"""Errors of the offline profiles that other policies use."""


def measured_map(
    step_seconds: Callable[[float, int, float | None], float],
    *,
    candidates: Sequence[int],
    largest_batch: int,
    contexts: Sequence[float | None],
    errors: MapErrors,
    seed: int,
) -> StepTimeProfile:
    """Every candidate at powers of two up to the largest batch, at each context.

    step_seconds: the truth, by batch size, K and tokens in the cache per request.
    """
    rng = np.random.default_rng((seed, 6))
    scale = float(rng.normal(0.0, errors.scale))
    batches = [2**power for power in range(largest_batch.bit_length())]
    cells = []
    for context in contexts:
        for batch in batches:
            for k in candidates:
                off = exp(scale + float(rng.normal(0.0, errors.cell)))
                seconds = step_seconds(batch, k, context) * off
                cells.append(MapCell(batch, k, context, seconds, max(errors.cell, 1e-3)))
    return StepTimeProfile(tuple(cells))
