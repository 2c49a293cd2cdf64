"""What it costs that K follows the batch over a row's edge from step to step.

    python -m tests.bench.edges

Requests come and go so that the batch keeps crossing the edge between 8 and 9, at the same moments for every
way of looking K up: as vLLM does; by requests that decode alone; with hysteresis, which takes another row
only after some steps in a row that ask for it. Step times are the arithmetic of the stand-in's H100, tokens
the mean of what its drafts give.

Steps are those of vLLM: one drafts K and verifies what the step before drafted. A prompt is read in one step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from outrider_twin.settings import parse_settings
from outrider_twin.step_time import Load, StepTime

EDGE = 8
"""The largest batch of the first row."""
MEAN_BATCH = 8.5
PROMPT, CONTEXT = 400, 500
"""Tokens of a prompt, and of a request in the cache."""
STAYS = {"short answers": 0.3, "answers of 200 tokens": 3.0}
"""Mean seconds that a request is served for."""
SECONDS = 3000.0
MISSED_AT_MOST = 2048
CATCH_UP_PER_TOKEN = 2e-6
"""Seconds for each token that a drafter missed: a tenth of what a token takes of the target."""

Policy = Callable[[int, int], int]
"""K of a step with so many requests, of which so many decode."""


@dataclass(frozen=True, slots=True)
class Rows:
    """K up to the edge and beyond it. catches_up: with K=0 the drafter is left out, and reads later."""

    low: int
    high: int
    catches_up: bool = False

    def k(self, batch: int) -> int:
        """By the table."""
        return self.low if batch <= EDGE else self.high


@dataclass(slots=True)
class Run:
    """Sums over the steps of one run."""

    tokens: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    changes: int = 0

    @property
    def rate(self) -> float:
        """Tokens per second of engine time."""
        return self.tokens / self.seconds


def as_vllm(rows: Rows) -> Policy:
    """Every request counts."""
    return lambda batch, _: rows.k(batch)


def by_decoding(rows: Rows) -> Policy:
    """Prompts do not count."""
    return lambda _, decoding: rows.k(max(1, decoding))


def with_hysteresis(rows: Rows, steps: int) -> Policy:
    """Another row only after so many steps in a row."""
    held, beyond = rows.low, 0

    def policy(batch: int, _: int) -> int:
        nonlocal held, beyond
        asked = rows.k(batch)
        beyond = beyond + 1 if asked != held else 0
        if beyond >= steps:
            held, beyond = asked, 0
        return held

    return policy


def run(engine: StepTime, survival: Sequence[float], rows: Rows, policy: Policy, stay: float) -> Run:
    """One engine under the load."""
    chance, comes, leaving = random.Random(1), 0.0, list[float]()
    found, now, decoding, drafted, last, missed = Run(), 0.0, 0, 0, 0, 0
    while now < SECONDS:
        new = 0
        while comes <= now:
            heappush(leaving, comes + chance.expovariate(1 / stay))
            comes += chance.expovariate(MEAN_BATCH / stay)
            new += 1
        while leaving and leaving[0] <= now:
            heappop(leaving)
        if not (batch := len(leaving)):
            now = comes
            continue
        decoding = max(0, batch - new)
        k = policy(batch, decoding)
        tokens = decoding * (1 + drafted) + (batch - decoding) * PROMPT
        seconds = engine.seconds(_load(batch, decoding, tokens, k))
        if k == 0:
            missed = min(MISSED_AT_MOST, missed + tokens)
        elif missed:
            seconds += (engine.draft_fixed + CATCH_UP_PER_TOKEN * missed) if rows.catches_up else 0.0
            missed = 0
        found.tokens += batch + decoding * sum(survival[:drafted])
        found.seconds, found.steps, found.changes = (
            found.seconds + seconds,
            found.steps + 1,
            found.changes + (k != last),
        )
        now, drafted, last = now + seconds, k, k
    return found


def equal_at_the_edge(engine: StepTime, survival: Sequence[float], rows: Rows) -> StepTime:
    """With such a drafter that both rows are equally good between 8 and 9, as a tuned table has its edges."""

    def lead(draft_fixed: float) -> float:
        """Of the row with the larger K; falls as drafts get dearer."""
        priced = replace(engine, draft_fixed=draft_fixed)
        larger, smaller = (
            sum(survival[:k], 1.0) / priced.seconds(_load(EDGE, EDGE, round(MEAN_BATCH * (1 + k)), k))
            for k in (rows.low, rows.high)
        )
        return larger - smaller

    least, most = 0.0, 0.1
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (middle, most) if lead(middle) > 0 else (least, middle)
    return replace(engine, draft_fixed=least)


def _load(batch: int, decoding: int, tokens: int, k: int) -> Load:
    prompts = PROMPT * (batch - decoding)
    return Load(k, decoding, batch, tokens, prompt_tokens=prompts, kv_tokens=CONTEXT * decoding)


def main() -> None:
    """Print tokens per second against vLLM's lookup, by load, table and way."""
    description = parse_settings("h100_8b").description()
    h100, survival = description.timing(drafter=True), description.survival["gsm8k"]
    assert isinstance(h100, StepTime)
    for load, stay in STAYS.items():
        for rows in (Rows(5, 2), Rows(2, 0), Rows(2, 0, catches_up=True)):
            for title, engine in (
                ("the H100's drafter", h100),
                ("equal at the edge", equal_at_the_edge(h100, survival, rows)),
            ):
                left_out = ", a draft model that is left out" if rows.catches_up else ""
                usual = run(engine, survival, rows, as_vllm(rows), stay)
                changes = usual.changes / usual.steps
                print(f"{load}, K {rows.low} | {rows.high}, {title}{left_out}:")
                print(f"  {usual.rate:.0f} tokens/s, K changes in {changes:.1%} of steps")
                for name, policy in (
                    ("decoding alone", by_decoding(rows)),
                    ("3 steps", with_hysteresis(rows, 3)),
                    ("10 steps", with_hysteresis(rows, 10)),
                ):
                    found = run(engine, survival, rows, policy, stay)
                    changes = found.changes / found.steps
                    print(f"  {name:14} {found.rate / usual.rate - 1:+7.2%}, {changes:.1%}", flush=True)


if __name__ == "__main__":
    main()
