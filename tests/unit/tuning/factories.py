"""Policies, windows with and without exact counts, and an engine that lives on measured throughputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log, log1p, log2

import numpy as np

from outrider.tuning.decision import Decision
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.estimate.surface import ObservedCell
from outrider.tuning.observe.readings import Reading, Readings
from outrider.tuning.observe.window import Cell, Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.stored import to_wire
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Schedule

CANDIDATES = (0, 1, 2, 3, 5)

CODE: Mapping[int, Sequence[float]] = {
    1: (86, 161, 108, 180, 151),
    4: (315, 351, 310, 380, 356),
    8: (551, 566, 506, 551, 463),
    16: (813, 744, 692, 668, 562),
    32: (977, 1079, 1000, 683, 582),
}
"""Tokens per second by batch size, one column per candidate: real vLLM, tiny models, two CPU cores."""


def a_policy(*, max_num_seqs: int = 64, **numbers: float | None) -> Policy:
    return Policy(CANDIDATES, max_num_seqs).changed(**numbers)


POLICY = a_policy()


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


def a_cell(
    *,
    batch: float = 8.0,
    k: int = 3,
    goodput: float = 550.0,
    seconds: float = 4.0,
    acceptance: float = 0.6,
    context: float = 500.0,
    prefill: float = 0.0,
) -> Cell:
    """Every step has `batch` requests; each position is accepted like the first, given the one before."""
    survival = [acceptance**j for j in range(1, k + 1)]
    tokens = goodput * seconds
    steps = tokens / (batch * (1 + sum(survival)))
    requests = steps * batch
    policy = a_policy()
    return Cell(
        low=policy.limits(policy.bin_of(batch))[0],
        num_speculative_tokens=k,
        steps=steps,
        step_seconds=seconds,
        requests=requests,
        emitted_tokens=tokens,
        drafted_per_position=(requests,) * k,
        accepted_per_position=tuple(requests * s for s in survival),
        prefill_tokens=prefill * steps,
        context_tokens=context * requests,
    )


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
    waiting: float = 0.0,
    kv_usage: float = 0.1,
    cells: tuple[Cell, ...] = (),
) -> Window:
    """A busy pod: every step has `batch` requests, no prompts."""
    tokens_per_step = 1 + sum(acceptance**j for j in range(1, round(k) + 1))
    steps = goodput * seconds / (batch * tokens_per_step)
    request_steps = steps * batch
    per_position = tuple(request_steps * acceptance**j for j in range(1, round(k) + 1))
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
        accepted_tokens=sum(per_position),
        accepted_per_position=per_position,
        prefill_tokens=0.0,
        requests_waiting=waiting,
        kv_usage_ratio=kv_usage,
        batch_low=batch if batch_low is None else batch_low,
        batch_high=batch if batch_high is None else batch_high,
        cells=cells,
    )


def an_exact_window(*cells: Cell, at: float = 4.0, pod: str = "default/a", **changes: float) -> Window:
    """A window of an engine that counts per (bin, K)."""
    return a_window(pod=pod, ended_at=at, cells=cells, **changes)


def a_start(k: int = 3, policy: Policy | None = None) -> TunerState:
    return TunerState.start(Schedule.constant(k), policy or a_policy())


@dataclass
class Engine:
    """A pod that counts exactly, follows the wanted table and runs the probes that it is asked for."""

    batch: float = 8.0
    pace: float = 1.0  # its step time over that of the table
    pod: str = "default/a"
    table: Mapping[int, Sequence[float]] = None  # type: ignore[assignment]
    acceptance: float = 0.6
    waiting: float = 0.0
    prompts: float = 0.0  # tokens in a step, each of which takes as long as a token to verify

    def goodput(self, k: int) -> float:
        """Tokens per second."""
        reading = 1.0 + self.prompts / (self.batch * (1 + k))
        return true_goodput(self.batch, k, self.table or CODE) / self.pace / reading

    def window(self, before: Decision | None, state: TunerState, *, seconds: float, at: float) -> Window:
        """What it measured since the decision before."""
        spent: dict[int, float] = {}
        if before is not None and before.probe is not None and before.probe.pod == self.pod:
            for part in before.probe.slices:
                spent[part.num_speculative_tokens] = (
                    spent.get(part.num_speculative_tokens, 0.0) + part.seconds
                )
        k = state.schedule.k_at(round(self.batch))
        left = max(0.0, seconds - sum(spent.values()))
        if left > 0:
            spent[k] = spent.get(k, 0.0) + left
        cells = (
            a_cell(
                batch=self.batch,
                k=k,
                goodput=self.goodput(k),
                seconds=s,
                acceptance=self.acceptance,
                prefill=self.prompts,
            )
            for k, s in spent.items()
        )
        return an_exact_window(*cells, at=at, pod=self.pod, batch=self.batch, waiting=self.waiting)


def true_step(
    batch: float, k: int, acceptance: float = 0.6, table: Mapping[int, Sequence[float]] = CODE
) -> float:
    """Seconds of a step of `Engine`."""
    tokens = sum(acceptance**j for j in range(k + 1))
    return batch * tokens / Engine(batch, table=table).goodput(k)


def a_map(
    *,
    error: float = 0.02,
    context: float | None = None,
    off: Callable[[float, int], float] = lambda _batch, _k: 1.0,
    table: Mapping[int, Sequence[float]] = CODE,
) -> StepTimeProfile:
    """Of `Engine`. off: factor on the truth."""
    cells = (
        MapCell(batch, k, context, true_step(batch, k, table=table) * off(batch, k), error)
        for batch in table
        for k in CANDIDATES
    )
    return StepTimeProfile(tuple(cells))


def run(
    state: TunerState,
    *engines: Engine,
    ticks: int,
    at: float = 0.0,
    seconds: float = 5.0,
    policy: Policy | None = None,
    step_times: StepTimeProfile | None = None,
) -> list[Decision]:
    """So many ticks, without noise."""
    return list(_run(state, engines, ticks, at, seconds, policy or a_policy(), step_times))


def _run(
    state: TunerState,
    engines: Sequence[Engine],
    ticks: int,
    at: float,
    seconds: float,
    policy: Policy,
    step_times: StepTimeProfile | None,
) -> Iterator[Decision]:
    decision: Decision | None = None
    for i in range(1, ticks + 1):
        now = at + i * seconds
        seen: list[Observation] = [e.window(decision, state, seconds=seconds, at=now) for e in engines]
        decision = decide(TickContext(seen, state, policy=policy, now=now, step_times=step_times))
        state = decision.state
        yield decision


def a_known(
    *,
    batch: float = 8.0,
    k: int = 3,
    step: float = 0.03,
    seconds: float = 60.0,
    at: float = 0.0,
    context: float | None = None,
    prefill: float = 0.0,
) -> ObservedCell:
    log_context = None if context is None else log2(context)
    return ObservedCell(
        bin=POLICY.bin_of(batch),
        k=k,
        octave=None if log_context is None else round(log_context),
        seconds=seconds,
        log_step=log(step),
        log_batch=log2(batch),
        log_context=log_context,
        log_prompts=log1p(prefill / (batch * (1 + k))),
        at=at,
    )


def a_belief(
    gains: Mapping[int, float], *, error: float = 0.0, steps: Mapping[int, float] | None = None
) -> Posterior:
    """gains: log goodput over that of the other K; error: of the gain of one K over another.
    steps: seconds; 10 ms for those that are not named."""
    n = len(CANDIDATES)
    goodput = np.array([gains.get(k, 0.0) for k in CANDIDATES])
    step = np.array([log((steps or {}).get(k, 0.01)) for k in CANDIDATES])
    return Posterior(CANDIDATES, 8.0, goodput, np.eye(n) * error**2 / 2, step)


def a_reading(index: int) -> Readings:
    """A second with K=3 in one batch bin."""
    low, _ = POLICY.limits(index)
    row = Reading("default/a", index, 3, 10.0, 1.0, 10.0 * low, 30.0, 0.0, None, (), (), 0.0)
    return Readings((row,), 0, exact=True)


_PARTS = ("learning", "budget", "fallback", "canary")


def with_parts(state: TunerState, **changes: object) -> TunerState:
    """The state with these fields of it, or of its parts. Their names differ."""
    for name, value in changes.items():
        part = next((part for part in _PARTS if hasattr(getattr(state, part), name)), None)
        if part is None:
            state = replace(state, **{name: value})  # type: ignore[arg-type]
        else:
            changed = replace(getattr(state, part), **{name: value})
            state = replace(state, **{part: changed})
    return state


def a_changed_wire(state: TunerState, **changes: object) -> dict[str, object]:
    """The stored form of a state with other fields of it, or of its parts."""
    wire = json.loads(json.dumps(to_wire(state)))
    for name, value in changes.items():
        fields = next((wire["state"][part] for part in _PARTS if name in wire["state"][part]), wire["state"])
        fields[name] = value
    return dict(wire)
