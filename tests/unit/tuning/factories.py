"""Windows, policies, and a small engine that lives on a table of throughputs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, log, sqrt

from outrider.api.schedule import Schedule
from outrider.tuning.decision import Decision
from outrider.tuning.law import decide
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.window import Window

CANDIDATES = (0, 1, 2, 3, 5)

CODE: Mapping[int, Sequence[float]] = {
    1: (86, 161, 108, 180, 151),
    4: (315, 351, 310, 380, 356),
    8: (551, 566, 506, 551, 463),
    16: (813, 744, 692, 668, 562),
    32: (977, 1079, 1000, 683, 582),
}
"""Tokens per second by batch size, one column per candidate: real vLLM, tiny models, two CPU cores."""


def a_policy(**changes: object) -> Policy:
    return replace(Policy(candidates=CANDIDATES, max_num_seqs=64), **changes)  # type: ignore[arg-type]


def a_window(
    *,
    batch: float = 8.0,
    k: float = 3.0,
    goodput: float = 550.0,
    seconds: float = 4.0,
    ended_at: float = 4.0,
    pod: str = "default/a",
    acceptance: float = 0.6,
    batch_low: float | None = None,
    batch_high: float | None = None,
) -> Window:
    """A busy pod: every step has `batch` requests, no prompts."""
    tokens_per_step = 1 + k * acceptance
    steps = goodput * seconds / (batch * tokens_per_step)
    request_steps = steps * batch
    per_position = tuple(request_steps * acceptance for _ in range(round(k)))
    return Window(
        pod=pod,
        started_at=ended_at - seconds,
        ended_at=ended_at,
        engine_steps=steps,
        request_steps=request_steps,
        first_tokens=0.0,
        decode_seconds=seconds * batch,
        decode_tokens=goodput * seconds,
        drafts=request_steps if k else 0.0,
        draft_tokens=request_steps * k,
        accepted_tokens=request_steps * k * acceptance,
        accepted_per_position=per_position,
        prefill_tokens=0.0,
        requests_waiting=0.0,
        kv_usage_ratio=0.1,
        batch_low=batch if batch_low is None else batch_low,
        batch_high=batch if batch_high is None else batch_high,
    )


def true_goodput(batch: float, k: int, table: Mapping[int, Sequence[float]] = CODE) -> float:
    """From the table; between its rows linear in the logarithms."""
    rows = sorted(table)
    column = CANDIDATES.index(k)
    if batch <= rows[0]:
        return table[rows[0]][column]
    for low, high in pairwise(rows):
        if batch <= high:
            share = (log(batch) - log(low)) / (log(high) - log(low))
            return exp((1 - share) * log(table[low][column]) + share * log(table[high][column]))
    return table[rows[-1]][column]


@dataclass(frozen=True)
class Phase:
    streams: int
    seconds: float = 45.0
    table: Mapping[int, Sequence[float]] = field(default_factory=lambda: CODE)
    acceptance: float = 0.6


@dataclass(frozen=True)
class Tick:
    """What happened at one tick of a replay."""

    at: float
    phase: int
    into_phase: float  # seconds
    k: int  # in force since the tick before
    regret: float  # of that K against the best one, true means
    decision: Decision


def replay(
    phases: Sequence[Phase],
    *,
    seed: int = 0,
    noise: float = 0.05,
    tick_seconds: float = 4.0,
    blind_seconds: float = 1.0,
    policy: Policy | None = None,
    state: TunerState | None = None,
) -> Iterator[Tick]:
    """A pod under closed-loop load. A window of t seconds is off by `noise` x sqrt(10 / t), 1 sigma.

    blind_seconds: of each tick without measurement, since windows end on scrapes.
    Ticks are out of step with phases, so windows straddle load steps.
    """
    policy = policy or a_policy()
    state = state or TunerState.start(Schedule.constant(3), policy)
    dice = random.Random(seed)
    now = dice.uniform(0, tick_seconds)
    ends = [sum(p.seconds for p in phases[: i + 1]) for i in range(len(phases))]
    while now + tick_seconds <= ends[-1]:
        began, now = now, now + tick_seconds
        window = _observe(phases, ends, began + blind_seconds, now, state.schedule, dice, noise)
        decision = decide([window], state, policy=policy, now=now)
        index = next(i for i, end in enumerate(ends) if now <= end)
        phase, k = phases[index], state.schedule.k_at(phases[index].streams)
        best = max(true_goodput(phase.streams, c, phase.table) for c in CANDIDATES)
        regret = 1 - true_goodput(phase.streams, k, phase.table) / best
        yield Tick(now, index, now - (ends[index] - phase.seconds), k, regret, decision)
        state = decision.state


def _observe(
    phases: Sequence[Phase],
    ends: Sequence[float],
    began: float,
    until: float,
    schedule: Schedule,
    dice: random.Random,
    noise: float,
) -> Window:
    parts = []
    for index, (phase, end) in enumerate(zip(phases, ends, strict=True)):
        start = end - phase.seconds
        overlap = min(until, end) - max(began, start)
        if overlap > 0:
            k = schedule.k_at(phase.streams)
            off = 1 + dice.gauss(0, noise * sqrt(10 / overlap))
            goodput = max(1.0, true_goodput(phase.streams, k, phase.table) * off)
            part = a_window(
                batch=phase.streams,
                k=k,
                goodput=goodput,
                seconds=overlap,
                ended_at=until,
                acceptance=phase.acceptance,
            )
            parts.append((index, part))
    windows = [part for _, part in parts]
    return windows[0] if len(windows) == 1 else _joined(windows)


def _joined(windows: Sequence[Window]) -> Window:
    names = ("engine_steps", "request_steps", "decode_seconds", "decode_tokens", "drafts", "draft_tokens")
    sums = {name: sum(getattr(w, name) for w in windows) for name in (*names, "accepted_tokens")}
    low = min(w.batch_low or 0.0 for w in windows)
    high = max(w.batch_high or 0.0 for w in windows)
    return replace(windows[-1], started_at=windows[0].started_at, batch_low=low, batch_high=high, **sums)
