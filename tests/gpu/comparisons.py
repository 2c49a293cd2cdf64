"""Arms side by side under the same loads, round by round in an order that is drawn anew, until time is up."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench.k0.runs import Run, measure
from tests.bench.k0.statistics import relative_cost
from tests.contract.engine import Engine
from tests.contract.measuring import Samples
from tests.gpu.cells import Load, hold
from tests.gpu.launches import Arm
from tests.gpu.verdicts import FEWEST_PAIRS, Check, of_cost

COUNTERS = {
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "verified": "outrider:draft_tokens_total",
    "trimmed": "outrider:trimmed_draft_tokens_total",
    "drafter_steps_skipped": "outrider:drafter_steps_skipped_total",
}
"""Tokens that vLLM's and the plugin's counters have, by their names in the result."""

Runs = Mapping[Load, Mapping[Arm, Sequence[Run]]]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the slower arm may cost more than the faster one, in percent; None: the check shows the cost.
    text: begins its line in the result."""

    text: str
    slower: Arm
    faster: Arm
    limit_percent: float | None


@dataclass(slots=True)
class Clock:
    """The seconds of one part. A comparison ends when they are over, once it has its fewest pairs; at twice
    the seconds, or after `limit` seconds, it ends in any case."""

    seconds: float
    limit: float = math.inf
    began: float = field(default_factory=time.monotonic)

    def wants_more(self, pairs: int) -> bool:
        """Whether another round is to follow so many pairs."""
        spent = time.monotonic() - self.began
        return spent < min(self.limit, self.seconds if pairs >= FEWEST_PAIRS else 2 * self.seconds)


def rounds(
    engines: Mapping[Arm, Engine], ks: Mapping[Arm, int], loads: Sequence[Load], clock: Clock, text: str
) -> Iterator[Runs]:
    """Runs of all arms by load, as many of each: what is there before the first round and after each one.

    ks: K that is held on an arm; one that is not named keeps the K of its launch. text: begins the texts that
    are asked for, no one twice. A round before the first one warms up.
    """
    found: dict[Load, dict[Arm, list[Run]]] = {load: {arm: [] for arm in engines} for load in loads}
    for arm, k in ks.items():
        hold(engines[arm], k)
    for number in range(-1, max(load.pairs for load in loads)):
        if number >= 0:
            yield found
            if not clock.wants_more(number):
                return
        for load in loads:
            asked = f"{text}{load.streams}_{number}_"
            for arm in random.sample(sorted(engines), len(engines)):
                run = measure(engines[arm], streams=load.streams, tokens=load.tokens, name=asked)
                if number >= 0:
                    found[load][arm].append(run)
    yield found


def judged(runs: Runs, claims: Sequence[Claim]) -> Iterator[Check]:
    """One check per claim and load."""
    for load, by_arm in runs.items():
        for claim in claims:
            slower, faster = by_arm[claim.slower], by_arm[claim.faster]
            name = f"{claim.text}, {load.streams} {'stream' if load.streams == 1 else 'streams'}"
            if not slower:
                yield of_cost(name, {"pairs": 0}, limit_percent=claim.limit_percent)
                continue
            cost = relative_cost([run.seconds for run in slower], [run.seconds for run in faster])
            yield of_cost(name, cost, limit_percent=claim.limit_percent)


def rates(runs: Runs) -> dict[str, dict[str, float]]:
    """Median tokens per second by arm and number of streams."""
    return {
        arm: {
            str(load.streams): round(statistics.median(run.tokens_per_second for run in by_arm[arm]))
            for load, by_arm in runs.items()
            if by_arm[arm]
        }
        for arm in next(iter(runs.values()))
    }


def raw(runs: Runs) -> dict[str, dict[str, list[float]]]:
    """Seconds of every run, in the order of the rounds, by number of streams and arm."""
    return {
        str(load.streams): {arm: [round(run.seconds, 4) for run in found] for arm, found in by_arm.items()}
        for load, by_arm in runs.items()
    }


def tokens(before: Mapping[Arm, Samples], after: Mapping[Arm, Samples]) -> dict[str, dict[str, float]]:
    """What every arm counted between two scrapes; without what is 0."""
    found: dict[str, dict[str, float]] = {}
    for arm, samples in after.items():
        seen = samples - before[arm]
        totals = {name: seen.total(metric) for name, metric in COUNTERS.items()}
        found[arm] = {name: total for name, total in totals.items() if total}
    return found
