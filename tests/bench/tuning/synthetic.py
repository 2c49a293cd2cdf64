"""Throughput tables without a measurement: drawn from the step-time formula, with plausible constants."""

from __future__ import annotations

from math import exp, log

import numpy as np

from outrider.performance.accepted_tokens import gain_of
from outrider.performance.step_time import StepTime
from outrider.performance.throughput_table import ThroughputTable

CANDIDATES = (0, 1, 2, 3, 5)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


def synthetic_tables(count: int = 6, seed: int = 20250101) -> list[ThroughputTable]:
    """Every third is like a mixture of experts."""
    rng = np.random.default_rng(seed)
    return [_table(rng, index, moe=index % 3 == 2) for index in range(count)]


def _table(rng: np.random.Generator, index: int, *, moe: bool) -> ThroughputTable:
    def between(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    fixed = exp(between(log(0.005), log(0.03)))
    per_token = fixed / exp(between(log(20), log(300)))
    step = StepTime(
        fixed=fixed,
        per_kv_token=fixed * between(0.5, 2.0) * 1e-5,
        per_token=per_token,
        draft_fixed=fixed * between(0.03, 0.2),
        draft_per_kv_token=fixed * 1e-7,
        draft_per_token=per_token * between(0.02, 0.15),
        idle_tax=between(0.0, 0.2),
    )
    first, decay, context = between(0.55, 0.9), between(0.85, 1.0), between(300, 3000)
    acceptance = tuple(first * decay**j for j in range(max(CANDIDATES)))
    means = {k: gain_of(acceptance, k).mean for k in CANDIDATES}
    experts = between(0.5, 2.0) if moe else 0.0
    bumps = np.exp(rng.normal(0.0, 0.06 if moe else 0.015, (len(BATCH_SIZES), len(CANDIDATES))))

    def goodput(batch: int, k: int, *, drafter: bool = True) -> float:
        seconds = step.seconds(batch, k, batch * context)
        if not drafter:
            seconds /= 1.0 + step.idle_tax
        # Each token wakes experts that no other token of the step uses, until all are awake.
        seconds += fixed * experts * (1.0 - exp(-batch * (1 + k) / 24.0))
        return batch * (1.0 + means[k]) / seconds

    rows = [
        tuple(goodput(batch, k) * float(bumps[i, j]) for j, k in enumerate(CANDIDATES))
        for i, batch in enumerate(BATCH_SIZES)
    ]
    plain = [goodput(batch, 0, drafter=False) * float(bumps[i, 0]) for i, batch in enumerate(BATCH_SIZES)]
    accepted = tuple(means[k] for k in CANDIDATES)
    return ThroughputTable(
        name=f"synthetic_{'moe' if moe else 'dense'}_{index}",
        batch_sizes=BATCH_SIZES,
        candidates=CANDIDATES,
        rows=tuple(rows),
        unspeculated=tuple(plain),
        accepted=(accepted,) * len(BATCH_SIZES),
        mixture_of_experts=moe,
        source="drawn from the step-time formula",
    )
